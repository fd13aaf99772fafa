package actor

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// System is a tree of actors, the workers that run them and what belongs to them:
// names, timers, dead letters. Nothing is shared between systems. Its methods are
// safe for concurrent use.
type System struct {
	name       string
	log        *slog.Logger
	super      supervision // what actors exercise unless told otherwise
	askTimeout time.Duration
	maxWaiting int64
	rand       *rand.Rand
	began      time.Time

	around      []ReceiveMiddleware
	beforeSend  []SendMiddleware
	beforeSpawn []SpawnMiddleware

	sched     *scheduler            // the system's own workers
	scheds    []*scheduler          // those, and those of the bulkheads
	bulkheads map[string]*scheduler // by name, "" for the system's own
	parked    atomic.Int64          // handlers whose stacks are set aside

	clock *clock
	root  *core         // not its cell: every package that uses a System would compile that
	gone  chan struct{} // closed when the root has ended

	inc       uint32 // the incarnation: random, so that a PID of an earlier process finds nobody
	actors    directory
	names     registry
	waiters   waiterPool // of goroutines outside that ask
	suffix    atomic.Uint64
	dead      deadLetterBox
	listeners listeners
	warnings  warnings
	profiling sync.Mutex          // who changes the schedulers' profiles
	far       atomic.Pointer[Far] // the way to other systems, nil without a carrier
	virtuals  sync.Map            // sorts of virtual actors by name: a virtualOf for each

	living    atomic.Int64 // actors, the root included
	handled   atomic.Uint64
	failures  atomic.Uint64
	restarts  atomic.Uint64
	discarded atomic.Uint64 // messages that the end of actors has left in mailboxes and gates, see killAll

	nowhere *Far // that of references that lead nowhere
}

// SystemOption refines [NewSystem].
type SystemOption interface{ applySystem(*systemConfig) }

type systemConfig struct {
	log        *slog.Logger
	super      supervision
	askTimeout time.Duration
	maxWaiting int64
	driver     Driver
	silent     bool
	bulkheads  []bulkhead

	around      []ReceiveMiddleware
	beforeSend  []SendMiddleware
	beforeSpawn []SpawnMiddleware
}

type systemOption func(*systemConfig)

func (f systemOption) applySystem(c *systemConfig) { f(c) }

// WithLogger sets the logger. Defaults to [slog.Default].
func WithLogger(log *slog.Logger) SystemOption {
	required(log != nil, "WithLogger: the logger is nil: slog.New(slog.DiscardHandler) is silent")
	return systemOption(func(c *systemConfig) { c.log = log })
}

// WithAskTimeout sets how long an [Ask] waits if its context has no deadline. It defaults to 5
// seconds; 0 and less panic.
func WithAskTimeout(d time.Duration) SystemOption {
	required(d > 0, fmt.Sprintf("WithAskTimeout(%v): an ask needs time", d))
	return systemOption(func(c *systemConfig) { c.askTimeout = d })
}

// WithMaxWaiting bounds how many handlers may wait at the same time in Ask, Gather and Sleep: each
// keeps its stack, some 8 KB or more. A further one fails with [ErrTooManyWaiting]; of some that
// begin at the very same moment, more may pass, at most one for each worker. It defaults to 100
// 000; anything below 1 panics.
func WithMaxWaiting(n int) SystemOption {
	required(n > 0, fmt.Sprintf("WithMaxWaiting(%d): at least one handler must be able to wait", n))
	return systemOption(func(c *systemConfig) { c.maxWaiting = int64(n) })
}

// maxWaitingDefault is some 800 MB of stacks.
const maxWaitingDefault = 100_000

