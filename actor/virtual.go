package actor

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// virtualNode stands in the PID of a virtual actor where others have the name of their system.
const virtualNode = "*"

// maxKey bounds the key of a virtual actor, in bytes: it is part of a path.
const maxKey = 1024

// Virtual is a kind of virtual actor: there is one for each key, whether it has a state at the moment
// or not. The state is that of its activation, an ordinary actor, which a [Place] finds. Package
// cluster makes them; nobody else needs to.
//
// A virtual actor has the address "*/name/key#0" in all systems, and so has its activation: it is what [Context.Self]
// and [Context.Sender] return, and what a [Down] and an event say. An activation that ends normally, or has had
// nothing to do for the time of [Passivate], ends with the reason [Passivated]; the messages it has left are passed
// to the next one. With [Virtual.Stop] and Shutdown, after which there is none, it ends as any actor does, with the
// reason [Stopped]. Its Init is called when it has its first message, in its own turn.
//
// A Virtual is safe for concurrent use.
type Virtual[M any] struct {
	sys    *System
	name   string
	place  Place[M]
	parent *core    // of the activations
	absent *kind    // of what stands for those that have no activation here
	kinds  sync.Map // of the activations, by the kind that they would have otherwise
}

// Place knows where the activations of the virtual actors of a [Virtual] are. Its methods are called
// concurrently, by whoever sends and by the turns of activations; they must not block. They are not
// called under a lock.
type Place[M any] interface {
	// Serve gives the place its Virtual, before anything else is called.
	Serve(v *Virtual[M])
	// Find returns the activation of a virtual actor: one of this system, or a reference to one of
	// another. The zero Ref says that there is none at the moment, or that messages wait for one.
	Find(key string) Ref[M]
	// Standing returns the activation that this system has, even while messages wait for it: orders
	// and watches apply to it.
	Standing(key string) Ref[M]
	// Hold takes a message for which there was no activation, one that is about to end, or one that
	// another system has sent by [Virtual.There]. It sends it on, now or later, in the order in which
	// messages of one sender have come, or refuses it, see [Held]. After an error, which is
	// ErrMailboxFull, ErrUnreachable, ErrNotAccepted or ErrStopped, the message is still the caller's.
	Hold(key string, m Held[M]) error
	// Left takes a message that an activation has left in its mailbox, oldest first, and all of them
	// before Ended. They precede those that are held meanwhile. If it reports false, the message
	// becomes a dead letter.
	Left(key string, m Held[M]) bool
	// Ended says that the activation is gone and its name is free.
	Ended(key string)
}

// NewVirtual makes a kind of virtual actor. Their activations are children of an actor of that name at
// the root, which is spawned with opts, [Supervise] for example. An activation that fails too often
// ends, and the next message makes another one: also where the supervision says [Escalate], since the
// others have no part in it. A restart of that actor does not concern its children.
//
// It fails with [ErrNameTaken], with [ErrBadName] or when the system has stopped.
func NewVirtual[M any](sys *System, name string, place Place[M], opts ...SpawnOption) (*Virtual[M], error) {
	required(place != nil, "NewVirtual: the place is nil")
	if name == "" || strings.Contains(name, "*") {
		return nil, fmt.Errorf("virtual actors %q: %w: the name must not be empty and have no '*'", name, ErrBadName)
	}
	opts = append(append([]SpawnOption{Supervise(OneForOne)}, opts...), keepsChildren)
	parent, err := spawnIdle(sys, name, opts)
	if err != nil {
		return nil, err
	}
	v := &Virtual[M]{sys: sys, name: name, place: place, parent: parent}
	v.absent = v.kindOn(kindOf[M](sys, v.parent.sched()))
	place.Serve(v)
	sys.virtuals.Store(name, virtualOf(v))
	return v, nil
}

// spawnIdle spawns an actor that has children and nothing else to do.
func spawnIdle(sys *System, name string, opts []SpawnOption) (*core, error) {
	idle, err := TrySpawnFunc(sys, name, func(*Context[struct{}], struct{}) error { return nil }, opts...)
	if err != nil {
		return nil, err
	}
	return idle.to.base(), nil
}

// keepsChildren is for an actor without a state of its own: its restart leaves its children alone, who
// would come back while they are stopped, and their failures are not its own.
var keepsChildren = spawnOption(func(c *spawnConfig) { c.keeps = true })

