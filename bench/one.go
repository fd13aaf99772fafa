package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"strings"

	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// runOne runs a workload in this process and prints its figures, as one line of
// JSON.
func (c config) runOne(ctx context.Context, stdout io.Writer) error {
	rt, w, err := parseOne(c.one)
	if err != nil {
		return fmt.Errorf("-one %q: %w", c.one, err)
	}
	size := rt.Size(w, c.quick)
	size.Ops = cmp.Or(c.ops, size.Ops)
	size.Actors = cmp.Or(c.actors, size.Actors)
	size.Window = cmp.Or(c.window, size.Window)
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	figures, err := c.profiled(func() (workload.Figures, error) { return inTime(ctx, rt.Run, w.Name, size) })
	if err != nil {
		return fmt.Errorf("%s: %w", c.one, err)
	}
	return json.NewEncoder(stdout).Encode(figures)
}

// inTime leaves a run alone that does not end by itself.
func inTime(ctx context.Context, run workload.Run, name string, size workload.Size) (workload.Figures, error) {
	type outcome struct {
		figures workload.Figures
		err     error
	}
	done := make(chan outcome, 1)
	go func() {
		figures, err := run(ctx, name, size)
		done <- outcome{figures, err}
	}()
	select {
	case o := <-done:
		return o.figures, o.err
	case <-ctx.Done():
		select {
		case o := <-done: // it knows more about why
			return o.figures, o.err
		default:
			return nil, fmt.Errorf("the run has not ended: %w", context.Cause(ctx))
		}
	}
}

// parseOne takes "runtime/workload" apart.
func parseOne(text string) (rt runtimes.Runtime, w workload.Workload, err error) {
	name, work, _ := strings.Cut(text, "/")
	found, err := runtimes.Named(name)
	if err != nil {
		return rt, w, err
	}
	rt = found[0]
	if w, err = workload.Named(work); err != nil {
		return rt, w, err
	}
	if why, lacks := rt.Lacks[work]; lacks {
		return rt, w, fmt.Errorf("%w: %s", workload.ErrUnsupported, why)
	}
	if rt.Run == nil {
		return rt, w, errors.New("the runtime is a program of its own and does not run in this process")
	}
	return rt, w, nil
}

// profiled writes the profiles that were asked for.
func (c config) profiled(run func() (workload.Figures, error)) (figures workload.Figures, err error) {
	if c.cpuProfile != "" {
		file, err := os.Create(c.cpuProfile)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	if figures, err = run(); err != nil || c.memProfile == "" {
		return figures, err
	}
	file, err := os.Create(c.memProfile)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return figures, pprof.Lookup("allocs").WriteTo(file, 0)
}
