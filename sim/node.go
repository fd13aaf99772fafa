package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Node is a place where a system runs: in the real world, a process.
type Node struct {
	w       *World
	number  int
	name    string
	sys     *actor.System
	driven  *actor.Driven
	crashed bool
}

// System returns the system of the node "sim", which exists from the first call on.
func (w *World) System() *actor.System { return w.Node("sim").System() }

// Node returns the node with that name. If there is none, or if it has crashed, Node
// creates it, with a new system of that name; opts are options of that system in
// addition to those of [Options].
func (w *World) Node(name string, opts ...actor.SystemOption) *Node {
	for _, n := range w.nodes {
		if n.name == name && !n.crashed {
			return n
		}
	}
	if len(w.nodes) > 0xff {
		w.fail("test", "a world has room for 256 nodes, those that have crashed included")
	}
	n := &Node{w: w, number: len(w.nodes), name: name}
	all := slices.Concat([]actor.SystemOption{actor.WithLogger(w.logger())}, w.opts.System, opts)
	if !w.opts.bare {
		all = append(all, actor.AroundReceive(w.panicAround))
	}
	n.sys = actor.NewSystem(name, append(all, actor.DrivenBy(driver{n}))...)
	return n
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// System returns the node's system.
func (n *Node) System() *actor.System { return n.sys }

// Crash ends the node as if its process were killed: nothing in it runs any more, no Terminate and
// no deferred function, frames to or from it on links are lost, and its [Disk] has what was synced.
// Calling [World.Node] with the same name starts it again, with an empty system.
func (n *Node) Crash() {
	if n.crashed {
		return
	}
	n.crashed = true
	w := n.w
	w.note("crash", n.name)
	for _, l := range w.links {
		if l.from == n || l.to == n {
			l.lose()
		}
	}
	for _, d := range w.disks {
		if d.node == n.name {
			d.crash()
		}
	}
	w.freeze(0)
}

// driver is the node as its system sees it.
type driver struct{ *Node }

// Attach implements actor.Driver.
func (n driver) Attach(d *actor.Driven) {
	n.driven = d
	n.w.nodes = append(n.w.nodes, n.Node)
}

// Ready implements actor.Driver.
func (n driver) Ready(s actor.Step) {
	n.w.guard.ready(n.w)
	n.w.arrive(choiceOf(n.Node, s))
}

// Until implements actor.Driver.
func (n driver) Until(done func() bool, also <-chan struct{}) { n.w.until(done, also) }

// Settle implements actor.Driver.
func (n driver) Settle() { synctest.Wait() }

// Uint64 implements actor.Driver.
func (n driver) Uint64() uint64 { return n.w.systemRand.Uint64() }

// choiceOf makes a choice of an actor's step. The key begins with the actor's number, so
// that an order by key is the order in which the actors were spawned.
func choiceOf(n *Node, s actor.Step) Choice {
	return Choice{step: s, node: n, key: s.Actor()<<8 | uint64(n.number)}
}

// logger writes the log of the systems into the trace.
func (w *World) logger() *slog.Logger {
	if !w.trace.detailed {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(logHandler{w: w})
}

type logHandler struct {
	w     *World
	attrs []slog.Attr
}

// Enabled implements slog.Handler.
func (h logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (h logHandler) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	add := func(a slog.Attr) bool {
		if a.Key != "stack" {
			text += " " + a.String()
		}
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	h.w.Logf("%s", text)
	return nil
}

// WithAttrs implements slog.Handler.
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.w, append(slices.Clip(h.attrs), attrs...)}
}

// WithGroup implements slog.Handler.
func (h logHandler) WithGroup(string) slog.Handler { return h }

// patience is how much virtual time actors have to stop in at the end of a run.
const patience = time.Minute

var errPatience = errors.New("not stopped within " + patience.String() + " of virtual time")

// finish ends the run: what can happen now happens, then all systems shut down, and
// nothing may be left.
func (w *World) finish() {
	w.Settle()
	w.faults = Faults{}
	if w.follow != nil {
		w.struck = nil
	}
	for _, n := range w.nodes {
		if n.crashed {
			continue
		}
		ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errPatience)
		_, err := n.sys.Shutdown(ctx)
		cancel()
		if err != nil {
			w.fail("shutdown", fmt.Sprintf("the system %s did not shut down: %v", n.name, err))
		}
		st := n.sys.Stats()
		if st.Actors != 0 || st.Timers != 0 || n.driven.Waiting() != 0 {
			w.fail("left", fmt.Sprintf("after the shutdown of %s %d actors, %d timers and %d waiting handlers are left",
				n.name, st.Actors, st.Timers, n.driven.Waiting()))
		}
	}
}

// teardown ends what is left of a run, whatever state it is in. It reports false when
// something could not be ended.
func (w *World) teardown() (clean bool) {
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(aborted); !ok {
				panic(v)
			}
		}
	}()
	w.over, w.faults, w.current, w.observing = true, Faults{}, nil, false
	w.mu.Lock()
	w.guard.strict = false
	w.mu.Unlock()
	w.picker = picker(func([]Choice) int { return 0 })
	w.follow, w.monitors, w.events = nil, nil, nil
	w.limit = w.steps + w.opts.Steps + defaultSteps
	w.end()
	for _, n := range w.nodes {
		n.crashed = false
	}
	w.ready, w.frozen = append(w.ready, w.frozen...), nil
	now, cancel := context.WithCancel(context.Background())
	cancel()
	for _, n := range w.nodes {
		if _, err := n.sys.Shutdown(now); n.sys.Stats().Actors > 0 {
			_ = err // what is left is what counts
			return false
		}
		n.driven.Close()
	}
	w.settle()
	for w.move(nil) { // the work of Pipes
	}
	for _, n := range w.nodes {
		n.driven.Close()
	}
	return true
}
