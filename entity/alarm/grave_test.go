package alarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

func TestANewEntityHasNoneOfTheAlarmsOfOneThatHadItsID(t *testing.T) {
	t.Parallel()
	p := build(t)
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
	const many = 2*buryAlarms + 10 // more than are marked at once
	for i := range many {
		p.at("m", float64(2*i), "t", 90)
		p.at("m", float64(2*i+1), "t", 10)
	}
	p.at("m", 2*many, "t", 90)
	p.at("other", 1, "t", 90)
	p.sync()
	open := p.alarms("m")[len(p.alarms("m"))-1].ID
	if err := p.rt.Delete(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", 2*many+1, "t", 10) // another one
	p.at("m", 1, "t", 95)        // late: what it would lead to is its own
	p = p.restart()              // perhaps before all were marked
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
	if !p.graves.none() || p.Stats().Open != [severities]int64{2: 0, 1: 1} {
		t.Errorf("%+v, %+v", p.graves.upTo, p.Stats())
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
	for len(p.alarms("m")) > 0 {
		if err := pause.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	p.at("m", 0.5, "t", 95)
	p.expect("m", "")
	p.at("m", 3601, "t", 95)
	p.at("m", 3602, "t", 10)
	p.expect("m", "hot:3601/3601-3602")
}