// NewSystem starts a system. Its name is part of every [PID]: it must not be empty or "*", and must
// not contain a slash, a '#' or a '~'; otherwise NewSystem panics. End the system with
// [System.Shutdown].
func NewSystem(name string, opts ...SystemOption) *System {
	required(name != "" && name != virtualNode && !strings.ContainsAny(name, "/#~"), fmt.Sprintf("NewSystem: the name %q is empty, is \"*\" or has a '/', '#' or '~'", name))
	cfg := systemConfig{log: slog.Default(), super: Supervise(OneForOne).s, askTimeout: defaultAskTimeout, maxWaiting: maxWaitingDefault}
	for _, opt := range opts {
		required(opt != nil, "NewSystem: an option is nil: leave it out")
		opt.applySystem(&cfg)
	}
	s := &System{
		name: name, log: cfg.log, super: Supervise(OneForOne).s, askTimeout: cfg.askTimeout, maxWaiting: cfg.maxWaiting, began: time.Now(),
		around: cfg.around, beforeSend: cfg.beforeSend, beforeSpawn: cfg.beforeSpawn,
		warnings: warnings{off: cfg.silent},

		rand:  rand.New(globalSource{}),
		clock: newClock(), gone: make(chan struct{}),
	}
	s.nowhere = &Far{sys: s}
	if cfg.driver != nil {
		s.driveBy(cfg.driver, cfg.bulkheads)
	} else {
		s.startSchedulers(cfg.bulkheads)
	}
	s.inc = s.rand.Uint32() | 1
	root := &cell[struct{}]{actor: rootActor{}}
	r, path := &root.core, "/"
	s.root = r
	r.kind, r.path, r.phase, r.weight = newKind[struct{}](s, s.sched, &cfg.super, nil), &path, running, 1
	s.actors.add(s.root)
	s.names.reserve("/")
	s.names.publish("/", s.root)
	s.living.Add(1)
	return s
}

// Rand returns the system's random numbers. Those of a simulated system depend on its seed, so
// whatever draws from them is replayed; those of any other system are the global ones of
// [math/rand/v2]. Unlike a [rand.Rand] of your own it is safe for concurrent use. Not for secrets.
func (s *System) Rand() *rand.Rand { return s.rand }

// globalSource is where the random numbers of a system come from that nobody drives.
type globalSource struct{}

// Uint64 implements rand.Source.
func (globalSource) Uint64() uint64 { return rand.Uint64() }

// rootActor stands at the root and supervises what the system spawns.
type rootActor struct{}

func (rootActor) Receive(*Context[struct{}], struct{}) error { return nil }

// Name returns the system's name.
func (s *System) Name() string { return s.name }

// Incarnation returns the system's own number, see [PID.Incarnation].
func (s *System) Incarnation() uint32 { return s.inc }

// Log returns the system's logger.
func (s *System) Log() *slog.Logger { return s.log }

// say writes a line of the runtime's own. A handler of the log that panics, or ends its goroutine, loses
// the line, and neither the process nor what the caller has under way: most callers are where nobody
// would recover.
func (s *System) say(level slog.Level, msg string, attrs ...slog.Attr) {
	if s.log.Handler() == slog.DiscardHandler {
		return
	}
	said := make(chan struct{})
	go func() {
		defer close(said)
		defer func() { _ = recover() }()
		s.log.LogAttrs(context.Background(), level, msg, attrs...) //nolint:sloglint // the caller's is constant
	}()
	<-said
}

// Report says how a shutdown went.
type Report struct {
	// Unfinished are the actors that had not stopped when the time was up, the deepest first, and
	// those that were then killed while their handler still runs. What such a handler does has no
	// effect.
	Unfinished []Info
	// DeadLetters counts the messages that became dead letters during the shutdown, except those
	// with the reason [Conflated].
	DeadLetters uint64
	// Took is how long it lasted.
	Took time.Duration
}

