// Command testrun runs `go test -json` with the arguments it is given and
// prints what a person wants to read of it: one line a package, the whole
// output of whatever failed, the reason of each skip, and at the end one line
// with how many tests passed, failed and were skipped.
//
// With -race among the flags, the packages and the test that are listed in plan.go are tested
// without the race detector, each by a `go test` of its own, and all of them are counted
// together.
//
// Where no more than three tests failed, each by its own verdict, they are repeated, each alone. One that
// passes five times is called unstable at the end and counted as passed: what fails only beside others is to
// be mended, but says nothing of the change that is tested. A data race, a panic or a test that does not
// return is never repeated.
//
// It exits with the status of `go test`, with 0 where all that failed is unstable, and with 1 when that was 0
// although nothing was tested or something failed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"sync"
	"time"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	// An interrupt from the terminal reaches `go test` by itself, since it is
	// in the same process group. Here it is only caught, so that the summary
	// of what has run is still printed.
	interrupted, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	runs, err := plan(interrupted, args)
	if err != nil {
		fmt.Fprintf(stderr, "testrun: list the packages: %v\n", err)
		return 2
	}
	return testAll(interrupted, runs, stdout, stderr)
}

// testAll runs the first `go test`, which has most to do, and then the others beside
// each other, reports them as one and returns the exit status.
func testAll(interrupted context.Context, runs [][]string, stdout, stderr io.Writer) int {
	report := newReport(stdout)
	began := time.Now()
	status := test(report, runs[0], stderr)
	var others sync.WaitGroup
	statuses := make([]int, len(runs))
	for i := 1; i < len(runs) && interrupted.Err() == nil; i++ {
		others.Go(func() { statuses[i] = test(report, runs[i], stderr) })
	}
	others.Wait()
	status = max(status, slices.Max(statuses))
	report.end()
	if status == 1 && report.again(interrupted, runs, stderr) {
		status = 0
	}
	report.close(time.Since(began))

	switch {
	case status == 0 && interrupted.Err() != nil:
		return 1
	case status == 0 && report.failed > 0:
		return 1
	case status == 0 && report.passed == 0:
		fmt.Fprintln(stderr, "testrun: no test ran")
		return 1
	}
	return status
}

// test runs one `go test` and returns its exit status.
func test(r *report, args []string, stderr io.Writer) int {
	// One package more at once than go test has by itself: tests wait a quarter of their time
	// for disks, timers and other processes. A -p among the arguments comes later and counts.
	at := fmt.Sprintf("-p=%d", runtime.GOMAXPROCS(0)+1)
	flags := []string{"test", "-json", at}
	if slices.Contains(args, "-race") {
		flags = append(flags, instrumentation()...)
	}
	cmd := exec.CommandContext(context.Background(), "go", append(flags, args...)...)
	cmd.Stderr = stderr
	if os.Getenv("GORACE") == "" {
		// A raced process sleeps for a second at its end, so that other threads can report a race.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=100")
	}
	events, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintf(stderr, "testrun: start go test: %v\n", err)
		return 2
	}
	readErr := r.read(events)
	if readErr != nil {
		// Whatever is left is read, or `go test` would wait for us forever.
		_, _ = io.Copy(io.Discard, events)
	}
	status := exitStatus(cmd.Wait())
	// With that of the compiler and the tests, which go test has waited for.
	r.took(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime())
	if readErr != nil {
		fmt.Fprintf(stderr, "testrun: reading the output of go test: %v\n", readErr)
		return 2
	}
	return status
}

// exitStatus translates what Wait returned; a death by signal counts as 1.
func exitStatus(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
