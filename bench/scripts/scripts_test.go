package scripts

import (
	"context"
	"strings"
	"testing"
)

func TestEachRowIsMeasuredBesideItsControl(t *testing.T) {
	results, err := Measure(context.Background(), Rows(), 1, true)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Write(&out, results); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !strings.Contains(out.String(), r.Name) || len(r.Figures) != 1 || len(r.Controls) != 1 {
			t.Errorf("%s has %v beside %v", r.Name, r.Figures, r.Controls)
		}
	}
}

func TestABarThatIsMissedIsSaid(t *testing.T) {
	results := []Result{
		{Row: Row{Name: "a", Bar: 1, Unit: "µs"}, Figures: []float64{1, 2, 3}, Controls: []float64{1}},
		{Row: Row{Name: "b", Bar: 1.3, Ratio: true}, Figures: []float64{5}, Controls: []float64{4}},
	}
	var out strings.Builder
	if err := Write(&out, results); err != nil {
		t.Fatal(err)
	}
	if results[0].Kept() || !results[1].Kept() || strings.Count(out.String(), "**missed**") != 1 {
		t.Errorf("%s", out.String())
	}
}
