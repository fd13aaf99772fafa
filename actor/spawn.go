package actor

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Actor is a state with a handler. Receive gets one message at a time, never two at
// once, and returns nil, [ErrStop] to stop normally, or an error, which is a failure:
// the supervisor decides, by default it restarts the actor with fresh state.
//
// An Actor may also be an [Initializer] and a [Terminator].
type Actor[M any] interface {
	Receive(ctx *Context[M], msg M) error
}

// Initializer is an actor that has something to do before the first message of each
// incarnation. An error is a failure.
type Initializer[M any] interface {
	Init(ctx *Context[M]) error
}

// Terminator is an actor that has something to do at its end, once for each
// incarnation whose Init succeeded: why is nil for a normal stop, the failure
// otherwise. It is not called when the actor is killed.
type Terminator[M any] interface {
	Terminate(ctx *Context[M], why error)
}

// Spawner is what can have children: a [*System], whose children are at the root, or the [*Context]
// of an actor, in that actor's own callbacks.
type Spawner interface {
	spawner() (parent *core, w *worker, as *birth)
}

// birth is what a Spawner says of whom it spawns: its name, and an option that it adds.
type birth struct {
	name string
	opt  SpawnOption
}

func (s *System) spawner() (*core, *worker, *birth) { return s.root, nil, nil }

func (ctx *Context[M]) spawner() (*core, *worker, *birth) {
	return &ctx.core, ctx.core.worker.Load(), nil
}

// SpawnOption refines how an actor is spawned.
type SpawnOption interface{ applySpawn(*spawnConfig) }

type spawnConfig struct {
	super    *supervision
	lifetime Lifetime
	weight   uint8
	runsOn   runsOn
	bound    int
	overflow Overflow
	queue    func() any    // makes a queue[M]
	queueOf  func() string // its M
	around   []ReceiveMiddleware

	reentrant  bool
	gate       Gate
	bulkhead   *string       // nil for the parent's
	passivate  time.Duration // 0 for an actor that is not
	stopWithin time.Duration // 0 for as long as it takes
	stopLast   bool
	virtual    any  // an *activation[M], nil for an actor that is none
	keeps      bool // see keepsChildren

	significant bool
	guardian    *supervision // nil for the parent's
	observer    MailboxObserver
	ordered     bool // queue is that of Ordered
}

type spawnOption func(*spawnConfig)

func (f spawnOption) applySpawn(c *spawnConfig) { f(c) }

// order sets the order of the mailbox: what creates its queue, and that queue's message type.
func (c *spawnConfig) order(queue func() any, of func() string) {
	c.queue, c.queueOf, c.ordered = queue, of, false
}

// Spawn starts an actor and returns its reference; newActor makes the state, again for each
// restart. When Spawn returns, Init has returned. A failing Init is a failure like any other: the
// supervisor decides.
//
// The name is unique under the parent: "cart" gives the path "/cart" at the root, "" leaves the
// actor unnamed, and in "worker-*" a number replaces the star. Spawn panics if the name is taken or
// cannot be part of a path, or if the parent has stopped; [TrySpawn] returns an error instead.
//
// Spawn is safe for concurrent use with a *System; a *Context is for the callback that was given
// it.
func Spawn[M any, A Actor[M]](parent Spawner, name string, newActor func() A, opts ...SpawnOption) Ref[M] {
	return mustStart(spawn(parent, name, nil, stateMaker[M, A](newActor), opts))
}

// mustStart starts what spawn has made.
func mustStart[M any](c *cell[M], err error) Ref[M] {
	if err != nil {
		panic("actor: " + err.Error() + "; use TrySpawn where that can happen")
	}
	if c.core.isVirtual() {
		c.beginPassive()
		return Ref[M]{c}
	}
	_ = c.core.firstTurn(c.core.fail) // the supervisor has it
	return Ref[M]{c}
}

// tryStart starts what spawn has made.
func tryStart[M any](c *cell[M], err error) (Ref[M], error) {
	if err != nil {
		return Ref[M]{}, err
	}
	if c.core.isVirtual() {
		c.beginPassive()
		return Ref[M]{c}, nil
	}
	if err = c.core.firstTurn(c.core.abandon); err != nil {
		return Ref[M]{}, fmt.Errorf("spawn %s: %w", c.core.fullPath(), err)
	}
	return Ref[M]{c}, nil
}

