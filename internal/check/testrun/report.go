package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of a build-output, which belongs to a build and not to a package's test
	Test        string // empty in what concerns the package as a whole
	Elapsed     float64
	Output      string
	FailedBuild string
}

// report turns events into text, of several runs at once if they have no package in common.
// Its zero value is not usable: newReport.
type report struct {
	mu       sync.Mutex // guards what follows; a line is printed whole
	out      io.Writer
	packages map[string]*packageRun

	passed, failed, skipped int
	failures, unstable      []failure
	broken                  bool     // by a data race or a panic, whichever test it was in
	skips                   []string // one line each, for the end
	processor               time.Duration
}

// failure is a test that failed, or a package that did not by one of its tests.
type failure struct {
	pkg, test string // test is empty where none is to blame
	note      string // how it failed where that was not by its own verdict
}

// String returns the failure's line.
func (f failure) String() string {
	if f.test == "" {
		return f.pkg + f.note
	}
	return f.pkg + " " + f.test + f.note
}

// packageRun is what is known of a package whose test has not ended.
type packageRun struct {
	tests  map[string]*testRun
	output strings.Builder // of the package itself, outside any test

	passed, failed, skipped int
}

// testRun is a test that has begun.
type testRun struct {
	output strings.Builder
	// A test that has subtests is not counted beside them, unless it failed
	// by itself.
	hasSubtests, subtestFailed bool
	ended                      bool
}

func newReport(out io.Writer) *report {
	return &report{out: out, packages: make(map[string]*packageRun)}
}

// read handles events until the end of r. A line that is no event is printed
// as it is: nothing that go says is lost.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			r.line(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// took adds processor time.
func (r *report) took(processor time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.processor += processor
}

func (r *report) line(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var e event
	if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
		fmt.Fprint(r.out, line)
		return
	}
	if e.Action == "build-output" {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if e.Package == "" {
		return
	}
	p := r.packages[e.Package]
	if p == nil {
		p = &packageRun{tests: make(map[string]*testRun)}
		r.packages[e.Package] = p
	}
	if e.Test == "" {
		r.packageEvent(p, e)
		return
	}
	r.testEvent(p, e)
}

func (r *report) testEvent(p *packageRun, e event) {
	t := p.tests[e.Test]
	if t == nil {
		t = &testRun{}
		p.tests[e.Test] = t
		for _, parent := range p.parents(e.Test) {
			parent.hasSubtests = true
		}
	}
	switch e.Action {
	case "output":
		t.output.WriteString(e.Output)
	case "pass":
		t.ended = true
		if !t.hasSubtests {
			p.passed++
		}
		t.output.Reset()
	case "skip":
		t.ended = true
		p.skipped++
		r.skips = append(r.skips, e.Package+" "+e.Test+": "+reason(t.output.String()))
		t.output.Reset()
	case "fail":
		r.fail(p, e.Package, e.Test, "")
	}
}

// fail prints the output of a test that failed and counts it, unless it failed
// only because a subtest did.
func (r *report) fail(p *packageRun, pkg, test, note string) {
	t := p.tests[test]
	t.ended = true
	output := t.output.String()
	r.broken = r.broken || broken(output)
	fmt.Fprintf(r.out, "--- %s %s%s\n%s", pkg, test, note, output)
	t.output.Reset()
	if t.subtestFailed {
		return
	}
	p.failed++
	r.failures = append(r.failures, failure{pkg, test, note})
	for _, parent := range p.parents(test) {
		parent.subtestFailed = true
	}
}

// broken reports whether the output of what failed tells of a data race or a panic. After a panic the package's other
// tests have not run.
func broken(output string) bool {
	return slices.ContainsFunc([]string{"DATA RACE", "race detected", "panic: ", "fatal error: "}, func(sign string) bool {
		return strings.Contains(output, sign)
	})
}

// parents returns the tests that the named test is a subtest of. The name of a
// subtest may itself contain a slash, so a prefix that is no test is passed by.
func (p *packageRun) parents(test string) []*testRun {
	var parents []*testRun
	for i, c := range test {
		if c == '/' {
			if parent := p.tests[test[:i]]; parent != nil {
				parents = append(parents, parent)
			}
		}
	}
	return parents
}

