package alarm

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/soaktest"
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
	p.expect("m", "silent:900.001/900.001-1000 silent:1000.001/1000.001-1001 silent:1601.001/1601.001-")
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
	p.expect("m", "silent:110.001/110.001-")
	p.at("m", 111, "c", 1)
	p.expect("m", "silent:110.001/110.001-111")
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
	p.expect("a", "silent:60.001/60.001-")
	p = p.restart()
	p.sync() // looks at both
	p.tick(80)
	p.expect("a", "silent:60.001/60.001-")
	p.expect("b", "")
	p.tick(90.001)
	p.expect("b", "silent:90.001/90.001-")
	p.tick(130)
	p.expect("a", "held:70/130- silent:60.001/60.001-")
	p = p.restart()
	p.at("a", 130, "t", 1)
	p.expect("a", "held:70/130-130 silent:60.001/60.001-130")
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
	p.expect("m", "silent:60.001/60.001-60.001 silent:120.001/120.001-")
	if err := p.DeleteRule(t.Context(), "silent", ""); err != nil {
		t.Fatal(err)
	}
	p.expect("m", "silent:60.001/60.001-60.001 silent:120.001/120.001-121")
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

func TestTheFirstReadingBeginsTheSilenceOfAnEntity(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(updated) > 1m"})
	p.at("m", 0, "a", 1)
	p.tick(100)
	p.expect("m", "silent:60.001/60.001-")
	p.put(Rule{Name: "other", Raise: "b > 1"}) // all entities are read again
	p.tick(110)
	p.at("m", 110, "a", 1)
	p.expect("m", "silent:60.001/60.001-110")
}

func TestAReadingIsTakenInAtOnceByALiveRule(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80 and age(updated) < 10s"})
	p.at("m", 0, "t", 90)
	p.tick(100)
	p.expect("m", "hot:0/0-10")
	p.at("m", 100, "t", 20) // updated is new again, and so is t
	p.expect("m", "hot:0/0-10")
}

func TestALiveConditionMustHoldUntilItsTime(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80 and age(t) < 60s", For: 2 * time.Minute})
	p.put(Rule{Name: "short", Raise: "t > 80 and age(t) < 60s", For: 50 * time.Second})
	p.at("m", 0, "t", 85)
	p.tick(10)
	p.tick(200) // the engine runs late
	p.expect("m", "short:0/50-60")
}

func TestWhatWasPendingForALiveRuleBeginsAgainAfterARestart(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "hot", Raise: "t > 80 and age(t) < 60s", For: 2 * time.Minute})
	p.put(Rule{Name: "silent", Raise: "age(t) > 5s", For: time.Minute})
	p.put(Rule{Name: "slow", Raise: "age(t) > 5s", ClearFor: time.Minute})
	p.at("m", 0, "t", 85)
	p.tick(10)
	p.at("m", 10, "t", 85)
	p.tick(16)
	p.expect("m", "slow:5.001/5.001-")
	p.close()
	p.clock.Store(start + 600_000)
	p = buildAt(p.t, p.dir, p.clock, p.steps)
	p.expect("m", "slow:5.001/5.001-")
	p.tick(659)
	p.at("m", 659, "t", 20)
	p.tick(664)
	p.at("m", 664, "t", 20)
	p.tick(669)
	p.at("m", 669, "t", 20)
	p.expect("m", "slow:5.001/5.001-")
	p.tick(800)
	p.expect("m", "silent:674.001/734.001- slow:5.001/5.001-")
}

func TestALiveRuleLooksAtNoReadingOfTheFuture(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.at("m", 0, "t", 1)
	p.at("m", 86400, "t", 1)
	p.put(Rule{Name: "silent", Raise: "age(t) > 10m"})
	p.put(Rule{Name: "unheard", Raise: "age(updated) > 10m"})
	p.tick(601)
	p.expect("m", "silent:600.001/600.001- unheard:600.001/600.001-")
	p.tick(700)
	p.at("m", 90000, "t", 1) // it was heard of
	p.expect("m", "silent:600.001/600.001- unheard:600.001/600.001-700")
	p.tick(1400)
	p.expect("m", "silent:600.001/600.001- unheard:600.001/600.001-700 unheard:1300.001/1300.001-")
}