// abandon ends an actor whose spawner learns that its first Init has failed. So it was never one of
// the children that the parent does not outlive; unless it is the last one left of those, and
// others have ended: then nobody else tells the parent.
func (c *core) abandon(err error) {
	p := c.parent
	p.mu.Lock()
	if c.isSignificant() && (p.ext.significant > 1 || !p.ext.oneEnded) {
		c.flags.And(^significant)
		p.ext.significant--
	}
	p.mu.Unlock()
	c.beginStop(stopNow, Failed, err)
}

// stateMaker is newActor as the cell keeps it: without a closure that would be allocated.
type stateMaker[M any, A Actor[M]] func() A

func (f stateMaker[M, A]) make() Actor[M] { return f() }

// TrySpawn is Spawn with an error: [ErrNameTaken], [ErrBadName], [ErrStopped] if the parent is
// stopping, or what Init returned. After an error nothing is left, except children that a failing
// Init has spawned: they are stopped, and the name is free once they have ended.
func TrySpawn[M any, A Actor[M]](parent Spawner, name string, newActor func() A, opts ...SpawnOption) (Ref[M], error) {
	return tryStart(spawn(parent, name, nil, stateMaker[M, A](newActor), opts))
}

// SpawnFunc starts an actor that is a function. See [Spawn]. State that receive closes over
// survives a restart; if that is not wanted, use Spawn.
func SpawnFunc[M any](parent Spawner, name string, receive func(*Context[M], M) error, opts ...SpawnOption) Ref[M] {
	return mustStart(spawn(parent, name, funcActor[M](receive), nil, opts))
}

// TrySpawnFunc is SpawnFunc with an error. See [TrySpawn].
func TrySpawnFunc[M any](parent Spawner, name string, receive func(*Context[M], M) error, opts ...SpawnOption) (Ref[M], error) {
	return tryStart(spawn(parent, name, funcActor[M](receive), nil, opts))
}

type funcActor[M any] func(*Context[M], M) error

func (f funcActor[M]) Receive(ctx *Context[M], msg M) error { return f(ctx, msg) }

// spawn makes the cell and makes it known: with state, or with what makes it. The caller
// owns its first turn, in which Init runs; messages that come meanwhile wait.
func spawn[M any](parent Spawner, name string, state Actor[M], newActor maker[M], opts []SpawnOption) (*cell[M], error) {
	required(parent != nil, "Spawn: the parent is nil: it is a *System, or the Context of a callback")
	required(given(state, newActor), "Spawn: the function is nil: it makes the actor's state, or for SpawnFunc is the handler")
	p, w, name, opts, err := mayAdopt(parent, name, opts, reflect.TypeFor[M]())
	if err != nil {
		return nil, err
	}
	c := &cell[M]{actor: state, newActor: newActor}
	c.core.kind, c.core.parent, c.core.weight = kindOf[M](p.sys(), p.sched()), p, 1
	c.core.schedule()
	if w != nil {
		c.core.worker.Store(w)
	}
	if err := c.core.introduce(name, opts); err != nil {
		return nil, err
	}
	return c, nil
}

// mayAdopt returns who becomes the parent, its worker, and the name and the options of the child, or
// why there may be none.
func mayAdopt(parent Spawner, name string, opts []SpawnOption, messages reflect.Type) (*core, *worker, string, []SpawnOption, error) {
	p, w, as := parent.spawner()
	if p.isGated() {
		if ctx, ok := parent.(context.Context); ok {
			if err := p.settleGate(ctx); err != nil {
				return nil, nil, "", nil, fmt.Errorf("spawn %q under %s: %w", name, p.fullPath(), err)
			}
			p, w, as = parent.spawner() // it may have waited
		}
	}
	if as != nil {
		name, opts = as.name, append(slices.Clip(opts), as.opt)
	}
	if sys := p.sys(); len(sys.beforeSpawn) > 0 {
		if err := sys.mayStart(p, name, messages.String()); err != nil {
			return nil, nil, "", nil, err
		}
	}
	return p, w, name, opts, nil
}

