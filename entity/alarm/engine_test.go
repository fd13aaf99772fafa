package alarm

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestAlarmIsRaisedAndClears(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "temperature > 80", Severity: Critical, Message: "too hot"})
	p.at("m", 1, "temperature", 70)
	p.at("m", 2, "temperature", 90.5, "other", 1)
	p.expect("m", "hot:2/2-")
	if s := p.Stats(); s.Open != [severities]int64{1} || s.Unacknowledged != 1 || s.Rules != 1 {
		t.Errorf("%+v", s)
	}
	p.at("m", 3, "temperature", 91)
	p.at("m", 4, "temperature", 80)
	p.expect("m", "hot:2/2-4")
	a := p.alarms("m")[0]
	want := Value{Key: "temperature", TS: start + 2000, Value: value.Float(90.5)}
	if a.Severity != Critical || a.Message != "too hot" || a.Cause != ByCondition || len(a.Values) != 1 || a.Values[0] != want || a.Detected != start {
		t.Errorf("%+v", a)
	}
	if len(a.History) != 2 || a.History[0].Kind != Raised || a.History[1] != (Transition{Kind: Cleared, At: start, TS: start + 4000}) {
		t.Errorf("history %+v", a.History)
	}
	if s := p.Stats(); s.Open != [severities]int64{} || s.Unacknowledged != 0 {
		t.Errorf("%+v", s)
	}
}

func TestACommitWritesNoMoreThanWhatHasChanged(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	before := p.store.puts.Load()
	p.at("m", 1, "t", 70)
	p.sync()
	if n := p.store.puts.Load() - before; n > 5 {
		t.Errorf("%d items were written for a reading that raises nothing", n)
	}
	p.at("m", 2, "t", 90)
	p.sync()
	if n := p.store.puts.Load() - before; n > 20 {
		t.Errorf("%d items were written for one alarm", n)
	}
}

func TestHysteresisKeepsAnAlarmUntilTheOtherCondition(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "temperature > 80", Clear: "temperature < 70"})
	for i, v := range []int{81, 79, 75, 82, 70, 69, 75, 80, 81} {
		p.at("m", float64(i), "temperature", v)
	}
	p.expect("m", "hot:0/0-5 hot:8/8-")
}

func TestAConditionMustHoldForSomeTime(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80", For: 10 * time.Second, ClearFor: 5 * time.Second})
	p.at("m", 0, "t", 81)
	p.at("m", 5, "t", 79) // too short
	p.at("m", 6, "t", 82)
	p.at("m", 15, "t", 83)
	p.expect("m", "")
	p.at("m", 16, "t", 10) // it has held up to here
	p.expect("m", "hot:6/16-")
	p.at("m", 20, "t", 90) // not clear for long enough
	p.at("m", 30, "t", 10)
	p.at("m", 40, "t", 10)
	p.expect("m", "hot:6/16-35")
}

func TestTheClockRaisesWhatNoReadingDoes(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80", For: 10 * time.Second, ClearFor: time.Second})
	p.at("m", 0, "t", 81)
	p.tick(9.999)
	p.expect("m", "")
	p = p.restart()
	p.tick(10)
	p.expect("m", "hot:0/10-")
	p.at("m", 11, "t", 1)
	p.tick(12)
	p.expect("m", "hot:0/10-12")
	// A reading of before then that came too late for the clock takes it back.
	p.at("m", 11.5, "t", 85)
	p.expect("m", "hot:0/10-")
	if a := p.alarms("m"); len(a) != 1 || a[0].History[len(a[0].History)-1].Kind != Reopened {
		t.Errorf("%+v", a)
	}
}

func TestLateReadingsLeadToTheAlarmsOfArrivalInOrder(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 0, "t", 10)
	p.at("m", 10, "t", 90)
	p.at("m", 20, "t", 10)
	p.expect("m", "hot:10/10-20")
	p.at("m", 5, "t", 90) // earlier than was known
	p.expect("m", "hot:5/5-20")
	p.at("m", 15, "t", 10) // two and not one
	p.expect("m", "hot:5/5-15")
	p.at("m", 17, "t", 90)
	p.expect("m", "hot:5/5-15 hot:17/17-20")
	p.at("m", 16, "t", 90)
	p.at("m", 15, "t", 85) // in the place of another one: they are one again
	p.expect("m", "hot:5/5-20")
	kinds := map[Kind]int{}
	for _, a := range p.alarms("m") {
		for _, h := range a.History {
			kinds[h.Kind]++
		}
	}
	if kinds[Withdrawn] != 1 || kinds[Raised] != 2 {
		t.Errorf("transitions %v", kinds)
	}
}

