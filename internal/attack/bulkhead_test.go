package attack_test

import (
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// bulkhead is one of the system's, with how many handlers compute in it.
type bulkhead struct {
	name    string
	workers int64
	weight  int
	busy    atomic.Int64
}

func newBulkheads() []*bulkhead {
	return []*bulkhead{{name: "one", workers: 1, weight: 1}, {name: "two", workers: 2, weight: 3}}
}

// settle has n run in the bulkhead that is drawn, or in that of its parent.
func (n *node) settle(r *rand.Rand, add func(name string, o ...actor.SpawnOption)) {
	if n.parent != nil {
		n.bulkhead = n.parent.bulkhead
	}
	switch i := r.IntN(6); i {
	case 0, 1:
		n.bulkhead = n.w.bulkheads[i]
		add(n.bulkhead.name, actor.OnBulkhead(n.bulkhead.name))
	case 2:
		n.bulkhead = nil
		add("own", actor.OnBulkhead(""))
	}
}

// compute keeps a worker for a while, of which a bulkhead has so many. A turn in which a
// handler has waited in some ways may be one too many.
func (p *player) compute(d time.Duration) {
	n := p.n
	if b := n.bulkhead; b != nil && n.shared && !n.exceeds.Load() {
		if busy := b.busy.Add(1); busy > b.workers {
			n.w.Report("bulkhead: %d handlers compute in %s, which has %d workers", busy, b.name, b.workers)
		}
		defer b.busy.Add(-1)
	}
	for began := time.Now(); time.Since(began) < d; {
		runtime.Gosched()
	}
}

// source is whose letters come in order: a sender, and of those that a mailbox orders what is ordered alike.
type source struct {
	from     *node
	outsider int
	class    uint64
}

// inOrder checks the place of the letter among those of its source.
func (p *player) inOrder(l *letter) {
	n := p.n
	if l.seq == 0 || l.moved.Load() {
		return
	}
	from := source{l.from, l.outsider, 0}
	if n.classes > 0 {
		from.class = l.id % n.classes
	}
	if l.seq <= n.seen[from] {
		n.w.Report("order: %s has the number %d and comes after %d", l, l.seq, n.seen[from])
	}
	n.seen[from] = l.seq
}
