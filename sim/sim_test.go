package sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func TestAScheduleIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{"-", "12.3", "12.3,40.1,41!p7,3!l0"} {
		s, err := parseSchedule(text)
		if err != nil || s.String() != text {
			t.Errorf("%q was read as %q, %v", text, s, err)
		}
	}
	for _, text := range []string{"", "1", "1.x", "x.1", "1!z1", "1!p", "-1.2"} {
		if _, err := Replay(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("12.3,40.1,41!p7")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSchedule(text)
		if err != nil {
			return
		}
		again, err := parseSchedule(s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q became %q, %v", s, again, err)
		}
	})
}

// race is a system in which b before a is wrong.
func race(w *World) {
	var got []string
	for _, name := range []string{"a", "b", "c", "d"} {
		actor.SpawnFunc(w.System(), name, func(*actor.Context[int], int) error {
			got = append(got, name)
			return nil
		}).Tell(w.Context(), 1)
	}
	w.Never("b is before a", func() bool {
		i := slices.Index(got, "b")
		return i >= 0 && !slices.Contains(got[:i], "a")
	})
}

func TestAFailureIsShrunkReplayedAndWritten(t *testing.T) {
	dir := t.TempDir()
	*flagTrace, *flagDiagram = filepath.Join(dir, "trace.txt"), filepath.Join(dir, "trace.mmd")
	defer func() { *flagTrace, *flagDiagram = "", "" }()
	f := mustFind(t, Options{}, race)
	if f.Choices != 1 || f.Schedule != "0.1" {
		t.Errorf("shrunk to %q", f.Schedule)
	}
	if want := fmt.Sprintf("go test github.com/greenroom-go/greenroom/sim -run '^%s$' -sim.seed=0x%x", t.Name(), f.Seed); f.Replay != want {
		t.Errorf("command %q, want %q", f.Replay, want)
	}
	*flagSeed, *flagSchedule = fmt.Sprintf("0x%x", f.Seed), f.Schedule
	again := mustFind(t, Options{}, race)
	*flagSeed, *flagSchedule = "", ""
	if again.Text != f.Text || !slices.Equal(again.Trace, f.Trace) {
		t.Errorf("replayed %v, found %v", again.Trace, f.Trace)
	}
	for name, want := range map[string]string{*flagTrace: "b is before a: it has happened", *flagDiagram: "p0->>p1: int"} {
		text, err := os.ReadFile(name)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v, has no %q:\n%s", name, err, want, text)
		}
	}
	strategy, err := Replay(f.Schedule)
	if err != nil {
		t.Fatal(err)
	}
	if third := mustFind(t, Options{Runs: 1, Strategy: strategy}, race); third.Text != f.Text {
		t.Errorf("the strategy found %q", third.Text)
	}
}

// note is a message whose print has more than a trace shows, and a pointer.
type note struct {
	actor.Returns[int]
	Text string
	At   *int
}

func TestATraceShowsWhatMessagesSay(t *testing.T) {
	f := mustFind(t, Options{Runs: 1}, func(w *World) {
		actor.SpawnFunc(w.System(), "a", func(ctx *actor.Context[any], m any) error {
			if _, ok := m.(note); ok {
				ctx.After("t", 0, "later")
				return nil
			}
			w.Fatalf("enough")
			return nil
		}).Tell(w.Context(), note{Text: "milk\n2 l " + strings.Repeat("ä", 200), At: new(int)})
		w.Advance(time.Second)
	})
	var got []string
	for _, e := range f.Trace {
		if e.Kind == "turn" {
			got = append(got, e.Content)
		}
	}
	want := []string{"{Text:milk 2 l " + strings.Repeat("ä", 71) + "…", ""} // what a timer says nobody has sent
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if text := contentOf(note{At: new(int)}); text != "{Text: At:0x…}" {
		t.Errorf("got %q", text)
	}
	if text := contentOf([]byte("frame")); text != `"frame"` {
		t.Errorf("got %q", text)
	}
}

