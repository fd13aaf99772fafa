package alarm

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func TestAReadingOfTheFutureIsJudgedAtItsTime(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.put(Rule{Name: "odd", Raise: "t > 80 and u = 1"})
	p.at("m", 3600, "t", 10) // of a clock that is wrong
	p.at("m", 7200, "t", 95)
	p.at("m", 7300, "t", 20)
	p.expect("m", "")
	p.tick(10)
	p.at("m", 10, "t", 95, "u", 1)
	p.expect("m", "hot:10/10- odd:10/10-") // whatever is said of later
	p.tick(20)
	p.at("m", 20, "t", 10)
	p.at("m", 30, "t", 95)
	p.expect("m", "hot:10/10-20 hot:30/30- odd:10/10-20 odd:30/30-")
	if n := p.Stats().Replays; n != 0 {
		t.Errorf("%d replays", n)
	}
	p = p.restart()
	p.at("m", 31, "u", 2)
	p.expect("m", "hot:10/10-20 hot:30/30- odd:10/10-20 odd:30/30-31")
	p.tick(3539)
	p.expect("m", "hot:10/10-20 hot:30/30- odd:10/10-20 odd:30/30-31")
	p.tick(3540) // a minute ahead is as good as now
	p.expect("m", "hot:10/10-20 hot:30/30-3600 odd:10/10-20 odd:30/30-31")
	p.reopen(func() { p.clock.Store(start + 7_150_000) })
	p.expect("m", "hot:10/10-20 hot:30/30-3600 hot:7200/7200- odd:10/10-20 odd:30/30-31")
	p.tick(10_000)
	p.expect("m", "hot:10/10-20 hot:30/30-3600 hot:7200/7200-7300 odd:10/10-20 odd:30/30-31")
	if list := p.alarms("m"); len(list) != 5 {
		t.Errorf("%d alarms, of which some were taken back", len(list))
	}
	items, err := p.rt.Items(t.Context(), entity.ItemsQuery{Kind: laterKind, From: "\x00", Limit: 1})
	if err != nil || len(items) > 0 {
		t.Errorf("nothing waits any more, and there is %v, %v", items, err)
	}
}

func TestANewRuleWaitsForReadingsOfTheFutureAsWell(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.at("m", 1, "t", 10)
	p.at("m", 3600, "t", 95)
	p.at("n", 3600, "t", 95)
	p.at("n", 1, "t", 91)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.expect("m", "")
	p.expect("n", "hot:1/1-")
	p.put(Rule{Name: "hot", Raise: "t > 90"})
	p.tick(4000)
	p.expect("m", "hot:3600/3600-")
	p.expect("n", "hot:1/1-1 hot:1/1-")
}

func TestManyReadingsOfTheFutureOfOneTimeAndMore(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80 and u > 80"})
	var readings []entity.Reading
	want := ""
	for i := range 2*laterPage + 7 {
		at := float64(3600 + 10*i)
		readings = append(readings, reading(at, "t", 90), reading(at, "u", 90), reading(at+1, "u", 10))
		want += fmt.Sprintf("hot:%v/%v-%v ", at, at, at+1)
	}
	p.ingest("m", readings...)
	p.tick(3600)
	p.expect("m", "hot:3600/3600-3601 hot:3610/3610-3611 hot:3620/3620-3621 hot:3630/3630-3631 hot:3640/3640-3641 hot:3650/3650-3651 hot:3660/3660-")
	p = p.restart()
	p.tick(1e6)
	p.expect("m", want[:len(want)-1])
}

func TestWhatWaitedOfADeletedEntityIsNotOfANewOneOfItsID(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.at("m", 3600, "t", 95)
	p.sync()
	if err := p.rt.Delete(t.Context(), "m", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", 1, "t", 10)
	p.tick(4000)
	p.expect("m", "")
}
