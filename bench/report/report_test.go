package report

import (
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/workload"
)

func TestSummarize(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   Summary
	}{
		{nil, Summary{}},
		{[]float64{3}, Summary{3, 3, 3, 1}},
		{[]float64{9, 1}, Summary{5, 1, 9, 2}},
		{[]float64{9, 1, 2}, Summary{2, 1, 9, 3}},
		{[]float64{4, 1, 100, 2}, Summary{3, 1, 100, 4}},
		{[]float64{5, 4, 3, 2, 1}, Summary{3, 1, 5, 5}},
	} {
		if got := Summarize(c.values); got != c.want {
			t.Errorf("Summarize(%v) = %v, want %v", c.values, got, c.want)
		}
	}
}

func TestSummarizeLeavesItsArgumentAlone(t *testing.T) {
	values := []float64{3, 1, 2}
	Summarize(values)
	if values[0] != 3 || values[1] != 1 || values[2] != 2 {
		t.Errorf("the values are now %v", values)
	}
}

func TestACellThatFailedOnceHasNoFigures(t *testing.T) {
	var r Results
	cell := Cell{"channels", "flood", 2}
	r.Add(cell, workload.Figures{workload.NsPerOp: 1})
	r.Fail(cell, "wrong count")
	if s, ok := r.Figure(cell, workload.NsPerOp); ok || r.Runs(cell) != 0 {
		t.Errorf("it has the figure %v and %d runs", s, r.Runs(cell))
	}
	if why, failed := r.Failure(cell); !failed || why != "wrong count" {
		t.Errorf("Failure = %q, %t", why, failed)
	}
	if _, failed := r.Failure(Cell{"channels", "flood", 1}); failed {
		t.Error("another cell has failed with it")
	}
}

func TestNumberShowsThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 0.004: "0.00", 0.5: "0.50", 9.99: "9.99", 9.996: "10.0", 42.26: "42.3", 99.96: "100", 123.4: "123", 1234567: "1234567",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%v) = %q, want %q", v, got, want)
		}
	}
}

// cast is one runtime of each kind, and two peers.
var cast = []runtimes.Runtime{
	{Name: "own", Kind: runtimes.Subject, About: "typed"},
	{Name: "own-any", Kind: runtimes.Variant, About: "untyped"},
	{Name: "goroutines", Kind: runtimes.Control, About: "channels"},
	{Name: "fast", Kind: runtimes.Peer, About: "quick"},
	{Name: "slow", Kind: runtimes.Peer, About: "careful", Lacks: map[string]string{"ask": "it never answers"}},
	{Name: "other", Kind: runtimes.Reference, About: "elsewhere"},
}

// results gives the runtimes of cast a figure of a workload, in their order; a
// negative one is none.
func results(name, figure string, values ...float64) *Results {
	var r Results
	for i, v := range values {
		if v >= 0 {
			r.Add(Cell{cast[i].Name, name, 2}, workload.Figures{figure: v})
		}
	}
	return &r
}

func outcomeOf(t *testing.T, r *Results, name, want string) (Outcome, string) {
	t.Helper()
	for _, v := range Judge(r, cast, []int{2}) {
		if v.Workload == name && strings.Contains(v.Want, want) {
			return v.Outcome, v.Measured
		}
	}
	t.Fatalf("there is no bar with %q for %s", want, name)
	return "", ""
}

func TestBarsCompareMedians(t *testing.T) {
	for _, c := range []struct {
		what         string
		name, figure string
		bar          string
		values       []float64 // own, own-any, goroutines, fast, slow, other
		want         Outcome
	}{
		{"the limit itself is met", "flood", workload.NsPerOp, "≤ 50 ns", []float64{50}, Met},
		{"a little more is missed", "flood", workload.NsPerOp, "≤ 50 ns", []float64{50.1}, Missed},
		{"the variant does not count", "flood", workload.NsPerOp, "≤ 50 ns", []float64{-1, 10}, NotMeasured},
		{"as fast as the control", "flood", workload.NsPerOp, "buffered channel", []float64{40, 99, 40}, Met},
		{"slower than the control", "flood", workload.NsPerOp, "buffered channel", []float64{41, 1, 40}, Missed},
		{"without a control", "flood", workload.NsPerOp, "buffered channel", []float64{41, 1, -1, 40}, NotMeasured},
		{"twice the fastest peer", "flood", workload.NsPerOp, "2× the fastest", []float64{40, -1, -1, 80, 200}, Met},
		{"the slower peer does not count", "flood", workload.NsPerOp, "2× the fastest", []float64{41, -1, -1, 80, 200}, Missed},
		{"the other order", "flood", workload.NsPerOp, "2× the fastest", []float64{41, -1, -1, 200, 80}, Missed},
		{"another language does not count", "flood", workload.NsPerOp, "2× the fastest", []float64{40, -1, -1, 80, 200, 1}, Met},
		{"without a peer", "flood", workload.NsPerOp, "2× the fastest", []float64{1, -1, 3, -1, -1, 9}, NotMeasured},
		{"three times the control", "pingpong", workload.NsPerOp, "3× goroutines", []float64{100, -1, 300}, Met},
		{"not quite three times", "pingpong", workload.NsPerOp, "3× goroutines", []float64{101, -1, 300}, Missed},
		{"half of the goroutines' throughput", "blocking1000", workload.NsPerOp, "0.5×", []float64{200, -1, 100}, Met},
		{"less than half of it", "blocking1000", workload.NsPerOp, "0.5×", []float64{201, -1, 100}, Missed},
		{"amortized growth is no allocation", "flood", workload.AllocsPerOp, "0 allocs", []float64{0.02}, Met},
		{"one in ten is", "flood", workload.AllocsPerOp, "0 allocs", []float64{0.1}, Missed},
		{"as many workers as processors", "askinside", workload.Workers, "0 blocked", []float64{2}, Met},
		{"a worker more", "askinside", workload.Workers, "0 blocked", []float64{3}, Missed},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, measured := outcomeOf(t, results(c.name, c.figure, c.values...), c.name, c.bar)
			if got != c.want {
				t.Errorf("%s (%s), want %s", got, measured, c.want)
			}
		})
	}
}

