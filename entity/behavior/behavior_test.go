package behavior

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// counter counts the readings of x in its state, and writes the count as n.
func counter(name string) Spec {
	return Spec{Name: name, Keys: []string{"x"}, Handle: Stateful(func(e *Entity, n *int64, _ Event) error {
		*n++
		return e.Set(entity.Sample{Key: "n", Value: value.Int(*n)})
	})}
}

func mustFilter(t *testing.T, text string) *filter.Filter {
	t.Helper()
	f, err := filter.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAHandlerIsCalledAfterTheCommitWithTheEntityAndItsState(t *testing.T) {
	p := build(t)
	p.write("a", 0, "x", 7) // before: not handled
	p.register(counter("count"))
	for i := range int64(5) {
		p.write("a", 10+i, "x", i)
		p.write("a", 10+i, "other", i)
		p.write("b", 10+i, "x", i)
	}
	p.sync("count")
	for _, id := range []string{"a", "b"} {
		l, n := p.latest(id, "n")
		if n != 5 || l.TS != start+14 || !strings.HasPrefix(l.Origin.Source, "behavior:count@1") || l.Origin.Seq == 0 {
			t.Errorf("%s: n = %d, %+v", id, n, l)
		}
		if state, err := p.State(t.Context(), "count", id); err != nil || string(state) != "5" {
			t.Errorf("%s: state %q, %v", id, state, err)
		}
	}
	if st := p.status("count"); st.Runs != 10 || st.Effects != 10 || st.Failures != 0 || st.Pending != 0 || st.Off != "" {
		t.Errorf("%+v", st)
	}
}

func TestABehaviorGoesOnWhereItHasStopped(t *testing.T) {
	p := build(t)
	p.register(counter("count"))
	p.write("a", 1, "x", 1)
	p.sync("count")
	p = p.restart()
	p.write("a", 2, "x", 1)
	p.write("a", 3, "x", 1)
	p.register(counter("count"))
	p.sync("count")
	if _, n := p.latest("a", "n"); n != 3 {
		t.Errorf("n = %d after a restart, want 3", n)
	}
	next := counter("count")
	next.Version = 2
	p.register(next)
	p.write("a", 4, "x", 1)
	p.sync("count")
	if l, n := p.latest("a", "n"); n != 4 || l.Origin.Source != "behavior:count@2" {
		t.Errorf("n = %d from %q with another version", n, l.Origin.Source)
	}
	if err := p.Remove(t.Context(), "count"); err != nil {
		t.Fatal(err)
	}
	p.write("a", 5, "x", 1)
	p.register(counter("count"))
	p.write("a", 6, "x", 1)
	p.sync("count")
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n = %d for one that was removed and made anew, want 1", n)
	}
}

func TestABehaviorIsForItsTypeAndWhatItsFilterMatches(t *testing.T) {
	p := build(t)
	for _, id := range []string{"Pump", "Big"} {
		typ := &model.Type{ID: id}
		if id == "Big" {
			typ.Extends = []string{"Pump"}
		}
		if _, err := p.rt.PutType(t.Context(), typ, ""); err != nil {
			t.Fatal(err)
		}
	}
	for id, typ := range map[string]string{"pump": "Pump", "big": "Big", "none": ""} {
		p.edit(id, entity.Edits{Type: &typ, Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(`{"site":"A"}`)}}})
	}
	s := counter("count")
	s.Type, s.Where = "Pump", mustFilter(t, `attributes.site = "A"`)
	p.register(s)
	round := func(ts int64, pump, big, none int64) {
		t.Helper()
		for _, id := range []string{"pump", "big", "none"} {
			p.write(id, ts, "x", 1)
		}
		p.sync("count")
		for id, want := range map[string]int64{"pump": pump, "big": big, "none": none} {
			if _, n := p.latest(id, "n"); n != want {
				t.Errorf("at %d: n of %s is %d, want %d", ts, id, n, want)
			}
		}
	}
	round(1, 1, 1, -1)
	none, pump := "", "Pump"
	p.edit("none", entity.Edits{Type: &pump})
	p.edit("pump", entity.Edits{Type: &none})
	p.edit("big", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(`{"site":"B"}`)}}})
	round(2, 1, 1, 1)
	p.edit("pump", entity.Edits{Type: &pump})
	round(3, 2, 1, 2)
	if _, err := p.rt.PutType(t.Context(), &model.Type{ID: "Big"}, ""); err != nil { // no Pump any more
		t.Fatal(err)
	}
	p.edit("big", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(`{"site":"A"}`)}}})
	round(4, 3, 1, 3)
}