// CheckKey returns an error if key cannot be the key of a virtual actor: it must have 1 to
// 1024 bytes.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return fmt.Errorf("key %.40q: %w: a key must have 1 to %d bytes, not %d", key, ErrBadName, maxKey, len(key))
	}
	return nil
}

// Ref returns the reference of the virtual actor with that key. It is a value: nothing is sent and
// nothing is activated. References with the same key are equal. It panics if [CheckKey] returns an
// error for the key.
//
// Stop, Drain and Kill apply to the activation that this system has, if it has one.
func (v *Virtual[M]) Ref(key string) Ref[M] {
	if err := CheckKey(key); err != nil {
		panic("actor: " + err.Error())
	}
	return Ref[M]{placed[M]{v, key}}
}

// Name returns the name.
func (v *Virtual[M]) Name() string { return v.name }

// System returns the system.
func (v *Virtual[M]) System() *System { return v.sys }

// PID returns the address of the virtual actor with that key.
func (v *Virtual[M]) PID(key string) PID { return PID{node: virtualNode, path: v.path(key)} }

// Terms say how an activation begins, and how long it may last.
type Terms struct {
	// Valid is asked before the activation gets its state and before each message. When it reports
	// false, the activation is stopped, and the message is among those that it leaves. It is called in
	// the activation's turn, and must be quick. nil means always valid.
	Valid func() bool
	// AtOnce has it get its state when it is spawned, and not with its first message.
	AtOnce bool
}

// At returns the parent with which [TrySpawn] spawns the activation of that key; its name is ignored.
// TrySpawn then does not call the function that makes the state. There must be no other activation of
// the key in the system: ErrNameTaken says that there is.
func (v *Virtual[M]) At(key string, terms Terms) Spawner { return activationSpawner[M]{v, key, terms} }

// There returns a reference by which a [Place] sends a message to the one of another system, which has
// a Virtual of that name, whose Hold is given it: [Held.Stamp] there is stamp, from 1 to 1<<63-1. It fails with
// [ErrUnreachable] if the system cannot be reached.
func (v *Virtual[M]) There(node string, incarnation uint32, stamp uint64, key string) (Ref[M], error) {
	required(stamp > 0 && stamp < stamped, fmt.Sprintf("There: the stamp must be from 1 to 1<<63-1, not %d", stamp))
	far := v.sys.far.Load()
	if far == nil {
		return Ref[M]{}, fmt.Errorf("%w: the system %q has no connections", ErrUnreachable, v.sys.name)
	}
	p, err := far.reach(PID{node: node, inc: incarnation, path: v.path(key), id: stamped | stamp})
	if err != nil {
		return Ref[M]{}, err
	}
	return Ref[M]{proxied[M]{p}}, nil
}

// stamped marks the number in an address that is the stamp of a [Virtual.There], and not that of an actor.
const stamped = 1 << 63

// Spawned returns the activation of that key which was spawned here and has not ended, the zero Ref if
// there is none: also one that its [Place] does not know, since what was to spawn it has failed later.
func (v *Virtual[M]) Spawned(key string) Ref[M] {
	if c := v.sys.names.find(v.path(key)); c != nil && c.isVirtual() {
		if c, ok := c.impl().(*cell[M]); ok {
			return Ref[M]{c}
		}
	}
	return Ref[M]{}
}

// Yield ends an activation that this system has when the handlers under way have returned: unlike Stop
// it does not cut short what they wait for. What is in its mailbox is left.
func (v *Virtual[M]) Yield(activation Ref[M]) {
	if c, ok := activation.to.(*cell[M]); ok {
		c.core.signal(signal{kind: sigYield})
		c.core.limitStop()
	}
}

// Stop ends all activations and makes no others: what is sent to them from then on is refused. It does
// not wait.
func (v *Virtual[M]) Stop() { v.parent.stop(stopNow) }

// virtualOf is a Virtual without its message type.
type virtualOf interface {
	standing(key string) *core // the activation, nil if this system has none
	reference(key string) any  // a Ref[M]
	arrive(key string, stamp uint64, msg, with any) verdict
}

func (v *Virtual[M]) standing(key string) *core {
	if c, ok := v.place.Standing(key).to.(*cell[M]); ok {
		return &c.core
	}
	return nil
}

