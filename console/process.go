package console

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"time"
)

// processCommands are about the system and the process that it is in.
func (c *Console) processCommands() []Command {
	return []Command{
		{
			Name: "stat", Help: "Shows the counters of the system.",
			Run: func(context.Context, []string) (any, error) { return c.stat(), nil },
		},
		{
			Name: "mem", Help: "Shows the memory of the process.",
			Run: func(context.Context, []string) (any, error) { return memory(), nil },
		},
		{
			Name: "gc", Help: "Runs the garbage collector, and shows what it has freed.", Changes: true,
			Run: func(context.Context, []string) (any, error) { return collect(), nil },
		},
		{
			Name: "ping", Help: "Answers pong.",
			Run: func(context.Context, []string) (any, error) { return "pong", nil },
		},
		{
			Name: "log", Usage: "level [debug|info|warn|error]", Help: "Shows the level of the log, or sets it.", Changes: true, Least: 1, Most: 2,
			Run: func(_ context.Context, args []string) (any, error) { return c.logLevel(args) },
			Complete: func(args []string) []string {
				if len(args) == 1 {
					return []string{"level"}
				}
				return []string{"debug", "info", "warn", "error"}
			},
		},
	}
}

func (c *Console) stat() Table {
	s := c.sys.Stats()
	t := Table{Columns: []string{"counter", "value"}}
	t.Add("system", c.sys.Name())
	t.Add("started", s.Started.UTC().Format(time.RFC3339))
	t.Add("actors", s.Actors)
	t.Add("handled", s.Handled)
	t.Add("failures", s.Failures)
	t.Add("restarts", s.Restarts)
	t.Add("runnable", s.Queued)
	t.Add("waiting", s.Waiting)
	t.Add("workers", s.Workers)
	t.Add("timers", s.Timers)
	t.Add("events_lost", s.EventsLost)
	t.Add("deadletters", s.DeadLetters)
	for _, reason := range slices.Sorted(maps.Keys(s.DeadLettersByReason)) {
		t.Add("deadletters_"+reason, s.DeadLettersByReason[reason])
	}
	for _, b := range s.Bulkheads {
		t.Add("bulkhead_"+b.Name+"_runnable", b.Queued)
	}
	return t
}

func memory() Table {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t := Table{Columns: []string{"what", "value"}}
	t.Add("heap_bytes", m.HeapAlloc)
	t.Add("heap_objects", m.HeapObjects)
	t.Add("stack_bytes", m.StackInuse)
	t.Add("from_system_bytes", m.Sys)
	t.Add("returned_bytes", m.HeapReleased)
	t.Add("next_gc_bytes", m.NextGC)
	t.Add("gc_runs", m.NumGC)
	t.Add("gc_cpu_percent", fmt.Sprintf("%.2f", 100*m.GCCPUFraction))
	t.Add("goroutines", runtime.NumGoroutine())
	return t
}

func collect() Table {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	began := time.Now()
	runtime.GC()
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	t := Table{Columns: []string{"what", "value"}}
	t.Add("heap_bytes_before", before.HeapAlloc)
	t.Add("heap_bytes_after", after.HeapAlloc)
	t.Add("took_ms", took.Milliseconds())
	return t
}

func (c *Console) logLevel(args []string) (any, error) {
	if args[0] != "level" {
		return nil, errors.New("usage: log level [debug|info|warn|error]")
	}
	if c.cfg.Level == nil {
		return nil, errors.New("the program has not given the console the level of its log")
	}
	if len(args) == 2 {
		var level slog.Level
		if err := level.UnmarshalText([]byte(args[1])); err != nil {
			return nil, fmt.Errorf("level must be debug, info, warn or error, not %.100q", args[1])
		}
		c.cfg.Level.Set(level)
	}
	return c.cfg.Level.Level().String(), nil
}