func TestAFilterOfLatestValuesIsAskedEachTime(t *testing.T) {
	p := build(t)
	s := counter("count")
	s.Where = mustFilter(t, "mode = 1")
	p.register(s)
	for i := range int64(4) {
		p.write("a", 2*i, "mode", i%2)
		p.write("a", 2*i+1, "x", i)
		p.sync("count")
	}
	if _, n := p.latest("a", "n"); n != 2 {
		t.Errorf("n = %d, want 2", n)
	}
}

func TestEffectsAreReadingsAttributesAndCommands(t *testing.T) {
	p := build(t)
	p.register(Spec{Name: "all", Keys: []string{"x"}, Handle: func(e *Entity, ev Event) error {
		x, _ := ev.Value("x")
		return errors.Join(
			e.Set(sample("a", 1), entity.Sample{Key: "f", Value: value.Float(2)}, sample("a", 2)),
			e.SetAt(ev.TS-1, sample("b", 3)),
			e.SetAttribute(entity.Attributes, value.String("dry"), "alarm", "kind"),
			e.SetAttribute(entity.Attributes, x, "seen"),
			e.Command(entity.NewCommand{Name: "stop", Request: value.JSON(`{"now":true}`)}),
			e.Command(entity.NewCommand{Name: "horn"}),
		)
	}})
	p.write("a", 10, "x", 7)
	p.sync("all")
	if l, n := p.latest("a", "a"); n != 2 || l.TS != start+10 {
		t.Errorf("a: %+v", l)
	}
	if l, n := p.latest("a", "b"); n != 3 || l.TS != start+9 {
		t.Errorf("b: %+v", l)
	}
	if l, n := p.latest("a", "f"); n != 2 || l.Value.Kind() != value.KindInt {
		t.Errorf("f: %+v", l)
	}
	if kind, seen := p.attribute("a", "/alarm/kind"), p.attribute("a", "/seen"); kind != `"dry"` || seen != "7" {
		t.Errorf("attributes %s, %s", kind, seen)
	}
	list, err := p.rt.Commands(t.Context(), "a", entity.CommandsQuery{})
	if err != nil || len(list) != 2 || list[1].Name != "stop" || list[0].Name != "horn" || !strings.HasPrefix(list[1].Key, "behavior:all@1#") || list[1].By != "behavior:all" {
		t.Errorf("commands %+v, %v", list, err)
	}
}

func TestACircleOfBehaviorsEnds(t *testing.T) {
	p := build(t)
	for name, keys := range map[string][2]string{"ping": {"x", "y"}, "pong": {"y", "x"}} {
		p.register(Spec{Name: name, Keys: keys[:1], Handle: func(e *Entity, ev Event) error {
			v, _ := ev.Value(keys[0])
			return e.SetAt(ev.TS+1, sample(keys[1], v.Int()+1))
		}})
	}
	p.write("a", 0, "x", 0)
	for range MaxDepth { // each sync waits for what it had caused
		p.sync("ping")
		p.sync("pong")
	}
	if _, x := p.latest("a", "x"); x != MaxDepth {
		t.Errorf("x = %d, want %d", x, MaxDepth)
	}
	st := p.status("ping")
	if len(st.Failed) != 1 || st.Failed[0].Text != ErrDepth.Error() {
		t.Errorf("%+v", st)
	}
	if l, _ := p.latest("a", "x"); l.Origin.Source != fmt.Sprintf("behavior:pong@1:%d", MaxDepth) {
		t.Errorf("origin %q", l.Origin.Source)
	}
}

func TestABehaviorIsNotCalledForWhatItHasWritten(t *testing.T) {
	p := build(t)
	var calls atomic.Int64
	p.register(Spec{Name: "self", Edits: true, Handle: func(e *Entity, ev Event) error {
		calls.Add(1)
		return errors.Join(e.SetAt(ev.TS+1, sample("x", 1)), e.SetAttribute(entity.Attributes, value.Int(calls.Load()), "n"))
	}})
	p.write("a", 0, "x", 0)
	p.sync("self")
	p.sync("self")
	if n := calls.Load(); n != 1 {
		t.Errorf("called %d times, want 1", n)
	}
}

func TestAnEntityThatIsDeletedHasNoStateAndComesNotBack(t *testing.T) {
	p := build(t)
	p.register(counter("count"))
	p.write("a", 1, "x", 1)
	p.write("a", 2, "x", 1)
	p.sync("count")
	if err := p.rt.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	p.sync("count")
	if state, err := p.State(t.Context(), "count", "a"); err != nil || state != nil {
		t.Errorf("state %q, %v", state, err)
	}
	if _, err := p.rt.Entity(t.Context(), "a"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("the entity is back: %v", err)
	}
	p.write("a", 3, "x", 1)
	p.sync("count")
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n of another one of its id: %d, want 1", n)
	}
}

