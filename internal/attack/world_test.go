package attack_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// mode says what the programs of a round consist of.
type mode struct {
	name string

	strict   bool // no wait needs its timeout
	asks     int  // weights
	inline   int
	bounded  int
	children int
	faults   int // failures and restarts
	ends     int // stops, drains and kills
	late     int // stashes, promises and timers
	clings   int // handlers that do not return for a while
	outcomes int // what comes later: futures, pipes
	bonding  int // links, watches, Become, gates
	timers   int
	computes int
	groups   bool
}

var modes = []mode{
	{name: "waits", strict: true, asks: 10, inline: 1, children: 2, ends: 1},
	{name: "inline", strict: true, asks: 4, inline: 10, children: 3, ends: 1},
	{name: "room", strict: true, asks: 5, inline: 1, bounded: 12, children: 1, ends: 1},
	{name: "bounded", asks: 4, inline: 1, bounded: 10, children: 1, faults: 1, ends: 1, late: 2},
	{name: "tells", asks: 1, inline: 1, bounded: 2, children: 1, faults: 2, ends: 2, late: 4},
	{name: "supervise", asks: 3, inline: 1, children: 6, faults: 6, ends: 3, late: 1, groups: true},
	{name: "clings", strict: true, asks: 4, inline: 1, bounded: 2, children: 4, ends: 2, clings: 4},
	{name: "outcomes", strict: true, asks: 4, inline: 1, bounded: 2, children: 2, ends: 3, late: 2, outcomes: 9},
	{name: "bonds", asks: 4, bounded: 1, children: 3, faults: 2, ends: 4, bonding: 8},
	{name: "timers", asks: 3, inline: 1, bounded: 1, children: 2, faults: 2, ends: 3, timers: 9},
	{name: "pools", asks: 3, bounded: 8, children: 1, ends: 1, computes: 10},
	{name: "late", asks: 4, inline: 1, bounded: 2, children: 2, ends: 3, late: 3, clings: 3},
	{name: "pending", asks: 4, inline: 1, bounded: 2, children: 2, faults: 2, ends: 3, late: 3, outcomes: 4, timers: 3},
	{name: "groups", asks: 4, inline: 1, bounded: 2, children: 3, faults: 2, ends: 3, late: 2, bonding: 4, timers: 3, groups: true},
	{name: "mixture", asks: 4, inline: 2, bounded: 4, children: 2, faults: 1, ends: 2, late: 2, outcomes: 4, computes: 4, bonding: 3},
	{name: "everything", asks: 4, inline: 2, bounded: 3, children: 3, faults: 2, ends: 2, late: 3, groups: true},
}

// world is a round.
type world struct {
	attacktest.Problems

	mode
	acyclic   bool // nobody waits for an actor before it in order
	sys       *actor.System
	bulkheads []*bulkhead
	control   *control
	total     *tally
	seed      uint64

	moment   atomic.Int64                 // orders the beginnings and ends of edges
	outside  edges                        // of outsiders
	toldBy   [1 + outsiders]map[*node]int // what they have sent last, by receiver
	budget   atomic.Int64                 // letters that may still be sent
	nodes    atomic.Pointer[[]*node]
	born     atomic.Int64
	notes    atomic.Uint64 // handlers that have run for what actors order for themselves
	orders   atomic.Uint64 // that were given; of those that came to nothing some are counted as handled
	heard    atomic.Uint64 // events of the system's own listeners
	killing  atomic.Bool   // a shutdown may kill
	haunted  atomic.Bool   // a handler was left behind by a shutdown that had all the time
	last     atomic.Bool   // the letters before a shutdown are on their way
	restless atomic.Bool   // actors may do something without a letter
	pending  atomic.Int64  // goroutines that will send something
	futures  [4]atomic.Pointer[future]
	counts   struct{ deadlocks, tooMany, timeouts, asks, stops, downs, behind atomic.Uint64 }

	mu       sync.Mutex
	sent     []*letter
	watches  []*watching
	clingers []*clinging
	kept     []*future
	pipes    []*pipe
	bonds    map[pair]*bond
	links    []link
	exits    map[actor.PID][]string // failures by a link
	stops    map[actor.PID][]actor.ActorStopped
}

func (w *world) all() []*node { return *w.nodes.Load() }

func (w *world) letters() []*letter {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sent
}

// outsiders are goroutines that send from outside of any actor.
const outsiders = 3

