package alarm

import (
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

func TestALongReplayIsWrittenInParts(t *testing.T) {
	t.Parallel()
	alarms := soaktest.Rounds(t, 150, 2500)
	small := usualSteps()
	small.held, small.items = alarms/6, 2*alarms
	small.points, small.page = alarms, alarms/2
	p := buildWith(t, small)
	p.put(Rule{Name: "both", Raise: "a > 80 and b > 50"})
	p.clock.Store(start + 3*int64(alarms)*1000)
	p.at("m", 1, "b", 10)
	var readings []entity.Reading
	for i := range alarms {
		readings = append(readings, reading(float64(10+2*i), "a", 90), reading(float64(11+2*i), "a", 10))
	}
	for len(readings) > 0 {
		n := min(500, len(readings))
		p.ingest("m", readings[:n]...)
		readings = readings[n:]
	}
	p.expect("m", "")
	count := func() (open, all int) {
		t.Helper()
		p.sync()
		items, err := countItems(t.Context(), p.rt, timeKind, part("m"))
		if err != nil {
			t.Fatal(err)
		}
		return int(p.Stats().Open[Major-1]), int(items)
	}
	p.at("m", 2, "b", 60) // late: all of them should have been
	if open, all := count(); open != 0 || all != alarms {
		t.Errorf("%d alarms, of which %d are open, want %d", all, open, alarms)
	}
	first := p.alarms("m")[0]
	p.at("m", 3, "b", 10) // none of them, but for this one
	p.at("m", 2.5, "a", 85)
	if open, all := count(); open != 0 || all != 1 {
		t.Errorf("%d alarms, of which %d are open, want 1", all, open)
	}
	p.at("m", 4, "b", 70)
	if open, all := count(); open != 0 || all != alarms+1 {
		t.Errorf("%d alarms, of which %d are open, want %d", all, open, alarms+1)
	}
	if a, err := p.Alarm(t.Context(), first.ID); err != nil || len(a.History) > 10 {
		t.Errorf("%+v, %v", a, err)
	}
	if n := p.store.widest.Load(); n > 2*int64(small.items) {
		t.Errorf("%d items were written at once", n)
	}
}
