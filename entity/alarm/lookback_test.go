package alarm

import "testing"

// Readings that wait while the entity is read are not late, however many rules there are.
func TestReadingsThatWaitAreNotLate(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 10"})
	p.put(Rule{Name: "cold", Raise: "t < -10"})
	p.put(Rule{Name: "wide", Raise: "t > u"})
	p.at("room", 1, "t", 1, "u", 30)
	p.at("hall", 1, "t", 1, "u", 30)
	p.sync()
	p.reopen(func() {
		for ts := 2.0; ts < 7; ts++ {
			p.at("hall", ts, "t", ts)
		}
	})
	p.sync()
	p.at("hall", 7, "t", 20)
	p.expect("hall", "hot:7/7-")
	if is := p.Stats(); is.Late+is.Replays != 0 {
		t.Errorf("%d late readings and %d replays", is.Late, is.Replays)
	}
	p.reopen(func() {
		p.at("room", 2, "t", 2)
		p.at("room", 4, "t", 20) // hot alone has to do with it
		p.at("room", 5, "t", 5)
	})
	p.sync()
	p.at("room", 6, "u", 4)
	p.expect("room", "hot:4/4-5 wide:6/6-")
	if is := p.Stats(); is.Late > 3 {
		t.Errorf("%d late readings, want at most those of one rule", is.Late)
	}
}

// What has no history any more is known all the same.
func TestWhoLooksBackKeepsWhatIsOlder(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "wide", Raise: "t > u"})
	p.at("room", 1, "t", 1, "u", 10)
	p.sync()
	p.reopen(func() {
		p.at("room", 2, "t", 2)
		p.at("room", 3, "t", 3)
	})
	p.sync()
	p.at("room", 4, "t", 11)
	p.expect("room", "wide:4/4-")
}

// A late reading of an entity that is not known counts, between two that do not.
func TestALateReadingOfAnEntityThatIsJustReadCounts(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 10"})
	p.put(Rule{Name: "cold", Raise: "t < -10"})
	p.at("room", 1, "t", 1)
	p.at("room", 3, "t", 3)
	p.sync()
	p.reopen(func() { p.at("room", 2, "t", 20) })
	p.expect("room", "hot:2/2-3")
	p.reopen(func() { p.at("room", 1.5, "t", 5) })
	p.expect("room", "hot:2/2-3")
	p.at("room", 2.5, "t", 5) // which was not there when the entity was read
	p.expect("room", "hot:2/2-2.5")
}

// A late reading that meets no condition may all the same have ended an alarm.
func TestALateReadingOfAnEntityThatIsJustReadEndsAnAlarm(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 10", Clear: "t < 5"})
	p.at("room", 2, "t", 20)
	p.at("room", 3, "t", 7)
	p.at("room", 4, "t", 1)
	p.expect("room", "hot:2/2-4")
	p.reopen(func() { p.at("room", 3.5, "t", 2) })
	p.expect("room", "hot:2/2-3.5")
}

// A value that the entity has is known, even if retention has left nothing of it in the history.
func TestWhoLooksBackKeepsAValueWithoutHistory(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "wide", Raise: "t > u"})
	p.at("room", 1, "t", 1)
	p.at("room", 3, "u", 10)
	p.sync()
	p.trim("room", "u")
	p.reopen(func() { p.at("room", 2, "t", 2) }) // a late one, of an entity that is just read
	p.sync()
	p.at("room", 4, "t", 11)
	p.expect("room", "wide:4/4-")
}

func TestAReplayKnowsAValueWithoutHistory(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "wide", Raise: "t > u"})
	p.at("room", 1, "u", 10)
	p.at("room", 4, "t", 5)
	p.at("room", 6, "u", 3)
	p.expect("room", "wide:6/6-")
	p.trim("room", "u")
	p.at("room", 5, "t", 20) // what u was then nobody knows any more, but what it is since
	p.at("room", 7, "t", 1)
	p.expect("room", "wide:6/6-7")

	p.at("hall", 1, "u", 10)
	p.at("hall", 3, "t", 5)
	p.sync()
	p.trim("hall", "u")
	p.at("hall", 2, "t", 20)
	p.expect("hall", "wide:2/2-3")
}
