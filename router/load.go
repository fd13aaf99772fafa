package router

import (
	"math"
	"math/rand/v2"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// mostLooks bounds how many mailboxes are looked at for one message. A typical pool
// is smaller, and then the choice is exact; beyond that, the least of 16 chosen at
// random is hardly worse than the least of all.
const mostLooks = 16

// LeastLoaded is the [Strategy] that takes the routee with the fewest messages in its
// mailbox, what it is handling included: of all routees up to 16 of them, of 16
// neighbors beginning at a random one when there are more. The search ends at the
// first empty mailbox, so that it is short while there is little to do.
//
// The length is that of the mailbox at that moment and not an estimate, and it costs
// a look at each: up to a microsecond (see BenchmarkTell), much more than the other
// strategies need. It pays where messages take long, and differently long. Senders do
// not wait for each other: two of them may find the same routee empty.
//
// Only the mailbox of an actor with a name can be looked at. A routee without one, as
// a group may have, is taken as often as [Random] would, whatever its load; a routee
// that is itself a router appears empty. The routees of a pool all have names.
func LeastLoaded[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	look := newLoads(sys, routees)
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[look.least()])
	}
}

// gone is the load of a routee that has ended.
const gone = math.MaxInt

// loads looks at the mailboxes of routees.
type loads struct {
	sys   *actor.System
	paths []string // "" for a routee that has no name
}

func newLoads[M any](sys *actor.System, routees []actor.Ref[M]) *loads {
	l := &loads{sys: sys, paths: make([]string, len(routees))}
	for i, r := range routees {
		path := r.PID().Path()
		if !strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], "$") {
			l.paths[i] = path
		}
	}
	return l
}

// of returns how many messages wait for a routee, and whether that can be known.
func (l *loads) of(i int) (load int, known bool) {
	if l.paths[i] == "" {
		return 0, false
	}
	tree, err := l.sys.Inspect(l.paths[i], 0)
	if err != nil {
		return gone, true
	}
	return tree.Mailbox, true
}

// least returns the routee with the least load.
func (l *loads) least() int {
	n := len(l.paths)
	start := rand.IntN(n)
	best, least := start, gone
	for k := range min(n, mostLooks) {
		i := (start + k) % n
		load, known := l.of(i)
		switch {
		case !known && k == 0, load == 0 && known:
			return i
		case known && load < least:
			best, least = i, load
		}
	}
	return best
}

// total returns how many messages wait for all routees: counted up to 16 of them,
// extrapolated from 16 neighbors when there are more. Whose load is not known and
// who has ended counts as an average one.
func (l *loads) total() float64 {
	n := len(l.paths)
	start := rand.IntN(n)
	sum, looks := 0, 0
	for k := range min(n, mostLooks) {
		if load, known := l.of((start + k) % n); known && load != gone {
			sum += load
			looks++
		}
	}
	if looks == 0 {
		return 0
	}
	return float64(sum) * float64(n) / float64(looks)
}
