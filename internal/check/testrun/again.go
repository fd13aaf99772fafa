package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

const (
	// maxAgain is how many failed tests are repeated at most. More have a common cause, which is no chance.
	maxAgain = 3
	// repeats is how often a failed test has to pass.
	repeats = 5
)

// again repeats the tests that failed, each alone, and calls those unstable that pass each time; it
// reports whether all did. It repeats none if too many failed, or if one did by anything but its own
// verdict: a data race, a panic or a test that does not return is not taken back by a run in which it
// does not show.
func (r *report) again(interrupted context.Context, runs [][]string, stderr io.Writer) bool {
	if len(r.failures) == 0 || len(r.failures) > maxAgain || r.broken || slices.ContainsFunc(r.failures, failure.certain) {
		return false
	}
	failures := r.failures
	r.failures = nil
	for _, f := range failures {
		fmt.Fprintf(r.out, "\nagain, alone, %d times: %v\n", repeats, f)
		repetition := newReport(r.out)
		if status := test(repetition, repeat(runs, f), stderr); status != 0 || repetition.failed > 0 || repetition.passed == 0 || interrupted.Err() != nil {
			r.failures = append(r.failures, f)
			continue
		}
		r.unstable = append(r.unstable, f)
		r.failed--
		r.passed++
	}
	return len(r.failures) == 0
}

// certain reports whether a failure is not taken back by a run without it.
func (f failure) certain() bool { return f.test == "" || f.note != "" }

// repeat returns the arguments of a `go test` of one test, with the flags of the run in which it failed.
func repeat(runs [][]string, f failure) []string {
	name, _, _ := strings.Cut(f.test, "/")
	flags := []string(nil)
	for _, run := range runs {
		at := slices.IndexFunc(run, func(arg string) bool { return !strings.HasPrefix(arg, "-") })
		if at >= 0 && (slices.Contains(run[at:], f.pkg) || len(runs) == 1) {
			flags = run[:at]
			break
		}
	}
	return slices.Concat(flags, []string{fmt.Sprintf("-count=%d", repeats), "-skip=^$", "-run=^" + regexp.QuoteMeta(name) + "$", f.pkg})
}