func (r *report) packageEvent(p *packageRun, e event) {
	switch e.Action {
	case "output":
		// Go's own verdict is left out: ours follows, with the counts.
		if e.Output != "FAIL\n" && !strings.HasPrefix(e.Output, "FAIL\t"+e.Package) {
			p.output.WriteString(e.Output)
		}
	case "pass":
		r.endPackage(p, e, "ok  ")
	case "skip":
		fmt.Fprintf(r.out, "?   \t%s\t[no tests]\n", e.Package)
		delete(r.packages, e.Package)
	case "fail":
		r.failPackage(p, e)
		r.endPackage(p, e, "FAIL")
	}
}

// failPackage counts what a package's failure has left without a verdict: the
// tests that were running when it died, and the package itself when no test of
// it is to blame (it did not build, TestMain failed, something called os.Exit).
func (r *report) failPackage(p *packageRun, e event) {
	for _, name := range p.unfinished() {
		r.fail(p, e.Package, name, " (did not finish)")
	}
	r.broken = r.broken || broken(p.output.String())
	fmt.Fprint(r.out, p.output.String())
	if p.failed > 0 {
		return
	}
	note := " (the package, not one of its tests)"
	if e.FailedBuild != "" {
		note = " (does not build: " + e.FailedBuild + ")"
	}
	p.failed++
	r.failures = append(r.failures, failure{pkg: e.Package, note: note})
}

// unfinished returns the tests without a verdict, subtests before their
// parents, so that a parent is not counted beside its subtest.
func (p *packageRun) unfinished() []string {
	var names []string
	for name, t := range p.tests {
		if !t.ended {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names
}

func (r *report) endPackage(p *packageRun, e event, word string) {
	fmt.Fprintf(r.out, "%s\t%s\t%.2fs\t%s\n", word, e.Package, e.Elapsed, counts(p.passed, p.failed, p.skipped))
	r.passed += p.passed
	r.failed += p.failed
	r.skipped += p.skipped
	delete(r.packages, e.Package)
}

// end ends the packages that go test has not ended: it was interrupted or killed.
func (r *report) end() {
	for pkg, p := range r.packages {
		r.packageEvent(p, event{Action: "fail", Package: pkg})
	}
}

// close ends the packages and prints the summary. Its last line stands alone, and always
// names all three counts, so that a program can read it.
func (r *report) close(took time.Duration) {
	r.end()
	if len(r.skips) > 0 {
		fmt.Fprintf(r.out, "\n%d SKIPPED:\n", len(r.skips))
		printSorted(r.out, r.skips)
	}
	if len(r.unstable) > 0 {
		fmt.Fprintf(r.out, "\n%d UNSTABLE: failed beside other tests and passed %d times alone. Each is a defect, of the test or of what it tests:\n", len(r.unstable), repeats)
		printSorted(r.out, lines(r.unstable))
	}
	if len(r.failures) > 0 {
		fmt.Fprintf(r.out, "\n%d FAILED:\n", len(r.failures))
		printSorted(r.out, lines(r.failures))
	}
	fmt.Fprintf(r.out, "\ntook %s, %s of processor time\n\n%s\n", took.Round(time.Second), r.processor.Round(time.Second), counts(r.passed, r.failed, r.skipped))
}

func lines(failures []failure) []string {
	all := make([]string, len(failures))
	for i, f := range failures {
		all[i] = f.String()
	}
	return all
}

func printSorted(out io.Writer, lines []string) {
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Fprintf(out, "  %s\n", line)
	}
}

func counts(passed, failed, skipped int) string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", passed, failed, skipped)
}

// reason finds why a test was skipped in what it printed: the last line that
// is neither its start nor its verdict, without the file and line before it.
func reason(output string) string {
	found := "no reason given"
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		found = line
	}
	if _, text, ok := strings.Cut(found, ".go:"); ok {
		if _, text, ok = strings.Cut(text, ": "); ok {
			return text
		}
	}
	return found
}
