package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/bench/report"
	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// grace is how much longer than its timeout a process may take to say so.
const grace = 5 * time.Second

// errFailed is the end of a benchmark with runs that failed or are missing.
var errFailed = errors.New("the table is not whole")

// job is one run.
type job struct {
	runtime  runtimes.Runtime
	workload workload.Workload
	procs    int
}

func (j job) cell() report.Cell {
	return report.Cell{Runtime: j.runtime.Name, Workload: j.workload.Name, Procs: j.procs}
}

// launcher runs a job in a process of its own. It is an argument of the runner
// so that the runner can be tested without.
type launcher func(ctx context.Context, j job) (workload.Figures, error)

// runner makes all the runs.
type runner struct {
	config
	launch   launcher
	progress io.Writer

	results report.Results
	notes   []string
	failed  int // cells
}

// runAll measures, prints the table and writes it to the file.
func (c config) runAll(ctx context.Context, command string, stdout, stderr io.Writer) error {
	dir, err := os.MkdirTemp("", "greenroom-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	began := time.Now()
	r := &runner{config: c, progress: stderr}
	r.launch = func(ctx context.Context, j job) (workload.Figures, error) { return c.start(ctx, self, dir, j) }
	if err := r.prepare(ctx, dir); err != nil {
		return err
	}
	r.all(ctx)
	what := report.Report{
		Setting: report.Setting{
			Date: began.Format(time.DateOnly), Took: time.Since(began).Round(time.Second).String(), Command: command,
			Machine: report.Machine(), System: report.System(), Go: runtime.Version(), Greenroom: report.Revision(),
			Versions: r.versions(ctx), Runs: c.count,
		},
		Results: &r.results, Runtimes: r.runtimes, Workloads: c.workloads, Procs: c.procs, Quick: c.quick, Notes: r.notes,
	}
	if err := what.Write(stdout); err != nil {
		return err
	}
	if c.out != "" {
		if err := writeFile(c.out, what); err != nil {
			return err
		}
	}
	for _, note := range r.notes {
		fmt.Fprintln(stderr, "bench:", note)
	}
	if r.failed > 0 {
		return fmt.Errorf("%w: %d cells failed or were not measured", errFailed, r.failed)
	}
	return nil
}

func writeFile(name string, what report.Report) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(what.Write(file), file.Close())
}

// prepare builds the programs that run beside, and drops, loudly, those that
// cannot run here.
func (r *runner) prepare(ctx context.Context, dir string) error {
	var here []runtimes.Runtime
	for _, rt := range r.runtimes {
		if rt.Program == nil {
			here = append(here, rt)
			continue
		}
		if err := rt.Program.Find(); err != nil {
			r.note("SKIPPED %s, %d cells: %v", rt.Name, len(r.jobsOf(rt)), err)
			continue
		}
		if err := rt.Program.Prepare(ctx, dir); err != nil {
			return err
		}
		here = append(here, rt)
	}
	if len(here) == 0 {
		return fmt.Errorf("%w: none of the runtimes can run here", errFailed)
	}
	r.runtimes = here
	return nil
}

// jobsOf returns what there is to repeat of a runtime.
func (r *runner) jobsOf(rt runtimes.Runtime) []job {
	var jobs []job
	for _, procs := range r.procs {
		for _, w := range r.workloads {
			if _, lacks := rt.Lacks[w.Name]; !lacks {
				jobs = append(jobs, job{rt, w, procs})
			}
		}
	}
	return jobs
}

// all makes the runs, in rounds over everything and in each round the runtimes
// by turns: what else the machine does meanwhile hits all of them alike, and
// when the budget is used up each has had about as many runs as the others.
func (r *runner) all(ctx context.Context) {
	end := time.Now().Add(r.budget)
	left := 0
	for i := range r.count {
		for _, procs := range r.procs {
			for _, w := range r.workloads {
				began := time.Now()
				left += r.round(ctx, w, procs, end)
				fmt.Fprintf(r.progress, "%d/%d GOMAXPROCS=%d %-17s %v\n", i+1, r.count, procs, w.Name, time.Since(began).Round(100*time.Millisecond))
			}
		}
	}
	if left > 0 {
		r.failed++
		r.note("STOPPED: %d runs were not made: the budget of %v was used up or the benchmark was interrupted", left, r.budget)
	}
}

// round runs a workload once with each runtime that has not failed in it, and
// returns how many runs it had to leave out.
func (r *runner) round(ctx context.Context, w workload.Workload, procs int, end time.Time) (left int) {
	for _, rt := range r.runtimes {
		j := job{rt, w, procs}
		if _, lacks := rt.Lacks[w.Name]; lacks {
			continue
		}
		if _, failed := r.results.Failure(j.cell()); failed {
			continue
		}
		if ctx.Err() != nil || !time.Now().Before(end) {
			left++
			continue
		}
		figures, err := r.launch(ctx, j)
		if ctx.Err() != nil {
			left++
			continue
		}
		if err != nil {
			r.failed++
			r.results.Fail(j.cell(), err.Error())
			r.note("FAILED %s with %s, GOMAXPROCS=%d: %v", w.Name, rt.Name, procs, err)
			continue
		}
		r.results.Add(j.cell(), figures)
	}
	return left
}

func (r *runner) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	r.notes = append(r.notes, text)
	fmt.Fprintln(r.progress, "bench:", text)
}

func (r *runner) versions(ctx context.Context) []report.Version {
	var versions []report.Version
	for _, rt := range r.runtimes {
		if rt.Module != "" || rt.Program != nil {
			versions = append(versions, report.Version{Runtime: rt.Name, Version: rt.Version(ctx)})
		}
	}
	return versions
}

// start runs a job as this program again, or as the runtime's own program.
func (c config) start(ctx context.Context, self, dir string, j job) (workload.Figures, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout+grace)
	defer cancel()
	var cmd *exec.Cmd
	if j.runtime.Program != nil {
		cmd = j.runtime.Program.Command(ctx, dir, j.workload.Name, j.runtime.Size(j.workload, c.quick), j.procs)
	} else {
		cmd = exec.CommandContext(ctx, self, "-one", j.runtime.Name+"/"+j.workload.Name,
			fmt.Sprintf("-quick=%t", c.quick), fmt.Sprintf("-timeout=%v", c.timeout))
	}
	cmd.Env = append(os.Environ(), fmt.Sprintf("GOMAXPROCS=%d", j.procs))
	cmd.WaitDelay = grace
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("%w: %s", err, beginning(stderr.String()))
	}
	return parseFigures(stdout.Bytes())
}

// beginning is enough of an error's text to see what it is about.
func beginning(text string) string {
	const most = 400
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = text[:most] + " …"
	}
	return text
}

// parseFigures reads the last line of a run's output.
func parseFigures(output []byte) (workload.Figures, error) {
	lines := bytes.Split(bytes.TrimSpace(output), []byte("\n"))
	var figures workload.Figures
	if err := json.Unmarshal(lines[len(lines)-1], &figures); err != nil {
		return nil, fmt.Errorf("the run printed no figures but %q: %w", beginning(string(output)), err)
	}
	if len(figures) == 0 {
		return nil, errors.New("the run printed an empty set of figures")
	}
	for name, v := range figures {
		if v < 0 && name != workload.BytesPerActor { // of a few actors the collector may find more than they needed
			return nil, fmt.Errorf("the figure %q is %v", name, v)
		}
	}
	return figures, nil
}
