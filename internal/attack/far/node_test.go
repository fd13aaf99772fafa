package far_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote"
)

const (
	near = "near"
	far  = "far"

	workers      = 12
	incarnations = 6 // of the node that is far, at most
	resumeWithin = 100 * time.Millisecond
)

// node is an incarnation of a node.
type node struct {
	sys     *actor.System
	node    *remote.Node
	workers []*worker     // of one that is far
	heard   atomic.Uint64 // events of dead letters
}

// unheard returns how many dead letters have no event, or not yet: nobody hears those at the end of a shutdown.
func (n *node) unheard() uint64 { return n.sys.Stats().DeadLetters - n.heard.Load() }

func (w *world) startNode(name, peer string, hear func(*actor.Context[actor.Event], actor.Event) error) *node {
	sys := actor.NewSystem(name, actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithAskTimeout(10*time.Minute))
	l, err := w.network.listen(name)
	if err != nil {
		panic(err)
	}
	n, err := remote.Listen(sys, remote.Config{
		Listener: l, Dial: w.network.dial, Peers: map[string]string{peer: peer}, Types: types(), ResumeWithin: resumeWithin,
	})
	if err != nil {
		panic(err)
	}
	actor.Subscribe(sys, actor.SpawnFunc(sys, "listener", hear))
	return &node{sys: sys, node: n}
}

// startFar starts an incarnation of the node that is far.
func (w *world) startFar() {
	var n *node
	hear := func(_ *actor.Context[actor.Event], e actor.Event) error { w.hearFar(n, e); return nil }
	n = w.startNode(far, near, hear)
	for i := range workers {
		k := &worker{w: w, node: n, seen: make(map[int]int), watches: make(map[actor.PID][]*notice), guests: make(map[int]actor.PID)}
		k.ref = actor.Spawn(n.sys, fmt.Sprint("worker", i), func() *worker { return k }, actor.Temporary)
		n.workers = append(n.workers, k)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fars = append(w.fars, n)
}

// pick returns a worker, rather one that lives.
func (n *node) pick(r *rand.Rand) *worker {
	k := n.workers[r.IntN(workers)]
	for range 3 {
		if k.lives() {
			break
		}
		k = n.workers[r.IntN(workers)]
	}
	return k
}

// farNodes returns the incarnations of the node that is far, the last of which runs.
func (w *world) farNodes() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fars
}

// renew starts the node that is far again. The former incarnation has a moment to end.
func (w *world) renew(r *rand.Rand) {
	all := w.farNodes()
	if len(all) == incarnations {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+r.IntN(100))*time.Millisecond)
	defer cancel()
	_, _ = all[len(all)-1].sys.Shutdown(ctx)
	w.startFar()
}

// trouble does something to the network or to a node now and then, until quit is closed.
func (w *world) trouble(r *rand.Rand, quit chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(r.IntN(10_000)) * time.Microsecond):
		}
		all := w.farNodes()
		switch n := r.IntN(40); {
		case n < 30:
			w.network.cut(r)
		case n < 36:
			w.away(time.Duration(r.IntN(20)) * time.Millisecond)
		case n < 37:
			w.away(2 * resumeWithin)
			w.renew(r)
		case n < 38:
			w.near.node.Disconnect(far)
			w.renew(r)
		case n < 39:
			all[len(all)-1].node.Disconnect(near)
			w.renew(r)
		default:
			w.renew(r)
		}
	}
}

// away has no network for a while.
func (w *world) away(d time.Duration) {
	w.network.setDown(true)
	<-time.After(d)
	w.network.setDown(false)
}