func TestTheCommandOfASubtestIsOneForTheShell(t *testing.T) {
	t.Run("it's (one) of $HOME", func(t *testing.T) {
		f := mustFind(t, Options{Runs: 1}, func(w *World) { w.Fatalf("no") })
		out, err := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(f.Replay, "go test", "printf '%s\n'", 1)).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := `^TestTheCommandOfASubtestIsOneForTheShell$/^it's_\(one\)_of_\$HOME$`
		if words := strings.Split(strings.TrimSpace(string(out)), "\n"); len(words) != 4 || words[2] != want {
			t.Errorf("the shell sees %q, want %q in it", words, want)
		}
	})
}

func TestWhatCannotBeRunIsSaid(t *testing.T) {
	if seed, err := parseSeed("0x1f"); seed != 0x1f || err != nil {
		t.Errorf("0x1f is %d, %v", seed, err)
	}
	for _, text := range []string{"", "x", "0x", "0x1f and more", "-1", "0x11111111111111111"} {
		if _, err := parseSeed(text); err == nil {
			t.Errorf("%q was taken for a seed", text)
		}
	}
}

func TestShrinkingKeepsToTheFailureThatWasFound(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		var got []string
		for _, name := range []string{"a", "b", "c", "d"} {
			actor.SpawnFunc(w.System(), name, func(*actor.Context[int], int) error {
				got = append(got, name)
				return nil
			}).Tell(w.Context(), 1)
		}
		w.Settle()
		if text := strings.Join(got, ""); text[0] == 'd' {
			w.Fatalf("d is first: %s", text)
		} else if text == "abcd" {
			w.Fatalf("nothing has changed")
		}
	})
	if last := f.Trace[len(f.Trace)-1]; !strings.HasPrefix(f.Text, "d is first") || !strings.HasPrefix(last.Message, "d is first") {
		t.Errorf("found %q, shrunk to %q", f.Text, last.Message)
	}
}

func TestEachStrategyFindsARace(t *testing.T) {
	for _, s := range []Strategy{RandomWalk(), PCT(2), PCT(3), Portfolio()} {
		if f := mustFind(t, Options{Strategy: s}, race); f.Run > 20 {
			t.Errorf("%s needed %d runs", s, f.Run)
		}
	}
	if f, found := Find(t, Options{Strategy: RoundRobin()}, race); found {
		t.Errorf("round robin, which keeps the order, found %s", f.Text)
	}
}

func TestRoundRobinStarvesNobody(t *testing.T) {
	Check(t, Options{Runs: 3, Strategy: RoundRobin()}, func(w *World) {
		counts := make([]int, 5)
		for i := range counts {
			actor.SpawnFunc(w.System(), "", func(ctx *actor.Context[int], n int) error {
				if counts[i]++; n > 0 {
					ctx.Self().Tell(ctx, n-1)
				}
				return nil
			}).Tell(w.Context(), 50)
		}
		w.Always("all have the same", func() error {
			if slices.Max(counts)-slices.Min(counts) > 1 {
				return fmt.Errorf("counts are %v", counts)
			}
			return nil
		})
	})
}

