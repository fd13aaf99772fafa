package report

import (
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// nothing is what counts as no allocation an operation: an unbounded mailbox
// may still grow now and then.
const nothing = 0.05

// noCPU is the percentage of one core up to which a system counts as idle: the
// processor time of a process is kept in steps of up to 10 ms.
const noCPU = 0.5

// Bar is an upper bound for a cost of Greenroom.
type Bar struct {
	Work     string // what the reader knows it by
	Workload string
	Figure   string
	Want     string
	// limit returns the most that the figure may be; ok is false when what it
	// is compared with was not measured.
	limit func(o others) (most float64, ok bool)
}

// others is what the subject is compared with, for one figure of one workload.
type others struct {
	procs         int
	control, peer float64 // medians; the fastest of the peers
	hasControl    bool
	hasPeer       bool
}

func atMost(n float64) func(others) (float64, bool) {
	return func(others) (float64, bool) { return n, true }
}

// ofControl allows so many times what the control needs.
func ofControl(factor float64) func(others) (float64, bool) {
	return func(o others) (float64, bool) { return factor * o.control, o.hasControl }
}

// ofPeer allows so many times what the fastest other runtime in Go needs.
func ofPeer(factor float64) func(others) (float64, bool) {
	return func(o others) (float64, bool) { return factor * o.peer, o.hasPeer }
}

// workersLimit is the number of processors: a worker that a waiting handler
// blocked would be one more.
func workersLimit(o others) (float64, bool) { return float64(o.procs), true }

// Bars returns the cost table that the engine was designed for.
func Bars() []Bar {
	var bars []Bar
	bar := func(work, name, figure, want string, limit func(others) (float64, bool)) {
		bars = append(bars, Bar{work, name, figure, want, limit})
	}
	for _, flood := range []struct{ work, name string }{{"tell from outside", "flood"}, {"tell from a handler", "floodinside"}} {
		bar(flood.work, flood.name, workload.AllocsPerOp, "0 allocs", atMost(nothing))
		bar(flood.work, flood.name, workload.NsPerOp, "≤ 50 ns", atMost(50))
		bar(flood.work, flood.name, workload.NsPerOp, "2× the fastest other Go runtime", ofPeer(1.0/2))
		bar(flood.work, flood.name, workload.NsPerOp, "not slower than a buffered channel", ofControl(1))
	}
	bar("ping-pong", "pingpong", workload.AllocsPerOp, "0 allocs", atMost(nothing))
	bar("ping-pong", "pingpong", workload.NsPerOp, "≤ 150 ns a round trip", atMost(150))
	bar("ping-pong", "pingpong", workload.NsPerOp, "3× goroutines with channels", ofControl(1.0/3))
	bar("ping-pong", "pingpong", workload.NsPerOp, "5× the fastest other Go runtime", ofPeer(1.0/5))
	bar("ring of 100", "ring100", workload.NsPerOp, "≤ 70 ns a hop", atMost(70))
	bar("ring of 100 000", "ring100k", workload.NsPerOp, "≤ 100 ns a hop", atMost(100))
	bar("fan-in of 8", "fanin", workload.NsPerOp, "not slower than a buffered channel", ofControl(1))
	bar("big", "big", workload.NsPerOp, "faster than goroutines with channels", ofControl(1))
	bar("skynet tree", "skynet", workload.NsPerOp, "≤ 500 ns an actor", atMost(500))
	for _, ask := range []struct{ work, name string }{{"ask, 1 asker", "ask"}, {"ask, 64 askers", "ask64"}} {
		bar(ask.work, ask.name, workload.AllocsPerOp, "≤ 1 alloc", atMost(1+nothing))
		bar(ask.work, ask.name, workload.NsPerOp, "within 1.2× of a channel round trip", ofControl(1.2))
		bar(ask.work, ask.name, workload.NsPerOp, "2× the fastest other Go runtime", ofPeer(1.0/2))
	}
	bar("ask in a handler", "askinside", workload.NsPerOp, "≤ 500 ns a round trip", atMost(500))
	bar("ask in a handler", "askinside", workload.Workers, "0 blocked workers", workersLimit)
	bar("tell between processes", "remote", workload.NsPerOp, "at most 3× TCP by hand", ofControl(3))
	bar("tell between processes", "remote", workload.NsPerOp, "1.5× the fastest other Go runtime", ofPeer(1/1.5))
	bar("ask between processes", "remoteask", workload.NsPerOp, "at most 2.2× TCP by hand", ofControl(2.2))
	bar("spawn", "spawn", workload.NsPerOp, "≤ 300 ns", atMost(300))
	bar("spawn", "spawn", workload.AllocsPerOp, "≤ 3 allocs", atMost(3+nothing))
	bar("idle actor", "spawn", workload.BytesPerActor, "≤ 200 bytes", atMost(200))
	bar("idle actors", "spawn", workload.GCMs, "full GC of 1 M ≤ 150 ms", atMost(150))
	bar("1000 actors that block 1 ms", "blocking1000", workload.NsPerOp, "≥ 0.5× a goroutine each", ofControl(2))
	bar("quiet beside 64 that block 50 ms", "blocked", workload.P99Us, "p99 ≤ 5 ms", atMost(5000))
	for _, beside := range []struct{ work, name string }{
		{"quiet beside one flooded from outside", "fair"}, {"quiet beside one flooded by an actor", "flooded-neighbor"},
	} {
		bar(beside.work, beside.name, workload.P99Us, "p99 ≤ 1 ms", atMost(1000))
		bar(beside.work, beside.name, workload.MaxUs, "max ≤ 5 ms", atMost(5000))
	}
	bar("idle system", "idle", workload.CPUPercent, "no measurable CPU", atMost(noCPU))
	return bars
}

// Verdict is what became of a bar.
type Verdict struct {
	Bar
	Procs    int
	Measured string // the subject's figure and, where the limit is another's, the limit
	Outcome  Outcome
}

// Outcome is the verdict on a bar: whether it is met.
type Outcome string

// The outcomes.
const (
	Met         Outcome = "met"
	Missed      Outcome = "**missed**"
	NotMeasured Outcome = "not measured"
)

// Judge compares the medians of the subject with the bars.
func Judge(results *Results, all []runtimes.Runtime, procs []int) []Verdict {
	var verdicts []Verdict
	for _, bar := range Bars() {
		for _, p := range procs {
			verdicts = append(verdicts, bar.judge(results, all, p))
		}
	}
	return verdicts
}

func (b Bar) judge(results *Results, all []runtimes.Runtime, procs int) Verdict {
	v := Verdict{Bar: b, Procs: procs, Outcome: NotMeasured, Measured: "–"}
	var own Summary
	measured := false
	o := others{procs: procs, peer: math.Inf(1)}
	for _, r := range all {
		s, ok := results.Figure(Cell{r.Name, b.Workload, procs}, b.Figure)
		if !ok {
			continue
		}
		switch r.Kind {
		case runtimes.Subject:
			own, measured = s, true
		case runtimes.Control:
			o.control, o.hasControl = s.Median, true
		case runtimes.Peer:
			o.peer, o.hasPeer = min(o.peer, s.Median), true
		case runtimes.Variant, runtimes.Reference: // no bar is about them
		}
	}
	most, known := b.limit(o)
	if !measured {
		return v
	}
	v.Measured = fmt.Sprintf("%s %s", number(own.Median), b.Figure)
	if !known {
		return v
	}
	v.Measured += fmt.Sprintf(", limit %s", number(most))
	v.Outcome = Missed
	if own.Median <= most {
		v.Outcome = Met
	}
	return v
}
