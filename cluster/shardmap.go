package cluster

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// motionMost bounds how many shards of a member are moved at the same time.
const motionMost = 8

// identity identifies a member of the cluster: a name, and how often it has joined. The zero
// identity is none.
type identity struct {
	name string
	gen  uint64
}

func (id identity) compare(other identity) int {
	return cmp.Or(cmp.Compare(id.name, other.name), cmp.Compare(id.gen, other.gen))
}

func (id identity) String() string { return fmt.Sprintf("%s~%d", id.name, id.gen) }

// slot is a shard in the map.
type slot struct {
	owner, next identity // the present and the next owner
	epoch       uint64   // the version of the map at the last change of owner; 0 while that is prepared
	version     int      // the greatest that an owner has written, see [Versions]; 0 if it never had an owner
}

// shardMap says who owns the shards of a group. Its version increases, and is at least the time of
// the change in milliseconds: so epochs increase, as far as clocks agree, even if an engine has
// lost its data.
type shardMap struct {
	version uint64
	slots   []slot
}

func newShardMap(n int, now int64) *shardMap { return &shardMap{uint64(now), make([]slot, n)} }

func (m *shardMap) clone() *shardMap { return &shardMap{m.version, slices.Clone(m.slots)} }

// seal gives the changed m the next version.
func (m *shardMap) seal() {
	m.version = max(m.version+1, uint64(time.Now().UnixMilli()))
	for i := range m.slots {
		if s := &m.slots[i]; s.epoch == 0 && s.owner != (identity{}) {
			s.epoch = m.version
		}
	}
}

// own gives a shard to another member.
func (s *slot) own(by identity) { *s = slot{owner: by, version: s.version} }

// mapJSON is a map as the engine keeps it. Members are numbered from 1, and an epoch is counted
// back from the version, so that a thousand shards take some kilobytes.
type mapJSON struct {
	Version uint64      `json:"version"`
	Members []string    `json:"members"`
	Joins   []uint64    `json:"joins"`
	Shards  [][3]uint64 `json:"shards"`            // owner, next, age
	Written []int       `json:"written,omitempty"` // by shard: the version that was written; none for 1 or none
}

func (m *shardMap) encode() []byte {
	j := mapJSON{Version: m.version}
	numbers := map[identity]uint64{{}: 0}
	number := func(id identity) uint64 {
		n, ok := numbers[id]
		if !ok {
			j.Members, j.Joins = append(j.Members, id.name), append(j.Joins, id.gen)
			n = uint64(len(j.Members))
			numbers[id] = n
		}
		return n
	}
	for _, s := range m.slots {
		j.Shards = append(j.Shards, [3]uint64{number(s.owner), number(s.next), m.version - s.epoch})
	}
	if slices.ContainsFunc(m.slots, func(s slot) bool { return s.version > 1 }) {
		for _, s := range m.slots {
			j.Written = append(j.Written, s.version)
		}
	}
	data, err := json.Marshal(j)
	if err != nil {
		panic(fmt.Sprintf("cluster: encode a map: %v", err)) // numbers and texts
	}
	return data
}

// decodeMap reads the map of n shards.
func decodeMap(data []byte, n int) (*shardMap, error) {
	var j mapJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("read a map of shards: %w", err)
	}
	if len(j.Shards) != n || len(j.Joins) != len(j.Members) {
		return nil, fmt.Errorf("a map has %d shards, %d members and %d joins: want %d shards and a join for each member", len(j.Shards), len(j.Members), len(j.Joins), n)
	}
	if len(j.Written) > 0 && len(j.Written) != n {
		return nil, fmt.Errorf("a map has %d versions that were written: want none or %d", len(j.Written), n)
	}
	m := &shardMap{version: j.Version, slots: make([]slot, n)}
	member := func(number uint64) (id identity, ok bool) {
		if number > uint64(len(j.Members)) {
			return id, false
		}
		if number > 0 {
			id = identity{j.Members[number-1], j.Joins[number-1]}
		}
		return id, true
	}
	for i, s := range j.Shards {
		owner, ok := member(s[0])
		next, ok2 := member(s[1])
		if !ok || !ok2 || s[2] > j.Version {
			return nil, fmt.Errorf("shard %d is %v: want the numbers of two of %d members, and an age of at most %d", i, s, len(j.Members), j.Version)
		}
		m.slots[i] = slot{owner: owner, next: next, epoch: j.Version - s[2]}
		if len(j.Written) > 0 {
			m.slots[i].version = j.Written[i]
		} else if owner != (identity{}) {
			m.slots[i].version = 1
		}
	}
	return m, nil
}

// memberState is the state of a member in its record.
type memberState string

const (
	stateUp      memberState = "up"
	stateLeaving memberState = "leaving" // gives its shards away
	stateDead    memberState = "dead"    // its lease has ended, or it has left; it never comes back
)