// introduce makes the actor known, with the name and the options.
func (c *core) introduce(name string, opts []SpawnOption) error {
	if len(opts) > 0 {
		if err := c.refine(name, opts); err != nil {
			return err
		}
	}
	p, sys := c.parent, c.sys()
	if err := c.reserveName(p, name); err != nil {
		return err
	}
	sys.actors.add(c)
	// From here on others may see the actor: it is complete.
	sys.living.Add(1)
	if !p.adopt(c) {
		if c.path != nil {
			sys.names.remove(*c.path)
		}
		sys.actors.remove(c)
		sys.living.Add(-1)
		return fmt.Errorf("spawn %q under %s: parent: %w", name, p.fullPath(), ErrStopped)
	}
	if c.path != nil {
		sys.names.publish(*c.path, c)
	}
	if c.traits.runsOn() == onThread {
		c.ext.thread.open(c)
	}
	return nil
}

// given reports whether there is something to make an actor of.
func given[M any](state Actor[M], newActor maker[M]) bool {
	if f, ok := state.(funcActor[M]); ok {
		return f != nil
	}
	return !reflect.ValueOf(newActor).IsNil()
}

// refine applies the options of spawning.
func (c *core) refine(name string, opts []SpawnOption) error {
	cfg := spawnConfig{super: c.kind.super, weight: 1}
	for _, opt := range opts {
		required(opt != nil, "Spawn: an option is nil: leave it out")
		opt.applySpawn(&cfg)
	}
	if err := cfg.check(c.impl().isFunc()); err != nil {
		return fmt.Errorf("spawn %q: %w", name, err)
	}
	if cfg.bulkhead != nil {
		on, err := c.sys().bulkhead(*cfg.bulkhead)
		if err != nil {
			return fmt.Errorf("spawn %q: %w", name, err)
		}
		c.kind = c.impl().kindOn(on)
	}
	special, queue, err := c.impl().setMailbox(&cfg)
	if err != nil {
		return fmt.Errorf("spawn %q: %w", name, err)
	}
	cfg.runsOn = c.sched().place(cfg.runsOn)
	c.setTraits(&cfg)
	if cfg.virtual != nil {
		if err := c.impl().virtualize(name, cfg.virtual); err != nil {
			return err
		}
	}
	if cfg.virtual != nil || cfg.passivate > 0 {
		c.passivateAfter(cfg.passivate)
	}
	c.setExt(&cfg)
	c.setKind(&cfg, special, queue)
	return nil
}

// check returns an error for options that contradict each other, or that a function cannot have.
func (c *spawnConfig) check(function bool) error {
	passive := c.passivate > 0 && c.virtual == nil
	switch {
	case c.reentrant && c.runsOn != onPool:
		return errors.New("a Pinned or Inline actor cannot be Reentrant: its handlers wait where they are")
	case c.gate != nil && (c.reentrant || c.runsOn == onSender):
		return errors.New("a Gated actor cannot be Reentrant or Inline: what its handlers send is kept in order")
	case passive && function:
		return errors.New("an actor that is a function cannot be passivated: it has no state")
	case passive && c.gate != nil:
		return errors.New("a Gated actor cannot be passivated: what it has sent may not have left")
	case c.significant && c.lifetime == Permanent:
		return errors.New("a Permanent actor cannot be Significant: it does not end by itself")
	}
	return nil
}

// setTraits sets what the actor is asked about at each turn.
func (c *core) setTraits(cfg *spawnConfig) {
	c.weight, c.traits = cfg.weight, newTraits(cfg.lifetime, cfg.runsOn)
	if cfg.keeps {
		c.traits |= keepsTrait
	}
	if cfg.reentrant {
		c.traits |= reentrantTrait
	}
	if cfg.significant {
		c.flags.Or(significant)
	}
	if cfg.stopLast {
		c.flags.Or(stopsLast)
	}
}

