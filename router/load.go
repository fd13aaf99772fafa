package router

import (
	"math"
	"math/rand/v2"

	"github.com/greenroom-go/greenroom/actor"
)

// mostLooks bounds how many mailboxes are looked at for one message. A typical pool
// is smaller, and then the choice is exact; beyond that, the least of 16 chosen at
// random is hardly worse than the least of all.
const mostLooks = 16

// LeastLoaded is the [Strategy] that chooses the routee with the fewest messages to
// handle, the one being handled included ([actor.Ref.Backlog]). It looks at all routees
// if there are up to 16 of them, otherwise at 16 neighbors from a random one on. The
// search ends at the first idle routee, so it is short while there is little to do.
//
// The numbers are exact, and cost a look under each routee's lock (see BenchmarkTell).
// That pays off if messages take long, and if some take longer than others. Senders do
// not coordinate: two of them may find the same routee idle. A routee that is itself a
// router appears idle.
func LeastLoaded[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	look := loads[M]{sys.Rand(), routees}
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[look.least()])
	}
}

// gone is the load of a routee that has ended.
const gone = math.MaxInt

// loads looks at the mailboxes of routees.
type loads[M any] struct {
	random  *rand.Rand
	routees []actor.Ref[M]
}

// of returns how many messages a routee has to handle.
func (l loads[M]) of(i int) int {
	if load, ok := l.routees[i].Backlog(); ok {
		return load
	}
	return gone
}

// least returns the routee with the least load.
func (l loads[M]) least() int {
	start := l.random.IntN(len(l.routees))
	best, least := start, gone
	for k := range min(len(l.routees), mostLooks) {
		i := (start + k) % len(l.routees)
		if load := l.of(i); load < least {
			best, least = i, load
		}
		if least == 0 {
			break
		}
	}
	return best
}

// total returns how many messages all routees have to handle: counted up to 16 of them,
// extrapolated from 16 neighbors when there are more. A routee that has ended counts as an average
// one.
func (l loads[M]) total() float64 {
	start := l.random.IntN(len(l.routees))
	sum, looks := 0, 0
	for k := range min(len(l.routees), mostLooks) {
		if load := l.of((start + k) % len(l.routees)); load != gone {
			sum += load
			looks++
		}
	}
	if looks == 0 {
		return 0
	}
	return float64(sum) * float64(len(l.routees)) / float64(looks)
}