// behind has the engine of a plant wait while f runs, and forget what it knows of entities.
func (p *plant) behind(forget bool, f func()) {
	p.t.Helper()
	if err := p.do(p.t.Context(), func(_ context.Context, e *engine) error {
		f()
		if forget {
			e.cache.refresh()
		}
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
}

func TestTheLagOfTheEngineIsNoSilence(t *testing.T) {
	t.Parallel()
	for _, forget := range []bool{false, true} {
		p := build(t)
		p.put(Rule{Name: "silent", Raise: "age(t) > 350s"})
		p.put(Rule{Name: "hot", Raise: "t > 80 and age(t) < 10s"})
		p.at("m", 0, "t", 1)
		p.sync()
		p.behind(forget, func() {
			for _, s := range []float64{300, 600} {
				p.clock.Store(start + int64(s*1000))
				p.at("m", s, "t", 1)
			}
			p.at("n", 600, "t", 90)
			p.clock.Store(start + 700_000)
		})
		p.expect("m", "")
		p.expect("n", "hot:600/600-610")
		p.behind(forget, func() {
			p.clock.Store(start + 1000_000)
			p.at("m", 1000, "t", 1)
			p.clock.Store(start + 1400_000)
		})
		p.expect("m", "silent:950.001/950.001-1000 silent:1350.001/1350.001-")
	}
}

func TestALiveAlarmClearsAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 10m"})
	p.put(Rule{Name: "slow", Raise: "age(t) > 10m", ClearFor: 5 * time.Second})
	p.at("m", 0, "t", 1)
	p.tick(601)
	years := 10 * 365 * 86400.0
	p.at("n", 0, "t", 1)
	p.sync()
	p.tick(years)
	p.at("n", years, "t", 1)
	p.sync()
	p.tick(years + 1000)
	p.tick(700)
	for _, id := range []string{"m", "n"} {
		p.at(id, 700, "t", 1)
	}
	p.sync()
	p.tick(706)
	for _, id := range []string{"m", "n"} {
		for _, a := range p.alarms(id) {
			if a.Open() {
				t.Errorf("%s of %s is still open", a.Rule, id)
			}
		}
	}
}

func TestALiveRuleLooksAtAnEntityThatAReadingMakes(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "unseen", Raise: "not presence.connected"})
	p.put(Rule{Name: "mute", Raise: "not exists t and age(created) > -300000d"})
	p.at("m", 0, "u", 1)
	p.expect("m", "mute:0/0- unseen:0/0-")
	p.behind(false, func() {
		p.at("n", 0, "u", 1)
		if err := p.rt.Delete(t.Context(), "m", ""); err != nil {
			t.Error(err)
		}
		p.clock.Add(1000)
		p.at("m", 1, "u", 1)
		p.at("m", 1, "t", 1)
	})
	p.expect("n", "mute:0/0- unseen:0/0-")
	p.tick(2)
	if s := p.story("m"); !strings.Contains(s, "unseen:1/1-") {
		t.Errorf("the alarms of m are %q", s)
	}
}

// awaits returns how many entities wait for a time.
func (p *plant) awaits() (n int) {
	p.t.Helper()
	p.sync()
	if err := p.do(p.t.Context(), func(_ context.Context, e *engine) error {
		if n = e.awaits; e.timers.Len() < n {
			p.t.Errorf("%d timers for %d entities", e.timers.Len(), n)
		}
		for _, r := range e.rules {
			n -= len(r.awaits)
		}
		if n != 0 {
			p.t.Errorf("%d more are counted than there are", n)
		}
		n = e.awaits
		return nil
	}); err != nil {
		p.t.Fatal(err)
	}
	return n
}

func TestNothingWaitsForAnEntityThatIsNotConcerned(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.put(Rule{Name: "silent", Raise: "age(t) > 30d", Where: "not exists attributes.off"})
	for _, id := range []string{"a", "b", "c"} {
		p.at(id, 0, "t", 1)
	}
	if n := p.awaits(); n != 3 {
		t.Fatalf("%d wait, want 3", n)
	}
	if err := p.rt.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	if n := p.awaits(); n != 2 {
		t.Errorf("%d wait after one was deleted, want 2", n)
	}
	off := entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(`{"off":true}`)}}}
	if _, err := p.rt.Edit(t.Context(), "b", off); err != nil {
		t.Fatal(err)
	}
	if n := p.awaits(); n != 1 {
		t.Errorf("%d wait after the rule does not concern another one, want 1", n)
	}
}

func TestWhatFindsNoRoomToWaitIsLookedAtLater(t *testing.T) {
	t.Parallel()
	steps := usualSteps()
	steps.awaits, steps.items = 10, 7
	p := buildWith(t, steps)
	p.put(Rule{Name: "silent", Raise: "age(t) > 1m"})
	p.put(Rule{Name: "long", Raise: "age(t) > 30d", Where: `id < "e10"`})
	for i := range 20 {
		p.at(fmt.Sprintf("e%02d", i), 0, "t", 1)
	}
	if n := p.awaits(); n != 10 {
		t.Fatalf("%d wait, want 10", n)
	}
	if n := p.Stats().Overflow; n == 0 {
		t.Error("none is counted that has found no room")
	}
	p.tick(61)
	p.tick(62)
	if err := p.DeleteRule(t.Context(), "long", ""); err != nil {
		t.Fatal(err)
	}
	p.sync()
	for i := range 20 {
		id := fmt.Sprintf("e%02d", i)
		if s := p.story(id); !strings.HasPrefix(s, "silent:") || strings.Contains(s, " ") {
			t.Errorf("the alarms of %s are %q", id, s)
		}
	}
	if n := p.awaits(); n != 0 {
		t.Errorf("%d wait, want none", n)
	}
}