func (v *Virtual[M]) reference(key string) any { return v.Ref(key) }

// arrive takes a message that another system has sent by There.
func (v *Virtual[M]) arrive(key string, stamp uint64, msg, with any) verdict {
	m, ok := msg.(M)
	if !ok {
		return verdictAlien
	}
	return placed[M]{v, key}.give(Held[M]{envelope[M]{msg: m, with: with}, v, key, stamp})
}

// arrival returns the virtual actor that a message from another system is for, and its stamp.
func (s *System) arrival(to PID) (of virtualOf, key string, stamp uint64, ok bool) {
	if to.id&stamped == 0 || to.node != s.name || to.inc != s.inc {
		return nil, "", 0, false
	}
	of, key, ok = s.virtual(PID{node: virtualNode, path: to.path})
	return of, key, to.id &^ stamped, ok
}

// virtual returns the virtual actor with that address. It reports false if there is none of that sort.
func (s *System) virtual(pid PID) (of virtualOf, key string, ok bool) {
	name, escaped, _ := strings.Cut(strings.TrimPrefix(pid.path, "/"), "/")
	found, ok := s.virtuals.Load(name)
	if !ok || pid.id != 0 || pid.inc != 0 {
		return nil, "", false
	}
	key, ok = unescapeKey(escaped)
	if !ok || CheckKey(key) != nil {
		return nil, "", false
	}
	return found.(virtualOf), key, true
}

// standing returns the activation of the virtual actor with that address, nil if there is none here.
func (s *System) standing(pid PID) *core {
	of, key, ok := s.virtual(pid)
	if !ok {
		return nil
	}
	return of.standing(key)
}

// lookupVirtual is Lookup of a virtual actor.
func lookupVirtual[M any](s *System, pid PID) (Ref[M], error) {
	of, key, ok := s.virtual(pid)
	if !ok {
		return Ref[M]{}, nobody(pid.String())
	}
	ref, ok := of.reference(key).(Ref[M])
	if !ok {
		return Ref[M]{}, fmt.Errorf("look up %s: %w: it does not accept %s", pid, ErrNotAccepted, nameOf[M]())
	}
	return ref, nil
}

// path returns the path of an activation.
func (v *Virtual[M]) path(key string) string { return "/" + v.name + "/" + escapeKey(key) }

// kindOn returns the kind of an activation, which would otherwise be k.
func (v *Virtual[M]) kindOn(k *kind) *kind {
	if own, ok := v.kinds.Load(k); ok {
		return own.(*kind)
	}
	own := *k
	own.node, own.inc = virtualNode, 0
	kept, _ := v.kinds.LoadOrStore(k, &own)
	return kept.(*kind)
}

// nobody returns what stands for the virtual actor with that key where a core is asked for and it has
// no activation here: one that has ended.
func (v *Virtual[M]) nobody(key string) *core {
	path := v.path(key)
	c := &cell[M]{}
	c.core.kind, c.core.parent, c.core.path, c.core.phase = v.absent, v.parent, &path, stopped
	c.core.flags.Store(ended)
	return &c.core
}

// activation is what an actor has that is the activation of a virtual one.
type activation[M any] struct {
	of   *Virtual[M]
	key  string
	self Ref[M]
	Terms
}

// activation returns it. REQUIRES: c is virtual.
func (c *cell[M]) activation() *activation[M] { return c.core.ext.activation.(*activation[M]) }

// isVirtual reports whether c is the activation of a virtual actor.
func (c *core) isVirtual() bool { return c.flags.Load()&virtual != 0 }

// activationSpawner is a [Virtual.At].
type activationSpawner[M any] struct {
	of    *Virtual[M]
	key   string
	terms Terms
}

func (s activationSpawner[M]) spawner() (*core, *worker, *birth) {
	as := func(c *spawnConfig) { c.virtual = &activation[M]{s.of, s.key, s.of.Ref(s.key), s.terms} }
	return s.of.parent, nil, &birth{escapeKey(s.key), spawnOption(as)}
}

// virtualize makes c an activation, as its option of spawning says. REQUIRES: nobody else can see c.
func (c *cell[M]) virtualize(name string, as any) error {
	a, ok := as.(*activation[M])
	switch {
	case !ok:
		return fmt.Errorf("spawn %q: %w: the virtual actors are of another message type than %s", name, ErrNotAccepted, nameOf[M]())
	case c.newActor == nil:
		return fmt.Errorf("spawn %q: an actor that is a function cannot be virtual: it has no state", name)
	}
	c.core.kind = a.of.kindOn(c.core.kind)
	c.core.needExtLocked().activation = a
	c.core.flags.Or(virtual)
	return nil
}

