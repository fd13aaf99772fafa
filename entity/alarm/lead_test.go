package alarm

import (
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// Readings that still wait while a replay goes through the history, which has them, do not lead to
// further replays.
func TestWhatAReplayHasTakenInIsNotLate(t *testing.T) {
	t.Parallel()
	small := usualSteps()
	small.apply, small.grace = 1, 0
	p := buildWith(t, small)
	p.put(Rule{Name: "hot", Raise: "t > 10", Clear: "t < 5"})
	p.at("room", 1, "t", 1)
	p.sync()
	const readings = 8 * feedBatch
	p.reopen(func() {
		list := make([]entity.Reading, readings)
		for i := range list {
			list[i] = reading(2+float64(i)/100, "t", i/(readings/2)*20) // it becomes hot after half of them
		}
		for len(list) > 0 {
			n := min(len(list), 100)
			p.ingest("room", list[:n]...)
			list = list[n:]
		}
	})
	p.expect("room", "hot:12.24/12.24-")
	if is := p.Stats(); is.Late > feedBatch {
		t.Errorf("of %d readings that waited %d were late, want at most those of the first batch", readings, is.Late)
	}
	p.at("room", 9, "t", 30) // this one was not taken in
	p.at("room", 9.5, "t", 3)
	p.expect("room", "hot:9/9-9.01 hot:12.24/12.24-")
	p.at("room", 30, "t", 1)
	p.expect("room", "hot:9/9-9.01 hot:12.24/12.24-30")
}

func TestAlarmsWaitForOthersWhereCommitsTakeLong(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ gather, writing, want time.Duration }{
		{5 * time.Millisecond, 0, 5 * time.Millisecond},
		{5 * time.Millisecond, 100 * time.Microsecond, 5 * time.Millisecond},
		{5 * time.Millisecond, 8 * time.Millisecond, 80 * time.Millisecond},
		{5 * time.Millisecond, time.Second, gatherMost},
		{time.Hour, time.Second, time.Hour},
	} {
		f := follower{s: &Service{cfg: Config{Gather: c.gather}}, writing: c.writing}
		if got := f.gather(); got != c.want {
			t.Errorf("after a commit of %v alarms wait for %v, want %v", c.writing, got, c.want)
		}
	}
}
