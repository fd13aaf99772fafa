package sim

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
)

// Strategy chooses, at each step, which of the things that are ready happens next.
type Strategy interface {
	// String returns its name, as a failure prints it.
	String() string
	// Start returns the Picker of one run. It must draw all random numbers from r, so that the
	// run's seed replays it; steps is the bound of the run.
	Start(r *rand.Rand, steps int) Picker
}

// Picker chooses in one run.
type Picker interface {
	// Pick returns the index of what happens next. ready is not empty, in the order in
	// which things became ready, and must not be kept.
	Pick(ready []Choice) int
}

// Choice is something that could happen next.
type Choice struct {
	step  actor.Step
	node  *Node
	kind  choiceKind
	frame *frame
	event *event
	key   uint64
}

type choiceKind uint8

const (
	chooseStep choiceKind = iota
	chooseFrame
	chooseEvent
)

// Key says whose step it is: the same for all steps of one actor, of one link, and of the
// script.
func (c *Choice) Key() uint64 { return c.key }

// strategy is a Strategy that is a name and a function.
type strategy struct {
	name  string
	start func(r *rand.Rand, steps int) Picker
}

func (s strategy) String() string                       { return s.name }
func (s strategy) Start(r *rand.Rand, steps int) Picker { return s.start(r, steps) }

type picker func(ready []Choice) int

func (p picker) Pick(ready []Choice) int { return p(ready) }

// RandomWalk chooses uniformly at random.
func RandomWalk() Strategy {
	return strategy{"random", func(r *rand.Rand, _ int) Picker {
		return picker(func(ready []Choice) int { return r.IntN(len(ready)) })
	}}
}

// RoundRobin gives everything that is ready one step in turn. It does not depend on the
// seed.
func RoundRobin() Strategy {
	return strategy{"roundrobin", func(*rand.Rand, int) Picker {
		last := uint64(0)
		return picker(func(ready []Choice) int {
			next, first := -1, 0
			for i := range ready {
				k := ready[i].key
				if k > last && (next < 0 || k < ready[next].key) {
					next = i
				}
				if k < ready[first].key {
					first = i
				}
			}
			if next < 0 {
				next = first
			}
			last = ready[next].key
			return next
		})
	}}
}

// PCT is the strategy of "A Randomized Scheduler with Probabilistic Guarantees of
// Finding Bugs" (Burckhardt and others, ASPLOS 2010): each actor has a priority, the
// highest goes first, and at depth-1 points of the run the running actor drops to the
// lowest priority. It finds a bug that needs depth orderings with a known probability,
// and finds bugs that need one actor to be slow for a long time, which a random walk
// rarely does. The length of the run, from which the points are drawn, is itself drawn.
func PCT(depth int) Strategy {
	depth = max(depth, 1)
	return strategy{fmt.Sprintf("pct%d", depth), func(r *rand.Rand, steps int) Picker {
		length := 1 << (4 + r.IntN(max(1, bits.Len(uint(min(steps, 1<<14)))-4)))
		p := &pct{r: r, rank: make(map[uint64]uint64), low: uint64(depth)}
		for range depth - 1 {
			p.points = append(p.points, r.IntN(length))
		}
		return p
	}}
}

type pct struct {
	r      *rand.Rand
	rank   map[uint64]uint64
	low    uint64 // the next rank below all others
	points []int  // the steps at which somebody falls back
	step   int
}

// Pick implements Picker.
func (p *pct) Pick(ready []Choice) int {
	best, high := 0, uint64(0)
	for i := range ready {
		k := ready[i].key
		rank, ok := p.rank[k]
		if !ok {
			rank = p.r.Uint64()>>1 | 1<<62
			p.rank[k] = rank
		}
		if rank > high {
			best, high = i, rank
		}
	}
	for _, at := range p.points {
		if at == p.step {
			p.low--
			p.rank[ready[best].key] = p.low + 1
		}
	}
	p.step++
	return best
}

// Portfolio lets each run draw one of several strategies. Without arguments these are a
// random walk (twice), PCT of depth 2, 3 and 5, and round robin.
func Portfolio(of ...Strategy) Strategy {
	if len(of) == 0 {
		of = []Strategy{RandomWalk(), RandomWalk(), PCT(2), PCT(3), PCT(5), RoundRobin()}
	}
	return portfolio(of)
}

type portfolio []Strategy

// String implements Strategy.
func (p portfolio) String() string {
	names := make([]string, len(p))
	for i, s := range p {
		names[i] = s.String()
	}
	return "portfolio(" + strings.Join(names, ",") + ")"
}

// Start implements Strategy.
func (p portfolio) Start(r *rand.Rand, steps int) Picker {
	one := p[r.IntN(len(p))]
	return named{one.Start(r, steps), one.String()}
}

// named is a picker that knows what the run has drawn.
type named struct {
	Picker
	name string
}

// Replay follows a schedule that a failure has printed. Where the schedule says nothing,
// steps run in the order in which they became ready. Faults in it are ignored; the flag
// -sim.schedule replays them.
func Replay(schedule string) (Strategy, error) {
	s, err := parseSchedule(schedule)
	if err != nil {
		return nil, err
	}
	return strategy{"replay", func(*rand.Rand, int) Picker { return s.picker() }}, nil
}
