package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/bench/report"
	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

// The runner starts its own program again for each run: here that is the test.
func TestMain(m *testing.M) {
	runtimes.BeFar()
	if len(os.Args) > 1 && os.Args[1] == "-one" {
		os.Exit(command(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestQuickRunWritesATableOfAllWorkloads(t *testing.T) {
	out := filepath.Join(t.TempDir(), "table.md")
	var stdout, stderr bytes.Buffer
	status := command(t.Context(), []string{"-quick", "-runtimes", "greenroom,channels", "-procs", "2", "-out", out}, &stdout, &stderr)
	if status != 0 {
		t.Fatalf("status %d\n%s", status, &stderr)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(written, stdout.Bytes()) {
		t.Error("the file is not what was printed")
	}
	for _, w := range workload.All() {
		if !strings.Contains(stdout.String(), "\n| "+w.Name+" | ") && !strings.Contains(stdout.String(), "\n### "+w.Name+": ") {
			t.Errorf("the table has no %s", w.Name)
		}
	}
	if strings.Contains(stdout.String(), "\n0 met, 0 missed, ") {
		t.Errorf("no bar was judged:\n%s", &stdout)
	}
	if strings.Contains(stdout.String(), "failed") {
		t.Errorf("something failed:\n%s\n%s", &stderr, &stdout)
	}
}

func TestQuickRunLeavesTheResultsAlone(t *testing.T) {
	t.Chdir(t.TempDir())
	if status := command(t.Context(), []string{"-quick", "-runtimes", "channels", "-run", "^flood$", "-procs", "1"}, io.Discard, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	if _, err := os.Stat("RESULTS.md"); err == nil {
		t.Error("a smoke test wrote RESULTS.md")
	}
}

func TestARunThatTakesTooLongHasFailed(t *testing.T) {
	var stdout, stderr bytes.Buffer
	args := []string{"-runtimes", "channels", "-run", "^blocked$", "-procs", "1", "-count", "2", "-timeout", "10ms", "-out", ""}
	if status := command(t.Context(), args, &stdout, &stderr); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
	if !strings.Contains(stderr.String(), "FAILED blocked with channels, GOMAXPROCS=1: ") || !strings.Contains(stdout.String(), "- **FAILED blocked") {
		t.Errorf("nobody was told:\n%s\n%s", &stderr, &stdout)
	}
}

func TestFlagsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"flood"}, `unexpected argument "flood"`},
		{[]string{"-run", "nothing"}, "no such workload"},
		{[]string{"-run", "("}, "-run: "},
		{[]string{"-runtimes", "akka"}, `no runtime "akka"`},
		{[]string{"-procs", "two"}, `-procs "two"`},
		{[]string{"-procs", "0"}, `-procs "0"`},
		{[]string{"-procs", ","}, "at least one"},
		{[]string{"-count", "0"}, "-count 0"},
		{[]string{"-faster"}, "-faster"},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			var stderr bytes.Buffer
			if status := command(t.Context(), c.args, io.Discard, &stderr); status != 2 {
				t.Errorf("status %d, want 2", status)
			}
			if !strings.Contains(stderr.String(), c.want) {
				t.Errorf("it said %q, want something with %q", &stderr, c.want)
			}
		})
	}
}

