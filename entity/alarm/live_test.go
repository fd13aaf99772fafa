package alarm

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
)

func TestSilenceRaisesAnAlarmByTheClock(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 10m"})
	p.at("m", 0, "t", 20)
	p.at("other", 0, "u", 20) // has no such key
	p.tick(600)
	p.expect("m", "")
	p.tick(300)
	p.at("m", 300, "t", 20) // puts it off
	p.tick(601)
	p.tick(900)
	p.expect("m", "")
	p.tick(900.001)
	p.expect("m", "silent:900.001/900.001-")
	if a := p.alarms("m")[0]; len(a.Values) != 1 || a.Values[0].TS != start+300_000 {
		t.Errorf("the values are %+v", a.Values)
	}
	p.tick(1000)
	p.at("m", 400, "t", 20) // is late, and still too old
	p.expect("m", "silent:900.001/900.001-1000")
	p.tick(1000.001)
	p.tick(1001)
	p.expect("m", "silent:900.001/900.001-1000 silent:1000.001/1000.001-")
	p.at("m", 1001, "t", 20)
	p.expect("m", "silent:900.001/900.001-1000 silent:1000.001/1000.001-1001")
	p.expect("other", "")
	p.tick(5000)
	p.expect("m", "silent:900.001/900.001-1000 silent:1000.001/1000.001-1001 silent:5000/5000-")
}

func TestALiveRuleHasHysteresisAndMustHold(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 10s", Clear: "age(t) < 5s and t > 0", For: 20 * time.Second, ClearFor: 3 * time.Second})
	p.at("m", 0, "t", 20)
	p.tick(10.001)
	p.expect("m", "")
	p.tick(30)
	p.expect("m", "")
	p.tick(30.001)
	p.expect("m", "silent:10.001/30.001-")
	p.tick(40)
	p.at("m", 40, "t", -1) // nothing that clears
	p.tick(42)
	p.at("m", 42, "t", 1)
	p.sync()
	p.tick(44)
	p.at("m", 44, "t", 1)
	p.expect("m", "silent:10.001/30.001-")
	p.tick(45)
	p.expect("m", "silent:10.001/30.001-45")
}

func TestAnyReadingEndsTheSilenceOfAnEntity(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(updated) > 1m", Where: `id prefix "m"`})
	p.at("m", 0, "a", 1)
	p.tick(50)
	p.at("m", 50, "b", 1)
	p.at("n", 50, "b", 1)
	p.tick(110)
	p.expect("m", "")
	p.tick(111)
	p.expect("m", "silent:111/111-")
	p.at("m", 111, "c", 1)
	p.expect("m", "silent:111/111-111")
	p.expect("n", "")
}

func TestRulesAboutPresence(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "gone", Raise: "presence.since > 2000-01-01 and not presence.online"})
	p.put(Rule{Name: "unseen", Raise: "not presence.connected", Type: "pump"})
	p.at("m", 0, "t", 1)
	p.expect("m", "") // nothing was ever heard of it
	changes, err := p.rt.Follow(t.Context(), entity.ChangesQuery{EditsOnly: true, Presence: true})
	if err != nil {
		t.Fatal(err)
	}
	defer changes.Close()
	online := func(want bool) {
		t.Helper()
		for {
			c, err := changes.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if c.Presence != nil && (c.Presence.State == entity.PresenceOnline) == want {
				return
			}
		}
	}
	end := p.rt.Connect("m")
	online(true)
	p.expect("m", "")
	end()
	online(false)
	p.expect("m", "gone:0/0-")
	p.clock.Add(1000)
	end = p.rt.Connect("m")
	defer end()
	online(true)
	p.expect("m", "gone:0/0-1")
	pump, err := model.Parse([]byte(`{"id":"pump"}`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.rt.PutType(t.Context(), pump, ""); err != nil {
		t.Fatal(err)
	}
	typ := "pump"
	if _, err := p.rt.Edit(t.Context(), "new", entity.Edits{Type: &typ}); err != nil {
		t.Fatal(err)
	}
	p.expect("new", "unseen:1/1-")
}

func TestLiveRulesGoOnAfterARestart(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 1m"})
	p.put(Rule{Name: "held", Raise: "age(t) > 1m", For: time.Minute})
	p.at("a", 0, "t", 1)
	p.at("b", 30, "t", 1)
	p.tick(70)
	p.expect("a", "silent:70/70-")
	p = p.restart()
	p.tick(80)
	p.expect("a", "silent:70/70-")
	p.expect("b", "")
	p.tick(90.001)
	p.expect("b", "silent:90.001/90.001-")
	p.tick(130)
	p.expect("a", "held:70/130- silent:70/70-")
	p = p.restart()
	p.at("a", 130, "t", 1)
	p.expect("a", "held:70/130-130 silent:70/70-130")
}

func TestAChangedLiveRuleForgetsWhatItHasWaitedFor(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 1m"})
	p.at("m", 0, "t", 1)
	p.sync()
	p.put(Rule{Name: "silent", Raise: "age(t) > 1m", Severity: Info}) // the same conditions
	p.tick(60.001)
	p.expect("m", "silent:60.001/60.001-")
	p.put(Rule{Name: "silent", Raise: "age(t) > 2m"})
	p.expect("m", "silent:60.001/60.001-60.001")
	p.tick(119)
	p.expect("m", "silent:60.001/60.001-60.001")
	p.tick(121)
	p.expect("m", "silent:60.001/60.001-60.001 silent:121/121-")
	if err := p.DeleteRule(t.Context(), "silent", ""); err != nil {
		t.Fatal(err)
	}
	p.expect("m", "silent:60.001/60.001-60.001 silent:121/121-121")
	if err := p.do(t.Context(), func(_ context.Context, e *engine) error {
		if e.awaits != 0 || e.timers.Len() != 0 {
			t.Errorf("%d awaits and %d timers are left", e.awaits, e.timers.Len())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestALiveRuleLeavesTheOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	p.put(Rule{Name: "hotnow", Raise: "t > 80 and age(t) < 100s"})
	p.tick(50)
	p.at("m", 10, "t", 90)
	p.expect("m", "hot:10/10- hotnow:50/50-")
	p.at("m", 20, "t", 10) // older than the alarm of the other rule, and not late
	p.at("m", 15, "t", 10) // late
	p.expect("m", "hot:10/10-15 hotnow:50/50-50")
	if s := p.Stats(); s.Late != 1 {
		t.Errorf("%d late readings, want 1", s.Late)
	}
}

func TestConditionsAboutNowThatAreRefused(t *testing.T) {
	t.Parallel()
	for raise, want := range map[string]string{
		"t > 5 and presence.seen < now - 1d":  "age(updated) says how old the last reading is",
		"(age(t) ?? 5m) > 3m":                 "must do no more with now and with ages",
		"now > 2026-01-01":                    "must look at a value of the entity",
		"related any to any and age(t) > 10m": "must not depend on relations",
		"delta.x = 1 and t > 5":               "may look at keys, id, type, created, updated",
	} {
		err := (&Rule{Name: "r", Raise: raise, Severity: Major}).Check()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", raise, err)
		}
	}
	if err := (&Rule{Name: "r", Raise: "t > 5", Where: "age(created) > 1d", Severity: Major}).Check(); err == nil {
		t.Error("an age in where is taken")
	}
}
