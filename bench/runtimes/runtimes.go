// Package runtimes holds the adapters of the runtimes that are measured, a file
// each, and what the table says about them. bench/README.md tells how to add
// one.
package runtimes

import (
	"context"
	"fmt"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// Kind is what a runtime is there for.
type Kind uint8

// The kinds of runtimes.
const (
	Subject   Kind = iota // what the bars are about
	Variant               // the subject, used another way
	Control               // what ratios are taken against
	Peer                  // another runtime in Go
	Reference             // a runtime in another language
)

// Runtime is one that is measured.
type Runtime struct {
	Name  string // as given to -runtimes
	Kind  Kind
	About string // how it is used, and why so

	// Module is the Go module whose version the table names, if any.
	Module string
	// Lacks has the workloads that make no sense for the runtime, with the
	// reason.
	Lacks map[string]string
	// Fewer has the number of actors of workloads that would take too much
	// memory or time with as many as the others have.
	Fewer map[string]int

	// Run runs a workload in this process; nil for a Program.
	Run workload.Run
	// Program is a runtime that is no Go library and runs beside.
	Program Program
}

// Program is a runtime in a program of its own, which prints the figures of a
// run as one line of JSON, the last one of its standard output: an object from
// the names of package workload to numbers. A run whose counts are wrong exits
// with another status than 0.
type Program interface {
	// Find returns an error that says what is missing where the program cannot
	// run, and how to get it.
	Find() error
	// Version names the program's version. Call it where Find found it.
	Version(ctx context.Context) string
	// Prepare builds what is needed into the folder dir, which exists.
	Prepare(ctx context.Context, dir string) error
	// Command is the run of a workload on that many processors.
	Command(ctx context.Context, dir, workload string, size workload.Size, procs int) *exec.Cmd
}

// All returns the runtimes in the order in which they are run and shown. The
// slice is the caller's.
func All() []Runtime {
	return []Runtime{greenroom(), greenroomAny(), channels(), phonyInbox(), protoActor(), grpcStream(), erlangOTP()}
}

// Named returns the runtimes of those names, in the order of [All]; without
// names it returns all.
func Named(names ...string) ([]Runtime, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var known []string
	for _, r := range all {
		known = append(known, r.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("there is no runtime %q; there are %s", name, strings.Join(known, ", "))
		}
	}
	return slices.DeleteFunc(all, func(r Runtime) bool { return !slices.Contains(names, r.Name) }), nil
}

// Size returns the size of a workload for this runtime.
func (r Runtime) Size(w workload.Workload, quick bool) workload.Size {
	if quick {
		return w.Quick
	}
	size := w.Full
	if n, ok := r.Fewer[w.Name]; ok {
		size.Actors = n
	}
	return size
}

// Version returns the version that was built in, or that a program has.
func (r Runtime) Version(ctx context.Context) string {
	if r.Program != nil {
		return r.Program.Version(ctx)
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || r.Module == "" {
		return ""
	}
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == r.Module })
	if i < 0 {
		return ""
	}
	return info.Deps[i].Version
}
