package alarm

import (
	"slices"

	"github.com/greenroom-go/greenroom/internal/due"
)

// state is the state of one rule for one entity, unless it is the initial one.
type state struct {
	rule *rule
	s    *subject
	machine
	alarm string // the ID of the open one, "" for none
	shelf *Shelf
	late  *span   // late readings to be replayed
	run   *replay // the replay of them
	next  *span   // the late readings that run had already passed when they came
	// queued says that it is in engine.late or engine.running.
	queued bool
	timer  timer
	dirty  bool // to be written
	kept   bool // it has an item in the store
	// ending says that it is in engine.ending: its rule is no longer in force.
	ending bool
}

// span is a range of time in which late readings of some keys have come.
type span struct {
	From int64  `json:"from"`
	To   int64  `json:"to"`
	Keys uint64 `json:"keys"` // by their places in rule.keys
	// All says that newer readings have come since that only the replay has seen.
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

// idle reports whether the state is the initial one.
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

// subject is an entity to which rules may apply.
type subject struct {
	frame
	loaded   bool
	newest   int64    // the time of its newest reading of a key that rules read
	redone   int64    // the time up to which the history was read ahead of the changes
	turned   int64    // the time of the last change of a machine
	read     int64    // when it was loaded, by the clock: the frame has everything committed by then
	heard    int64    // the time of the newest reading that has come since, 0 for none
	rules    []*rule  // that apply to it, by name
	live     []*rule  // those that are live, which are not in rules
	ruleBits []uint64 // the same, by the bits of rule.bit
	states   []*state
	byRule   map[*rule]*state // the same, nil while they are few
	// readsAll says that even readings that change no answer may have an effect: something is
	// pending or late, or that is unknown.
	readsAll bool
	refused  bool        // there were too many states to begin one
	back     *lookedBack // the result of lookBack for waiting readings, nil for none
	first    taken       // what the entity had when it was read, from the first reading on that came then
	taken    []taken     // what replays have taken in that may still be among the changes
}

// fewStates is up to how many states are searched linearly.
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

// state returns the state of a rule, nil if it is the initial one.
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

// concerns reports whether a rule applies to the entity.
func (s *subject) concerns(r *rule) bool {
	n := r.bit / 64
	return n < len(s.ruleBits) && s.ruleBits[n]&(1<<(r.bit%64)) != 0 && !r.removed
}

// cache keeps what is known about entities: those with states for as long as they have them, and
// the most recently used of the others while there is room.
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

// subjectBytes is roughly what an entity takes in addition to its frame.
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

// waiter is what a timer is for: a state, readings that wait for their time, or an entity that a
// live rule has to examine.
type waiter struct {
	state *state
	later *later
	await *await
}