// beginPassive is the first turn of an activation: it has no state until it has a message, so that who
// sends that does not wait for its Init.
func (c *cell[M]) beginPassive() {
	c.core.beginTurn()
	c.core.mu.Lock()
	c.core.ext.passivation.passive = true
	c.core.setPhaseLocked(running)
	c.core.mu.Unlock()
	c.core.armPassivation()
	if c.activation().AtOnce {
		c.core.signal(signal{kind: sigActivate})
	}
	if c.endTurn(nil) {
		c.core.sched().ready(&c.core, nil)
	}
}

// lapsed stops an activation that may not go on, and reports whether it is one. REQUIRES: the turn owns c.
func (c *cell[M]) lapsed() bool {
	if !c.core.isVirtual() {
		return false
	}
	valid := c.activation().Valid
	if valid == nil || valid() {
		return false
	}
	c.core.stop(stopNow)
	return true
}

// leave gives the mail that an activation has left at its end to its place, or buries it.
func (c *cell[M]) leave(rest [][]envelope[M]) {
	a := c.activation()
	for _, mail := range rest {
		for i := range mail {
			e := &mail[i]
			if !e.sent() || !a.of.place.Left(a.key, Held[M]{*e, a.of, a.key, 0}) {
				c.discard(e, Passivated, ErrStopped)
			}
		}
	}
}

// sent reports whether the envelope is a tell or an ask.
func (e *envelope[M]) sent() bool {
	with := e.with
	if h, ok := with.(*headed); ok {
		with = h.inner
	}
	switch with.(type) {
	case nil, *core, pendingAsk:
		return true
	}
	return false
}

// Held is a message on its way to a virtual actor, with its sender, its header and its asker. Its holder
// sends it on or refuses it, once. The zero Held is not valid. It is a value; its methods are safe for
// concurrent use and do not block.
type Held[M any] struct {
	e     envelope[M]
	of    *Virtual[M]
	key   string
	stamp uint64
}

// Key returns the key of the virtual actor that it is for.
func (h Held[M]) Key() string { return h.key }

// Stamp returns the stamp with which another system has sent it, see [Virtual.There], or 0 if it
// was sent here.
func (h Held[M]) Stamp() uint64 { return h.stamp }

// Message returns the message.
func (h Held[M]) Message() M { return h.e.msg }

// Sender returns who has sent it, the zero PID if that was no actor.
func (h Held[M]) Sender() PID { return h.e.from().pid() }

// Send sends it on to an activation. It reports false if the activation accepts nothing any more; the
// message is then still the caller's. A bounded mailbox does not refuse a message that was accepted
// before, even if it exceeds its bound for a while; a policy that drops messages drops it.
func (h Held[M]) Send(to Ref[M]) (sent bool) {
	dst := to.recipient()
	ask, asked := askIn(h.e.with)
	if asked {
		ask.passTo(dst.waitedOn())
	}
	v := verdictGone
	if c, ok := dst.(*cell[M]); ok {
		h.e.with = c.core.fromCarrier(h.e.with) // whoever sends it on does so for others
		v = c.tellAdmitted(h.e)
	} else {
		v = dst.tell(h.e, nil)
	}
	switch v {
	case verdictGone:
		return false
	case verdictTaken:
		if asked {
			rejectCycle(h.e.from(), ask)
		}
	default:
		h.refuse(v.reason(), v.err())
	}
	return true
}

// Forward sends it to another system, by a reference of [Virtual.There]. After an error, which is as in
// [Place], the message is still the caller's.
func (h Held[M]) Forward(there Ref[M]) error {
	if v := there.recipient().tell(h.e, nil); v != verdictTaken {
		return v.err()
	}
	return nil
}

// Refuse turns it into a dead letter, with that reason, and ends the ask, if it is one, with
// ErrMailboxFull for [Overflowed], ErrUnreachable for [NoConnection], and ErrStopped otherwise.
func (h Held[M]) Refuse(why Reason) {
	var err error
	switch why {
	case Overflowed:
		err = ErrMailboxFull
	case NoConnection:
		err = ErrUnreachable
	default:
		err = ErrStopped
	}
	h.refuse(why, err)
}

