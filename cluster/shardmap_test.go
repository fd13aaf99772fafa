package cluster

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestAMapIsReadAsItWasWritten(t *testing.T) {
	m := newShardMap(1024, 1_700_000_000_000)
	for i := range m.slots {
		m.slots[i].own(identity{fmt.Sprint("member-", i%5), uint64(i%2 + 1)})
		m.slots[i].version = 1
		if i%7 == 0 {
			m.slots[i].next = identity{"other", 1}
		}
	}
	m.seal()
	m.slots[3].own(identity{"other", 1})
	m.seal()
	data := m.encode()
	again, err := decodeMap(data, 1024)
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Errorf("it is another one: %v", err)
	}
	if m.slots[3].epoch != m.version || m.slots[4].epoch != m.version-1 {
		t.Errorf("the epochs are %d and %d, and the version is %d", m.slots[3].epoch, m.slots[4].epoch, m.version)
	}
	if len(data) > 10<<10 {
		t.Errorf("a map of 1024 shards has %d bytes", len(data))
	}
}

func TestTheLargestMapIsNoLargerThanAValue(t *testing.T) {
	m := newShardMap(shardsMost, 1_700_000_000_000)
	for i := range m.slots { // no shard has an epoch yet, so each has the greatest age
		m.slots[i].next = identity{fmt.Sprintf("%064d", i%50), 1 << 20}
		m.slots[i].version = 1000
	}
	if n := len(m.encode()); n > MaxValue {
		t.Errorf("a map of %d shards has %d bytes, and a value may have %d", shardsMost, n, MaxValue)
	}
}

func TestAMapThatIsNoneIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{`: "read a map", `{}`: "0 shards",
		`{"version":5,"members":["a"],"joins":[],"shards":[[0,0,0],[0,0,0]]}`:  "a join for each",
		`{"version":5,"members":["a"],"joins":[1],"shards":[[2,0,0],[0,0,0]]}`: "shard 0",
		`{"version":5,"members":["a"],"joins":[1],"shards":[[1,0,0],[0,9,0]]}`: "shard 1",
		`{"version":5,"members":["a"],"joins":[1],"shards":[[1,0,6],[0,0,0]]}`: "an age of at most 5",
		`{"version":5,"members":["a"],"joins":[1],"shards":[[1,0,0]]}`:         "want 2 shards",
	} {
		if m, err := decodeMap([]byte(text), 2); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v, want %q", text, m, err, want)
		}
	}
}

// counts returns how many shards each member has or is to have.
func counts(m *shardMap) map[string]int {
	n := make(map[string]int)
	for _, s := range m.slots {
		if s.next != (identity{}) {
			n["to "+s.next.name]++
		} else {
			n[s.owner.name]++
		}
	}
	return n
}

func TestThePlanMovesAsLittleAsItNeeds(t *testing.T) {
	up := func(since int64) record { return record{Join: 1, State: stateUp, Since: since, Groups: []string{"g"}} }
	c := census{"a": up(1)}
	m := newShardMap(30, 1)
	expect := func(balance, want bool, counted map[string]int) {
		t.Helper()
		if m.plan(c, "g", c.gone, balance) != want {
			t.Errorf("whether it changes something is not %v", want)
		}
		if got := counts(m); !reflect.DeepEqual(got, counted) {
			t.Errorf("the shards are %v, want %v", got, counted)
		}
		m.seal()
	}
	arrive := func() {
		for i := range m.slots {
			if s := &m.slots[i]; s.next != (identity{}) {
				s.own(s.next)
			}
		}
		m.seal()
	}
	expect(true, true, map[string]int{"a": 30})
	expect(true, false, map[string]int{"a": 30})
	c["b"] = up(2)
	expect(false, false, map[string]int{"a": 30})
	expect(true, true, map[string]int{"a": 22, "to b": motionMost})
	expect(true, false, map[string]int{"a": 22, "to b": motionMost})
	arrive()
	expect(true, true, map[string]int{"a": 15, "to b": 7, "b": 8})
	arrive()
	expect(true, false, map[string]int{"a": 15, "b": 15})
	c["c"] = up(3)
	expect(true, true, map[string]int{"a": 10, "b": 10, "to c": 10})
	gone := c["c"]
	gone.State = stateDead
	c["c"] = gone
	expect(true, true, map[string]int{"a": 15, "b": 15}) // who was to have them is gone
	leaving := c["b"]
	leaving.State = stateLeaving
	c["b"] = leaving
	expect(true, true, map[string]int{"a": 15, "b": 7, "to a": motionMost})
	dead := c["b"]
	dead.State = stateDead
	c["b"] = dead
	before := m.version
	expect(true, true, map[string]int{"a": 30})
	for i, s := range m.slots {
		if s.owner.name != "a" || s.epoch > before+1 {
			t.Errorf("shard %d is %+v", i, s)
		}
	}
	delete(c, "a") // of whom nothing is known nothing is taken
	c["d"] = up(4)
	expect(true, false, map[string]int{"a": 30})
	c["a"] = record{Join: 2, State: stateUp, Since: 5, Groups: []string{"g"}} // a later one of that name
	expect(true, true, map[string]int{"a": 15, "d": 15})
}

// TestUpgradePlan has members that write and read different versions.
func TestUpgradePlan(t *testing.T) {
	up := func(since int64, v Versions) record {
		return record{Join: 1, State: stateUp, Since: since, Groups: []string{"g"}, Versions: map[string]Versions{"g": v}}
	}
	one, two := Versions{}, Versions{Writes: 2, Oldest: 1}
	c := census{"a": up(1, one), "b": up(2, two)}
	m := newShardMap(4, 1)
	expect := func(what string, counted map[string]int) {
		t.Helper()
		m.plan(c, "g", c.gone, true)
		m.seal()
		again, err := decodeMap(m.encode(), len(m.slots))
		if err != nil || !reflect.DeepEqual(again, m) {
			t.Fatalf("%s: it is read as another one: %v", what, err)
		}
		if got := counts(m); !reflect.DeepEqual(got, counted) {
			t.Errorf("%s: the shards are %v, want %v", what, got, counted)
		}
	}
	arrive := func() {
		for i := range m.slots {
			if s := &m.slots[i]; s.next != (identity{}) {
				s.own(s.next)
			}
		}
		m.wrote(c, "g")
	}
	state := func(name string, s memberState) {
		r := c[name]
		r.State = s
		c[name] = r
	}
	expect("nobody has had them", map[string]int{"a": 2, "b": 2})
	c["c"] = up(3, one)
	state("b", stateLeaving)
	expect("b leaves, and the others cannot read what it writes", map[string]int{"a": 1, "b": 2, "to c": 1})
	arrive()
	c["d"] = up(4, Versions{Writes: 1, Newest: 2})
	expect("d can, and writes less", map[string]int{"a": 1, "c": 1, "to d": 2})
	c["e"] = up(5, two)
	state("d", stateDead)
	expect("e writes as much", map[string]int{"a": 1, "c": 1, "to e": 2})
	arrive()
	state("b", stateDead)
	state("e", stateDead)
	expect("nobody can read it", map[string]int{"": 2, "a": 1, "c": 1})
	c["d"] = up(6, Versions{Writes: 1, Newest: 2})
	expect("d is back", map[string]int{"a": 1, "c": 1, "d": 2})
	arrive()
	state("d", stateDead)
	c["e"] = up(7, Versions{Writes: 3, Oldest: 2})
	expect("e reads what was written, though not what a and c do", map[string]int{"a": 1, "c": 1, "e": 2})
	state("a", stateDead)
	expect("and c takes those of a", map[string]int{"c": 2, "e": 2})
}
