package alarm

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
)

func TestLargeValuesLeaveAlarmsReadable(t *testing.T) {
	t.Parallel()
	p := build(t)
	var raise []string
	r := entity.Reading{TS: start + 1000}
	for i := range 40 {
		key := fmt.Sprint("k", i)
		raise = append(raise, fmt.Sprintf("exists(%s)", key))
		v := value.String(strings.Repeat("x", 60<<10))
		switch i {
		case 0:
			v = value.JSON(`{"a":"` + strings.Repeat("<", 20<<10) + `"}`)
		case 1:
			v = value.JSON(`{"a":"<b>"}`)
		}
		r.Values = append(r.Values, entity.Sample{Key: key, Value: v})
	}
	p.put(Rule{Name: "all", Raise: strings.Join(raise, " and ") + " and ok = 1"})
	for i := range r.Values { // a payload has less
		p.ingest("m", entity.Reading{TS: r.TS, Values: r.Values[i : i+1]})
	}
	p.at("m", 2, "ok", 1)
	p.expect("m", "all:2/2-")
	p = p.restart()
	p.at("m", 3, "ok", 0)
	p.expect("m", "all:2/2-3")
	a := p.alarms("m")[0]
	for _, v := range a.Values {
		switch v.Key {
		case "k1":
			if v.Value != value.JSON(`{"a":"<b>"}`) {
				t.Errorf("%+v", v)
			}
		case "ok":
		default:
			if !v.Value.IsZero() || v.TS != start+1000 {
				t.Errorf("a large value is kept: %s", v.Key)
			}
		}
	}
}

func TestAnAlarmThatCannotBeReadStopsNothing(t *testing.T) {
	t.Parallel()
	p := build(t)
	ctx := t.Context()
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 1, "t", 90)
	p.at("n", 1, "t", 90)
	p.sync()
	id := p.alarms("m")[0].ID
	if err := p.rt.PutItems(ctx, []entity.Item{
		{Kind: openKind, Key: id, Body: []byte("{")}, {Kind: eventKind, Key: eventKey(1), Body: []byte("{")}, {Kind: closedKind, Key: "000000000", Body: []byte("{")},
	}); err != nil {
		t.Fatal(err)
	}
	p = p.restart()
	if list, _, err := p.Alarms(ctx, Query{}); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if list, err := p.Events(ctx, 0, 1); err != nil || len(list) != 1 || list[0].Seq != 2 {
		t.Errorf("%+v, %v", list, err)
	}
	p.at("m", 2, "t", 10)
	p.at("m", 3, "t", 95)
	p.at("n", 2, "t", 10)
	p.expect("n", "hot:1/1-2")
	if list := p.alarms("m"); len(list) != 1 || list[0].Raised != start+3000 {
		t.Errorf("%+v", list)
	}
	p.at("m", 2.5, "t", 91) // late
	p.sync()
	if list := p.alarms("m"); len(list) != 1 || list[0].Raised != start+2500 {
		t.Errorf("after a late reading: %+v", list)
	}
}

func TestTheClockWaitsForWhatIsCommittedAlready(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80", For: 10 * time.Second})
	for i := range 30 {
		id := fmt.Sprint("m", i)
		p.at(id, 0, "t", 90)
		p.sync()
		p.reopen(func() {
			p.at(id, 5, "t", 10)
			p.clock.Store(start + 60_000)
		})
		p.sync()
		p.clock.Store(start)
		if list := p.alarms(id); len(list) > 0 {
			t.Fatalf("%+v", list)
		}
	}
}

func TestAReplayTakesInWhatComesMeanwhile(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.points, small.page = 3, 3
	p := buildWith(t, small)
	p.put(Rule{Name: "hot", Raise: "t > 80", Clear: "t < 20"})
	p.clock.Store(start + 1_000_000)
	for i := range 40 {
		p.at("m", float64(10*i+10), "t", 50)
	}
	p.sync()
	for i := range 20 {
		p.at("m", 5-float64(i)/10, "t", 90) // late
		p.at("m", float64(410+10*i), "t", 50+i%2*49)
	}
	p.at("m", 1000, "t", 10)
	p.expect("m", "hot:3.1/3.1-1000")
}