func (h Held[M]) refuse(why Reason, err error) {
	h.of.sys.deadLetter(h.of.nobody(h.key), h.e.from(), h.e.msg, why)
	if ask, asked := askIn(h.e.with); asked {
		ask.reject(err, nil)
	}
}

// placed is a virtual actor as the target of a reference: a value, so that references are equal.
type placed[M any] struct {
	of  *Virtual[M]
	key string
}

func (p placed[M]) sys() *System { return p.of.sys }

// base returns the activation, or what stands for it.
func (p placed[M]) base() *core {
	if c := p.of.standing(p.key); c != nil {
		return c
	}
	return p.of.nobody(p.key)
}

// waitedOn returns the activation, nil if there is none here: whom an ask waits for is noted when it is
// sent on.
func (p placed[M]) waitedOn() *core { return p.of.standing(p.key) }

func (p placed[M]) tell(e envelope[M], w *worker) verdict {
	if at := p.of.place.Find(p.key); at.to != nil {
		if v := at.to.tell(e, w); v != verdictGone {
			return v
		}
	}
	return p.hold(e)
}

// hold gives a message to the place, for which there is no activation that takes it.
func (p placed[M]) hold(e envelope[M]) verdict {
	if !e.sent() {
		return verdictGone // an event activates nobody
	}
	return p.give(Held[M]{e, p.of, p.key, 0})
}

func (p placed[M]) give(m Held[M]) verdict {
	switch err := p.of.place.Hold(p.key, m); {
	case err == nil:
		return verdictTaken
	case errors.Is(err, ErrMailboxFull):
		return verdictFull
	case errors.Is(err, ErrUnreachable):
		return verdictUnreachable
	case errors.Is(err, ErrNotAccepted):
		return verdictAlien
	default:
		return verdictGone
	}
}

func (p placed[M]) tellOrWait(e envelope[M], w *worker) (verdict, roomWaiter) {
	if at := p.of.place.Find(p.key); at.to != nil {
		switch v, wait := at.to.tellOrWait(e, w); {
		case wait != nil:
			return v, &placedWait[M]{roomWaiter: wait, to: p, e: e}
		case v != verdictGone:
			return v, nil
		}
	}
	return p.hold(e), nil
}

// placedWait is a sender that waits for room in the mailbox of an activation. If that ends meanwhile,
// the message goes to the next one.
type placedWait[M any] struct {
	roomWaiter
	to   placed[M]
	e    envelope[M]
	held atomic.Bool // the place has the message, or the next activation
}

func (w *placedWait[M]) wait(done <-chan struct{}) verdict { return w.or(w.roomWaiter.wait(done)) }
func (w *placedWait[M]) giveUp() verdict                   { return w.or(w.roomWaiter.giveUp()) }

func (w *placedWait[M]) or(v verdict) verdict {
	if v != verdictGone {
		return v
	}
	w.held.Store(true) // first: it may be handled at once
	if v = w.to.hold(w.e); v != verdictTaken {
		w.held.Store(false)
	}
	return v
}

func (w *placedWait[M]) admitted() bool { return w.held.Load() || w.roomWaiter.admitted() }

// keyEscapes are the bytes that a key may have and a name may not.
const keyEscapes = "%/#*"

// escapeKey returns a key as part of a path.
func escapeKey(key string) string {
	if key[0] != '$' && !strings.ContainsAny(key, keyEscapes) {
		return key
	}
	var b strings.Builder
	for i := range len(key) {
		if c := key[i]; strings.IndexByte(keyEscapes, c) >= 0 || c == '$' && i == 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// unescapeKey is the reverse of escapeKey. It reports false for what that does not return.
func unescapeKey(name string) (key string, ok bool) {
	if !strings.Contains(name, "%") {
		return name, !strings.ContainsAny(name, keyEscapes) && !strings.HasPrefix(name, "$")
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c == '%' {
			if _, err := fmt.Sscanf(name[i:min(i+3, len(name))], "%%%02X", &c); err != nil {
				return "", false
			}
			i += 2
		}
		b.WriteByte(c)
	}
	key = b.String()
	return key, key != "" && escapeKey(key) == name
}