func TestTheEngineDoesInPartsWhatWaitsForATime(t *testing.T) {
	t.Parallel()
	steps := usualSteps()
	steps.fire, steps.items = 4, 8
	p := buildWith(t, steps)
	p.put(Rule{Name: "silent", Raise: "age(t) > 1m"})
	p.put(Rule{Name: "other", Raise: "age(t) > 2m"})
	for i := range 20 {
		p.at(fmt.Sprintf("e%02d", i), 0, "t", 1)
	}
	if n := p.awaits(); n != 40 {
		t.Fatalf("%d wait, want 40", n)
	}
	if err := p.do(t.Context(), func(ctx context.Context, e *engine) error {
		e.cache.refresh()
		p.clock.Store(start + 61_000)
		e.known = start + 61_000
		if err := e.fire(ctx); err != nil {
			return err
		}
		if n := len(e.cache.others.young); n != 4 {
			t.Errorf("%d entities were read in a part, want 4", n)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := p.awaits(); n != 20 {
		t.Fatalf("%d wait, want 20", n)
	}
	if err := p.do(t.Context(), func(ctx context.Context, e *engine) error {
		if err := e.deleteRule(ctx, "other", ""); err != nil {
			return err
		}
		if e.clearAwaits(); e.awaits != 12 {
			t.Errorf("%d wait after a part, want 12", e.awaits)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if n := p.awaits(); n != 0 {
		t.Errorf("%d wait, want none", n)
	}
}

func TestAnObjectOfAttributesHasNoAge(t *testing.T) {
	t.Parallel()
	p := build(t)
	e := entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(`{"config":{"a":1}}`)}}}
	if _, err := p.rt.Edit(t.Context(), "m", e); err != nil {
		t.Fatal(err)
	}
	p.put(Rule{Name: "old", Raise: "age(attributes.config) > -300000d"})
	p.expect("m", "")
	p.put(Rule{Name: "old", Raise: "age(attributes.config.a) > -300000d"})
	p.expect("m", "old:0/0-")
}

func TestAnAgeThatNothingReachesIsNoWork(t *testing.T) {
	t.Parallel()
	const d = "2305843009213693951ms"
	p := build(t)
	p.at("m", 0, "t", 1)
	p.put(Rule{Name: "never", Raise: "age(t) > " + d + " + " + d + " + " + d + " + " + d})
	p.expect("m", "")
	if n := p.awaits(); n != 0 {
		t.Errorf("%d wait, want none", n)
	}
}

// dense is how rules stand for an entity whose conditions are evaluated at each time at which anything
// may happen.
type dense struct {
	frame
	slots    *slots
	rules    []*rule
	machines []machine
	raised   []turn
	story    []string
}

func (d *dense) pass(now int64) {
	for i, r := range d.rules {
		if t, ok := d.machines[i].advance(r, now); ok {
			d.turn(i, t)
		}
	}
	d.judge(now)
}

func (d *dense) judge(now int64) {
	d.env.Now = now
	for i, r := range d.rules {
		m := &d.machines[i]
		if t, ok := m.observe(r, now, m.holds(r, &d.frame)); ok {
			d.turn(i, t)
		}
	}
}

func (d *dense) turn(i int, t turn) {
	if t.raised {
		d.raised[i] = t
		return
	}
	is := d.raised[i]
	d.story = append(d.story, fmt.Sprintf("%s:%s/%s-%s", d.rules[i].Name, seconds(is.since), seconds(is.at), seconds(t.at)))
}

func (d *dense) end() string {
	for i, m := range d.machines {
		if m.raised {
			d.story = append(d.story, fmt.Sprintf("%s:%s/%s-", d.rules[i].Name, seconds(d.raised[i].since), seconds(d.raised[i].at)))
		}
	}
	slices.Sort(d.story)
	return strings.Join(d.story, "\n")
}

// TestLiveAlarmsDoNotShowTheLag checks the alarms of an engine that runs at random times, and knows
// entities or has to read them again, against those of a model that is always in time.
func TestLiveAlarmsDoNotShowTheLag(t *testing.T) {
	t.Parallel()
	for seed := range uint64(soaktest.Rounds(t, 6, 300)) {
		testLag(t, seed, seed%2 == 1)
	}
}

func testLag(t *testing.T, seed uint64, forget bool) {
	rng := rand.New(rand.NewPCG(seed, 17))
	rules := []Rule{
		{Name: "a", Raise: "t > 80 and age(t) < 7s", For: 3 * time.Second},
		{Name: "b", Raise: "age(t) > 10s", Clear: "age(t) < 4s and t > 0", ClearFor: 2 * time.Second},
		{Name: "c", Raise: "age(updated) > 6s"},
		{Name: "d", Raise: "u > 80 or age(u) > 9s"},
		{Name: "e", Raise: "age(t) > 5s and age(u) < 20s", For: 4 * time.Second, ClearFor: time.Second},
		{Name: "f", Raise: "t > 50 and age(updated) < 3s"},
		{Name: "g", Raise: "age(t) - age(u) > 5s and age(u) < 12s", ClearFor: 3 * time.Second},
	}
	if !forget { // attributes have no history
		rules = append(rules, Rule{Name: "h", Raise: "t > attributes.limit and age(t) < 9s", For: time.Second})
	}
	for i := range rules { // nor is it known what came first in one millisecond
		if r := &rules[i]; forget {
			r.Raise, r.Clear = strings.ReplaceAll(r.Raise, " < ", " <= "), strings.ReplaceAll(r.Clear, " < ", " <= ")
		}
	}
	p := build(t)
	defer p.close()
	model := map[string]*dense{}
	for _, id := range []string{"m", "n"} {
		d := &dense{frame: frame{id: id}, slots: newSlots()}
		for _, r := range rules {
			c, err := compile(Installed{Rule: r.with(Major)}, d.slots.of)
			if err != nil {
				t.Fatal(err)
			}
			d.rules = append(d.rules, c)
		}
		d.machines, d.raised = make([]machine, len(rules)), make([]turn, len(rules))
		model[id] = d
	}
	for _, r := range rules {
		p.put(r)
	}
	now := int64(0)
	pass := func(to int64) { // in seconds; answers turn then or a millisecond later
		for ; now < to; now++ {
			for _, d := range model {
				d.pass(start + now*1000 + 1)
				d.pass(start + now*1000 + 1000)
			}
		}
		p.clock.Store(start + now*1000)
	}
	read := func(id, key string, ts int64, v int) {
		p.at(id, float64(ts), key, v)
		d := model[id]
		slot, at := d.slots.key(key), start+ts*1000
		if was, ok := d.ts(slot); !ok || at >= was {
			d.put(slot, at, value.Int(int64(v)))
		}
		if was, ok := d.ts(d.slots.updated); !ok || at > was {
			d.put(d.slots.updated, at, value.Time(at))
		}
		d.judge(start + now*1000)
	}
	if !forget { // what comes late is in an entity that is read late
		read("m", "t", 0, 1)
		read("n", "t", 0, 1)
		p.sync()
	}
	change := func() {
		id := [...]string{"m", "n"}[rng.IntN(2)]
		key, v, ts := [...]string{"t", "u"}[rng.IntN(2)], rng.IntN(100), now
		if !forget {
			ts += rng.Int64N(5) - 3 // late, or ahead
		}
		read(id, key, ts, v)
	}
	edit := func() { // which has the entity read again
		id, limit := [...]string{"m", "n"}[rng.IntN(2)], rng.IntN(100)
		p.sync()
		e := entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: fmt.Appendf(nil, `{"limit":%d}`, limit)}}}
		if _, err := p.rt.Edit(t.Context(), id, e); err != nil {
			t.Error(err)
		}
		p.sync()
		d := model[id]
		d.put(d.slots.byPath[slotPath{filter.RootAttributes, "/limit"}], start+now*1000, value.Int(int64(limit)))
		d.judge(start + now*1000)
	}
	for range 25 {
		p.behind(forget && rng.IntN(2) == 0, func() {
			for range rng.IntN(4) {
				pass(now + 1 + rng.Int64N(1+rng.Int64N(14)))
				change()
			}
			pass(now + rng.Int64N(8))
		})
		if rng.IntN(3) > 0 {
			p.sync()
		}
		if !forget && rng.IntN(3) == 0 {
			edit()
		}
	}
	pass(now + 40)
	p.sync()
	for id, d := range model {
		got := strings.Fields(p.story(id))
		slices.Sort(got)
		if got, want := strings.Join(got, "\n"), d.end(); got != want {
			t.Fatalf("seed %d: the alarms of %s are\n%s\n\nwant\n%s", seed, id, got, want)
		}
	}
}

func (r Rule) with(s Severity) Rule {
	r.Severity = s
	return r
}
