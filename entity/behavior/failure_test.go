package behavior

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAFailureHasNoEffectAndIsShown(t *testing.T) {
	p := build(t)
	p.register(Spec{Name: "bad", Keys: []string{"x"}, Handle: func(e *Entity, ev Event) error {
		if err := errors.Join(e.Set(sample("n", 1)), e.SetState([]byte("kept"))); err != nil {
			return err
		}
		switch x, _ := ev.Value("x"); x.Int() {
		case 1:
			return errors.New("one is not good")
		case 2:
			panic("two is worse")
		}
		return nil
	}})
	p.write("a", 1, "x", 1)
	p.write("a", 2, "x", 2)
	p.sync("bad")
	if _, n := p.latest("a", "n"); n != -1 {
		t.Errorf("n = %d, want none", n)
	}
	if state, err := p.State(t.Context(), "bad", "a"); err != nil || state != nil {
		t.Errorf("state %q, %v", state, err)
	}
	check := func(p *plant) {
		t.Helper()
		st := p.status("bad")
		if len(st.Failed) != 2 || st.InRow != 2 || !strings.Contains(st.Failed[0].Text, "two is worse") || st.Failed[1].Text != "one is not good" || st.Failed[1].TS != start+1 || st.Failed[1].Entity != "a" || st.Failed[1].Seq == 0 {
			t.Errorf("%+v", st)
		}
	}
	check(p)
	p.write("a", 3, "x", 3)
	p.sync("bad")
	if st := p.status("bad"); st.InRow != 0 || st.Failures != 2 || st.Runs != 3 {
		t.Errorf("%+v", st)
	}
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n = %d, want 1", n)
	}
}

func TestManyFailuresInARowSwitchABehaviorOff(t *testing.T) {
	p := build(t)
	var good atomic.Bool
	spec := Spec{Name: "bad", Keys: []string{"x"}, Handle: func(e *Entity, _ Event) error {
		if good.Load() {
			return e.Set(sample("n", 1))
		}
		return errors.New("it is broken")
	}}
	p.register(spec)
	for i := range int64(MaxInRow - 1) {
		p.write("a", i, "x", 1)
	}
	p.sync("bad")
	if st := p.status("bad"); st.Off != "" || st.InRow != MaxInRow-1 {
		t.Fatalf("after %d: %+v", MaxInRow-1, st)
	}
	p.write("b", 1, "x", 1)
	p.sync("bad")
	if st := p.status("bad"); st.Off != OffFailures || st.InRow != MaxInRow || len(st.Failed) != MaxFailures {
		t.Fatalf("after %d: %+v", MaxInRow, st)
	}
	good.Store(true)
	p = p.restart()
	p.register(spec)
	p.write("c", 1, "x", 1)
	if st := p.status("bad"); st.Off != OffFailures || len(st.Failed) != MaxFailures {
		t.Fatalf("after a restart: %+v", st)
	}
	if err := p.Switch(t.Context(), "bad", true); err != nil {
		t.Fatal(err)
	}
	p.write("d", 1, "x", 1)
	p.sync("bad")
	_, c := p.latest("c", "n")
	if _, d := p.latest("d", "n"); c != -1 || d != 1 {
		t.Errorf("n of what came before it was on %d, after that %d", c, d)
	}
}

func TestAnotherVersionOfABrokenBehaviorIsOn(t *testing.T) {
	p := build(t)
	spec := Spec{Name: "bad", Keys: []string{"x"}, Handle: func(*Entity, Event) error { return errors.New("it is broken") }}
	p.register(spec)
	for i := range int64(MaxInRow) {
		p.write("a", i, "x", 1)
	}
	p.sync("bad")
	next := counter("bad")
	next.Version = 2
	p.register(next)
	p.write("a", 1000, "x", 1)
	p.sync("bad")
	if _, n := p.latest("a", "n"); n != 1 || p.status("bad").Off != "" {
		t.Errorf("n = %d, %+v", n, p.status("bad"))
	}
	if err := p.Switch(t.Context(), "bad", false); err != nil {
		t.Fatal(err)
	}
	next.Version = 3
	p.register(next)
	if st := p.status("bad"); st.Off != OffDisabled {
		t.Errorf("one that somebody has switched off: %+v", st)
	}
}

// A behavior that is off because of failures and is then switched off stays so in its next version.
func TestABrokenBehaviorThatIsSwitchedOffStaysOff(t *testing.T) {
	p := build(t)
	spec := counter("count")
	spec.Handle = func(*Entity, Event) error { return errors.New("no") }
	p.register(spec)
	for i := range int64(MaxInRow) {
		p.write("a", i, "x", i)
	}
	p.sync("count")
	if st := p.status("count"); st.Off != OffFailures {
		t.Fatalf("%+v", st)
	}
	if err := p.Disable(t.Context(), "count"); err != nil {
		t.Fatal(err)
	}
	spec.Version = 2
	p.register(spec)
	if st := p.status("count"); st.Off != OffDisabled {
		t.Errorf("%+v", st)
	}
}

// A status may be asked for at any time: what it counts as a failure it also lists.
func TestAStatusListsTheFailuresThatItCounts(t *testing.T) {
	t.Parallel()
	b := &behavior{count: new(counters)}
	f := &follower{b: b}
	b.publish(f.place)
	f.fail(Failure{Text: "first"})
	if st := b.now(); int(st.Failures) != len(st.Failed) {
		t.Errorf("%d failures are counted, %d listed", st.Failures, len(st.Failed))
	}
	b.publish(f.place)
	if st := b.now(); st.Failures != 1 || len(st.Failed) != 1 || st.InRow != 1 {
		t.Errorf("published as %+v", st)
	}
}
