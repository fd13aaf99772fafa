package persist

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Events makes an actor event-sourced: embed it, and give the actor a method
//
//	Apply(e E)
//
// which changes the state as the event says, and does nothing else. It is called for each event
// when the event is recorded, and again when the actor is recovered. It must depend only on the
// state and the event: no clock, no random number, no order of a map.
//
// An actor with a long history also has the methods
//
//	Snapshot() (S, error)
//	Restore(s S) error
//
// with a type S that is in [Config.Types]. Recovery then begins with the state that Snapshot
// returned last, see [Every], and applies only the events after it. A snapshot only saves time: if
// one is broken, cannot be decoded, or is refused by Restore, recovery uses the one before it, or
// else the events.
//
// E is the type of the events, or an interface that they implement; all of their types are in
// [Config.Types]. [Spawn] fills in the zero value.
type Events[E any] struct {
	in    *incarnation
	apply func(E)
}

// Record applies an event now, and makes it part of the actor's history when the handler has
// returned: all events of one handler become durable, or none. What the handler sends or answers,
// even before the call, leaves when they are durable. Record panics if the type of e is not
// registered, and outside of a message's handler.
func (es *Events[E]) Record(e E) {
	es.bound("Record").record(e)
	es.apply(e)
}

// Durable makes an actor's State durable: embed it. When the first message comes, State is what was
// saved last, or its zero value if nothing was. S is in [Config.Types].
//
// A handler that fails may have changed State without Save, so the actor is restarted before its
// next message. This also happens if the runtime does not count the error as a failure, such as the
// error of an asker that has given up. That restart counts for the supervisor.
type Durable[S any] struct {
	State S
	in    *incarnation
}

// Save makes State durable, as it is when the handler returns. What the handler sends or answers
// leaves once State is durable. Save panics outside of a message's handler.
func (d *Durable[S]) Save() {
	d.bound("Save").save()
}

// Send is [Events.Send].
func (d *Durable[S]) Send(to string, m any) { d.bound("Send").send(to, m) }

// Remind is [Events.Remind].
func (d *Durable[S]) Remind(key string, at time.Time, m any) { d.bound("Remind").remind(key, at, m) }

// Forget is [Events.Forget].
func (d *Durable[S]) Forget(key string) { d.bound("Forget").forget(key) }

func (d *Durable[S]) bound(what string) *incarnation {
	if d.in == nil {
		panic(fmt.Sprintf("persist: %s: the actor with this Durable[%s] was not spawned by persist.Spawn", what, reflect.TypeFor[S]()))
	}
	return d.in
}

// persistent is an actor that embeds Events or Durable.
type persistent interface {
	// bind binds the embedded value to an incarnation of the actor self, and returns how it is
	// recovered. With a nil incarnation it only checks.
	bind(in *incarnation, self any) (subject, error)
	registered(p *Persistence) error
	// unbind undoes bind.
	unbind()
}

func (es *Events[E]) bind(in *incarnation, self any) (subject, error) {
	a, ok := self.(interface{ Apply(e E) })
	if !ok {
		return subject{}, fmt.Errorf("%T embeds Events[%s] and must have a method Apply(%[2]s)", self, reflect.TypeFor[E]())
	}
	snapshots, err := snapshotsOf(self)
	if err != nil {
		return subject{}, err
	}
	if es.in, es.apply = in, a.Apply; in != nil {
		in.snapshots = snapshots
	}
	return subject{snapshots: snapshots, apply: func(v any) error {
		e, ok := v.(E)
		if !ok {
			return fmt.Errorf("it is a %T and not a %s", v, reflect.TypeFor[E]())
		}
		a.Apply(e)
		return nil
	}}, nil
}

// Send sends a message to the actor with that id, or to the address of [Persistence.Deliver], at
// least once: the message is part of what the handler records, and is delivered until it is
// confirmed, even after a crash of either side. Messages from one actor to one receiver arrive in
// order. A durable receiver remembers, with what it records for a message, that it has handled it,
// so the message takes effect once. The receiver confirms a message by returning nil; after an
// error the message comes again, and those behind it wait. So it must not set the message aside
// with Stash, or forward it to itself: that would confirm it. A handler that is divided by an Ask,
// and then fails, gets the message again, with what was recorded before the Ask in place.
//
// The receiver is in the same process; see [Open] for what holds when several processes write to a
// journal.
//
// The type of m must be one that the receiver accepts, and be in [Config.Types]. Send panics where
// Record does.
func (es *Events[E]) Send(to string, m any) { es.bound("Send").send(to, m) }

// Remind sends the actor a message at a given time, and not before, even after a crash: it is part
// of what the handler records. The message takes effect once, as one of Send does. A reminder
// replaces an earlier one with the same key. See [Open] for what holds when several processes write
// to a journal. Remind panics where Record does.
func (es *Events[E]) Remind(key string, at time.Time, m any) { es.bound("Remind").remind(key, at, m) }

// Forget cancels the reminder with that key, if there is one. It panics outside of a handler.
func (es *Events[E]) Forget(key string) { es.bound("Forget").forget(key) }

