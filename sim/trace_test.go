package sim

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// ticking fails after two actors have ticked a hundred times each.
func ticking(w *World) {
	for _, name := range []string{"a", "b"} {
		actor.SpawnFunc(w.System(), name, func(ctx *actor.Context[string], m string) error {
			if m == "begin" {
				ctx.Every("t", time.Second, "tick")
			}
			return nil
		}).Tell(w.Context(), "begin")
	}
	w.Advance(100*time.Second + time.Millisecond)
	w.Fatalf("enough")
}

func TestATraceShowsWhatRepeatsItselfOnce(t *testing.T) {
	f := mustFind(t, Options{Runs: 1, Strategy: RoundRobin()}, ticking)
	if len(f.Trace) < 203 {
		t.Errorf("the trace has %d events", len(f.Trace))
	}
	var text, diagram bytes.Buffer
	if err := errors.Join(writeText(&text, &f), writeDiagram(&diagram, &f)); err != nil {
		t.Fatal(err)
	}
	for what, got := range map[string]string{"the trace": text.String(), "the report": f.report()} {
		if n := strings.Count(got, " string"); n > 6 || !strings.Contains(got, "these 2 events, 99 more times until here") || strings.Contains(got, "the last") {
			t.Errorf("%s has %d messages:\n%s", what, n, got)
		}
	}
	if got := diagram.String(); strings.Count(got, "->>") > 6 || !strings.Contains(got, "    loop 100 times\n") || !strings.Contains(got, "    end\n") {
		t.Errorf("got %s", got)
	}
}

func TestWhatIsNotTheSameIsShownEachTime(t *testing.T) {
	all := []Event{{Kind: "log", Message: "1"}, {Kind: "log", Message: "2"}, {Kind: "log", Message: "2"}, {Kind: "log", Message: "1"}, {Kind: "log", Message: "1"}}
	if got := folded(all); len(got) != len(all) {
		t.Errorf("got %+v", got)
	}
	last, n := lastOf(folded(append(all, all[4])), 3)
	if len(last) != 3 || n != 5 || last[2].times != 3 {
		t.Errorf("the last %d: %+v", n, last)
	}
}

func TestATraceShowsStashesAndFaults(t *testing.T) {
	f := mustFind(t, Options{Runs: 1}, func(w *World) {
		aside := 0
		a := actor.SpawnFunc(w.System(), "a", func(ctx *actor.Context[string], m string) error {
			switch {
			case m == "open":
				ctx.Unstash()
				ctx.Become(func(*actor.Context[string], string) error { return nil })
			case w.Sometimes(1):
				aside++
				return ctx.Stash()
			}
			return nil
		})
		for _, m := range []string{"x", "y", "open"} {
			a.Tell(w.Context(), m)
		}
		w.Settle()
		if aside == 2 { // shrinking must need both faults
			w.Fatalf("enough")
		}
	})
	var got []string
	for _, e := range f.Trace {
		if e.Kind == "stash" || e.Kind == "fault" {
			if e.Kind == "stash" && e.Actor.Path() != "/a" {
				t.Errorf("it is not said whose: %v", e)
			}
			got = append(got, e.Kind+" "+e.Message)
		}
	}
	want := []string{"fault Sometimes is true", "stash 1 set aside", "fault Sometimes is true", "stash 2 set aside", "stash 0 set aside"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