func TestALateReadingTakesBackWhatShouldNotHaveBeenRaised(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80", For: 10 * time.Second})
	p.at("m", 0, "t", 90)
	p.at("m", 20, "t", 90)
	p.expect("m", "hot:0/10-")
	p.at("m", 5, "t", 10)
	p.expect("m", "")
	if s := p.Stats(); s.Open != [severities]int64{} {
		t.Errorf("%+v", s)
	}
	p.tick(30)
	p.expect("m", "hot:20/30-")
}

func TestConditionsOverSeveralKeysSeeTheValuesOfTheTime(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "both", Raise: "a > 1 and b > 1", Where: `id = "m"`})
	p.at("m", 1, "a", 2)
	p.at("m", 2, "b", 2) // of another payload
	p.at("m", 2, "a", 0) // the same time, another key
	p.at("other", 2, "a", 5, "b", 5)
	p.expect("m", "")
	p.at("m", 3, "a", 7)
	p.expect("m", "both:3/3-")
	p.at("m", 2.5, "b", 1)
	p.expect("m", "")
	p.expect("other", "")
}

func TestRulesConcernTypesAndAttributes(t *testing.T) {
	t.Parallel()
	p := build(t)
	for _, doc := range []string{`{"id":"sensor"}`, `{"id":"thermometer","extends":["sensor"]}`} {
		typ, err := model.Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.rt.PutType(t.Context(), typ, ""); err != nil {
			t.Fatal(err)
		}
	}
	edit := func(id, typ, attributes string) {
		t.Helper()
		e := entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(attributes)}}}
		if typ != "" {
			e.Type = &typ
		}
		if _, err := p.rt.Edit(t.Context(), id, e); err != nil {
			t.Fatal(err)
		}
	}
	edit("m", "thermometer", `{"limit":50,"building":"a"}`)
	p.put(Rule{Name: "hot", Type: "sensor", Where: `attributes.building = "a"`, Raise: "t > attributes.limit"})
	p.at("m", -10, "t", 60)
	p.at("untyped", -10, "t", 60)
	p.expect("m", "hot:-10/-10-")
	p.expect("untyped", "")
	p.tick(1)
	edit("m", "", `{"limit":70}`)
	p.sync()
	if a := p.alarms("m"); len(a) != 1 || a[0].Open() || a[0].Cause != ByCondition {
		t.Errorf("a higher limit: %+v", a)
	}
	edit("m", "", `{"limit":10}`)
	p.sync() // attributes are looked at as they are
	edit("m", "", `{"building":"b"}`)
	p.sync()
	if a := p.alarms("m"); len(a) != 2 || a[1].Cause != ByScope {
		t.Errorf("another building: %+v", a)
	}
	edit("m", "", `{"building":"a"}`)
	p.sync()
	if err := p.rt.Delete(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	p.sync()
	if a := p.alarms("m"); len(a) != 3 || a[2].Cause != ByEntity {
		t.Errorf("deleted: %+v", a)
	}
	p.at("m", 1, "t", 60)
	p.expect("m", "")
}

func TestANewRuleLooksAtWhatIsThere(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.at("a", -60, "t", 90)
	p.at("b", -60, "t", 10)
	p.put(Rule{Name: "hot", Raise: "t > 80", For: time.Minute})
	p.expect("a", "hot:-60/0-")
	p.expect("b", "")
	p.put(Rule{Name: "hot", Raise: "t > 80", For: time.Minute, Message: "now with a text"})
	p.expect("a", "hot:-60/0-")
	p.put(Rule{Name: "hot", Raise: "t > 5", For: time.Minute})
	p.expect("b", "hot:-60/0-")
	if a := p.alarms("a"); len(a) != 2 || a[0].Cause != ByRule || !a[1].Open() {
		t.Errorf("after another condition: %+v", a)
	}
	if err := p.DeleteRule(t.Context(), "hot", "wrong"); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("delete with a wrong version: %v", err)
	}
	if err := p.DeleteRule(t.Context(), "hot", ""); err != nil {
		t.Fatal(err)
	}
	p.sync()
	for _, id := range []string{"a", "b"} {
		list := p.alarms(id)
		if last := list[len(list)-1]; last.Cause != ByRule {
			t.Errorf("after the rule: %+v", last)
		}
	}
	if len(p.Rules()) != 0 || p.Stats().Open != [severities]int64{} {
		t.Errorf("%+v, %+v", p.Rules(), p.Stats())
	}
}

