package main

import (
	"strings"
	"testing"
)

// TestEachBarIsMeasured runs everything with small sizes: the figures say nothing then, the counts do.
func TestEachBarIsMeasured(t *testing.T) {
	var out strings.Builder
	if err := measure(&out, "", 100); err != nil {
		t.Error(err)
	}
	for _, b := range benches {
		if !strings.Contains(out.String(), "| "+b.name+": ") {
			t.Errorf("%s has no figure in\n%s", b.name, out.String())
		}
	}
}