func TestEveryBarIsAboutAWorkload(t *testing.T) {
	for _, b := range Bars() {
		if _, err := workload.Named(b.Workload); err != nil || b.Work == "" || b.Want == "" || b.Figure == "" {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// written is the Markdown of a small report.
func written(t *testing.T, r *Results, notes ...string) string {
	t.Helper()
	var workloads []workload.Workload
	for _, name := range []string{"flood", "ask", "fair"} {
		w, err := workload.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		workloads = append(workloads, w)
	}
	var b strings.Builder
	report := Report{
		Setting: Setting{
			Date: "2026-11-21", Took: "1m0s", Command: "bench -count 3", Machine: "2 processors", System: "linux/amd64", Go: "go1.26",
			Greenroom: "abc", Versions: []Version{{"fast", "v1.2.3"}, {"slow", ""}}, Runs: 3,
		},
		Results: r, Runtimes: cast, Workloads: workloads, Procs: []int{2}, Notes: notes,
	}
	if err := report.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestReportHasMediansRangesAndRatios(t *testing.T) {
	var r Results
	for _, ns := range []float64{30, 10, 20} {
		r.Add(Cell{"own", "flood", 2}, workload.Figures{workload.NsPerOp: ns, workload.AllocsPerOp: 1, workload.BytesPerOp: 16})
		r.Add(Cell{"goroutines", "flood", 2}, workload.Figures{workload.NsPerOp: 2 * ns})
	}
	r.Add(Cell{"fast", "fair", 2}, workload.Figures{workload.P99Us: 7})
	r.Fail(Cell{"slow", "flood", 2}, "wrong count")
	got := written(t, &r, "SKIPPED other")
	for _, want := range []string{
		"- command: `bench -count 3`\n", "- fast: v1.2.3\n", "- slow: unknown\n", "- **SKIPPED other**\n",
		"| workload | operation | own | own-any | goroutines | fast | slow | other |\n|---|---|---|---|---|---|---|---|\n",
		"| flood | message | 20.0 (10.0–30.0)<br>0.50× | – | 40.0 (20.0–60.0) | – | **failed** | – |\n",
		"| flood | message | 1.00 (16.0 B) | – | – | – | – | – |\n",
		"| runtime | p99 us | runs |\n|---|---|---|\n| fast | 7.00 | 1 |\n",
		"| tell from outside | ≤ 50 ns | 2 | 20.0 ns/op, limit 50.0 | met |\n",
		"| tell from outside | not slower than a buffered channel | 2 | 20.0 ns/op, limit 40.0 | met |\n",
		"- **slow**: careful.\n  - no ask: it never answers.\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the report does not have %q", want)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestReportCountsTheBars(t *testing.T) {
	got := written(t, results("flood", workload.NsPerOp, 45, -1, 40))
	// Met: 50 ns. Missed: the channel. The rest was not measured.
	if want := "\n1 met, 1 missed, "; !strings.Contains(got, want) {
		t.Errorf("the report does not have %q:\n%s", want, got)
	}
}

func TestReportWithoutAnyFiguresHasNoEmptyTables(t *testing.T) {
	got := written(t, &Results{})
	if strings.Contains(got, "###") {
		t.Errorf("there is a table:\n%s", got)
	}
	if !strings.Contains(got, "0 met, 0 missed") {
		t.Errorf("the bars are not counted:\n%s", got)
	}
}

func TestTablesHaveAsManyCellsInEachRow(t *testing.T) {
	var r Results
	r.Add(Cell{"own", "fair", 2}, workload.Figures{workload.P99Us: 7, workload.MaxUs: 9})
	r.Fail(Cell{"fast", "fair", 2}, "wrong count")
	cells := 0
	for line := range strings.Lines(written(t, &r)) {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(line, "|")
		if cells != 0 && n != cells {
			t.Errorf("%d separators, %d in the row before: %s", n, cells, line)
		}
		cells = n
	}
}
