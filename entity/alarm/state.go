package alarm

import (
	"slices"

	"github.com/greenroom-go/greenroom/internal/due"
)

// state is how one rule stands for one entity, where that is not as in the beginning.
type state struct {
	rule *rule
	s    *subject
	machine
	alarm string // the ID of the open one, "" for none
	shelf *Shelf
	late  *span   // late readings to be gone through
	run   *replay // going through them
	next  *span   // of late, what run has passed already when it came
	// queued says that it is in engine.late or engine.running.
	queued bool
	timer  timer
	dirty  bool // to be written
	kept   bool // there is an item of it
	// ending says that it is in engine.ending: its rule is not in force any more.
	ending bool
}

// span is a time from which on late readings of some keys have come, and the last of them.
type span struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Keys uint64 `json:"keys"` // by their places in rule.keys
	// All says that newer readings have come since that only the replay has taken in.
	All bool `json:"all,omitempty"`
}

// join adds another span.
func (x *span) join(y span) {
	x.From, x.To, x.Keys, x.All = min(x.From, y.From), max(x.To, y.To), x.Keys|y.Keys, x.All || y.All
}

// stateJSON is a state as it is stored.
type stateJSON struct {
	Effective int64  `json:"effective"` // of the rule
	Raised    bool   `json:"raised,omitempty"`
	At        int64  `json:"at,omitempty"`
	Pending   bool   `json:"pending,omitempty"`
	Since     int64  `json:"since,omitempty"`
	Alarm     string `json:"alarm,omitempty"`
	Shelf     *Shelf `json:"shelf,omitempty"`
	Late      *span  `json:"late,omitempty"`
}

func (st *state) json() stateJSON {
	return stateJSON{st.rule.Effective, st.raised, st.at, st.pending, st.since, st.alarm, st.shelf, st.late}
}

func newState(r *rule, s *subject) *state {
	st := &state{rule: r, s: s}
	st.timer.Value.state = st
	return st
}

// idle reports whether the state is as in the beginning.
func (st *state) idle() bool {
	return !st.raised && !st.pending && st.shelf == nil && st.late == nil
}

// plan returns when something is to happen by the clock, 0 for never.
func (st *state) plan() int64 {
	var at int64
	if st.pending && st.late == nil {
		at = st.since + st.wait(st.rule)
	}
	if st.shelf != nil && (at == 0 || st.shelf.Until < at) {
		at = st.shelf.Until
	}
	return at
}

// subject is an entity that rules may concern.
type subject struct {
	frame
	loaded   bool
	newest   int64    // the time of its newest reading of a key that rules read
	redone   int64    // up to when the history was read ahead of the changes
	turned   int64    // the time of the last change of a machine
	read     int64    // by the clock, when it was loaded: what was committed by then is in the frame
	heard    int64    // the time of the newest reading that has come since, 0 for none
	rules    []*rule  // that concern it, by name
	live     []*rule  // those that are live, which are not in rules
	ruleBits []uint64 // the same, by the bits of rule.bit
	states   []*state
	byRule   map[*rule]*state // the same, nil while they are few
	// readsAll says that readings that leave the answers of all conditions as they were may
	// have an effect all the same: something is pending or late, or nobody knows.
	readsAll bool
	refused  bool        // there were too many states to begin one
	back     *lookedBack // what was found out about readings that wait, nil for nothing
	first    taken       // what the entity had when it was read, from the first reading on that came then
	taken    []taken     // what replays have taken in that may still be among the changes
}

// fewStates is how many are looked through for one.
const fewStates = 8

// add adds a state.
func (s *subject) add(st *state) {
	s.states = append(s.states, st)
	switch {
	case s.byRule != nil:
		s.byRule[st.rule] = st
	case len(s.states) > fewStates:
		s.byRule = make(map[*rule]*state, len(s.states))
		for _, x := range s.states {
			s.byRule[x.rule] = x
		}
	}
}

// remove takes a state away, and reports whether it was there.
func (s *subject) remove(st *state) bool {
	i := slices.Index(s.states, st)
	if i < 0 {
		return false
	}
	s.states = slices.Delete(s.states, i, i+1)
	if s.byRule[st.rule] == st {
		delete(s.byRule, st.rule)
	}
	if len(s.states) == 0 {
		s.byRule = nil
	}
	return true
}

// settle sets readsAll.
func (s *subject) settle() {
	s.readsAll = s.refused || slices.ContainsFunc(s.states, func(st *state) bool { return st.pending && !st.rule.live || st.late != nil || st.ending })
}

// state returns the state of a rule, nil for one as in the beginning.
func (s *subject) state(r *rule) *state {
	if s.byRule != nil {
		return s.byRule[r]
	}
	for _, st := range s.states {
		if st.rule == r {
			return st
		}
	}
	return nil
}

// concerns reports whether a rule concerns the entity.
func (s *subject) concerns(r *rule) bool {
	n := r.bit / 64
	return n < len(s.ruleBits) && s.ruleBits[n]&(1<<(r.bit%64)) != 0 && !r.removed
}

// cache keeps what is known of entities: those with states for as long as they have them,
// the others while there is room, those that were used lately before others.
type cache struct {
	held   map[string]*subject // with states
	others halves[*subject]
}

func newCache(bytes int) *cache {
	return &cache{held: make(map[string]*subject), others: halves[*subject]{most: bytes / 2}}
}

// find returns an entity that is known.
func (c *cache) find(id string) *subject {
	if s := c.held[id]; s != nil {
		return s
	}
	s, young := c.others.find(id)
	if s != nil && !young {
		c.add(s)
	}
	return s
}

// subjectBytes is about what an entity takes beside its frame.
const subjectBytes = 200

// add keeps an entity.
func (c *cache) add(s *subject) {
	if len(s.states) > 0 {
		c.held[s.id] = s
		return
	}
	c.others.add(s.id, s, s.bytes()+subjectBytes+8*len(s.rules)+8*len(s.live)+8*len(s.ruleBits))
}

// move puts an entity where it belongs, after it got its first state or has lost its last.
func (c *cache) move(s *subject) {
	if _, held := c.held[s.id]; held == (len(s.states) > 0) {
		return
	}
	c.forget(s.id)
	c.add(s)
}

// forget drops an entity.
func (c *cache) forget(id string) {
	delete(c.held, id)
	c.others.forget(id)
}

// refresh drops all that can be read again.
func (c *cache) refresh() {
	c.others.clear()
	for _, s := range c.held {
		s.loaded = false
	}
}

// timer is when something is to happen by the server's clock, in milliseconds since the epoch.
type timer = due.Timer[waiter]

// waiter is what has a timer: a state, readings that wait for their time, or an entity that a
// live rule is to look at.
type waiter struct {
	state *state
	later *later
	await *await
}
