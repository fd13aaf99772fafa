package far_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// world is a round.
type world struct {
	attacktest.Problems

	network *network
	near    *node
	book    book
	waits   atomic.Int64    // for the end of workers, which last
	lasting context.Context // until the players are told to end
	endLast context.CancelFunc
	counts  struct {
		answers, unreachable, downs, partings, exits, losses, dropped, unknown atomic.Uint64
	}

	mu      sync.Mutex
	fars    []*node
	players []*player
	notices []*notice
}

// playRound plays a round, and returns what is wrong.
func playRound(seed uint64, total *tally) []string {
	before := runtime.NumGoroutine()
	r := rand.New(rand.NewPCG(seed, 1))
	w := &world{network: newNetwork()}
	w.lasting, w.endLast = context.WithCancel(context.Background())
	defer w.endLast()
	w.near = w.startNode(near, far, w.hearNear)
	w.startFar()
	w.play(seed, r)
	w.finish(int(seed % 3))
	over := w.settle() && w.shutDown() &&
		w.Await("goroutines to end", func() bool { return runtime.NumGoroutine() <= before })
	if !over {
		return append(w.Found(), w.evidence()...)
	}
	w.judge()
	total.add(w)
	return w.Found()
}

// play lets players play, one after another, while there is trouble.
func (w *world) play(seed uint64, r *rand.Rand) {
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		w.trouble(rand.New(rand.NewPCG(seed, 2)), quit)
	}()
	for i := range 40 + r.IntN(80) {
		all := w.farNodes()
		n := all[len(all)-1]
		if len(all) > 1 && r.IntN(8) == 0 { // its node has ended
			n = all[len(all)-2]
		}
		p := &player{w: w, number: i, to: n.pick(r), left: 1 + r.IntN(12), r: rand.New(rand.NewPCG(seed, uint64(i)+3))}
		p.ref = actor.Spawn(w.near.sys, fmt.Sprint("player", i), func() *player { return p }, actor.Temporary)
		w.mu.Lock()
		w.players = append(w.players, p)
		w.mu.Unlock()
		p.ref.Tell(context.Background(), move{})
		<-time.After(time.Duration(r.IntN(4000)) * time.Microsecond)
	}
	close(quit)
	<-over
}

// finish ends what the actors have to do with those of the other node: the workers end, the players end, or the nodes
// lose each other.
func (w *world) finish(how int) {
	switch how {
	case 0:
		for _, n := range w.farNodes() {
			for _, k := range n.workers {
				k.ref.Stop()
			}
		}
	case 1:
		w.endLast()
		for _, p := range w.players {
			p.ref.Stop()
		}
	default:
		w.part()
	}
}

// part makes the nodes lose each other.
func (w *world) part() {
	w.near.node.Disconnect(far)
	for _, n := range w.farNodes() {
		n.node.Disconnect(near)
	}
	w.network.setDown(true)
}

// settle waits until all that has to do with the other node has come to an end.
func (w *world) settle() bool {
	settled := w.Await("players to have moved", func() bool { return !slices.ContainsFunc(w.players, (*player).moves) }) &&
		w.Await("letters, waits and Downs", func() bool { return len(w.missing()) == 0 }) &&
		w.Await("watches and links to end", func() bool { return len(w.bonds()) == 0 }) &&
		w.Await("the events of all losses", w.areLossesTold)
	if settled {
		w.judgeLinks()
	}
	return settled
}

// nodes returns all incarnations, that of the node that is near last.
func (w *world) nodes() []*node { return slices.Concat(w.farNodes(), []*node{w.near}) }

// shutDown shuts all nodes down.
func (w *world) shutDown() bool {
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, n := range w.nodes() {
			if report, err := n.sys.Shutdown(context.Background()); err != nil || len(report.Unfinished) > 0 {
				w.Report("shutdown: %s: %v: %+v", n.sys.Name(), err, report.Unfinished)
			}
		}
	}()
	return w.Await("shutdown", func() bool { return attacktest.IsClosed(over) })
}