func playRound(m mode, seed uint64, c *control, total *tally) []string {
	before := runtime.NumGoroutine()
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{mode: m, acyclic: r.IntN(2) == 0, control: c, total: total, seed: seed, stops: make(map[actor.PID][]actor.ActorStopped), bonds: make(map[pair]*bond), exits: make(map[actor.PID][]string), bulkheads: newBulkheads()}
	w.restless.Store(m.late > 0 || m.faults > 0 || m.timers > 0)
	w.nodes.Store(new([]*node))
	for i := range w.toldBy {
		w.toldBy[i] = make(map[*node]int)
	}
	silent := actor.WithLogger(slog.New(slog.DiscardHandler))
	opts := []actor.SystemOption{silent, actor.WithAskTimeout(10 * time.Minute)}
	for _, b := range w.bulkheads {
		opts = append(opts, actor.WithBulkhead(b.name, int(b.workers), b.weight))
	}
	if r.IntN(4) == 0 {
		opts = append(opts, actor.WithMaxWaiting(1+r.IntN(8)))
	}
	if m.groups {
		opts = append(opts, actor.Supervise(actor.Strategy(r.IntN(3)), actor.MaxRestarts(1000, time.Second)))
	} else {
		opts = append(opts, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1000, time.Second)))
	}
	opts = append(opts, between(r)...)
	w.sys = actor.NewSystem("attack", opts...)
	endLooks := w.lookOn()
	defer endLooks()
	ears := actor.NewSystem("ears", silent) // which ends after all that a handler left behind, or a pipe, sends by itself
	actor.Subscribe(w.sys, actor.SpawnFunc(ears, "listener", w.listen))
	actor.Subscribe(w.sys, actor.SpawnFunc(w.sys, "ends", w.hearEnd))
	actor.Subscribe(w.sys, actor.SpawnFunc(w.sys, "failures", w.hearFailure))
	for n := 2 + r.IntN(10); len(w.all()) < n; {
		w.spawn(w.sys, nil, r)
	}
	w.budget.Store(int64(200 + r.IntN(2000)))

	var senders sync.WaitGroup
	over := make(chan struct{})
	for i := range outsiders {
		senders.Go(func() { w.send(i, rand.New(rand.NewPCG(seed, uint64(i)+2))) })
	}
	go func() { senders.Wait(); close(over) }()
	early := r.IntN(4) == 0 // the end comes while outsiders send
	if !early {
		if !w.await("outsiders", endOfRound, func() bool { return attacktest.IsClosed(over) }) {
			return w.abort()
		}
		if !w.await("mailboxes to become empty", endOfRound, w.settled) {
			return w.abort()
		}
		if !w.ping() {
			return w.abort()
		}
		if w.checkNotices() {
			w.checkLinks()
		}
	}
	if !w.shutDown(&closing{quiet: !early}, r.IntN(3) == 0, r) {
		return w.abort()
	}
	if !w.await("outsiders", endOfRound, func() bool { return attacktest.IsClosed(over) }) {
		return w.abort()
	}
	endLooks()
	if _, err := ears.Shutdown(context.Background()); err != nil {
		w.Report("the listener: %v", err)
	}
	if !w.await("goroutines to end", endOfRound, func() bool { return runtime.NumGoroutine() <= before }) {
		return w.abort()
	}
	w.judgeOutcomes()
	clean := !w.killing.Load() && !early && !w.haunted.Load()
	if w.balance(clean); clean {
		w.judgeEnds()
		w.judgeLinks()
	}
	total.deadlocks += w.counts.deadlocks.Load()
	total.tooMany += w.counts.tooMany.Load()
	total.timeouts += w.counts.timeouts.Load()
	total.asks += w.counts.asks.Load()
	total.stops += w.counts.stops.Load()
	total.downs += w.counts.downs.Load()
	total.behind += w.counts.behind.Load()
	return w.Found()
}

// abort ends a round in which something has stalled.
func (w *world) abort() []string {
	found := append(w.Found(), w.evidence()...)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	go func() { _, _ = w.sys.Shutdown(ctx) }()
	return found
}

// await waits for the end of a phase, and looks for stalls meanwhile.
func (w *world) await(what string, ticks int64, done func() bool) bool {
	n := 0
	ok := w.control.until(ticks, func() bool {
		if done() {
			return true
		}
		if n++; n%20 == 0 {
			for _, s := range w.stalled() {
				w.Report("%s", s)
			}
		}
		return len(w.Found()) > 0
	})
	if !ok {
		w.Report("stall: %d ticks have passed waiting for %s", ticks, what)
	}
	return len(w.Found()) == 0
}