func TestAnAcknowledgementDuringAReplayStays(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.points, small.page = 1, 1
	p := buildWith(t, small)
	p.put(Rule{Name: "hot", Raise: "t > 80", Clear: "t < 20"})
	p.at("m", 10, "t", 90)
	for i := range 400 {
		p.at("m", float64(11+i), "t", 50)
	}
	p.sync()
	id := p.alarms("m")[0].ID
	p.at("m", 5, "t", 85)
	if _, err := p.Acknowledge(t.Context(), id, "ann", ""); err != nil {
		t.Fatal(err)
	}
	p.expect("m", "hot:5/5-")
	if a := p.alarms("m"); len(a) != 1 || a[0].Acknowledged == nil {
		t.Errorf("%+v", a)
	}
}

func TestMissedChangesAreGoneThroughForEachRule(t *testing.T) {
	t.Parallel()
	for left := range int64(5) { // the commit at which the first start after it dies
		p := build(t)
		rules := []string{"a", "b", "c"}
		for _, name := range rules {
			p.put(Rule{Name: name, Raise: "t > 80"})
		}
		p.at("m", 1, "t", 10)
		p.tick(2)
		p.reopen(func() {
			p.loseCursor()
			p.at("m", 3, "t", 90)
			p.at("m", 4, "t", 10)
			p.clock.Store(start + 5000)
			p.store.Left.Store(left)
		})
		if left > 0 {
			_ = p.Sync(t.Context()) // it may die
			p.store.Left.Store(0)
			p = p.restart()
		}
		p.expect("m", "a:3/3-4 b:3/3-4 c:3/3-4")
	}
}

func TestMissedDeletionsEndAlarms(t *testing.T) {
	t.Parallel()
	clock := new(atomic.Int64)
	clock.Store(time.Now().UnixMilli()) // by which entities are made
	p := buildAt(t, t.TempDir(), clock, usualSteps())
	now := float64(clock.Load()-start) / 1000
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.put(Rule{Name: "silent", Raise: "age(t) > 10m"})
	ids := []string{"anew", "gone", "stays"}
	for _, id := range ids {
		for i, v := range []int{90, 10, 90} { // the first alarm clears
			p.at(id, now-900+float64(i), "t", v)
			p.sync() // what is read ahead of it would be before the rule
		}
	}
	p.tick(now + 1)
	p.clock.Store(max(p.clock.Load(), time.Now().UnixMilli()+1))
	p.at("other", now, "t", 10)
	p.sync()
	for _, id := range ids {
		if n := len(p.alarms(id)); n != 3 {
			t.Fatalf("%d alarms of %s, want 3: %s", n, id, p.story(id))
		}
	}
	p.reopen(func() {
		p.loseCursor()
		for _, id := range []string{"anew", "gone"} {
			if err := p.rt.Delete(t.Context(), id, ""); err != nil {
				t.Fatal(err)
			}
		}
		p.awaitClock()
		p.at("anew", now, "t", 95) // another one
	})
	p.sync()
	for _, id := range ids {
		list := p.alarms(id)
		own := 0
		for _, a := range list {
			switch {
			case id == "stays" && (a.Deleted || a.Open() != (a.Raised != start+int64((now-900)*1000))):
				t.Errorf("%s: %+v", id, a)
			case id != "stays" && !a.Deleted:
				own++
			case id != "stays" && a.Open():
				t.Errorf("%s: %+v", id, a)
			}
		}
		if want := map[string]int{"anew": 1}[id]; own != want {
			t.Errorf("%s has %d alarms of its own, want %d of %+v", id, own, want, list)
		}
	}
	if n := p.Stats().Open[Major-1]; n != 3 {
		t.Errorf("%d alarms are open, want 2 of the one that stays and 1 of the new one", n)
	}
}