// record is a member as the engine keeps it. Its key contains the name.
type record struct {
	Join   uint64      `json:"join"`   // how many have joined under the name, including this one
	System uint32      `json:"system"` // the incarnation of its system
	State  memberState `json:"state"`
	Since  int64       `json:"since"` // when it joined by its own clock, in milliseconds; the first is the coordinator
	Beat   uint64      `json:"beat"`
	TTL    int64       `json:"ttl,omitempty"`    // how long the others wait for it, in milliseconds
	Left   bool        `json:"left,omitempty"`   // it has left by itself: its system may still have something to send
	Addr   string      `json:"addr,omitempty"`   // where its system listens
	Proc   string      `json:"proc,omitempty"`   // the identity of its process, see package procid
	Router string      `json:"router,omitempty"` // the address of its router, none if it is not connected
	Groups []string    `json:"groups,omitempty"` // of which it takes shards
	Copies []copyOf    `json:"copies,omitempty"` // its actors of [Everywhere]

	Versions map[string]Versions `json:"versions,omitempty"` // by group, none for the default
}

// copyOf is an actor of [Everywhere] on a member.
type copyOf struct {
	Name string `json:"name"`
	PID  string `json:"pid"`
}

// ttl returns how long the member asks others to wait for it.
func (r record) ttl() time.Duration { return time.Duration(r.TTL) * time.Millisecond }

// hosts reports whether the member takes shards of a group.
func (r record) hosts(group string) bool { return slices.Contains(r.Groups, group) }

func (r *record) encode() []byte {
	data, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("cluster: encode a record: %v", err))
	}
	return data
}

// census is the newest record of each name.
type census map[string]record

// up returns the members that are not leaving, in the order in which they joined.
func (c census) up() []identity { return c.in(stateUp) }

// taking returns the members that take shards of a group, in the order in which they joined.
func (c census) taking(group string) []identity {
	return slices.DeleteFunc(c.up(), func(id identity) bool { return !c[id.name].hosts(group) })
}

func (c census) in(states ...memberState) []identity {
	var all []identity
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if r := c[name]; slices.Contains(states, r.State) {
			all = append(all, identity{name, r.Join})
		}
	}
	slices.SortStableFunc(all, func(a, b identity) int { return cmp.Compare(c[a.name].Since, c[b.name].Since) })
	return all
}

// gone reports whether the lease of a member is known to be over: its record says so, or another
// member has joined under its name. If nothing is known of a member, its record may only be late.
func (c census) gone(id identity) bool {
	r, ok := c[id.name]
	return ok && (r.Join > id.gen || r.Join == id.gen && r.State == stateDead)
}

// knows reports whether the record of a member is known, or a later one of its name.
func (c census) knows(id identity) bool {
	r, ok := c[id.name]
	return ok && r.Join >= id.gen
}

func (c census) is(id identity, state memberState) bool {
	r, ok := c[id.name]
	return ok && r.Join == id.gen && r.State == state
}

// plan makes the coordinator's changes to m: shards without an owner, or of members that are gone,
// get an owner; shards of members that leave are scheduled to move and, with balance, those of
// members that have more than others. It reports whether there was anything to do. An owner that is
// not gone gives its shards away itself. group is the one of m: only members that host it take
// shards, and only those that may, see [census.able]. A shard that nobody may take stays where it
// is.
func (m *shardMap) plan(c census, group string, gone func(identity) bool, balance bool) (changed bool) {
	members := c.taking(group)
	if len(members) == 0 {
		return false
	}
	m.wrote(c, group)
	load, motion := make(map[identity]int), make(map[identity]int)
	for i := range m.slots {
		s := &m.slots[i]
		if s.owner != (identity{}) && gone(s.owner) {
			s.own(identity{})
		}
		if s.next != (identity{}) && (c.gone(s.next) || c.is(s.next, stateLeaving)) {
			s.next, changed = identity{}, true
		}
		if s.next != (identity{}) {
			load[s.next]++
			motion[s.owner]++
		} else {
			load[s.owner]++
		}
	}
	able := make(map[int][]identity) // by version
	least := func(s *slot) (to identity, ok bool) {
		may, known := able[s.version]
		if !known {
			may = c.able(members, group, s.version)
			able[s.version] = may
		}
		if len(may) == 0 {
			return to, false
		}
		return slices.MinFunc(may, func(a, b identity) int { return cmp.Compare(load[a], load[b]) }), true
	}
	move := func(s *slot, to identity) {
		load[s.owner]--
		load[to]++
		motion[s.owner]++
		s.next, changed = to, true
	}
	for i := range m.slots {
		s := &m.slots[i]
		to, ok := least(s)
		switch {
		case !ok:
		case s.owner == identity{}:
			s.own(to)
			load[s.owner]++
			changed = true
		case s.next == identity{} && c.is(s.owner, stateLeaving) && motion[s.owner] < motionMost:
			move(s, to)
		}
	}
	m.wrote(c, group)
	if !balance {
		return changed
	}
	waits := make(map[int]int) // by version: those that have yet to move from members that leave
	for _, s := range m.slots {
		if s.next == (identity{}) && !c.is(s.owner, stateUp) {
			waits[s.version]++
		}
	}
	share := func(version int) int {
		sum := waits[version]
		for _, id := range able[version] {
			sum += load[id]
		}
		return sum / len(able[version])
	}
	for i := range m.slots {
		s := &m.slots[i]
		to, ok := least(s)
		if ok && s.next == (identity{}) && load[s.owner] > load[to]+1 && c.is(s.owner, stateUp) && motion[s.owner] < motionMost && load[s.owner] > share(s.version) {
			move(s, to)
		}
	}
	return changed
}