func TestALinkKeepsItsOrderLosesAndDoubles(t *testing.T) {
	lostAny, doubled := false, false
	Check(t, Options{Runs: 50, TwiceEvery: -1, Faults: Faults{Link: LinkFaults{Drop: 0.2, Duplicate: 0.2, Delay: time.Second}}}, func(w *World) {
		a, b := w.Node("a"), w.Node("b")
		var got []int
		sink := actor.SpawnFunc(b.System(), "sink", func(_ *actor.Context[int], n int) error {
			got = append(got, n)
			return nil
		})
		l := w.Link(a, b)
		to := Proxy(l, "to-sink", sink)
		for n := range 20 {
			to.Tell(w.Context(), n)
		}
		w.Advance(2 * time.Second)
		lost, sent := l.Lost()
		if !slices.IsSorted(got) || len(got) != sent-lost {
			w.Fatalf("got %v, sent %d, lost %d", got, sent, lost)
		}
		lostAny, doubled = lostAny || lost > 0, doubled || sent > 20
		w.Partition([]*Node{a}, []*Node{b})
		got = nil
		to.Tell(w.Context(), 1)
		w.Advance(2 * time.Second)
		if len(got) > 0 {
			w.Fatalf("got %v through a partition", got)
		}
		w.Heal()
		to.Tell(w.Context(), 2)
		w.Eventually(time.Second, "the link works again", func() error {
			if !slices.Equal(got, []int{2}) {
				return fmt.Errorf("got %v", got)
			}
			return nil
		})
	})
	if !lostAny || !doubled {
		t.Errorf("in 50 runs, lost a frame: %v, doubled one: %v", lostAny, doubled)
	}
}

func TestANodeThatCrashesDoesNothingAnyMore(t *testing.T) {
	Check(t, Options{Runs: 100}, func(w *World) {
		n := w.Node("n")
		steps, ended := 0, 0
		actor.SpawnFunc(n.System(), "a", func(ctx *actor.Context[int], k int) error {
			defer func() { ended++ }()
			if err := ctx.Sleep(time.Millisecond); err != nil {
				return err
			}
			steps++
			ctx.Self().Tell(ctx, k)
			return nil
		}).Tell(w.Context(), 1)
		w.Advance(w.Sometime(10 * time.Millisecond))
		n.Crash()
		before, done := steps, ended
		again := w.Node("n")
		if again == n || again.System() == n.System() {
			w.Fatalf("the node is the one that has crashed")
		}
		w.Advance(time.Minute)
		if steps != before || ended != done {
			w.Fatalf("it went on after its crash: %d steps, %d", steps-before, ended-done)
		}
	})
}

func TestFaultsStrikeAndSpareWhomTheyShould(t *testing.T) {
	struck := make(map[string]int)
	opts := Options{Runs: 50, TwiceEvery: 10, Faults: Faults{
		Panic: 0.1, Stop: 0.02, Kill: 0.02, Of: func(p actor.PID) bool { return p.Path() != "/spared" },
	}}
	Check(t, opts, func(w *World) {
		for _, name := range []string{"spared", "other"} {
			ref := actor.SpawnFunc(w.System(), name, func(ctx *actor.Context[int], n int) error {
				if n > 0 {
					ctx.Self().Tell(ctx, n-1)
				}
				return nil
			})
			actor.SpawnFunc(w.System(), "of-"+name, func(ctx *actor.Context[actor.Event], e actor.Event) error {
				switch e := e.(type) {
				case actor.ActorFailed:
					struck[e.PID.Path()+" failed"]++
				case actor.ActorStopped:
					if w.Elapsed() == 0 {
						struck[e.PID.Path()+" "+e.Reason.String()]++
					}
				}
				return nil
			})
			ref.Tell(w.Context(), 20)
		}
		listener, err := actor.LookupPath[actor.Event](w.System(), "/of-other")
		if err != nil {
			w.Fatalf("%v", err)
		}
		actor.Subscribe(w.System(), listener)
		w.Settle()
	})
	for _, want := range []string{"/other failed", "/other stopped", "/other killed"} {
		if struck[want] == 0 {
			t.Errorf("in 50 runs never: %s; there were %v", want, struck)
		}
	}
	for what := range struck {
		if strings.HasPrefix(what, "/spared failed") || strings.HasPrefix(what, "/spared killed") {
			t.Errorf("there was %s", what)
		}
	}
}