func TestADeviceWhoseClockIsFarBehindRaisesAlarmsAfterOneIsCleared(t *testing.T) {
	t.Parallel()
	p := build(t)
	behind := -(MaxLateness + 24*time.Hour).Seconds()
	p.put(Rule{Name: "hot", Raise: "t > 80", Clear: "t < 20"})
	p.at("m", behind, "t", 90)
	p.sync() // what is read ahead of it would make it too old
	p.at("m", behind+1, "t", 50)
	p.sync()
	if _, err := p.Clear(t.Context(), p.alarms("m")[0].ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", behind+2, "t", 95)
	p.sync()
	if list := p.alarms("m"); len(list) != 2 || !list[1].Open() {
		t.Errorf("%+v", list)
	}
}

func TestRulesFollowTheTypesAsTheyChange(t *testing.T) {
	t.Parallel()
	p := build(t)
	put := func(doc string) {
		t.Helper()
		typ, err := model.Parse([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.rt.PutType(t.Context(), typ, ""); err != nil {
			t.Fatal(err)
		}
	}
	put(`{"id":"sensor"}`)
	put(`{"id":"pump"}`)
	pump := "pump"
	if _, err := p.rt.Edit(t.Context(), "m", entity.Edits{Type: &pump}); err != nil {
		t.Fatal(err)
	}
	p.put(Rule{Name: "hot", Type: "sensor", Raise: "t > 80"})
	p.at("m", 1, "t", 90)
	p.expect("m", "")
	put(`{"id":"pump","extends":["sensor"]}`)
	p.expect("m", "hot:1/1-")
	put(`{"id":"pump"}`)
	p.sync()
	if list := p.alarms("m"); len(list) != 1 || list[0].Cause != ByScope {
		t.Errorf("%+v", list)
	}
}

func TestAlarmsOfARuleThatCannotBeReadAreClearedAndTheRuleIsKept(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 1, "t", 90)
	p.sync()
	p.reopen(func() {
		if err := p.rt.PutItems(t.Context(), []entity.Item{{Kind: ruleKind, Key: "hot", Body: []byte(`{"raise":"of another version("}`)}}); err != nil {
			t.Fatal(err)
		}
	})
	p.sync()
	if body, err := readItem(t.Context(), p.rt, ruleKind, "hot"); err != nil || body == nil {
		t.Errorf("the rule is %q, %v", body, err)
	}
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	if list := p.alarms("m"); len(list) != 2 || list[0].Cause != ByRule || !list[1].Open() {
		t.Errorf("%+v", list)
	}
}

func TestARuleThatTakesThePlaceOfAnotherMissesNothing(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.items = 100
	p := buildWith(t, small)
	const many = 50 // more than end in one step
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.put(Rule{Name: "slow", Raise: "t > 80", For: 100 * time.Second})
	for i := range many {
		p.at(fmt.Sprint("m", i), -1, "t", 90)
	}
	p.sync()
	p.clock.Store(start + 2000)
	if _, err := p.PutRule(t.Context(), Rule{Name: "hot", Raise: "t > 85", Severity: Major}, ""); err != nil {
		t.Fatal(err)
	}
	p = p.restart() // perhaps with states that are still to end
	p.at("m7", 3, "t", 10)
	p.at("m7", 4, "t", 90)
	p.at("m7", 5, "t", 10)
	p.tick(100)
	p.sync()
	if got := p.story("m8"); !strings.HasSuffix(got, "slow:-1/99-") {
		t.Errorf("the alarms of m8 are %q", got)
	}
	if got := p.story("m7"); !strings.Contains(got, "hot:4/4-5") {
		t.Errorf("the alarms of m7 are %q", got)
	}
	if first := p.alarms("m7")[0]; first.Cause != ByRule { // at 2 or, if it was still to end, at 100
		t.Errorf("%+v", first)
	}
}

func TestStatesThatEndAfterACrashHaveNothingOfTheRuleInForce(t *testing.T) {
	t.Parallel()
	p := build(t)
	ctx := t.Context()
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", -1, "t", 90)
	p.sync()
	p.clock.Store(start + 2000)
	// States that have ended stay until all entities have been looked at.
	p.rare = true
	p.reopen(func() { // after a crash that came as soon as the rule was replaced
		body, err := readItem(ctx, p.rt, ruleKind, "hot")
		var x ruleJSON
		if err == nil {
			err = json.Unmarshal(body, &x)
		}
		x.Raise, x.Version, x.Updated, x.Effective, x.Sweep = "t > 85", x.Version+1, start+2000, start+2000, true
		if err == nil {
			body, err = json.Marshal(&x)
		}
		if err == nil {
			err = p.rt.PutItems(ctx, []entity.Item{{Kind: ruleKind, Key: "hot", Body: body}})
		}
		if err != nil {
			t.Fatal(err)
		}
		p.at("m", 3, "t", 10)
		p.at("m", 4, "t", 90)
		p.at("m", 5, "t", 10)
	})
	for {
		if r, err := p.Rule("hot"); err != nil {
			t.Fatal(err)
		} else if !r.Pending {
			break
		}
		if err := pause.For(ctx, time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	p.expect("m", "hot:-1/-1-2 hot:4/4-5")
	if list := p.alarms("m"); len(list) != 2 || list[0].Cause != ByRule || list[1].Cause != ByCondition {
		t.Errorf("%+v", list)
	}
	p.at("m", 6, "t", 90)
	p.expect("m", "hot:-1/-1-2 hot:4/4-5 hot:6/6-")
}

func TestAStartWithoutRoomKnowsTheLastEvent(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 1, "t", 90)
	p.sync()
	last := p.LastEvent()
	p.reopen(func() { p.store.full.Store(true) })
	if got := p.LastEvent(); got != last || last == 0 { // who follows from here is told nothing again
		t.Errorf("the last event is %d, was %d", got, last)
	}
	if n := len(p.Rules()); n != 0 {
		t.Errorf("%d rules are in force before they were read", n)
	}
}

func TestChangesOfTypesAreSeenOverARestartAndBesideRulesOfNoType(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.putType(`{"id":"sensor"}`)
	p.putType(`{"id":"pump"}`)
	p.putType(`{"id":"valve","extends":["sensor"]}`)
	for id, typ := range map[string]string{"m": "pump", "v": "valve"} {
		if _, err := p.rt.Edit(t.Context(), id, entity.Edits{Type: &typ}); err != nil {
			t.Fatal(err)
		}
	}
	p.put(Rule{Name: "a-none", Type: "nothing", Raise: "t > 80"}) // the first by its name
	p.put(Rule{Name: "hot", Type: "sensor", Raise: "t > 80"})
	p.put(Rule{Name: "judge", Raise: `t > 80 and type is "sensor"`, Clear: `t < 0 or type is not "sensor"`})
	p.put(Rule{Name: "where", Where: `type is "sensor"`, Raise: "t > 80"})
	p.at("m", 1, "t", 90)
	p.at("v", 1, "t", 90)
	p.expect("m", "")
	p.expect("v", "hot:1/1- judge:1/1- where:1/1-")
	p.tick(10)
	p.reopen(func() {
		p.putType(`{"id":"pump","extends":["sensor"]}`)
		p.putType(`{"id":"valve"}`)
	})
	p.expect("m", "hot:1/1- judge:10/10- where:1/1-")
	p.expect("v", "hot:1/1-10 judge:1/1-10 where:1/1-10")
	p.tick(20)
	p.putType(`{"id":"pump"}`)
	p.expect("m", "hot:1/1-20 judge:10/10-20 where:1/1-20")
	if n := p.Stats().Open[Major-1]; n != 0 {
		t.Errorf("%d alarms are open", n)
	}
	listed := p.store.listed.Load()
	p.reopen(func() {})
	p.sync()
	if n := p.store.listed.Load() - listed; n != 0 {
		t.Errorf("%d entities were looked at after a start, and no type has changed", n)
	}
}

// What a deleted rule has raised is cleared, and stays so: also where the server ends before all of it
// is, and where a rule of the same name comes later.
func TestADeletedRuleStaysDeletedOverARestart(t *testing.T) {
	t.Parallel()
	const meters = 30
	steps := usualSteps()
	steps.items = 5 // so that the alarms are cleared one by one
	p := buildWith(t, steps)
	ids := make([]string, meters)
	for i := range ids {
		ids[i] = fmt.Sprint("m", i)
	}
	each := func(ts float64, v int) {
		for _, id := range ids {
			p.at(id, ts, "t", v)
		}
		p.sync()
	}
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.put(Rule{Name: "cold", Raise: "t < 0"})
	each(1, 90)
	p.expect(ids[meters-1], "hot:1/1-")
	if err := p.DeleteRule(t.Context(), "hot", ""); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		p = p.restart()
		if list := p.Rules(); len(list) != 1 || list[0].Name != "cold" {
			t.Errorf("the rules are %+v", list)
		}
		p.sync()
		for _, id := range ids {
			if list := p.alarms(id); len(list) != 1 || list[0].Open() || list[0].Cause != ByRule {
				t.Fatalf("the alarms of %s are %+v", id, list)
			}
		}
	}
	each(2, 95)
	if n := p.Stats().Open; n != [severities]int64{} {
		t.Errorf("after readings that the deleted rule was about, %v are open", n)
	}
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p = p.restart()
	p.sync()
	for _, id := range ids {
		if list := p.alarms(id); len(list) != 2 || !list[1].Open() || list[0].Open() {
			t.Fatalf("with a new rule of the name, the alarms of %s are %+v", id, list)
		}
	}
}
