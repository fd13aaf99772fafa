// Package report makes a table of what was measured: medians, ratios against
// the control, and which bars are met.
package report

import (
	"slices"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// Summary is what some runs say together. The zero value is that of no run.
type Summary struct {
	Median, Min, Max float64
	Runs             int
}

// Summarize sums up the values, in whatever order. With an even number of them
// the median is the mean of the two in the middle.
func Summarize(values []float64) Summary {
	n := len(values)
	if n == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Summary{(sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[0], sorted[n-1], n}
}

// Cell names what is repeated: one runtime, one workload, one number of
// processors.
type Cell struct {
	Runtime, Workload string
	Procs             int
}

// Results are the runs of all cells. The zero value is empty and ready; it is
// not safe for concurrent use.
type Results struct {
	runs     map[Cell][]workload.Figures
	failures map[Cell]string
}

// Add keeps the figures of a run.
func (r *Results) Add(c Cell, f workload.Figures) {
	if r.runs == nil {
		r.runs = make(map[Cell][]workload.Figures)
	}
	r.runs[c] = append(r.runs[c], f)
}

// Fail keeps why a run has no figures. The cell has none from then on: a
// runtime that counts wrongly once in a while is not measured by the times that
// it did not.
func (r *Results) Fail(c Cell, why string) {
	if r.failures == nil {
		r.failures = make(map[Cell]string)
	}
	r.failures[c] = why
	delete(r.runs, c)
}

// Failure returns why the cell has no figures, if a run of it failed.
func (r *Results) Failure(c Cell) (why string, failed bool) {
	why, failed = r.failures[c]
	return why, failed
}

// Runs returns how many runs of the cell have figures.
func (r *Results) Runs(c Cell) int { return len(r.runs[c]) }

// Figure sums up one figure of the cell's runs. ok is false if there is none.
func (r *Results) Figure(c Cell, name string) (s Summary, ok bool) {
	var values []float64
	for _, f := range r.runs[c] {
		if v, has := f[name]; has {
			values = append(values, v)
		}
	}
	return Summarize(values), len(values) > 0
}
