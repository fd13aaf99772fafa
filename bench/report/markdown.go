package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// Report is what is shown.
type Report struct {
	Setting   Setting
	Results   *Results
	Runtimes  []runtimes.Runtime
	Workloads []workload.Workload
	Procs     []int
	Quick     bool     // the sizes are those of a smoke test
	Notes     []string // what was left out, and why
}

// Write writes the report as Markdown.
func (r Report) Write(w io.Writer) error {
	var b strings.Builder
	b.WriteString("# What the runtimes cost\n\n")
	b.WriteString("Written by `make bench`; [README.md](README.md) tells what each workload is and how to read this.\n\n")
	if r.Quick {
		b.WriteString("**This was a smoke test with `-quick`: its figures say nothing.**\n\n")
	}
	r.Setting.write(&b)
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "- **%s**\n", note)
	}
	r.writeBars(&b)
	for _, procs := range r.Procs {
		fmt.Fprintf(&b, "\n## GOMAXPROCS=%d\n", procs)
		r.writeTimes(&b, procs)
		r.writeFigures(&b, procs, "Allocations per operation, of the whole process", workload.AllocsPerOp, workload.BytesPerOp)
		r.writeEach(&b, procs)
	}
	r.writeRuntimes(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

func (r Report) writeBars(b *strings.Builder) {
	verdicts := Judge(r.Results, r.Runtimes, r.Procs)
	count := make(map[Outcome]int)
	rows := [][]string{{"work", "bar", "GOMAXPROCS", "median", ""}}
	for _, v := range verdicts {
		count[v.Outcome]++
		rows = append(rows, []string{v.Work, v.Want, strconv.Itoa(v.Procs), v.Measured, string(v.Outcome)})
	}
	fmt.Fprintf(b, "\n## The bars\n\n%d met, %d missed, %d not measured.\n\n", count[Met], count[Missed], count[NotMeasured])
	table(b, rows)
}

// writeTimes has the times and, below them, what they are to the control's.
func (r Report) writeTimes(b *strings.Builder, procs int) {
	heading := fmt.Sprintf("ns per operation: median (min–max) of the runs, and the median against that of %s", r.control())
	rows := [][]string{r.head("workload", "operation")}
	for _, w := range r.Workloads {
		control, hasControl := r.Results.Figure(Cell{r.control(), w.Name, procs}, workload.NsPerOp)
		row := []string{w.Name, w.Unit}
		shown := false
		for _, rt := range r.Runtimes {
			s, ok := r.Results.Figure(Cell{rt.Name, w.Name, procs}, workload.NsPerOp)
			text := r.missing(rt, w, procs)
			if ok {
				shown = true
				text = spread(s)
				if hasControl && rt.Kind != runtimes.Control {
					text += fmt.Sprintf("<br>%s×", ratio(s.Median/control.Median))
				}
			}
			row = append(row, text)
		}
		if shown {
			rows = append(rows, row)
		}
	}
	section(b, heading, rows)
}

// writeFigures has two figures of each workload in one table, the second in
// brackets.
func (r Report) writeFigures(b *strings.Builder, procs int, heading, first, second string) {
	rows := [][]string{r.head("workload", "operation")}
	for _, w := range r.Workloads {
		row := []string{w.Name, w.Unit}
		shown := false
		for _, rt := range r.Runtimes {
			c := Cell{rt.Name, w.Name, procs}
			one, ok := r.Results.Figure(c, first)
			two, also := r.Results.Figure(c, second)
			text := "–"
			if ok && also {
				shown = true
				text = fmt.Sprintf("%.2f (%s B)", one.Median, number(two.Median))
			}
			row = append(row, text)
		}
		if shown {
			rows = append(rows, row)
		}
	}
	section(b, heading, rows)
}

// writeEach has a table for each workload that has more figures than time and
// allocations.
func (r Report) writeEach(b *strings.Builder, procs int) {
	for _, w := range r.Workloads {
		names := r.figuresOf(w, procs)
		if len(names) == 0 {
			continue
		}
		rows := [][]string{slices.Concat([]string{"runtime"}, names, []string{"runs"})}
		for _, rt := range r.Runtimes {
			c := Cell{rt.Name, w.Name, procs}
			if r.Results.Runs(c) == 0 {
				if why := r.missing(rt, w, procs); why != "–" {
					rows = append(rows, slices.Concat([]string{rt.Name, why}, slices.Repeat([]string{""}, len(names))))
				}
				continue
			}
			row := []string{rt.Name}
			for _, name := range names {
				text := "–"
				if s, ok := r.Results.Figure(c, name); ok {
					text = spread(s)
				}
				row = append(row, text)
			}
			rows = append(rows, append(row, strconv.Itoa(r.Results.Runs(c))))
		}
		section(b, fmt.Sprintf("%s: %s", w.Name, w.About), rows)
	}
}

// figureOrder is how the further figures stand beside each other.
var figureOrder = []string{
	workload.Actors, workload.FirstNs, workload.BytesPerActor, workload.GCMs, workload.Workers, workload.CPUPercent,
	workload.P50Us, workload.P99Us, workload.MaxUs, workload.E2EP50Us, workload.E2EP99Us, workload.E2EMaxUs, workload.Samples,
	workload.FloodPerS, workload.Backlog, workload.Capped, workload.DrainMs,
}

// figuresOf returns the further figures that any runtime has for the workload.
func (r Report) figuresOf(w workload.Workload, procs int) []string {
	return slices.DeleteFunc(slices.Clone(figureOrder), func(name string) bool {
		return !slices.ContainsFunc(r.Runtimes, func(rt runtimes.Runtime) bool {
			_, ok := r.Results.Figure(Cell{rt.Name, w.Name, procs}, name)
			return ok
		})
	})
}

func (r Report) writeRuntimes(b *strings.Builder) {
	b.WriteString("\n## How each runtime is used\n\n")
	for _, rt := range r.Runtimes {
		fmt.Fprintf(b, "- **%s**: %s.\n", rt.Name, rt.About)
		for _, w := range r.Workloads {
			if why, ok := rt.Lacks[w.Name]; ok {
				fmt.Fprintf(b, "  - no %s: %s.\n", w.Name, why)
			}
			if n, ok := rt.Fewer[w.Name]; ok && !r.Quick {
				fmt.Fprintf(b, "  - %s with %d actors only.\n", w.Name, n)
			}
		}
	}
}

// control is the name of the runtime that the ratios are against.
func (r Report) control() string {
	for _, rt := range r.Runtimes {
		if rt.Kind == runtimes.Control {
			return rt.Name
		}
	}
	return "the control, which was not run"
}

// missing says, in place of a figure, why there is none.
func (r Report) missing(rt runtimes.Runtime, w workload.Workload, procs int) string {
	if _, failed := r.Results.Failure(Cell{rt.Name, w.Name, procs}); failed {
		return "**failed**"
	}
	return "–"
}

func (r Report) head(first ...string) []string {
	for _, rt := range r.Runtimes {
		first = append(first, rt.Name)
	}
	return first
}

// section writes a table if it has more than its head.
func section(b *strings.Builder, heading string, rows [][]string) {
	if len(rows) > 1 {
		fmt.Fprintf(b, "\n### %s\n\n", heading)
		table(b, rows)
	}
}

// table writes rows as Markdown, the first one being the head.
func table(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			b.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
}

// spread shows a summary; a single run has none.
func spread(s Summary) string {
	if s.Runs == 1 {
		return number(s.Median)
	}
	return fmt.Sprintf("%s (%s–%s)", number(s.Median), number(s.Min), number(s.Max))
}

// number shows three digits, and all of those before the point.
func number(v float64) string {
	size := math.Abs(v)
	switch {
	case size >= 99.95 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case size >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// ratio shows two digits behind the point as long as they say something.
func ratio(v float64) string {
	if v >= 10 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Setting is where and how the figures came about.
type Setting struct {
	Date, Command, Machine, System, Go, Greenroom string
	Versions                                      []Version
	Runs                                          int
	Took                                          string
}

// Version is that of a runtime.
type Version struct{ Runtime, Version string }

func (s Setting) write(b *strings.Builder) {
	fmt.Fprintf(b, "- date: %s, took %s\n- command: `%s`\n", s.Date, s.Took, s.Command)
	fmt.Fprintf(b, "- machine: %s; %s\n- Go: %s\n- Greenroom: %s\n", s.Machine, s.System, s.Go, s.Greenroom)
	for _, v := range s.Versions {
		fmt.Fprintf(b, "- %s: %s\n", v.Runtime, cmp.Or(v.Version, "unknown"))
	}
	fmt.Fprintf(b, "- runs: %d of each, every one a process of its own, the runtimes by turns\n", s.Runs)
}
