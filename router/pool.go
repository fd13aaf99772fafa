package router

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Pool is a router that spawns its own routees. They are children of the pool's actor,
// named "1", "2" and so on, and supervised by it: a routee that fails is restarted, and
// keeps its mailbox and its place. One that ends, of its own accord or after too many
// failures, is replaced.
//
// Use it like a Ref, whose methods it has. Stop, Drain and Kill end the pool and its
// routees. To pass it on or to ask it, use its field Ref. Its methods are safe for
// concurrent use, also in handlers, those of its own routees included. The zero Pool is
// not usable; call SpawnPool.
type Pool[M any] struct {
	// Ref is the pool as everybody else sees it. Its address is that of the pool's actor:
	// watching and stopping concern that one. Asking is Ask(ctx, pool.Ref, …).
	actor.Ref[M]

	handle handle[M]
}

// Routees returns the routees that currently get messages, in the order in which they
// were added. The slice is the caller's.
func (p *Pool[M]) Routees() []actor.Ref[M] { return p.handle.routees() }

// Broadcast tells msg to all current routees, whatever the strategy. They get the same
// value, so none of them may change what it points to. Without routees the message
// becomes a dead letter. Broadcast never blocks.
func (p *Pool[M]) Broadcast(ctx context.Context, msg M) { p.handle.broadcast(ctx, msg) }

// PoolOption refines [SpawnPool].
type PoolOption func(*poolConfig)

type poolConfig struct {
	supervision actor.SuperviseOption
	routee      []actor.SpawnOption
	removeEnded bool
}

// RemoveEnded lets the pool shrink: a routee that ends is not replaced. By default it is
// replaced at once; one that has lived for less than 10 seconds is replaced after 100
// milliseconds, then 200 and so on up to 10 seconds, so that a routee that cannot run
// does not keep the machine busy.
func RemoveEnded() PoolOption {
	return func(c *poolConfig) { c.removeEnded = true }
}

// Supervision sets how the pool supervises its routees. By default one that fails is
// restarted, up to 10 times a minute, and then ends. If a supervision escalates, as
// [actor.Supervise] does by default when the restart budget is used up, the pool itself
// fails: its supervisor restarts it, with new routees.
func Supervision(s actor.SuperviseOption) PoolOption {
	return func(c *poolConfig) { c.supervision = s }
}

// RouteeOptions sets the options with which each routee is spawned.
func RouteeOptions(opts ...actor.SpawnOption) PoolOption {
	return func(c *poolConfig) { c.routee = append(c.routee, opts...) }
}

// SpawnPool spawns a pool of size routees. newRoutee makes the state of each of them,
// again for each restart, and must be safe for concurrent use: routees that fail at the
// same time are restarted at the same time. When SpawnPool returns, the Init of each
// routee has returned.
//
// For the parent and the name see [actor.Spawn]. SpawnPool panics where [TrySpawnPool]
// returns an error.
func SpawnPool[M any, A actor.Actor[M]](parent actor.Spawner, name string, strategy Strategy[M], size int, newRoutee func() A, opts ...PoolOption) *Pool[M] {
	return must(TrySpawnPool(parent, name, strategy, size, newRoutee, opts...))
}

// SpawnPoolFunc is [SpawnPool] with a function as routee. All routees share what it
// closes over, and run concurrently.
func SpawnPoolFunc[M any](parent actor.Spawner, name string, strategy Strategy[M], size int, receive func(*actor.Context[M], M) error, opts ...PoolOption) *Pool[M] {
	return must(TrySpawnPoolFunc(parent, name, strategy, size, receive, opts...))
}

// TrySpawnPool is [SpawnPool] with an error: ErrBadSize for a negative size,
// ErrNoStrategy, those of [actor.TrySpawn] for the name of the pool, or the error of a
// routee's Init. If it fails, nothing is left behind.
func TrySpawnPool[M any, A actor.Actor[M]](parent actor.Spawner, name string, strategy Strategy[M], size int, newRoutee func() A, opts ...PoolOption) (*Pool[M], error) {
	return spawnPool(parent, name, strategy, size, opts, func(ctx *actor.Context[any], name string, opts []actor.SpawnOption) (actor.Ref[M], error) {
		return actor.TrySpawn(ctx, name, newRoutee, opts...)
	})
}