// settled reports whether there is nothing left to do.
func (w *world) settled() bool {
	before := w.sys.Stats()
	if before.Queued > 0 || before.Waiting > 0 || w.pending.Load() > 0 {
		return false
	}
	for info := range w.sys.Actors() {
		if info.Mailbox > 0 || info.Activity != "idle" || info.State != "running" && info.State != "passive" {
			return false
		}
	}
	return w.sys.Stats().Handled == before.Handled
}

// ping asks each living actor whether it still answers.
func (w *world) ping() bool {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, n := range w.all() {
			l := w.newLetter(nil, n, nil)
			l.ping = true
			_, _ = w.ask(context.Background(), nil, n, l, false)
		}
	}()
	return w.await("pings", endOfRound, func() bool { return attacktest.IsClosed(over) })
}

// shutDown shuts down, in a hurry or with all the time that it needs.
func (w *world) shutDown(c *closing, hasty bool, r *rand.Rand) bool {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	soon := time.Duration(r.IntN(3)) * time.Millisecond
	w.mu.Lock()
	for _, k := range w.clingers {
		k.killed = k.n.mayBeKilled()
	}
	w.mu.Unlock()
	if c.quiet && r.IntN(2) == 0 {
		w.sendLast(r)
	}
	w.killing.Store(hasty) // not before: who clings until its actor is killed would keep the last letters waiting
	c.began, c.ticks, c.clock, c.before = w.moment.Add(1), w.control.ticks.Load(), time.Now(), lost(w.sys.Stats())
	if hasty {
		ctx, cancel = context.WithTimeout(ctx, soon)
		defer cancel()
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		c.report, c.err = w.sys.Shutdown(ctx)
		w.judge(c)
	}()
	return w.await("shutdown", endOfRound, func() bool { return attacktest.IsClosed(over) })
}

// listen is told of all dead letters.
func (w *world) listen(_ *actor.Context[actor.DeadLetter], d actor.DeadLetter) error {
	m, ok := d.Message.(mail)
	if !ok {
		w.Report("dead letter %+v", d)
		return nil
	}
	m.l.dead.Add(1)
	m.l.reason.Store(d.Reason)
	return nil
}

// send is what an outsider does.
func (w *world) send(i int, r *rand.Rand) {
	for w.budget.Load() > 0 {
		if r.IntN(50) == 0 {
			w.spawn(w.sys, nil, r)
		}
		if w.outcomes > 0 && r.IntN(4) == 0 {
			w.askOutside(i, r)
		}
		n := w.pick(nil, r)
		l := w.newLetter(nil, n, r)
		l.outsider = i + 1
		l.sent()
		switch r.IntN(8) {
		case 0, 1:
			ctx, cancel := context.Background(), context.CancelFunc(func() {})
			limited := l.late || r.IntN(4) == 0
			if limited {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
			}
			_, _ = w.ask(ctx, nil, n, l, limited)
			cancel()
		case 2:
			ctx, cancel := context.WithCancel(context.Background())
			if !w.strict || r.IntN(2) == 0 {
				ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Microsecond)
			}
			w.tryTell(ctx, nil, n, l)
			cancel()
		case 3:
			w.disturb(n, r)
			fallthrough
		default:
			n.ref.Tell(context.Background(), mail{l: l})
		}
		if r.IntN(4) == 0 {
			runtime.Gosched()
		}
	}
}

// disturb ends or restarts an actor.
func (w *world) disturb(n *node, r *rand.Rand) {
	if r.IntN(20) >= w.ends+w.faults {
		return
	}
	w.counts.stops.Add(1)
	switch r.IntN(8) {
	case 0:
		n.kill()
	case 1, 2:
		n.ref.Stop()
		n.told()
	case 3:
		n.ref.Drain()
		n.told()
	default:
		if w.faults > 0 || w.strict && n.parent == nil && n.barren {
			_ = w.sys.Restart(n.ref.PID())
		}
	}
}

// deadlock judges an ErrDeadlock.
func (w *world) deadlock(e *edge, err error) {
	w.counts.deadlocks.Add(1)
	if w.acyclic && w.faults == 0 {
		w.Report("deadlock: %s is told of one where nobody can wait for it: %s %s: %v", e.from, e.kind, e.l, err)
		return
	}
	if !w.mayBeCycle(e) {
		w.Report("deadlock: %s is told of one, and no waits lead back to it: %s %s: %v", e.from, e.kind, e.l, err)
	}
}

func (n *node) String() string {
	if n == nil {
		return "nobody"
	}
	return fmt.Sprintf("%d%s", n.index, n.nature)
}
