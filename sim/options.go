package sim

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// Options say how a system is explored. The zero value is 100 runs of a random walk
// without faults.
type Options struct {
	// Runs is how many schedules are tried, 100 by default. The flag -sim.runs overrides it.
	Runs int
	// Seeds are the seeds of runs that come first, such as those that have failed once. If Runs is
	// less than 0, there are no others.
	Seeds []uint64
	// Steps bounds one run; a run that has not come to rest by then fails. It defaults to 100 000.
	Steps int
	// Seed is the seed from which the seeds of the runs are made; it defaults to the name of the
	// test. The flag -sim.explore draws another one each time.
	Seed uint64
	// Strategy chooses among what could happen next. It defaults to [RandomWalk].
	Strategy Strategy
	// Faults are what may go wrong; by default, nothing.
	Faults Faults
	// StepTime is how much virtual time a step takes at most; the seed determines how much, usually
	// little. By default, 0, steps take no time: the clock stands still while anything is left to
	// do, and two handlers that sleep before they act never meet. Set it to about as long as the
	// handlers sleep, or as the timeouts that should be missed.
	StepTime time.Duration
	// System are options of each system in the world.
	System []actor.SystemOption
	// TwiceEvery says that one run of so many is made twice, and that both must be the same: 100 by
	// default, less than 0 for never. The first run is always made twice.
	TwiceEvery int

	// bare leaves out what Panic needs around the handlers: the engine's own test runs the
	// actors as they are.
	bare bool
}

const (
	defaultRuns  = 100
	defaultSteps = 100_000
	defaultTwice = 100
)

var (
	flagSeed     = flag.String("sim.seed", "", "make the one run with this `seed`, as a failure has printed it")
	flagSchedule = flag.String("sim.schedule", "", "with -sim.seed: follow this shrunk `schedule`, as a failure has printed it")
	flagRuns     = flag.Int("sim.runs", 0, "make so many runs in each simulation, in place of its own `number`")
	flagExplore  = flag.Bool("sim.explore", false, "draw new seeds in place of those that are made of the test's name")
	flagTrace    = flag.String("sim.trace", "", "write the trace of a failure to this `file`, as text")
	flagDiagram  = flag.String("sim.diagram", "", "write the trace of a failure to this `file`, as a Mermaid sequence diagram")
)

// withDefaults fills in what was left out. name is that of the test.
func (o Options) withDefaults(name string) Options {
	if o.Runs == 0 {
		o.Runs = defaultRuns
	}
	if *flagRuns > 0 {
		o.Runs = *flagRuns
	}
	o.Runs = max(o.Runs, 0) + len(o.Seeds)
	if o.Steps <= 0 {
		o.Steps = defaultSteps
	}
	if o.TwiceEvery == 0 {
		o.TwiceEvery = defaultTwice
	}
	if o.Strategy == nil {
		o.Strategy = RandomWalk()
	}
	switch {
	case *flagExplore:
		o.Seed = rand.Uint64()
	case o.Seed == 0:
		h := fnv.New64a()
		h.Write([]byte(name))
		o.Seed = h.Sum64()
	}
	return o
}

// seed returns the seed of the n-th run.
func (o *Options) seed(n int) uint64 {
	if n < len(o.Seeds) {
		return o.Seeds[n]
	}
	return rand.NewPCG(o.Seed, uint64(n)).Uint64()
}

// The streams of random numbers of a run. They are separate so that another fault does not
// make another schedule.
const (
	streamSchedule = iota + 1
	streamFaults
	streamLinks
	streamUser
	streamSystem
	streamDisks
	streamTime
)

func stream(seed, which uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, which)) }

// Faults are what may go wrong, each with its probability at one step of a run. The zero value is
// nothing.
type Faults struct {
	// Panic makes a handler panic, before it has done anything or after it has finished.
	Panic float64
	// Stop and Kill end an actor, as if somebody from outside had.
	Stop float64
	Kill float64
	// Lag lets time pass until the next timer although there is something to do: actors are slow,
	// and whatever waits for them times out.
	Lag float64
	// Of says which actors Panic, Stop and Kill affect: all of them if it is nil.
	Of func(actor.PID) bool
	// Link is what happens on the links between nodes.
	Link LinkFaults
	// Disk is what happens on the disks of nodes.
	Disk DiskFaults
	// Swarm lets each run draw which of these faults it has, and how often, up to the values given
	// here. One run in ten has none.
	Swarm bool
}

// LinkFaults are what may go wrong on a [Link], with the probability for one frame.
type LinkFaults struct {
	Drop      float64
	Duplicate float64
	Delay     time.Duration // the longest, added to each frame; drawn evenly
}

// Swarm returns a mixture of panics, slow actors and bad links, from which each run draws its own.
// It ends no actors: set Stop and Kill if they have to survive that.
func Swarm() Faults {
	return Faults{Panic: 0.02, Lag: 0.05, Link: LinkFaults{Drop: 0.1, Duplicate: 0.1, Delay: time.Second}, Swarm: true}
}

// drawn returns the faults of one run.
func (f Faults) drawn(r *rand.Rand) Faults {
	if !f.Swarm {
		return f
	}
	calm := r.IntN(10) == 0
	for _, p := range []*float64{&f.Panic, &f.Stop, &f.Kill, &f.Lag, &f.Link.Drop, &f.Link.Duplicate} {
		share := r.Float64()
		if calm || r.IntN(2) == 0 {
			share = 0
		}
		*p *= share
	}
	if calm || r.IntN(2) == 0 {
		f.Link.Delay = 0
	}
	if f.Disk != (DiskFaults{}) {
		if calm || r.IntN(2) == 0 {
			f.Disk.Fail = 0
		}
		if calm || r.IntN(2) == 0 {
			f.Disk.Delay = 0
		}
	}
	return f
}

// has reports whether anything is drawn at each step.
func (f *Faults) has() bool { return f.Panic > 0 || f.Stop > 0 || f.Kill > 0 || f.Lag > 0 }

// parseSeed reads what a failure has printed.
func parseSeed(text string) (seed uint64, err error) {
	if seed, err = strconv.ParseUint(text, 0, 64); err != nil {
		return 0, fmt.Errorf("-sim.seed=%s: want what a failure has printed, 0x1f for example: %w", text, err)
	}
	return seed, nil
}
