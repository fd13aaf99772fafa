package alarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

func TestANewEntityHasNoneOfTheAlarmsOfOneThatHadItsID(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.mark = 20
	p := buildWith(t, small)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	no, yes := false, true
	count := func(q Query) int {
		t.Helper()
		list, _, err := p.Alarms(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	many := 2*small.mark + 10 // more than are marked at once
	p.clock.Store(start + 3*int64(many)*1000)
	for i := range many {
		p.ingest("m", reading(float64(2*i), "t", 90), reading(float64(2*i+1), "t", 10))
	}
	p.at("m", float64(2*many), "t", 90)
	p.at("other", 1, "t", 90)
	p.sync()
	open := p.alarms("m")[len(p.alarms("m"))-1].ID
	if err := p.rt.Delete(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", float64(2*many+1), "t", 10) // another one
	p.at("m", 1, "t", 95)                 // late: what it would lead to is its own
	p = p.restart()                       // perhaps before all were marked
	p.sync()
	if a, err := p.Alarm(t.Context(), open); err != nil || !a.Deleted || a.Cause != ByEntity {
		t.Errorf("%+v, %v", a, err)
	}
	if n := count(Query{Entity: "m", Deleted: &no}); n != 1 {
		t.Errorf("the new entity has %d alarms, want its own", n)
	}
	p.expect("m", fmt.Sprintf("hot:1/1-%d", 2*many+1))
	n := 0
	for q := (Query{Entity: "m", Deleted: &yes, Limit: MaxPage}); ; {
		list, next, err := p.Alarms(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		n += len(list)
		if q.Before = next; next == "" {
			break
		}
	}
	if n != many+1 {
		t.Errorf("%d alarms are of the old entity, want %d", n, many+1)
	}
	if n := count(Query{Deleted: &no}); n != 2 {
		t.Errorf("%d alarms are of entities that are there, want 2", n)
	}
	if !p.deletions.none() || p.Stats().Open != [severities]int64{2: 0, 1: 1} {
		t.Errorf("%+v, %+v", p.deletions.upTo, p.Stats())
	}
}

func TestManyDeletedEntitiesAreDoneWith(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.mark = 50
	p := buildWith(t, small)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	entities, many, few := 4, small.mark+10, small.mark/5
	ids := make([]string, 0, entities+few)
	for i := range entities {
		id := fmt.Sprint("large", i)
		ids = append(ids, id)
		list := make([]entity.Reading, 0, 2*many)
		for n := range many {
			list = append(list, reading(float64(2*n), "t", 90), reading(float64(2*n+1), "t", 10))
		}
		p.ingest(id, list...)
	}
	for i := range few {
		ids = append(ids, fmt.Sprint("small", i))
		p.at(ids[entities+i], 1, "t", 90)
	}
	p.sync()
	// As after a start with all of them to be gone through, and step by step.
	if err := p.Service.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := newEngine(p.rt, &p.cfg, &p.count, newDeletions())
	e.hub = newHub()
	var err error
	if e.place, err = readPlace(t.Context(), p.rt); err != nil {
		t.Fatal(err)
	}
	markDeleted := func() (steps int) {
		t.Helper()
		for _, id := range ids {
			e.deletions.set(id, alarmID(e.place.Alarm))
		}
		for ; !e.deletions.none() && steps < 200; steps++ {
			if err := e.markDeleted(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := e.commit(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		return steps
	}
	// A step looks at so many; one of the large ones may end in it, and another one begin.
	if n, most := markDeleted(), (entities*(many+1)+2*few)/small.mark+1; n > most {
		t.Errorf("%d steps, want %d at most", n, most)
	}
	if err := e.deleted(t.Context(), ids[0]); err != nil || !e.deletions.none() {
		t.Errorf("an entity without alarms of its own was deleted: %v, %v", e.deletions.upTo, err)
	}
	wrote := p.store.puts.Load()
	markDeleted()
	if n := p.store.puts.Load() - wrote; n > int64(2*len(ids)) {
		t.Errorf("%d items are written for alarms that were marked, want %d for the entities at most", n, 2*len(ids))
	}
	for _, id := range ids {
		a, err := e.ledger.alarm(t.Context(), idOfLast(t, p, id))
		if err != nil || !a.Deleted {
			t.Fatalf("the last alarm of %s is %+v, %v", id, a, err)
		}
	}
}

// idOfLast returns the ID of the last alarm of an entity.
func idOfLast(t *testing.T, p *plant, id string) string {
	t.Helper()
	list, err := p.rt.Items(t.Context(), entity.ItemsQuery{Kind: entityKind, From: part(id), To: after(part(id)), Limit: 1, Descending: true})
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	return list[0].Key[len(part(id)):]
}

func TestDeletionsAreSeenWhileThereAreNoRules(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	for _, id := range []string{"a", "b", "c"} {
		p.at(id, 1, "t", 90)
	}
	p.sync()
	gone := func(id string) {
		t.Helper()
		if err := p.rt.Delete(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
		p.at(id, 2, "t", 20) // another one
	}
	gone("a")
	if err := p.DeleteRule(t.Context(), "hot", ""); err != nil {
		t.Fatal(err)
	}
	p.sync()
	gone("b")
	p.sync()
	p.reopen(func() { gone("c") })
	p.sync()
	for _, id := range []string{"a", "b", "c"} {
		if list := p.alarms(id); len(list) != 1 || !list[0].Deleted {
			t.Errorf("the new entity %s has %+v", id, list)
		}
	}
	// When no alarms are kept any more there is nothing to follow.
	config := p.config()
	config.Retention = time.Hour
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.clock.Store(start + 2*time.Hour.Milliseconds())
	var err error
	for range 2 {
		if p.Service, err = Open(t.Context(), p.rt, config); err != nil {
			t.Fatal(err)
		}
		p.await(func() bool {
			left, err := p.rt.Items(t.Context(), entity.ItemsQuery{Kind: entityKind, From: "\x00", Limit: 1})
			if err != nil {
				t.Fatal(err)
			}
			return len(left) == 0
		})
		p.sync()
		if err := p.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if at, err := readPlace(t.Context(), p.rt); err != nil || at.Cursor != "" {
		t.Errorf("the place is %+v, %v", at, err)
	}
	if p.Service, err = Open(t.Context(), p.rt, config); err != nil { // which the end of the plant closes
		t.Fatal(err)
	}
}

func TestLateReadingsCountForAsLongAsAlarmsAreKept(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 0, "t", 90)
	p.at("m", 1, "t", 10)
	p.sync()
	config := p.config()
	config.Retention = time.Hour
	if err := p.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.clock.Store(start + 2*time.Hour.Milliseconds())
	var err error
	if p.Service, err = Open(t.Context(), p.rt, config); err != nil {
		t.Fatal(err)
	}
	p.await(func() bool { // the list alone: an alarm may go between its list and a look at it
		list, _, err := p.Alarms(t.Context(), Query{Entity: "m"})
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 0
	})
	p.at("m", 0.5, "t", 95)
	p.expect("m", "")
	p.at("m", 3601, "t", 95)
	p.at("m", 3602, "t", 10)
	p.expect("m", "hot:3601/3601-3602")
}