func (es *Events[E]) bound(what string) *incarnation {
	if es.in == nil {
		panic(fmt.Sprintf("persist: %s: the actor with these Events[%s] was not spawned by persist.Spawn", what, reflect.TypeFor[E]()))
	}
	return es.in
}

func (es *Events[E]) unbind() { es.in, es.apply = nil, nil }

func (*Events[E]) registered(p *Persistence) error { return p.requireType(reflect.TypeFor[E]()) }

func (d *Durable[S]) bind(in *incarnation, _ any) (subject, error) { //nolint:unparam // as of Events
	d.in = in
	if in != nil {
		in.encode = func() (*Payload, error) { return in.p.payload(d.State) }
	}
	return subject{setState: func(v any) error {
		s, ok := v.(S)
		if !ok {
			return fmt.Errorf("it is a %T and not a %s", v, reflect.TypeFor[S]())
		}
		d.State = s
		return nil
	}}, nil
}

func (d *Durable[S]) unbind() { d.in = nil }

func (*Durable[S]) registered(p *Persistence) error { return p.requireType(reflect.TypeFor[S]()) }

// requireType returns an error if a type is not registered. It cannot check the implementations of
// an interface.
func (p *Persistence) requireType(t reflect.Type) error {
	if t.Kind() == reflect.Interface {
		return nil
	}
	zero := reflect.Zero(t).Interface()
	if _, ok := p.cfg.Types.Name(zero); !ok {
		return fmt.Errorf("type %s is not registered in Config.Types", t)
	}
	if p.cfg.Types.Refers(zero) {
		return fmt.Errorf("type %s has references to actors, which mean nothing to a later process: record an id", t)
	}
	return nil
}

// payload encodes a value.
func (p *Persistence) payload(v any) (*Payload, error) {
	name, data, err := p.cfg.Types.Append(nil, v)
	if err != nil {
		return nil, err
	}
	return &Payload{Type: name, Data: data}, nil
}

// Option is an option of [Spawn].
type Option func(*options)

type options struct {
	id    string
	shard string
	epoch uint64
	eager bool
	actor []actor.SpawnOption

	every, everyBytes int
}

// ID gives the actor an id in the journal other than its path.
func ID(id string) Option { return func(o *options) { o.id = id } }

// Shard makes the actor write in the name of a shard, which whoever spawns it has claimed with that
// epoch, see [Journal.Claim]. Once the shard is claimed with a greater epoch the journal refuses
// the actor's events: askers that wait then get [ErrFenced], and the actor stops with its next
// message. Until it records something it does not learn of the claim, and answers from its state.
func Shard(shard string, epoch uint64) Option {
	return func(o *options) { o.shard, o.epoch = shard, epoch }
}

// Claim is [Journal.Claim] of the journal: call it before spawning actors with [Shard].
func (p *Persistence) Claim(ctx context.Context, shard string, epoch uint64) error {
	if err := p.journal.Claim(ctx, shard, epoch); err != nil {
		return fmt.Errorf("persist: claim %q with the epoch %d: %w", shard, epoch, err)
	}
	return nil
}

// Eager recovers the actor as soon as it is spawned, not with its first message. Spawn does not
// wait for that.
func Eager() Option { return func(o *options) { o.eager = true } }

// Every makes the actor take a snapshot after so many events or so many bytes of them, whichever
// comes first, with the handler that reaches the number. The defaults, which 0 stands for as well,
// are 1000 and 1 MiB. It is for actors with the methods Snapshot and Restore, see [Events].
func Every(events, bytes int) Option {
	return func(o *options) { o.every, o.everyBytes = events, bytes }
}

// Actor passes options to [actor.Spawn].
func Actor(opts ...actor.SpawnOption) Option {
	return func(o *options) { o.actor = append(o.actor, opts...) }
}

// Spawn starts a durable actor: one that embeds [Events] or [Durable]. Otherwise it is
// [actor.Spawn]. The actor is recovered with its first message, which waits for that as all others
// do. Its id in the journal is its path, so its name must have no star, unless [ID] sets another
// id.
//
// What its handlers send and answer is held until everything that the actor has recorded up to then
// is durable; [actor.Gated] also says what is not held. A handler is atomic: when it fails, nothing
// that it recorded is kept and nothing that it sent has left, and the actor is restarted with the
// state in the journal. An Ask in the handler divides it: what was recorded before the Ask is
// durable, and has left, when the request is sent. Use the handler's own context, with
// [actor.Within] for a limit: with a derived context, an Ask fails while the handler has recorded
// or sent something.
//
// The actor may have a method Recovered(*actor.Context[M]) error, which is called when it has
// recovered, before its first message: it may send, and set timers.
//
// If somebody else has written to the id meanwhile, askers that wait get [ErrFenced], and the actor
// is restarted, or stops if its [Shard] has moved. If the journal's content cannot be read, the
// actor stops with [ErrUnreadable]. Spawn panics if the actor embeds neither, if a type is not
// registered, and where actor.Spawn does.
func Spawn[M any, A actor.Actor[M]](p *Persistence, parent actor.Spawner, name string, newActor func() A, opts ...Option) actor.Ref[M] {
	newShell, o := shellOf[M](p, "Spawn", name, newActor, opts)
	return actor.Spawn(parent, name, newShell, o...)
}

