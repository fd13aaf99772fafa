package workload

import (
	"fmt"
	"slices"
	"time"
)

// Size says how much a workload does. Which fields count depends on the
// workload; see [All].
type Size struct {
	Ops    int           // how many operations are measured; a tenth of them warms up
	Actors int           // how many actors take part
	Window time.Duration // how long a workload lasts that is bounded by time
}

// Workload is what is measured: its name, what it does, and its two sizes.
type Workload struct {
	Name  string
	About string // one sentence for the table
	Unit  string // what one operation is; none where time is the bound
	Full  Size
	Quick Size // for a smoke test: its figures say nothing
}

// All returns the workloads in the order in which they are run and shown. The
// slice is the caller's.
func All() []Workload { return slices.Concat(throughput(), between(), delays()) }

// throughput are the workloads whose operations are counted.
func throughput() []Workload {
	return []Workload{
		{
			Name: "flood", Unit: "message", Full: Size{Ops: 2_000_000}, Quick: Size{Ops: 2_000},
			About: "a goroutine outside tells one actor that counts",
		},
		{
			Name: "floodinside", Unit: "message", Full: Size{Ops: 2_000_000}, Quick: Size{Ops: 2_000},
			About: "an actor tells another that counts, 128 messages a turn",
		},
		{
			Name: "pingpong", Unit: "round trip", Full: Size{Ops: 500_000}, Quick: Size{Ops: 1_000},
			About: "two actors tell each other in turn",
		},
		{
			Name: "fanin", Unit: "message", Full: Size{Ops: 2_000_000, Actors: 8}, Quick: Size{Ops: 4_000, Actors: 8},
			About: "8 goroutines outside tell one actor that counts",
		},
		{
			Name: "ring100", Unit: "hop", Full: Size{Ops: 1_000_000, Actors: 100}, Quick: Size{Ops: 2_000, Actors: 10},
			About: "a token goes around 100 actors",
		},
		{
			Name: "ring100k", Unit: "hop", Full: Size{Ops: 1_000_000, Actors: 100_000}, Quick: Size{Ops: 2_000, Actors: 100},
			About: "a token goes around 100 000 actors",
		},
		{
			Name: "ask", Unit: "answer", Full: Size{Ops: 200_000, Actors: 1}, Quick: Size{Ops: 500, Actors: 1},
			About: "a goroutine outside asks an actor, one request after the other",
		},
		{
			Name: "ask64", Unit: "answer", Full: Size{Ops: 256_000, Actors: 64}, Quick: Size{Ops: 640, Actors: 64},
			About: "64 goroutines outside ask one actor at once",
		},
		{
			Name: "askinside", Unit: "answer", Full: Size{Ops: 200_000}, Quick: Size{Ops: 500},
			About: "a handler asks another actor and awaits each answer",
		},
		{
			Name: "big", Unit: "ping", Full: Size{Ops: 640_000, Actors: 64}, Quick: Size{Ops: 1_600, Actors: 8},
			About: "64 actors ping random others and wait for each pong",
		},
		{
			Name: "skynet", Unit: "actor", Full: Size{Actors: 1_000_000}, Quick: Size{Actors: 100},
			About: "a tree of actors, 10 children, 6 levels, adds up the numbers of its 1 000 000 leaves",
		},
		{
			Name: "spawn", Unit: "actor", Full: Size{Actors: 1_000_000}, Quick: Size{Actors: 500},
			About: "idle actors without a name, each of which has handled one message",
		},
		{
			Name: "blocking1000", Unit: "message", Full: Size{Ops: 50_000, Actors: 1_000}, Quick: Size{Ops: 200, Actors: 20},
			About: "1000 actors whose handlers block for 1 ms",
		},
	}
}

// delays are the workloads that are bounded by time.
func delays() []Workload {
	return []Workload{
		{
			Name: "fair", Full: Size{Window: 1200 * time.Millisecond}, Quick: Size{Window: 30 * time.Millisecond},
			About: "two goroutines outside flood an actor with a handler of 1 µs; a quiet actor is told each ms",
		},
		{
			Name: "flooded-neighbor", Full: Size{Window: 1200 * time.Millisecond}, Quick: Size{Window: 30 * time.Millisecond},
			About: "an actor floods another flat out, at most 1024 messages ahead; a quiet actor is told each ms",
		},
		{
			Name: "blocked", Full: Size{Actors: 64, Window: 500 * time.Millisecond}, Quick: Size{Actors: 4, Window: 50 * time.Millisecond},
			About: "64 actors block 50 ms in each handler; a quiet actor is told each ms",
		},
		{
			Name: "idle", Full: Size{Actors: 1_000_000, Window: 2 * time.Second}, Quick: Size{Actors: 1_000, Window: 30 * time.Millisecond},
			About: "1 000 000 idle actors, a tenth of them with a timer of an hour: CPU used in 2 s",
		},
	}
}

// Named returns the workload of that name.
func Named(name string) (Workload, error) {
	all := All()
	i := slices.IndexFunc(all, func(w Workload) bool { return w.Name == name })
	if i < 0 {
		return Workload{}, fmt.Errorf("%w: %q", ErrNoWorkload, name)
	}
	return all[i], nil
}

// Figures are what a run measured, by name.
type Figures map[string]float64

// The names of the figures. Not every workload has each of them, and a program
// that runs beside knows nothing of allocations.
const (
	NsPerOp     = "ns/op"     // wall clock from the first message to the last count
	AllocsPerOp = "allocs/op" // of the whole process meanwhile
	BytesPerOp  = "B/op"

	FirstNs       = "first ns"       // spawn: until an actor has handled its first message
	BytesPerActor = "B/actor"        // spawn: heap and stacks in use after GC
	GCMs          = "full GC ms"     // spawn: one whole collection with all the actors there
	Actors        = "actors"         // spawn, idle: how many
	Workers       = "workers"        // askinside: the most goroutines seen running handlers
	CPUPercent    = "CPU %"          // idle: of one core
	DrainMs       = "drain ms"       // blocked: until the last of the blocking handlers returned
	FloodPerS     = "flood/s"        // fair, flooded-neighbor: what the flooded actor handled meanwhile
	Backlog       = "backlog"        // fair: what it had not handled at the end
	Capped        = "backlog capped" // fair: 1 if a producer waited for the backlog to shrink

	Samples  = "n"      // how many messages the quiet actor was told
	P50Us    = "p50 us" // from tell to handled
	P99Us    = "p99 us"
	MaxUs    = "max us"
	E2EP50Us = "e2e p50 us" // from when the message was due, the sender's own timer included
	E2EP99Us = "e2e p99 us"
	E2EMaxUs = "e2e max us"
)