func TestOperatorsAcknowledgeShelveAndClear(t *testing.T) {
	t.Parallel()
	p := build(t)
	ctx := t.Context()
	p.put(Rule{Name: "hot", Raise: "t > 80", Clear: "t < 70"})
	p.at("m", -5, "t", 90)
	p.sync()
	id := p.alarms("m")[0].ID
	if _, err := p.Clear(ctx, id, "ann", ""); !errors.Is(err, ErrHolds) {
		t.Errorf("clear while it holds: %v", err)
	}
	a, err := p.Acknowledge(ctx, id, "ann", "on my way")
	if err != nil || a.Acknowledged == nil || *a.Acknowledged != (Mark{start, "ann", "on my way"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err = p.Acknowledge(ctx, id, "bob", ""); err != nil || a.Acknowledged.By != "ann" {
		t.Errorf("again: %+v, %v", a, err)
	}
	if p.Stats().Unacknowledged != 0 {
		t.Error("it counts as not acknowledged")
	}
	if _, err := p.Shelve(ctx, id, 0, "ann", ""); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("shelve for no time: %v", err)
	}
	if a, err = p.Shelve(ctx, id, time.Minute, "ann", "being repaired"); err != nil || a.Shelved == nil || a.Shelved.Until != start+60_000 {
		t.Errorf("%+v, %v", a, err)
	}
	p.at("m", -4, "t", 75)
	p.sync()
	if a, err = p.Clear(ctx, id, "ann", "done"); err != nil || a.Cause != ByOperator || a.Cleared != start {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := p.Clear(ctx, id, "ann", ""); !errors.Is(err, ErrCleared) {
		t.Errorf("clear twice: %v", err)
	}
	p.tick(10)
	p.at("m", 5, "t", 95)
	p.sync()
	list := p.alarms("m")
	if len(list) != 2 || list[1].Shelved == nil {
		t.Fatalf("the next one is not shelved: %+v", list)
	}
	// What was cleared by hand stays so, whatever comes late.
	p.at("m", -4.5, "t", 72)
	p.expect("m", "hot:-5/-5-0 hot:5/5-")
	p = p.restart()
	p.tick(60)
	if a, err := p.Alarm(ctx, list[1].ID); err != nil || a.Shelved != nil || a.History[len(a.History)-1].Kind != Unshelved {
		t.Errorf("after the shelf: %+v, %v", a, err)
	}
	if _, err := p.Acknowledge(ctx, "000000000", "ann", ""); !errors.Is(err, ErrNotFound) {
		t.Errorf("acknowledge nothing: %v", err)
	}
}

func TestAlarmsAreListedByPagesAndFollowed(t *testing.T) {
	t.Parallel()
	p := build(t)
	ctx := t.Context()
	p.put(Rule{Name: "hot", Raise: "t > 80", Severity: Critical})
	p.put(Rule{Name: "warm", Raise: "t > 50", Severity: Warning})
	for i, id := range []string{"a", "b", "c", "d"} {
		p.at(id, float64(i), "t", 90)
	}
	p.sync() // or the history, which is ahead of the changes, could raise and clear that of b before those of c and d
	p.at("b", 10, "t", 60)
	p.sync()
	seen := map[string]bool{}
	for q := (Query{Limit: 3}); ; {
		list, next, err := p.Alarms(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range list {
			if seen[a.ID] || len(a.History) > 0 {
				t.Errorf("twice, or with its history: %+v", a)
			}
			seen[a.ID] = true
		}
		if q.Before = next; next == "" {
			break
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d alarms", len(seen))
	}
	no := false
	for _, tt := range []struct {
		q    Query
		want int
	}{
		{Query{Open: true}, 7},
		{Query{Closed: true}, 1},
		{Query{Severities: []Severity{Critical}}, 4},
		{Query{Open: true, Rule: "hot"}, 3},
		{Query{Entity: "b"}, 2},
		{Query{Entity: "b", Open: true, Acknowledged: &no, Shelved: &no}, 1},
		{Query{Keep: func(a *Alarm) bool { return a.Entity < "b" }}, 2},
	} {
		if list, _, err := p.Alarms(ctx, tt.q); err != nil || len(list) != tt.want {
			t.Errorf("%+v: %d alarms, %v, want %d", tt.q, len(list), err, tt.want)
		}
	}
	for _, reopened := range []bool{false, true} {
		if reopened {
			p = p.restart()
		}
		events, err := p.Events(ctx, 3, 100)
		if err != nil || len(events) != 6 || events[0].Seq != 4 || events[5].Kind != Cleared || events[5].Alarm.Entity != "b" {
			t.Errorf("events %+v, %v", events, err)
		}
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := p.Events(canceled, p.LastEvent(), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("wait for an event: %v", err)
	}
	if _, err := p.Events(ctx, p.LastEvent()+1, 1); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("events of another store: %v", err)
	}
}