// What a behavior that was behind decides for an entity that has been deleted meanwhile, and made
// anew, is not for the new one.
func TestALaggingBehaviorChangesNoOtherEntityOfTheID(t *testing.T) {
	p := build(t)
	p.register(counter("count"))
	p.sync("count")
	p = p.restart() // nothing is followed
	for i := range int64(3) {
		p.write("a", i, "x", 1)
		p.write("b", i, "x", 1)
		p.write("c", i, "x", 1)
	}
	for _, id := range []string{"a", "b"} {
		if err := p.rt.Delete(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	for now := int64(0); now == 0; { // the new one is made in another millisecond
		p.write("a", 10, "x", 1)
		a, err := p.rt.Entity(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		now = a.Created
	}
	p.register(counter("count"))
	p.sync("count")
	if _, n := p.latest("c", "n"); n != 3 {
		t.Errorf("n of c is %d, want 3", n)
	}
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n of the new a is %d, want 1", n)
	}
	if _, err := p.rt.Entity(t.Context(), "b"); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("b is back: %v", err)
	}
}

func TestNothingOldIsKnownOfEntitiesAfterMissedChanges(t *testing.T) {
	p := build(t)
	spec := Spec{Name: "watch", Keys: []string{"x"}, Handle: Stateful(func(e *Entity, n *int64, _ Event) error {
		*n++
		limit, _ := e.View().Attribute(entity.Attributes, "/limit")
		return e.Set(entity.Sample{Key: "n", Value: value.Int(*n)}, entity.Sample{Key: "limit", Value: limit.Value})
	})}
	p.register(spec)
	limit := func(n int64) entity.Edits {
		return entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: fmt.Appendf(nil, `{"limit":%d}`, n)}}}
	}
	for _, id := range []string{"a", "b"} {
		p.edit(id, limit(1))
		p.write(id, 1, "x", 1)
	}
	p.sync("watch")
	p = p.restart()
	p.write("a", 2, "x", 1)
	p.write("b", 2, "x", 1)
	g := p.store.newGap()
	p.write("c", 2, "x", 1) // missed
	p.store.gap.Store(g)
	p.register(spec)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	select {
	case <-g.reached:
	case <-ctx.Done():
		t.Fatal("the gap is not reached")
	}
	synced := make(chan error, 1)
	go func() { synced <- p.Sync(ctx, "watch") }()
	for _, id := range []string{"a", "b"} { // which are known from now on
		for n := int64(0); n != 2; _, n = p.latest(id, "n") {
			if err := pause.For(ctx, time.Millisecond); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := p.rt.Delete(t.Context(), "b", ""); err != nil {
		t.Fatal(err)
	}
	p.edit("a", limit(2))
	p.edit("b", limit(3)) // another one
	close(g.lost)
	if err := <-synced; err != nil {
		t.Fatal(err)
	}
	p.sync("watch")
	p.write("a", 3, "x", 1)
	p.write("b", 3, "x", 1)
	p.sync("watch")
	for id, want := range map[string][2]int64{"a": {3, 2}, "b": {1, 3}} {
		_, n := p.latest(id, "n")
		if _, limit := p.latest(id, "limit"); n != want[0] || limit != want[1] {
			t.Errorf("%s: call %d with the limit %d, want %d with %d", id, n, limit, want[0], want[1])
		}
	}
	if st := p.status("watch"); st.Missed != 1 || st.Failures != 0 {
		t.Errorf("%+v", st)
	}
}

func TestRegularCallsAreForEntitiesWithAState(t *testing.T) {
	p := build(t)
	spec := Spec{Name: "watch", Keys: []string{"x"}, Every: MinEvery, Handle: Stateful(func(e *Entity, s *struct{ X, Ticks int64 }, ev Event) error {
		if ev.Change == nil {
			s.Ticks++
			return e.Set(sample("ticks", s.Ticks))
		}
		x, _ := ev.Value("x")
		s.X = x.Int()
		return nil
	})}
	p.register(spec)
	many := tickPage + 10
	for i := range many {
		p.write(fmt.Sprintf("e%04d", i), 1, "x", 1)
	}
	p.write("none", 1, "y", 1)
	p.sync("watch")
	for i := range int64(3) {
		p.clock.Add(MinEvery.Milliseconds())
		p.write("none", 2+i, "y", 1) // so that there is something to wait for
		p.sync("watch")
		for e := range many {
			l, n := p.latest(fmt.Sprintf("e%04d", e), "ticks")
			if n != i+1 || l.TS != start+1000*(i+1) || l.Origin != (entity.Origin{Source: "behavior:watch@1:tick", Seq: uint64(l.TS)}) {
				t.Fatalf("e%04d after %d: %+v", e, i+1, l)
			}
		}
	}
	if _, n := p.latest("none", "ticks"); n != -1 {
		t.Errorf("one without a state was called %d times", n)
	}
	p.clock.Add(10 * MinEvery.Milliseconds())
	p.write("none", 100, "y", 1)
	p.sync("watch")
	if _, n := p.latest("e0000", "ticks"); n != 4 {
		t.Errorf("%d ticks, want 4: those that were missed are not made up for", n)
	}
}

func TestLateReadingsAreMarkedAndDoNotChangeTheLatest(t *testing.T) {
	p := build(t)
	var mu sync.Mutex
	var seen []string
	p.register(Spec{Name: "late", Keys: []string{"x"}, Handle: func(e *Entity, ev Event) error {
		mu.Lock()
		defer mu.Unlock()
		l, _ := e.Latest("x")
		seen = append(seen, fmt.Sprint(ev.TS-start, ev.Late, l.Value.Int()))
		return nil
	}})
	for _, ts := range []int64{10, 5, 20, 20, 19} {
		p.write("a", ts, "x", ts)
		p.sync("late")
	}
	if got, want := strings.Join(seen, ","), "10 false 10,5 true 10,20 false 20,20 false 20,19 true 20"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestAnEffectThatTheEntityDoesNotTakeIsShown(t *testing.T) {
	p := build(t)
	p.register(Spec{Name: "bad", Keys: []string{"x"}, Handle: func(e *Entity, _ Event) error {
		return errors.Join(e.Patch(entity.Patch{Section: entity.Attributes, Body: []byte(`[1]`)}), e.Set(sample("n", 1)))
	}})
	p.write("a", 1, "x", 1)
	p.sync("bad")
	st := p.status("bad")
	if st.Refused != 1 || st.Effects != 1 || len(st.Failed) != 1 || !st.Failed[0].Refused || !strings.Contains(st.Failed[0].Text, "merge patch") || st.InRow != 0 {
		t.Errorf("%+v", st)
	}
	if _, n := p.latest("a", "n"); n != 1 {
		t.Errorf("n = %d: the other effects are made", n)
	}
}

func TestOneCallHasLimits(t *testing.T) {
	p := build(t)
	for name, f := range map[string]func(e *Entity) error{
		"effects": func(e *Entity) (err error) {
			for range MaxEffects + 1 {
				err = e.Command(entity.NewCommand{Name: "go"})
			}
			return err
		},
		"bytes": func(e *Entity) error {
			return e.Set(entity.Sample{Key: "s", Value: value.String(strings.Repeat("x", MaxEffectBytes))})
		},
		"state": func(e *Entity) error { return e.SetState(make([]byte, MaxStateBytes+1)) },
	} {
		p.register(Spec{Name: name, Keys: []string{name}, Handle: func(e *Entity, _ Event) error {
			err := f(e)
			if !errors.Is(err, ErrTooMuch) {
				t.Errorf("%s: %v, want ErrTooMuch", name, err)
			}
			return err
		}})
		p.write("a", 1, name, 1)
		p.sync(name)
		if st := p.status(name); st.Failures != 1 {
			t.Errorf("%s: %+v", name, st)
		}
	}
	for i := range MaxBehaviors - 3 {
		p.register(Spec{Name: fmt.Sprintf("b%d", i), Handle: func(*Entity, Event) error { return nil }})
	}
	if err := p.Register(t.Context(), counter("more")); !errors.Is(err, ErrLimit) {
		t.Errorf("%v, want ErrLimit", err)
	}
}

func TestASpecThatCannotBeIsRefused(t *testing.T) {
	p := build(t)
	handle := func(*Entity, Event) error { return nil }
	for what, s := range map[string]Spec{
		"name":   {Handle: handle},
		"name:":  {Name: "a:b", Handle: handle},
		"handle": {Name: "a"},
		"where":  {Name: "a", Handle: handle, Where: mustFilter(t, "age(x) > 1m")},
		"every":  {Name: "a", Handle: handle, Every: 1},
		"keys":   {Name: "a", Handle: handle, Keys: []string{""}},
	} {
		if err := p.Register(t.Context(), s); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", what, err)
		}
	}
	for what, err := range map[string]error{
		"status": func() error { _, err := p.Status("x"); return err }(), "sync": p.Sync(t.Context(), "x"),
		"switch": p.Switch(t.Context(), "x", true), "remove": p.Remove(t.Context(), "x"),
	} {
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", what, err)
		}
	}
}