func TestHelpIsNoMistake(t *testing.T) {
	if status := command(t.Context(), []string{"-help"}, io.Discard, io.Discard); status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestOneRunPrintsItsFigures(t *testing.T) {
	var stdout bytes.Buffer
	if status := command(t.Context(), []string{"-one", "channels/flood", "-ops", "100"}, &stdout, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	figures, err := parseFigures(stdout.Bytes())
	if err != nil || figures[workload.NsPerOp] <= 0 {
		t.Errorf("%v, %v", figures, err)
	}
}

func TestOneRunWritesProfiles(t *testing.T) {
	dir := t.TempDir()
	cpu, mem := filepath.Join(dir, "cpu"), filepath.Join(dir, "mem")
	args := []string{"-one", "channels/flood", "-ops", "100", "-cpuprofile", cpu, "-memprofile", mem}
	if status := command(t.Context(), args, io.Discard, io.Discard); status != 0 {
		t.Fatalf("status %d", status)
	}
	for _, name := range []string{cpu, mem} {
		if info, err := os.Stat(name); err != nil || info.Size() == 0 {
			t.Errorf("%s is missing or empty: %v", filepath.Base(name), err)
		}
	}
}

func TestOneRunOfWhatIsNotThere(t *testing.T) {
	for one, want := range map[string]string{
		"channels":        "no such workload",
		"channels/floods": "no such workload",
		"akka/flood":      `no runtime "akka"`,
		"phony/askinside": "must not block",
		"erlang/flood":    "a program of its own",
	} {
		t.Run(one, func(t *testing.T) {
			var stderr bytes.Buffer
			if status := command(t.Context(), []string{"-one", one, "-quick"}, io.Discard, &stderr); status != 1 {
				t.Errorf("status %d, want 1", status)
			}
			if !strings.Contains(stderr.String(), want) {
				t.Errorf("it said %q, want something with %q", &stderr, want)
			}
		})
	}
}

func TestParseFiguresWantsTheLastLine(t *testing.T) {
	got, err := parseFigures([]byte("a library's greeting\n{\"ns/op\": 12.5}\n"))
	if err != nil || got[workload.NsPerOp] != 12.5 {
		t.Errorf("%v, %v", got, err)
	}
	for _, bad := range []string{"", "\n", "{}", "12", `{"ns/op": "fast"}`, `{"ns/op": -1}`, "{\"ns/op\": 1}\nand a remark", `{"ns/op": 1e999}`} {
		if got, err := parseFigures([]byte(bad)); err == nil {
			t.Errorf("%q gave %v", bad, got)
		}
	}
}

func TestCommandLineCanBeGivenToMakeAgain(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "make bench"},
		{[]string{"-quick", "-procs", "1,2"}, "make bench BENCHFLAGS='-quick -procs 1,2'"},
		{[]string{"-run", "^(ask|flood)$"}, `make bench BENCHFLAGS='-run "^(ask|flood)\$$"'`},
	} {
		if got := commandLine(c.args); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// fakeRunner is a runner with runtimes that do not exist and a record of the runs.
type fakeRunner struct {
	runner
	runs []string
}

func newFakeRunner(names []string, workloads []string, count int, fail func(run string, nth int) error) *fakeRunner {
	r := &fakeRunner{}
	r.count, r.procs, r.budget, r.progress = count, []int{1, 2}, time.Hour, io.Discard
	for _, name := range names {
		r.runtimes = append(r.runtimes, runtimes.Runtime{Name: name, Lacks: map[string]string{"lacking-" + name: "for the test"}})
	}
	for _, name := range workloads {
		r.workloads = append(r.workloads, workload.Workload{Name: name})
	}
	r.launch = func(_ context.Context, j job) (workload.Figures, error) {
		run := j.workload.Name + " " + j.runtime.Name
		r.runs = append(r.runs, run)
		if fail != nil {
			if err := fail(run, len(r.runs)); err != nil {
				return nil, err
			}
		}
		return workload.Figures{workload.NsPerOp: 1}, nil
	}
	return r
}

func TestTheRuntimesTakeTurns(t *testing.T) {
	r := newFakeRunner([]string{"a", "b", "c"}, []string{"x"}, 2, nil)
	r.procs = []int{2}
	r.all(t.Context())
	want := []string{"x a", "x b", "x c", "x a", "x b", "x c"}
	if !slices.Equal(r.runs, want) {
		t.Errorf("the runs are %q, want %q", r.runs, want)
	}
	if n := r.results.Runs(report.Cell{Runtime: "b", Workload: "x", Procs: 2}); n != 2 || r.failed != 0 {
		t.Errorf("%d runs, %d failed", n, r.failed)
	}
}

func TestWhatARuntimeLacksIsNotRun(t *testing.T) {
	r := newFakeRunner([]string{"a", "b"}, []string{"lacking-a"}, 1, nil)
	r.procs = []int{2}
	r.all(t.Context())
	if want := []string{"lacking-a b"}; !slices.Equal(r.runs, want) {
		t.Errorf("the runs are %q, want %q", r.runs, want)
	}
}

func TestAFailedRunIsToldAndNotRepeated(t *testing.T) {
	r := newFakeRunner([]string{"a", "b"}, []string{"x"}, 3, func(run string, nth int) error {
		if run == "x a" && nth > 2 { // its second run
			return workload.ErrWrongCount
		}
		return nil
	})
	r.procs = []int{2}
	r.all(t.Context())
	want := []string{"x a", "x b", "x a", "x b", "x b"}
	if !slices.Equal(r.runs, want) {
		t.Errorf("the runs are %q, want %q", r.runs, want)
	}
	if n := r.results.Runs(report.Cell{Runtime: "a", Workload: "x", Procs: 2}); n != 0 || r.failed != 1 {
		t.Errorf("%d runs are left of the one that failed, %d cells failed", n, r.failed)
	}
	if len(r.notes) != 1 || !strings.Contains(r.notes[0], "wrong count") {
		t.Errorf("the notes are %q", r.notes)
	}
}

func TestTheBudgetEndsTheRunsLoudly(t *testing.T) {
	r := newFakeRunner([]string{"a", "b"}, []string{"x"}, 3, nil)
	r.budget = 0
	r.all(t.Context())
	if len(r.runs) != 0 || r.failed == 0 || len(r.notes) != 1 || !strings.Contains(r.notes[0], "12 runs were not made") {
		t.Errorf("%d runs, %d failed, notes %q", len(r.runs), r.failed, r.notes)
	}
}

func TestAnInterruptIsNoFailureOfTheRuntime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	r := newFakeRunner([]string{"a", "b"}, []string{"x"}, 1, func(string, int) error {
		cancel()
		return errors.New("killed")
	})
	r.all(ctx)
	if _, failed := r.results.Failure(report.Cell{Runtime: "a", Workload: "x", Procs: 1}); failed {
		t.Error("the runtime is said to have failed")
	}
	if len(r.runs) != 1 || len(r.notes) != 1 || !strings.Contains(r.notes[0], "4 runs were not made") {
		t.Errorf("runs %q, notes %q", r.runs, r.notes)
	}
}

// absent is a program that is not installed.
type absent struct{ runtimes.Program }

func (absent) Find() error { return errors.New("it is not installed") }

func TestAProgramThatIsMissingIsSkippedLoudly(t *testing.T) {
	r := newFakeRunner([]string{"a"}, []string{"x", "y", "lacking-b"}, 1, nil)
	r.runtimes = append(r.runtimes, runtimes.Runtime{Name: "b", Program: absent{}, Lacks: map[string]string{"lacking-b": "for the test"}})
	if err := r.prepare(t.Context(), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if len(r.runtimes) != 1 || len(r.notes) != 1 || r.notes[0] != "SKIPPED b, 4 cells: it is not installed" {
		t.Errorf("%d runtimes are left, notes %q", len(r.runtimes), r.notes)
	}
}

func TestNothingToRunIsAnError(t *testing.T) {
	r := newFakeRunner(nil, []string{"x"}, 1, nil)
	r.runtimes = []runtimes.Runtime{{Name: "b", Program: absent{}}}
	if err := r.prepare(t.Context(), t.TempDir()); !errors.Is(err, errFailed) {
		t.Errorf("the error is %v", err)
	}
}

// printer is a program that prints what it is given.
type printer struct {
	runtimes.Program
	text   string
	status string
}

func (p printer) Command(ctx context.Context, _, _ string, _ workload.Size, _ int) *exec.Cmd {
	return exec.CommandContext(ctx, "sh", "-c", "echo \"$1\"; echo trouble >&2; exit $2", "sh", p.text, p.status)
}

func TestAProgramsLastLineIsItsFigures(t *testing.T) {
	c := config{timeout: time.Minute}
	for _, p := range []struct {
		printer
		want string // of the error
	}{
		{printer{text: `{"ns/op": 3}`, status: "0"}, ""},
		{printer{text: `{"ns/op": 3}`, status: "1"}, "exit status 1: trouble"},
		{printer{text: "no figures", status: "0"}, `no figures but "no figures"`},
	} {
		j := job{runtime: runtimes.Runtime{Program: p.printer}, procs: 1}
		got, err := c.start(t.Context(), "unused", t.TempDir(), j)
		switch {
		case p.want == "" && (err != nil || got[workload.NsPerOp] != 3):
			t.Errorf("%+v: %v, %v", p, got, err)
		case p.want != "" && (err == nil || !strings.Contains(err.Error(), p.want)):
			t.Errorf("%+v: the error is %v, want %q", p, err, p.want)
		}
	}
}