func TestAChosenPanicStrikesAtItsMessageBeforeOrAfterTheHandler(t *testing.T) {
	for _, c := range []struct {
		n    int
		when Moment
		want string // a restart forgets what was counted
	}{
		{1, Before, "1 2 3"}, {2, Before, "1 1 2"}, {2, After, "1 2 1 2"}, {4, After, "1 2 3 4"}, {9, Before, "1 2 3 4"},
	} {
		Check(t, Options{Runs: 3}, func(w *World) {
			var got []string
			a := actor.Spawn[int](w.System(), "a", func() *counter { return &counter{got: &got} })
			b := actor.Spawn[int](w.System(), "b", func() *counter { return &counter{got: new([]string)} })
			w.Panic(a.PID(), c.n, c.when)
			for i := range 4 {
				a.Tell(w.Context(), i)
				b.Tell(w.Context(), i)
			}
			w.Settle()
			if text := strings.Join(got, " "); text != c.want {
				w.Fatalf("a panic at message %d, moment %d: got %s, want %s", c.n, c.when, text, c.want)
			}
			if failures := w.System().Stats().Failures; (failures == 1) != (c.n <= 4) {
				w.Fatalf("there were %d failures", failures)
			}
		})
	}
}

// counter counts its messages.
type counter struct {
	n   int
	got *[]string
}

// Receive implements actor.Actor.
func (c *counter) Receive(*actor.Context[int], int) error {
	c.n++
	*c.got = append(*c.got, fmt.Sprint(c.n))
	return nil
}

func TestTwoChosenPanicsOfOneActorAreTwo(t *testing.T) {
	Check(t, Options{Runs: 3}, func(w *World) {
		a := actor.Spawn[int](w.System(), "a", func() *counter { return &counter{got: new([]string)} })
		w.Panic(a.PID(), 1, Before)
		w.Panic(a.PID(), 1, After)
		w.Panic(a.PID(), 2, After)
		for i := range 4 {
			a.Tell(w.Context(), i)
		}
		w.Settle()
		if n := w.System().Stats().Failures; n != 3 {
			w.Fatalf("there were %d failures", n)
		}
	})
}

func TestAChosenPanicOfNobodyIsRefused(t *testing.T) {
	f := mustFind(t, Options{Runs: 1}, func(w *World) { w.Panic(actor.PID{}, 1, Before) })
	wantText(t, f, "want an actor of this world")
	f = mustFind(t, Options{Runs: 1}, func(w *World) {
		a := actor.SpawnFunc(w.System(), "a", func(*actor.Context[int], int) error { return nil })
		w.Panic(a.PID(), 0, Before)
	})
	wantText(t, f, "counted from 1")
}

func TestAnEventuallyThatDoesNotComeTrueFails(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		w.Eventually(time.Second, "a wonder", func() error { return errors.New("not yet") })
	})
	wantText(t, f, "a wonder: not within 1s: not yet")
}

func TestAConditionThatWaitsIsRefused(t *testing.T) {
	f := mustFind(t, Options{}, func(w *World) {
		w.Always("a condition", func() error {
			w.Advance(time.Second)
			return nil
		})
	})
	wantText(t, f, "must look and not wait")
}

// stubborn waits at its end for an answer that does not come.
type stubborn struct{ of actor.Ref[number] }

// Receive implements actor.Actor.
func (s *stubborn) Receive(*actor.Context[int], int) error { return nil }

// Terminate implements actor.Terminator.
func (s *stubborn) Terminate(*actor.Context[int], error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	_, _ = actor.Ask(ctx, s.of, number{})
}

func TestActorsThatCannotBeStoppedAreNamed(t *testing.T) {
	f := mustFind(t, Options{Runs: 1}, func(w *World) {
		silent := actor.SpawnFunc(w.System(), "silent", func(ctx *actor.Context[number], n number) error {
			actor.Promise(ctx, n)
			return nil
		})
		actor.Spawn[int](w.System(), "stubborn", func() *stubborn { return &stubborn{silent} })
	})
	wantText(t, f, "/stubborn")
}