// setExt gives the actor the extension that some options need.
func (c *core) setExt(cfg *spawnConfig) {
	if cfg.reentrant {
		c.needExtLocked().reentry = new(reentry)
	}
	if cfg.guardian != nil {
		c.needExtLocked().guardian = cfg.guardian
	}
	if cfg.stopWithin > 0 {
		c.needExtLocked().patience = &patience{c: c, limit: cfg.stopWithin}
	}
	if cfg.runsOn == onSender {
		c.needExtLocked()
	}
	if h := newThread(cfg.runsOn); h != nil {
		c.needExtLocked().thread = h
	}
}

// setKind gives the actor a kind of its own, if it differs from others of its type.
func (c *core) setKind(cfg *spawnConfig, special bool, queue any) {
	if o := cfg.observer; o != nil {
		cfg.around = append(cfg.around, func(_ context.Context, r Reception, next func() error) error {
			o.Received(r.To)
			return next()
		})
	}
	if cfg.super == c.kind.super && len(cfg.around) == 0 && !special && cfg.gate == nil {
		return
	}
	own := *c.kind
	own.super, own.around = cfg.super, slices.Concat(own.around, cfg.around)
	if cfg.gate != nil {
		c.impl().gateBy(cfg.gate)
		own.around = append(make([]ReceiveMiddleware, 0, 1), own.around...) // not nil: serve has no short way for it
	}
	if special {
		own.queue = queue
	}
	c.kind = &own
}

// kindOn returns the kind of such actors on those workers.
func (c *cell[M]) kindOn(on *scheduler) *kind { return kindOf[M](c.core.sys(), on) }

// setMailbox gives the actor its own mailbox, if the options say so, and returns what orders it.
// REQUIRES: nobody else can see the actor.
func (c *cell[M]) setMailbox(cfg *spawnConfig) (special bool, queue any, err error) {
	mail, err := newSpecial[M](cfg)
	if mail == nil || err != nil {
		return false, nil, err
	}
	c.box = &mailbox[M]{special: mail, alarm: overloadStart, limit: math.MaxInt}
	return true, mail.queue, nil
}

// isFunc reports whether the actor is a function, which has no state.
func (c *cell[M]) isFunc() bool { return c.newActor == nil }

// reserveName reserves the name, if there is one.
func (c *core) reserveName(parent *core, name string) error {
	if name == "" {
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	under := parent.fullPath()
	before, after, numbered := strings.Cut(name, "*")
	for {
		path := join(under, name)
		if numbered {
			path = join(under, before+strconv.FormatUint(c.sys().suffix.Add(1), 10)+after)
		}
		if c.sys().names.reserve(path) {
			c.path = &path
			return nil
		}
		if !numbered {
			return fmt.Errorf("spawn %s: %w", path, ErrNameTaken)
		}
	}
}

// checkName says whether a name can be part of a path.
func checkName(name string) error {
	const rule = "a name has no '/' and no '#', does not begin with '$' and has at most one '*'"
	if strings.ContainsAny(name, "/#") || name[0] == '$' || strings.Count(name, "*") > 1 {
		return fmt.Errorf("spawn %q: %w: %s", name, ErrBadName, rule)
	}
	return nil
}

// firstTurn starts the first incarnation on the spawner's goroutine, which owns the
// actor until the end of it, and returns Init's error after failed has dealt with it.
func (c *core) firstTurn(failed func(error)) (err error) {
	c.beginTurn()
	var below *core
	err = errGoexit // what remains if Init ends the goroutine
	defer func() {
		below.putDown()
		if err != nil {
			failed(err)
		} else {
			c.endInit()
			c.armPassivation()
			if c.sys().listeners.hears(ActorStarted{}) {
				c.sys().publish(ActorStarted{PID: c.pid()})
			}
			if c.halting {
				c.quit()
			}
		}
		if c.impl().endTurn(nil) {
			c.sched().ready(c, nil)
		}
	}()
	var ending bool
	if below, ending = c.parent.carry(c); c.mustCutInit(below, ending) {
		c.cutInit()
	}
	err = c.impl().tryStart()
	return err
}

// nameOf returns the printed name of a type.
func nameOf[T any]() string { return reflect.TypeFor[T]().String() }