func TestWhoIsNotAllowedIsNotHandled(t *testing.T) {
	p := build(t)
	var all atomic.Bool
	s := counter("count")
	s.Allow = func(v entity.View) bool { return all.Load() || v.ID() == "mine" }
	p.register(s)
	p.write("mine", 1, "x", 1)
	p.write("yours", 1, "x", 1)
	p.sync("count")
	_, mine := p.latest("mine", "n")
	if _, yours := p.latest("yours", "n"); mine != 1 || yours != -1 {
		t.Errorf("n of mine %d, of yours %d", mine, yours)
	}
	all.Store(true)
	p.write("yours", 2, "x", 1)
	p.sync("count")
	if _, yours := p.latest("yours", "n"); yours != 1 {
		t.Errorf("n of yours %d", yours)
	}
}

// What waits too long to be carried out is asked about again: readings, edits and commands. Nothing is done to a later entity of the id.
func TestWhatIsNoLongerAllowedIsNotCarriedOut(t *testing.T) {
	p := build(t)
	p.write("a", 1, "x", 1)
	var created int64
	err := p.rt.View(t.Context(), "a", func(v entity.View) error { created = v.Created(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	own := effect{entity: "a", source: "behavior:b@1"}
	carry := func(decided time.Time, created int64, allowed bool) (refused []Failure) {
		t.Helper()
		s := startSender(t.Context(), p.rt, func(v entity.View) bool { return allowed && v.ID() == "a" })
		own.seq, own.created = own.seq+1, created
		c := &chunk{decided: decided, effects: []effect{own, own, own}}
		c.effects[0].readings = []entity.Reading{reading(2, "x", int64(own.seq))}
		c.effects[1].source += ":" + partEdit
		c.effects[1].patches = []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: fmt.Appendf(nil, `{"n":%d}`, own.seq)}}
		c.effects[2].command = &entity.NewCommand{Name: "go", By: "b", Key: fmt.Sprint(own.seq)}
		s.send(c)
		for done := 0; done < len(c.effects); {
			<-s.news
			_, more, n := s.take()
			refused, done = append(refused, more...), done+n
		}
		return refused
	}
	state := func() string {
		_, n := p.latest("a", "x")
		commands, err := p.rt.Commands(t.Context(), "a", entity.CommandsQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%d %s %d", n, p.attribute("a", "/n"), len(commands))
	}
	for _, c := range []struct {
		name    string
		decided time.Time
		created int64
		allowed bool
		refused int
		want    string
	}{
		{"of an earlier start", time.Time{}, created, true, 0, "1 1 1"},
		{"of an earlier start, and not allowed any more", time.Time{}, created, false, 3, "1 1 1"},
		{"of two seconds ago, and not allowed any more", time.Now().Add(-2 * time.Second), created, false, 3, "1 1 1"},
		{"of a moment ago", time.Now().Add(time.Hour), created, false, 0, "4 4 2"},
		{"of an earlier entity", time.Now().Add(time.Hour), created - 1, true, 0, "4 4 2"},
		{"of an earlier entity and an earlier start", time.Time{}, created - 1, false, 0, "4 4 2"},
	} {
		refused := carry(c.decided, c.created, c.allowed)
		if got := state(); len(refused) != c.refused || got != c.want {
			t.Errorf("%s: %s, %v, want %s", c.name, got, refused, c.want)
		}
	}
}

func TestPresenceAndCommandsAreEventsForWhoAsks(t *testing.T) {
	p := build(t)
	var mu sync.Mutex
	var seen []string
	p.register(Spec{Name: "events", Keys: []string{"none"}, Edits: true, Commands: true, Presence: true, Handle: func(e *Entity, ev Event) error {
		mu.Lock()
		defer mu.Unlock()
		switch c := ev.Change; {
		case c.Edit != nil:
			seen = append(seen, "edit")
		case c.Command != nil:
			seen = append(seen, c.Command.Name+" "+c.Command.State.String())
		case c.Presence != nil:
			seen = append(seen, c.Presence.State.String())
		}
		return nil
	}})
	p.edit("a", entity.Edits{})
	p.sync("events")
	if _, err := p.rt.Command(t.Context(), "a", entity.NewCommand{Name: "go"}); err != nil {
		t.Fatal(err)
	}
	p.sync("events")
	if got := strings.Join(seen, ","); got != "edit,go queued" {
		t.Errorf("seen %s", got)
	}
}