// Shutdown stops all actors, children before parents and in the reverse order of their
// start. Each one first handles what is in its mailbox. When ctx ends before that is done,
// what is left is killed and its mail becomes dead letters. Shutdown then returns an error
// that wraps the cause of ctx, even if all have ended by then; the error and the report
// name those that did not stop.
//
// Connections to other systems are closed last: what the actors have sent is sent as long as ctx
// lasts, and unconfirmed messages become dead letters.
//
// It blocks. With the context of a handler of the system it fails at once with [ErrDeadlock], since
// the handler would wait for its own end. Several calls wait together: what is left is killed when the
// first of their contexts ends, and the others return no error for that.
func (s *System) Shutdown(ctx context.Context) (Report, error) {
	if c, _ := caller(ctx); c != nil && c.sys() == s {
		return Report{}, fmt.Errorf("shut down %s: %s would wait for its own end: %w", s.name, c.fullPath(), ErrDeadlock)
	}
	began, before := time.Now(), s.lostMessages()
	s.root.impl().drain()
	var err error
	if !s.await(ctx.Done()) {
		err = context.Cause(ctx)
		s.killAll()
	}
	var report Report
	if err != nil {
		report.Unfinished = s.unfinished()
		if len(report.Unfinished) == 0 {
			s.await(nil)
		}
	}
	closed := s.closeCarrier(ctx)
	for _, sched := range s.scheds {
		sched.close()
	}
	s.clock.close()
	running := len(report.Unfinished) == 0 && !s.workersLeft(ctx)
	if running { // maybe handlers whose actors another call has killed
		report.Unfinished, err = s.unfinished(), context.Cause(ctx)
	}
	report.DeadLetters = s.lostMessages() - before // what the workers have sent is booked
	report.Took = time.Since(began)
	if n := len(report.Unfinished); n > 0 {
		return report, fmt.Errorf("shut down %s: %d actors did not stop, first %s: %w", s.name, n, report.Unfinished[0].Path, err)
	}
	if running {
		return report, fmt.Errorf("shut down %s: work of a Pipe, or a handler, still runs: %w", s.name, err)
	}
	if err != nil {
		return report, fmt.Errorf("shut down %s: the time was up, and what was left was killed; %d messages became dead letters: %w", s.name, report.DeadLetters, err)
	}
	if closed != nil {
		return report, fmt.Errorf("shut down %s: connections to other systems: %w", s.name, closed)
	}
	return report, nil
}

// closeCarrier ends the connections to other systems.
func (s *System) closeCarrier(ctx context.Context) error {
	f := s.far.Load()
	if f == nil {
		return nil
	}
	return f.carrier.Close(ctx)
}

// await waits until the root has ended, or for done. It reports false for done.
func (s *System) await(done <-chan struct{}) (gone bool) { return s.sched.waitFor(s.gone, done) }

// workersLeft waits for the system's goroutines until ctx ends, and then for as long as
// those need that have nothing more to do.
func (s *System) workersLeft(ctx context.Context) bool {
	grace, cancel := withGrace(ctx, killGrace)
	defer cancel()
	for _, sched := range s.scheds {
		select {
		case <-sched.goroutines.gone():
		case <-grace.Done():
			return false
		}
	}
	return true
}

// withGrace returns a context that ends a while after ctx has ended.
func withGrace(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	later, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return later, func() { stop(); cancel() }
}

// killGrace is how long it may take, once the time is up, until one more actor that is not
// inside of a handler has ended.
const killGrace = 3 * fenceAfter

// killAll kills what is left and waits until only those remain that are inside of a
// handler, or whose children are.
func (s *System) killAll() {
	var kill func(c *core)
	kill = func(c *core) {
		for _, child := range c.childList() {
			kill(child)
		}
		c.stop(stopKill)
	}
	kill(s.root)
	// Neither dead letters of others nor actors that are still spawned are progress: they may come for ever.
	fewest, discarded := s.living.Load(), s.discarded.Load()
	for !s.awaitFor(killGrace) {
		living, more := s.living.Load(), s.discarded.Load()
		if living >= fewest && more == discarded {
			return
		}
		fewest, discarded = min(fewest, living), more
	}
}

// awaitFor waits until the root has ended, or for d. It reports false for d.
func (s *System) awaitFor(d time.Duration) (gone bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return s.await(ctx.Done())
}

// unfinished lists who is still there below the root, the deepest first, and who was killed
// in a handler that still runs.
func (s *System) unfinished() []Info {
	var list []Info
	var walk func(c *core)
	walk = func(c *core) {
		for _, child := range c.childList() {
			walk(child)
		}
		if info := c.info(); c.parent != nil && info.State != stopped.String() {
			list = append(list, info)
		}
	}
	walk(s.root)
	listed := make(map[string]bool, len(list))
	for i := range list {
		listed[list[i].PID] = true
	}
	for _, sched := range s.scheds {
		for _, info := range sched.leftBehind() {
			if !listed[info.PID] { // one that was taken away from its handler may still wait for its children
				list = append(list, info)
			}
		}
	}
	return list
}