// TrySpawnPoolFunc is [SpawnPoolFunc] with an error. See [TrySpawnPool].
func TrySpawnPoolFunc[M any](parent actor.Spawner, name string, strategy Strategy[M], size int, receive func(*actor.Context[M], M) error, opts ...PoolOption) (*Pool[M], error) {
	return spawnPool(parent, name, strategy, size, opts, func(ctx *actor.Context[any], name string, opts []actor.SpawnOption) (actor.Ref[M], error) {
		return actor.TrySpawnFunc(ctx, name, receive, opts...)
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic("router: " + err.Error() + "; use the Try form where that can happen")
	}
	return v
}

func spawnPool[M any](parent actor.Spawner, name string, strategy Strategy[M], size int, opts []PoolOption, spawn spawnRoutee[M]) (*Pool[M], error) {
	if err := checkSize(size); err != nil {
		return nil, fmt.Errorf("spawn pool %q: %w", name, err)
	}
	if strategy == nil {
		return nil, fmt.Errorf("spawn pool %q: %w: RoundRobin is one", name, ErrNoStrategy)
	}
	cfg := poolConfig{supervision: actor.Supervise(actor.OneForOne, actor.Exhausted(actor.Stop))}
	for _, opt := range opts {
		opt(&cfg)
	}
	p := &poolState[M]{desk: &desk[M]{strategy: strategy}, cfg: cfg, spawn: spawn, want: size}
	manager, err := actor.TrySpawn(parent, name, func() *poolManager[M] { return &poolManager[M]{poolState: p} }, cfg.supervision)
	if err != nil {
		return nil, err
	}
	h, err := newHandle(p.desk, manager, p.sys)
	if err != nil {
		return nil, err
	}
	return &Pool[M]{h.ref, h}, nil
}

func checkSize(size int) error {
	if size < 0 {
		return fmt.Errorf("%w %d: want 0 or more", ErrBadSize, size)
	}
	return nil
}

// Resize changes the number of routees to size and returns once senders see it. The Init
// of new routees has then returned; if one fails, Resize returns its error, and the pool
// has as many routees as could be started. Removed routees get no new messages, handle
// those they have, and end; Resize does not wait for that.
//
// It fails with [ErrBadSize] for a negative size, with [actor.ErrStopped] if the pool
// has ended, and when ctx ends or, without a deadline, after the system's ask timeout;
// the pool is then still resized later. In a handler pass the handler's ctx.
func (p *Pool[M]) Resize(ctx context.Context, size int) error {
	err := checkSize(size)
	if err == nil {
		err = p.handle.give(ctx, resize{size: size})
	}
	if err != nil {
		return fmt.Errorf("resize %s: %w", p.PID().Path(), err)
	}
	return nil
}

// The messages of a pool's actor.
type (
	resize struct {
		order
		size int
	}
	routeeDown struct {
		slot int
		down actor.Down
	}
	respawn struct{ slot int } // the time to replace a routee has come
	drain   struct{ slot int } // the time to end a removed routee has come
)

const (
	// linger is how long a removed routee lives on before it is drained: whoever chose
	// it from the table that has just been replaced is about to send.
	linger = 20 * time.Millisecond

	// A routee that lives for less than a settled one is replaced with a delay.
	settled      = 10 * time.Second
	delayAtFirst = 100 * time.Millisecond
	delayAtMost  = 10 * time.Second
)

type spawnRoutee[M any] func(ctx *actor.Context[any], name string, opts []actor.SpawnOption) (actor.Ref[M], error)

// poolState survives the restarts of the pool's actor. It is owned by its turn.
type poolState[M any] struct {
	desk    *desk[M]
	cfg     poolConfig
	spawn   spawnRoutee[M]
	sys     *actor.System
	want    int
	started bool
}

// poolManager is the pool's actor: it looks after the routees and sees no message of
// theirs.
type poolManager[M any] struct {
	*poolState[M]
	slots []*slot[M] // in the order of their numbers
}

// slot is the place of a routee. Its number is the routee's name, and its replacement's
// too, so that a consistent hash gives both the same keys.
type slot[M any] struct {
	number int
	phase  slotPhase
	ref    actor.Ref[M]
	since  time.Time // when the routee was started
	quick  int       // how many in a row ended before they had settled
}

type slotPhase uint8

const (
	vacant  slotPhase = iota // its routee has ended or could not be started
	serving                  // in the table
	leaving                  // removed, and the number still taken
)

// Init starts the routees. In the first incarnation one that cannot be started is the
// error of SpawnPool; later the pool goes on without it and tries again.
func (m *poolManager[M]) Init(ctx *actor.Context[any]) error {
	if m.sys == nil { // once: SpawnPool reads it while the actor lives
		m.sys = ctx.System()
	}
	m.desk.clearWith(ctx, m)
	for n := range m.want {
		s := &slot[M]{number: n + 1}
		m.slots = append(m.slots, s)
		if err := m.start(ctx, s); err != nil {
			if !m.started {
				return err
			}
			m.retryLater(ctx, s, err)
		}
	}
	m.started = true
	m.publish(ctx)
	return nil
}

func (m *poolManager[M]) Receive(ctx *actor.Context[any], msg any) error {
	switch o := msg.(type) {
	case resize:
		actor.Reply(ctx, o, outcome{m.resize(ctx, o.size)})
	case routeeDown:
		m.down(ctx, o.slot, o.down)
	case respawn:
		if s := m.slot(o.slot); s != nil && s.phase == vacant {
			m.replace(ctx, s)
		}
	case drain:
		if s := m.slot(o.slot); s != nil && s.phase == leaving {
			s.ref.Drain()
		}
	}
	return nil
}

// start fills a vacant slot.
func (m *poolManager[M]) start(ctx *actor.Context[any], s *slot[M]) error {
	ref, err := m.spawn(ctx, strconv.Itoa(s.number), m.cfg.routee)
	if err != nil {
		return err
	}
	s.phase, s.ref, s.since = serving, ref, time.Now()
	number := s.number
	ctx.Watch(ref.PID(), func(d actor.Down) any { return routeeDown{number, d} })
	return nil
}

// resize fills or clears slots; those with the highest numbers go first.
func (m *poolManager[M]) resize(ctx *actor.Context[any], size int) error {
	m.want = size
	var err error
	for n := m.staying(); n < size && err == nil; n++ {
		s := m.newSlot()
		if err = m.start(ctx, s); err != nil {
			m.drop(s)
			m.want = n
		}
	}
	for n := m.staying(); n > size; n-- {
		m.retire(ctx)
	}
	m.publish(ctx)
	return err
}

// retire clears the last slot that is not on its way out already.
func (m *poolManager[M]) retire(ctx *actor.Context[any]) {
	for _, s := range slices.Backward(m.slots) {
		switch s.phase {
		case leaving:
			continue
		case vacant:
			ctx.Cancel(respawnKey(s.number))
			m.drop(s)
		case serving:
			s.phase = leaving
			ctx.After("drain "+strconv.Itoa(s.number), linger, drain{s.number})
		}
		return
	}
}

// down handles the end of a routee.
func (m *poolManager[M]) down(ctx *actor.Context[any], number int, d actor.Down) {
	s := m.slot(number)
	if s == nil || s.ref.PID() != d.PID {
		return
	}
	if s.phase == leaving || m.cfg.removeEnded {
		if s.phase == serving {
			m.want--
		}
		m.drop(s)
		m.publish(ctx)
		return
	}
	if time.Since(s.since) >= settled {
		s.quick = 0
	}
	s.phase, s.ref = vacant, actor.Ref[M]{}
	m.publish(ctx)
	if s.quick == 0 {
		s.quick = 1
		m.replace(ctx, s)
		return
	}
	m.retryLater(ctx, s, cmp.Or(d.Err, errors.New(d.Reason.String())))
}

// replace starts another routee in a vacant slot, later if it cannot be done now.
func (m *poolManager[M]) replace(ctx *actor.Context[any], s *slot[M]) {
	if err := m.start(ctx, s); err != nil {
		m.retryLater(ctx, s, err)
		return
	}
	m.publish(ctx)
}

func (m *poolManager[M]) retryLater(ctx *actor.Context[any], s *slot[M], why error) {
	s.quick = max(1, s.quick) // a first failure to start has not been counted
	delay := min(delayAtFirst<<min(s.quick-1, 10), delayAtMost)
	s.quick++
	ctx.Log().LogAttrs(ctx, slog.LevelWarn, "routee will be replaced later",
		slog.Int("routee", s.number), slog.Duration("delay", delay), slog.String("error", why.Error()))
	ctx.After(respawnKey(s.number), delay, respawn{s.number})
}

func respawnKey(number int) string { return "respawn " + strconv.Itoa(number) }

// publish shows the senders who serves.
func (m *poolManager[M]) publish(ctx *actor.Context[any]) {
	var refs []actor.Ref[M]
	for _, s := range m.slots {
		if s.phase == serving {
			refs = append(refs, s.ref)
		}
	}
	m.desk.publish(ctx, m, refs)
}

// staying counts the slots that are the pool's size.
func (m *poolManager[M]) staying() (n int) {
	for _, s := range m.slots {
		if s.phase != leaving {
			n++
		}
	}
	return n
}

func (m *poolManager[M]) slot(number int) *slot[M] {
	if i, ok := m.find(number); ok {
		return m.slots[i]
	}
	return nil
}

func (m *poolManager[M]) find(number int) (i int, ok bool) {
	return slices.BinarySearchFunc(m.slots, number, func(s *slot[M], n int) int { return cmp.Compare(s.number, n) })
}

// newSlot returns a vacant slot with the lowest number that is free.
func (m *poolManager[M]) newSlot() *slot[M] {
	i := 0
	for i < len(m.slots) && m.slots[i].number == i+1 {
		i++
	}
	s := &slot[M]{number: i + 1}
	m.slots = slices.Insert(m.slots, i, s)
	return s
}

func (m *poolManager[M]) drop(s *slot[M]) {
	if i, ok := m.find(s.number); ok {
		m.slots = slices.Delete(m.slots, i, i+1)
	}
}