// TrySpawn is Spawn with the errors of [actor.TrySpawn]: [actor.ErrNameTaken] says that an actor of
// that name exists, which another caller may have spawned at the same moment. It panics as Spawn
// does if the actor embeds neither, or if a type is not registered.
func TrySpawn[M any, A actor.Actor[M]](p *Persistence, parent actor.Spawner, name string, newActor func() A, opts ...Option) (actor.Ref[M], error) {
	newShell, o := shellOf[M](p, "TrySpawn", name, newActor, opts)
	return actor.TrySpawn(parent, name, newShell, o...)
}

// shellOf returns the constructor of the actor that the runtime sees, and its options.
func shellOf[M any, A actor.Actor[M]](p *Persistence, what, name string, newActor func() A, opts []Option) (func() *shell[M], []actor.SpawnOption) {
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if err := p.check(reflect.TypeFor[A](), name, &o); err != nil {
		panic("persist: " + what + ": " + err.Error())
	}
	g := &gate[M]{p: p, opts: o}
	return func() *shell[M] { return &shell[M]{Actor: newActor(), gate: g} }, append(o.actor, actor.Gated(g))
}

// check reports what is wrong with an actor's type, as far as that can be known without an
// instance.
func (p *Persistence) check(t reflect.Type, name string, o *options) error {
	if t.Kind() != reflect.Pointer {
		return fmt.Errorf("the actor must be a pointer, not %s", t)
	}
	zero := reflect.New(t.Elem()).Interface()
	a, ok := zero.(persistent)
	if !ok {
		return fmt.Errorf("%s must embed persist.Events or persist.Durable, one of them", t)
	}
	s, err := a.bind(nil, zero)
	err = errors.Join(err, a.registered(p))
	if s.snapshots != nil {
		err = errors.Join(err, p.requireType(s.snapshots.state))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t, err)
	}
	if o.every < 0 || o.everyBytes < 0 {
		return fmt.Errorf("persist.Every(%d, %d): the numbers must not be negative", o.every, o.everyBytes)
	}
	if err := checkText("shard", o.shard, 0); err != nil {
		return fmt.Errorf("persist.Shard: %w", err)
	}
	if o.epoch > math.MaxInt64 {
		return fmt.Errorf("persist.Shard(%q, %d): the epoch must be at most %d", o.shard, o.epoch, math.MaxInt64)
	}
	if o.id != "" {
		return CheckID(o.id)
	}
	if name == "" || strings.Contains(name, "*") {
		return fmt.Errorf("name %q must be one of its own, without a star: it is the actor's id in the journal; or use persist.ID", name)
	}
	return nil
}

// shell is the actor that the runtime sees: the user's actor with its gate.
type shell[M any] struct {
	actor.Actor[M]
	gate     *gate[M]
	receiver *receiver
}

// Init implements actor.Initializer.
func (s *shell[M]) Init(ctx *actor.Context[M]) error {
	g := s.gate
	in := &incarnation{
		p: g.p, id: g.opts.id, shard: g.opts.shard, epoch: g.opts.epoch,
		every: cmp.Or(g.opts.every, everyEvents), everyBytes: cmp.Or(g.opts.everyBytes, everyBytes),
	}
	if in.id == "" {
		in.id = ctx.Self().PID().Path()
		if err := CheckID(in.id); err != nil {
			return fmt.Errorf("the actor's path is its id: %w", err)
		}
	}
	subject, err := s.Actor.(persistent).bind(in, s.Actor)
	if err != nil {
		return err
	}
	if before := g.in.Load(); before != nil && before.hasMoved() {
		in.refused, in.moved = before.refusal(), true
	}
	g.in.Store(in)
	g.poked, g.behind = false, false
	s.receiver = receiverOf(ctx.Self(), in)
	g.p.receivers.add(in.id, s.receiver)
	g.life = &life[M]{recover: (&recovery{replayer: replayer{types: g.p.cfg.Types, id: in.id, s: subject}, in: in, avoid: &g.avoid}).run}
	if a, ok := s.Actor.(interface{ Recovered(*actor.Context[M]) error }); ok {
		g.life.recovered = a.Recovered
	}
	if g.opts.eager {
		g.poke(ctx, 0)
	}
	if a, ok := s.Actor.(actor.Initializer[M]); ok {
		return a.Init(ctx)
	}
	return nil
}

// Terminate implements actor.Terminator: outputs in flight leave before anybody learns of the end.
func (s *shell[M]) Terminate(ctx *actor.Context[M], why error) {
	defer func() { // also when the user's panics
		if err := s.gate.drain(ctx); err != nil {
			ctx.Log().Warn("ended before everything was durable", errorAttr(err))
		}
		// Last: deliveries wait for its end, and call Wake only then.
		s.gate.p.receivers.remove(s.gate.in.Load().id, s.receiver)
	}()
	if a, ok := s.Actor.(actor.Terminator[M]); ok {
		a.Terminate(ctx, why)
	}
}
