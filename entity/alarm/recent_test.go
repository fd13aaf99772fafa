package alarm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/heaptest"
)

func TestARecentAlarmChangesWhereItIsKeptAgainOnly(t *testing.T) {
	t.Parallel()
	r := newRecent(1 << 20)
	a := Alarm{ID: "a", History: make([]Transition, 1, 4)}
	r.add(&a)
	first := r.find("a")
	first.note(Transition{Kind: Acknowledged})
	first.Acknowledged = &Mark{By: "ann"}
	a.note(Transition{Kind: Shelved})
	if again := r.find("a"); again == nil || len(again.History) != 1 || again.Acknowledged != nil {
		t.Errorf("it changes with what was given out or kept: %+v", again)
	}
	before := r.bytes
	r.add(first)
	if again := r.find("a"); len(again.History) != 2 || r.bytes <= before || r.bytes >= 2*before {
		t.Errorf("after a change it is %+v, with %d bytes, which were %d", again, r.bytes, before)
	}
	r.forget("a")
	if r.find("a") != nil || r.bytes != 0 {
		t.Errorf("it is not forgotten, or %d bytes are left", r.bytes)
	}
}

// Not parallel: it measures the heap.
func TestTheMemoryOfRecentAlarmsIsBounded(t *testing.T) {
	const most = 2 << 20
	for what, of := range map[string]func(i int) *Alarm{
		"small ones": func(i int) *Alarm { return &Alarm{ID: alarmID(int64(i)), History: make([]Transition, 1)} },
		"large ones": func(i int) *Alarm {
			a := &Alarm{ID: alarmID(int64(i)), Acknowledged: &Mark{Note: strings.Repeat("n", MaxNoteBytes)}, History: make([]Transition, MaxTransitions)}
			for k := range 8 {
				a.Values = append(a.Values, Value{Key: fmt.Sprint(i, k), Value: value.String(strings.Repeat("v", MaxValueBytes-k))})
			}
			return a
		},
	} {
		r := newRecent(most)
		before := heaptest.Live()
		newest := 0
		for ; newest < 1000 || r.old == nil || r.bytes < most/3; newest++ {
			r.add(of(newest))
		}
		took := heaptest.Live() - before
		for i := newest - 10; i < newest; i++ {
			if r.find(alarmID(int64(i))) == nil {
				t.Errorf("%s: the alarm %d of %d is not kept", what, i, newest)
			}
		}
		t.Logf("%s: %d and %d, %d bytes, of %d", what, len(r.young), len(r.old), took, most)
		if took > most || took < most/4 {
			t.Errorf("%s: the recent alarms take %d bytes, want up to %d", what, took, most)
		}
	}
}
