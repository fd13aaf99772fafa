package alarm

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/model"
)

func (p *plant) putType(doc string) {
	p.t.Helper()
	typ, err := model.Parse([]byte(doc))
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := p.rt.PutType(p.t.Context(), typ, ""); err != nil {
		p.t.Fatal(err)
	}
}

func TestNewRulesLookAtTheEntitiesTheyConcernOnceForAll(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.putType(`{"id":"pump"}`)
	p.putType(`{"id":"valve"}`)
	const pumps, valves = 20, 200
	for i := range pumps + valves {
		typ := "valve"
		if i < pumps {
			typ = "pump"
		}
		if _, err := p.rt.Edit(t.Context(), fmt.Sprint("m", i), entity.Edits{Type: &typ}); err != nil {
			t.Fatal(err)
		}
	}
	p.at("m0", 1, "t", 90)
	looked := func(f func()) int64 {
		t.Helper()
		p.sync()
		before := p.store.listed.Load()
		f()
		p.sync()
		return p.store.listed.Load() - before
	}
	if n := looked(func() { p.put(Rule{Name: "one", Type: "pump", Raise: "t > 80"}) }); n > 2*pumps {
		t.Errorf("a rule for %d pumps has looked at %d entities", pumps, n)
	}
	n := looked(func() {
		p.reopen(func() {
			for i := range 50 {
				x := ruleJSON{Raise: "t > 85", Severity: Major, Effective: start, Version: 1, Sweep: true}
				body, err := plainJSON(&x)
				if err != nil {
					t.Fatal(err)
				}
				if err := p.rt.PutItems(t.Context(), []entity.Item{{Kind: ruleKind, Key: fmt.Sprint("more", i), Body: body}}); err != nil {
					t.Fatal(err)
				}
			}
		})
	})
	if n > 3*(pumps+valves) {
		t.Errorf("50 new rules have looked at %d entities, of which there are %d", n, pumps+valves)
	}
	if n := p.Stats().Open[Major-1]; n != 51 {
		t.Errorf("%d alarms are open, want 51", n)
	}
	if n := looked(func() { p.putType(`{"id":"valve","description":"for water"}`) }); n > 0 {
		t.Errorf("after a change of a type that no rule is about %d entities were looked at", n)
	}
}

func TestAttributesThatNoRuleReadsAreNotLookedAt(t *testing.T) {
	t.Parallel()
	s := newSlots()
	if _, err := compile(Installed{Rule: Rule{Name: "x", Raise: "t > attributes.limits.high and exists(attributes.place)", Severity: Major}}, s.of); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/limits/high": true, "/limits/low": false, "/limits": false, "/place": true, "/place/floor": true, "/other": false,
	} {
		if got := s.hasLeaf(entity.AttributeEdit{Section: entity.Attributes, Attribute: entity.Attribute{Path: path}}); got != want {
			t.Errorf("%s: %v", path, got)
		}
		if s.hasLeaf(entity.AttributeEdit{Section: entity.Desired, Attribute: entity.Attribute{Path: path}}) {
			t.Errorf("%s of another section", path)
		}
	}
}

func TestAReadingIsForTheRulesThatReadItsKeys(t *testing.T) {
	t.Parallel()
	p := build(t)
	for i := range 70 { // more than fit into one word of bits
		p.put(Rule{Name: fmt.Sprintf("r%02d", i), Raise: fmt.Sprintf("k%d > 80", i%35)})
	}
	p.put(Rule{Name: "both", Raise: "k1 > 90 and k2 > 90", Where: `id = "m"`})
	p.at("m", 1, "k1", 10)
	p.sync()
	before := p.Stats().Evaluations
	p.at("m", 2, "k1", 85, "other", 1)
	p.expect("m", "r01:2/2- r36:2/2-")
	if n := p.Stats().Evaluations - before; n != 3 {
		t.Errorf("%d conditions were evaluated for a reading of a key that 3 rules read", n)
	}
	p.at("m", 3, "k1", 95, "k2", 95)
	p.expect("m", "both:3/3- r01:2/2- r02:3/3- r36:2/2- r37:3/3-")
	p.at("n", 3, "k1", 95, "k2", 95)
	p.expect("n", "r01:3/3- r02:3/3- r36:3/3- r37:3/3-")
	if err := p.DeleteRule(t.Context(), "r01", ""); err != nil {
		t.Fatal(err)
	}
	p.at("n", 4, "k1", 10)
	p.expect("n", "r01:3/3-3 r02:3/3- r36:3/3-4 r37:3/3-")
}

func TestAReadingThatCrossesNoThresholdIsNotLookedAt(t *testing.T) {
	t.Parallel()
	p := build(t)
	for i := range 20 {
		p.put(Rule{Name: fmt.Sprintf("r%02d", i), Raise: fmt.Sprintf("k > %d", 100+10*i), Clear: "k < 50"})
	}
	at := 0.0
	reading := func(keysAndValues ...any) (looked uint64) {
		t.Helper()
		at++
		before := p.Stats().Evaluations
		p.at("m", at, keysAndValues...)
		p.sync()
		return p.Stats().Evaluations - before
	}
	for i, x := range []struct {
		v      any
		looked uint64
	}{
		// What is read from the store may be ahead, so 60 is looked at twice.
		{60, 20},
		{60, 20},
		{61, 0},
		{99.5, 0},
		{50, 20},
		{50, 0},
		{49, 20},
		{51, 20},
		{99, 0},
		{105, 20},
		{106, 0},
		{"odd", 20},
		{"odd", 0},
		{"even", 20},
		{106, 20},
		{115, 20},
		{104, 20},
		{103, 0},
		{10, 20},
		{11, 0},
	} {
		if n := reading("k", x.v); n != x.looked && i > 0 {
			t.Errorf("reading %d, %v: %d conditions were looked at, want %d", i, x.v, n, x.looked)
		}
	}
	p.expect("m", "r00:10/10-19 r01:16/16-19")
	p.put(Rule{Name: "slow", Raise: "k > 20", For: 2500 * time.Millisecond})
	p.put(Rule{Name: "pair", Raise: "k > other"})
	reading("k", 30)
	reading("k", 31)
	reading("k", 32)
	reading("k", 33) // the same answers, and the time for slow has come
	reading("other", 40)
	if n := reading("k", 34); n != 1 {
		t.Errorf("%d conditions were looked at for a reading that one of them compares with another key", n)
	}
	reading("k", 41)
	p.expect("m", "pair:27/27- r00:10/10-19 r01:16/16-19 slow:21/23.5-")
}
