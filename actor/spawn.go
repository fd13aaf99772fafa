package actor

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Actor is a state with a handler. Receive gets one message at a time, never two at
// once, and returns nil, [ErrStop] to stop normally, or an error, which is a failure:
// the supervisor decides, by default it restarts the actor with fresh state.
//
// An Actor may also be an [Initializer] and a [Terminator].
type Actor[M any] interface {
	Receive(ctx *Context[M], msg M) error
}

// Initializer is an actor that has something to do before its first message, after
// a restart as well. An error is a failure.
type Initializer[M any] interface {
	Init(ctx *Context[M]) error
}

// Terminator is an actor that has something to do at its end, once for each
// incarnation whose Init succeeded: why is nil for a normal stop, the failure
// otherwise. It is not called when the actor is killed.
type Terminator[M any] interface {
	Terminate(ctx *Context[M], why error)
}

// Spawner is who can have children: a [*System], whose children stand at the root,
// or the [*Context] of an actor, in that actor's own callbacks.
type Spawner interface {
	spawner() (*core, *worker)
}

func (s *System) spawner() (*core, *worker)       { return &s.root.core, nil }
func (ctx *Context[M]) spawner() (*core, *worker) { return ctx.onStage() }

// SpawnOption refines how an actor is spawned.
type SpawnOption interface{ applySpawn(*spawnConfig) }

type spawnConfig struct {
	super    *supervision
	lifetime Lifetime
	weight   uint8
	home     homeKind
	bound    int
	overflow Overflow
	queue    func() any // makes a queue[M]
	around   []ReceiveMiddleware
}

// Spawn starts an actor and returns its reference; newActor makes the state, again
// for each restart. When Spawn returns Init has returned. A failing Init is a
// failure like any other: the supervisor decides.
//
// The name is unique under the parent: "cart" gives the path "/cart" at the root, ""
// an actor without a name, "worker-*" a name with a number in place of the star. A
// name that is taken or that cannot be part of a path is a programmer's error: Spawn
// panics, as it does when the parent has stopped. [TrySpawn] returns an error.
//
// Spawn is safe for concurrent use with a *System, and for the callback that was
// given it with a *Context.
func Spawn[M any, A Actor[M]](parent Spawner, name string, newActor func() A, opts ...SpawnOption) Ref[M] {
	c, err := spawn(parent, name, func() Actor[M] { return newActor() }, opts)
	if err != nil {
		panic("actor: " + err.Error() + "; use TrySpawn where that can happen")
	}
	_ = c.firstTurn(c.fail) // the supervisor has it
	return Ref[M]{c}
}

// TrySpawn is Spawn with an error: [ErrNameTaken], [ErrBadName], [ErrStopped] when
// the parent stops, or what Init returned. After an error nothing is left, except for
// children that a failing Init has spawned: they are stopped, and the name is free when
// they have.
func TrySpawn[M any, A Actor[M]](parent Spawner, name string, newActor func() A, opts ...SpawnOption) (Ref[M], error) {
	c, err := spawn(parent, name, func() Actor[M] { return newActor() }, opts)
	if err != nil {
		return Ref[M]{}, err
	}
	err = c.firstTurn(func(err error) { c.beginStop(stopNow, Failed, err) })
	if err != nil {
		return Ref[M]{}, fmt.Errorf("spawn %s: init: %w", c.fullPath(), err)
	}
	return Ref[M]{c}, nil
}

// SpawnFunc starts an actor that is a function. See [Spawn]. State that receive
// closes over survives a restart; where that is not wanted, use Spawn.
func SpawnFunc[M any](parent Spawner, name string, receive func(*Context[M], M) error, opts ...SpawnOption) Ref[M] {
	return Spawn(parent, name, func() funcActor[M] { return receive }, opts...)
}

// TrySpawnFunc is SpawnFunc with an error. See [TrySpawn].
func TrySpawnFunc[M any](parent Spawner, name string, receive func(*Context[M], M) error, opts ...SpawnOption) (Ref[M], error) {
	return TrySpawn(parent, name, func() funcActor[M] { return receive }, opts...)
}

type funcActor[M any] func(*Context[M], M) error

func (f funcActor[M]) Receive(ctx *Context[M], msg M) error { return f(ctx, msg) }

// spawn makes the cell and makes it known. The caller owns its first turn, in which
// Init runs; messages that come meanwhile wait.
func spawn[M any](parent Spawner, name string, newActor func() Actor[M], opts []SpawnOption) (*cell[M], error) {
	p, w := parent.spawner()
	cfg := spawnConfig{super: &p.sys.super, weight: 1}
	for _, opt := range opts {
		opt.applySpawn(&cfg)
	}
	if err := p.sys.mayStart(p, name, nameOf[M]()); err != nil {
		return nil, err
	}
	mail, err := newSpecial[M](&cfg)
	if err != nil {
		return nil, fmt.Errorf("spawn %q: %w", name, err)
	}
	c := &cell[M]{newActor: newActor, super: cfg.super, special: mail, around: slices.Concat(p.sys.around, cfg.around)}
	c.core = core{sys: p.sys, parent: p, impl: c, scheduled: true, lifetime: cfg.lifetime, weight: cfg.weight}
	c.ctx.c = c
	c.ctx.worker.Store(w)
	if err := c.baptize(p, name); err != nil {
		return nil, err
	}
	c.sys.actors.add(&c.core, c.sys.firstGeneration)
	c.home = newHome(cfg.home)
	// From here on others may see the actor: it is complete.
	c.sys.living.Add(1)
	if !p.adopt(&c.core) {
		if c.path != "" {
			c.sys.names.remove(c.path)
		}
		c.sys.actors.remove(&c.core)
		c.sys.living.Add(-1)
		return nil, fmt.Errorf("spawn %q under %s: parent: %w", name, p.fullPath(), ErrStopped)
	}
	if c.path != "" {
		c.sys.names.publish(c.path, &c.core)
	}
	c.home.open(&c.core)
	return c, nil
}

// baptize reserves the name, if there is one.
func (c *core) baptize(parent *core, name string) error {
	if name == "" {
		return nil
	}
	if err := checkName(name); err != nil {
		return err
	}
	under := parent.fullPath()
	before, after, numbered := strings.Cut(name, "*")
	for {
		c.path = join(under, name)
		if numbered {
			c.path = join(under, before+strconv.FormatUint(c.sys.suffix.Add(1), 10)+after)
		}
		if c.sys.names.reserve(c.path) {
			return nil
		}
		if !numbered {
			return fmt.Errorf("spawn %s: %w", c.path, ErrNameTaken)
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
func (c *cell[M]) firstTurn(failed func(error)) (err error) {
	err = errGoexit // what remains if Init ends the goroutine
	defer func() {
		if err != nil {
			failed(err)
		} else {
			c.setPhase(running)
			if c.sys.audience.listened() {
				c.sys.publish(ActorStarted{PID: c.pid()})
			}
			if c.halting {
				c.quit()
			}
		}
		if c.endTurn() {
			c.sys.sched.ready(&c.core, nil)
		}
	}()
	err = c.tryStart()
	return err
}

// nameOf returns the printed name of a type.
func nameOf[T any]() string { return reflect.TypeFor[T]().String() }
