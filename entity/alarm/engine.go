package alarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/internal/due"
)

// engine determines the alarms, change by change. It is owned by the goroutine of the service. Its
// decisions are in the ledger until that is committed; after an error the engine is discarded, and
// a new one begins from what is durable.
//
// Nearly every reading is newer than all others that a rule reads of its entity. Such a reading
// costs one evaluation of the condition, and nothing more if the condition does not hold: no state
// is kept then. Rules that only compare its values with numbers are not even evaluated while the
// values stay between the same two numbers. A late reading leads to a replay of the history.
type engine struct {
	rt    *entity.Runtime
	log   *slog.Logger
	now   func() int64
	count *counters

	rules     map[string]*rule
	index     index // of rules
	deletions *deletions
	slots     *slots
	cache     *cache
	timers    due.Queue[waiter]
	later     map[string]*later // by entity
	began     int64             // when the present batch of changes was begun
	opened    int64             // when the engine began: live rules judge nothing earlier
	active    int
	// awaits counts those in rules and in dropped, which holds those still to be removed; crowded
	// says that there were too many.
	awaits  int
	dropped []map[string]*await
	crowded bool
	full    bool // MaxActive was reached

	lateness int64 // how late a reading may be to change alarms

	sender  *sender
	then    []func() // to be called after the commit
	ledger  *ledger
	hub     *hub
	events  []Event  // in the ledger
	dirty   []*state // to be put into the ledger
	late    []*state // with late readings, to be replayed
	running []*state // those of them whose replays take turns
	known   int64    // everything committed by this time has been applied
	gate    gate
	lead    *lead    // see leadNow; nil before a step asks
	leads   []*lead  // those that the changes have not reached yet, in order
	ending  []*state // of rules that are no longer in force
	place   place
	moved   bool                    // the place differs from the committed one
	waiting map[string][]chan error // by cursor: the callers that wait for it
	waited  []chan error            // those whose cursor was reached
	kept    bool                    // there are alarms, of entities that may be deleted
	buffer  []int                   // of slotsOf
	picked  []int                   // the same

	types     uint64            // the version of the types that families are of
	families  map[string]string // see retype; nil while they are not known
	marking   string            // the one of deletions that is being gone through
	markedTo  string            // the key of the next one of its alarms
	sweeps    int               // how often a part of the entities was looked at for rules
	steps     steps
	installed *atomic.Pointer[[]Installed] // of the service
}

// gate is a cursor that must be reached before the engine's clock advances to a time: a waiting
// change may show that a condition has not held for so long.
type gate struct {
	head string // "" for none
	at   int64
}

// place is the engine's progress, as it is stored.
type place struct {
	// Cursor is the cursor of the last change that was processed, "" while no changes are followed.
	Cursor string `json:"cursor"`
	// At is when the last processed change was committed.
	At int64 `json:"at,omitempty"`
	// Alarm is the number of the last alarm, Event that of the last event, First that of the first
	// event that is kept, and Version the last version of any rule.
	Alarm   int64  `json:"alarm"`
	Event   uint64 `json:"event"`
	First   uint64 `json:"first"`
	Version int64  `json:"version"`
	// Types is a digest of the families of types with which the rules were last evaluated, "" while
	// no rule uses types.
	Types string `json:"types,omitempty"`
}

func newEngine(rt *entity.Runtime, cfg *Config, count *counters, g *deletions) *engine {
	return &engine{
		rt: rt, log: cfg.Logger, now: cfg.now, count: count, rules: make(map[string]*rule), slots: newSlots(), deletions: g,
		cache: newCache(cfg.CacheBytes), ledger: newLedger(rt, g), steps: cfg.steps, later: make(map[string]*later), lateness: min(MaxLateness, cfg.Retention).Milliseconds(), waiting: make(map[string][]chan error),
	}
}

// isA reports whether typ is of or extends it.
func (e *engine) isA(typ, of string) bool {
	if typ == of {
		return typ != ""
	}
	t, err := e.rt.ResolvedType(typ)
	return err == nil && t.IsA[of]
}

// reindex makes the index of the rules that are in force.
func (e *engine) reindex() {
	e.index = indexOf(e.rules)
	e.cache.refresh() // each entity has other rules now
}

// apply applies one committed change.
func (e *engine) apply(ctx context.Context, c *entity.Change) error {
	switch {
	case c.Edit != nil:
		return e.edit(ctx, c)
	case c.Command != nil || len(e.rules) == 0:
		return nil
	case c.Presence != nil:
		return e.presence(ctx, c)
	}
	slots := e.slotsOf(c)
	if len(slots) == 0 && !e.index.updated && (!c.Created || !e.index.live) {
		return nil
	}
	s, fresh, err := e.know(ctx, c.Entity)
	if err != nil || s == nil || len(s.rules)+len(s.live) == 0 {
		return err
	}
	if len(slots) > 0 && c.TS > e.began+e.steps.ahead {
		e.count.ahead.Add(1)
		if err := e.postpone(s.id, c.TS); err != nil {
			return err
		}
		slots = nil
	}
	return e.take(ctx, s, c, slots, fresh, e.committed(c))
}

// take applies a reading that came at a time, for live rules as well. Without slots it says only
// that the entity was heard from.
func (e *engine) take(ctx context.Context, s *subject, c *entity.Change, slots []int, fresh bool, at int64) error {
	if len(s.live) == 0 {
		if len(slots) == 0 {
			return nil
		}
		return e.reading(ctx, s, c, slots, fresh)
	}
	if len(slots) > 0 { // not before it may be taken for one of now
		at = max(at, c.TS-e.steps.ahead)
	}
	looks := func(r *rule) bool { return c.Created || r.updated != 0 || r.reads(slots) }
	if err := e.eachLive(ctx, s, at, looks, e.until); err != nil {
		return err
	}
	if len(slots) > 0 {
		if err := e.reading(ctx, s, c, slots, fresh); err != nil {
			return err
		}
	}
	ts := c.TS
	if ts > at+e.steps.ahead {
		ts = at
	}
	e.hear(s, ts)
	return e.eachLive(ctx, s, at, looks, e.judgeLive)
}

// slotsOf returns the slots of the values of a reading that rules read, and sets e.picked to the
// indexes of these values. Both are valid until the next call.
func (e *engine) slotsOf(c *entity.Change) []int {
	e.buffer, e.picked = e.buffer[:0], e.picked[:0]
	for i := range c.Values {
		if n := e.slots.key(c.Values[i].Key); n != 0 {
			e.buffer, e.picked = append(e.buffer, n), append(e.picked, i)
		}
	}
	return e.buffer
}

// order is the position of a reading relative to the others that a rule reads of the entity.
type order uint8

const (
	newer  order = iota
	beside       // of the same time, and of other keys
	older
)

// reading applies a reading.
func (e *engine) reading(ctx context.Context, s *subject, c *entity.Change, slots []int, fresh bool) error {
	last := max(s.newest, s.turned)
	inOrder := c.TS > last || c.TS == last && (fresh && c.TS > s.turned || c.Arrived && c.TS > s.redone)
	if inOrder && !fresh { // as nearly all are
		return e.nextReading(ctx, s, c, slots)
	}
	if fresh && c.TS < s.newest && len(s.live) == 0 {
		if err := e.lookBack(ctx, s, c.TS); err != nil {
			return err
		}
	}
	if fresh && c.TS < s.newest {
		l, err := e.leadNow(ctx)
		if err != nil {
			return err
		}
		s.first = taken{from: c.TS, to: s.newest, lead: l}
	}
	rules := e.index.readers(s, slots)
	if s.back != nil && s.back.has(c, slots, e.picked) {
		rules = slices.DeleteFunc(slices.Clone(rules), func(r *rule) bool { return s.back.passes(r) && s.state(r) == nil })
	}
	s.readsAll = true
	var buffer [32]order
	orders := buffer[:0]
	var ahead map[*rule]bool // of those for which it is late, newer than all others of the rule
	for _, r := range rules {
		o := newer
		if !inOrder {
			o = s.order(r, c, slots, fresh)
		}
		st := s.state(r)
		if o == newer && fresh && st != nil && st.pending {
			o = older // the frame is ahead of when it was due
		}
		if o == newer && st != nil && st.late == nil {
			if err := e.advance(ctx, st, c.TS); err != nil {
				return err
			}
		}
		if o == older {
			if newest, ok := s.frame.newest(r); !ok || c.TS > newest {
				if ahead == nil {
					ahead = make(map[*rule]bool)
				}
				ahead[r] = true
			}
		}
		orders = append(orders, o)
	}
	e.note(s, c, slots)
	for i, r := range rules {
		var err error
		switch orders[i] {
		case newer, beside:
			err = e.observe(ctx, s, r, c.TS, fresh)
		case older:
			if s.tookIn(r, c.TS) {
				continue
			}
			if !e.lateReading(s, r, c.TS, slots) && ahead[r] {
				err = e.observe(ctx, s, r, c.TS, false)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// nextReading applies a reading that is newer than everything known about an entity. If it does not
// change the answers of the conditions, and nothing is pending, rules that only compare its values
// are skipped: what holds for one number of a band holds for the others.
func (e *engine) nextReading(ctx context.Context, s *subject, c *entity.Change, slots []int) error {
	s.back = nil
	var rules []*rule
	same := e.leaves(s, c, slots)
	if same {
		rules = e.index.exactly(s, slots)
	} else {
		rules, s.refused = e.index.readers(s, slots), false
	}
	for _, r := range rules {
		if st := s.state(r); st != nil && st.late == nil {
			if err := e.advance(ctx, st, c.TS); err != nil {
				return err
			}
		}
	}
	if same {
		e.follow(s, c, slots)
	} else {
		e.note(s, c, slots)
	}
	not := 0
	for _, r := range rules {
		if len(s.states) == 0 && !r.raise.Match(&s.frame, &s.frame.env) { // as nearly all are
			not++
			continue
		}
		if err := e.observe(ctx, s, r, c.TS, false); err != nil {
			return err
		}
	}
	e.count.evaluations.Add(uint64(not)) // observe has counted the others
	if !same {
		s.settle()
		for _, slot := range slots {
			if i, ok := s.find(slot); ok {
				s.values[i].band = e.index.around(slot, s.values[i].v)
			}
		}
	}
	return nil
}

// leaves reports whether a reading changes no answer, so that nothing else needs to be known about
// it.
func (e *engine) leaves(s *subject, c *entity.Change, slots []int) bool {
	if s.readsAll {
		return false
	}
	for n, slot := range slots {
		i, ok := s.find(slot)
		if !ok || !s.values[i].has(c.Values[e.picked[n]].Value) {
			return false
		}
	}
	return true
}

// follow puts the values of a reading that changes no answer into the frame.
func (e *engine) follow(s *subject, c *entity.Change, slots []int) {
	for n, slot := range slots {
		if i, ok := s.find(slot); ok {
			s.values[i].ts, s.values[i].v = c.TS, c.Values[e.picked[n]].Value
		}
	}
	s.newest = max(s.newest, c.TS)
}

// note puts the values of a reading into the frame if they are the newest.
func (e *engine) note(s *subject, c *entity.Change, slots []int) {
	for i, slot := range slots {
		if ts, ok := s.ts(slot); !ok || c.TS >= ts {
			s.put(slot, c.TS, c.Values[e.picked[i]].Value)
		}
	}
	s.newest = max(s.newest, c.TS)
}

// reads reports whether a rule reads one of the keys.
func (r *rule) reads(slots []int) bool {
	for _, k := range r.keys {
		if slices.Contains(slots, k) {
			return true
		}
	}
	return false
}

// order returns the order, for a rule, of a reading that is not the entity's newest.
func (s *subject) order(r *rule, c *entity.Change, slots []int, fresh bool) order {
	newest, ok := s.frame.newest(r)
	switch {
	case c.TS < s.turned:
		return older
	case !ok || c.TS > newest || fresh && c.TS == newest && c.TS > s.turned:
		return newer
	case c.TS < newest || c.TS == s.turned || c.TS <= s.redone:
		return older
	case c.Arrived:
		return beside
	}
	for _, slot := range slots {
		if ts, ok := s.ts(slot); ok && ts == c.TS && slices.Contains(r.keys, slot) {
			return older // it takes the place of another one
		}
	}
	return beside
}

// know returns what is known about an entity, nil if it does not exist. fresh says that the entity
// was just read, and may be ahead of the changes.
func (e *engine) know(ctx context.Context, id string) (s *subject, fresh bool, err error) {
	if s = e.cache.find(id); s != nil && s.loaded {
		return s, false, nil
	}
	known := s != nil
	if !known {
		s = &subject{frame: frame{id: id, isA: e.isA}}
	}
	s.read, s.heard = e.now(), 0
	err = e.rt.View(ctx, id, func(v entity.View) error {
		e.fill(s, v)
		return nil
	})
	if err == nil && len(s.values) > 0 {
		err = e.holdBack(ctx, s)
		e.see(s)
	}
	if errors.Is(err, entity.ErrNotFound) {
		if known {
			err = e.gone(ctx, s, e.now())
		} else {
			err = nil
		}
		return nil, false, err
	}
	if err != nil {
		return nil, false, fmt.Errorf("alarms of entity %q: %w", id, err)
	}
	if !known {
		e.cache.add(s)
	}
	return s, true, nil
}

// fill sets what is known of an entity.
func (e *engine) fill(s *subject, v entity.View) {
	s.load(v, e.slots)
	s.loaded, s.newest, s.redone, s.back, s.first, s.taken = true, 0, 0, nil, taken{}, nil
	e.index.concern(s, e.concerned)
	if len(s.rules)+len(s.live) == 0 && len(s.states) == 0 {
		s.values = nil
		return
	}
}

// see sets the time of the newest reading of what is known.
func (e *engine) see(s *subject) {
	for i := range s.values {
		if e.slots.paths[s.values[i].slot].root == filter.RootLatest {
			s.newest = max(s.newest, s.values[i].ts)
		}
	}
}

// concerned reports whether a rule applies to an entity.
func (e *engine) concerned(f *frame, r *rule) bool {
	return (r.Entity == "" || r.Entity == f.id) && (r.Type == "" || e.isA(f.typ, r.Type)) && (r.where == nil || r.where.Match(f, &f.env))
}

// advance goes on to a time.
func (e *engine) advance(ctx context.Context, st *state, ts int64) error {
	t, ok := st.advance(st.rule, ts)
	if !ok {
		return nil
	}
	if !st.rule.live {
		st.s.turned = max(st.s.turned, t.at)
	}
	return e.turn(ctx, st, t)
}

// observe evaluates a rule at a time that is after all that it has seen.
func (e *engine) observe(ctx context.Context, s *subject, r *rule, ts int64, fresh bool) error {
	e.count.evaluations.Add(1)
	st := s.state(r)
	if st == nil {
		var m machine
		if !m.holds(r, &s.frame) {
			return nil
		}
		if fresh {
			again, err := e.overlaps(ctx, s, r, ts)
			if err != nil {
				return err
			}
			if again {
				again = e.lateReading(s, r, ts, r.keys)
			}
			if again {
				return nil
			}
		}
		if st = e.begin(s, r); st == nil {
			return nil
		}
	}
	if st.late != nil {
		e.joinLate(st, span{From: ts, To: ts, All: true})
		return nil
	}
	before := st.machine
	t, ok := st.observe(r, ts, st.holds(r, &s.frame))
	if st.machine != before {
		s.turned = max(s.turned, ts)
	}
	if ok {
		return e.turn(ctx, st, t)
	}
	if st.machine != before {
		e.touch(st)
	}
	return nil
}

// overlaps reports whether the last alarm of a rule and an entity reaches beyond a time.
func (e *engine) overlaps(ctx context.Context, s *subject, r *rule, ts int64) (bool, error) {
	a, err := e.lastAlarm(ctx, s.id, r, entity.MaxTS)
	return a != nil && (a.Raised >= ts || a.Cleared >= ts), err
}

// begin makes a state, or returns nil if there are too many.
func (e *engine) begin(s *subject, r *rule) *state {
	if e.active >= MaxActive {
		s.refused = true
		e.count.overflow.Add(1)
		if !e.full {
			e.full = true
			e.log.Warn("too many conditions of alarms are met; further ones are taken up when there is room", slog.Int("most", MaxActive))
		}
		return nil
	}
	e.active++
	st := newState(r, s)
	s.add(st)
	e.cache.move(s)
	return st
}

// touch notes that a state has changed.
func (e *engine) touch(st *state) {
	e.timers.Set(&st.timer, st.plan())
	st.s.readsAll = true
	if !st.dirty {
		st.dirty = true
		e.dirty = append(e.dirty, st)
	}
}

// turn carries out a transition.
func (e *engine) turn(ctx context.Context, st *state, t turn) error {
	if t.raised {
		return e.raise(st, &Alarm{Since: t.since, Raised: t.at, Values: st.s.sample(st.rule, e.slots)})
	}
	return e.clear(ctx, st, Transition{TS: t.at}, ByCondition)
}

// raise makes an alarm.
func (e *engine) raise(st *state, a *Alarm) error {
	e.newAlarm(st, a)
	st.alarm = a.ID
	e.touch(st)
	return e.write(a, nil, Transition{Kind: Raised, TS: a.Raised})
}

// newAlarm fills in the fields of an alarm other than its times.
func (e *engine) newAlarm(st *state, a *Alarm) {
	e.place.Alarm++
	e.kept = true
	r := st.rule
	a.ID, a.Rule, a.Version, a.Entity, a.Severity, a.Message = alarmID(e.place.Alarm), r.Name, r.Version, st.s.id, r.Severity, r.Message
	a.Detected, a.Shelved, a.Webhooks = e.now(), st.shelf, r.Webhooks
}

// clear ends the open alarm of a state.
func (e *engine) clear(ctx context.Context, st *state, t Transition, cause Cause) error {
	a, err := e.ledger.alarm(ctx, st.alarm)
	if errors.Is(err, ErrNotFound) {
		e.unreadable(ctx, err)
		st.alarm, st.machine = "", machine{at: t.TS}
		e.touch(st)
		return nil
	}
	if err != nil {
		return err
	}
	if !a.Open() { // by a replay that has not come to its end
		st.alarm, st.machine = "", machine{at: t.TS}
		e.touch(st)
		return nil
	}
	was := a.prior()
	a.Cleared, a.Ended, a.Cause = max(t.TS, a.Raised), e.now(), cause
	t.Kind, t.TS = Cleared, a.Cleared
	st.alarm, st.machine = "", machine{at: a.Cleared}
	e.touch(st)
	return e.write(a, was, t)
}

// unreadable logs an alarm that is skipped. It stays in the store as it is.
func (e *engine) unreadable(ctx context.Context, err error) {
	e.log.LogAttrs(ctx, slog.LevelError, "a stored alarm cannot be read and is passed over", slog.Any("error", err))
}

// prior is the state of an alarm before a change, nil if the alarm is new.
type prior struct {
	raised        int64
	open, unacked bool
}

func (a *Alarm) prior() *prior { return &prior{a.Raised, a.Open(), a.Acknowledged == nil} }

// write puts an alarm with one more transition into the ledger.
func (e *engine) write(a *Alarm, was *prior, t Transition) error {
	t.At = e.now()
	a.note(t)
	if was != nil && was.open {
		e.tally(a, -1, was.unacked)
	}
	if a.Open() {
		e.tally(a, 1, a.Acknowledged == nil)
	}
	if err := e.ledger.keep(a, was); err != nil {
		return err
	}
	e.place.Event++
	ev := Event{Seq: e.place.Event, Kind: t.Kind, At: t.At, By: t.By, Alarm: *a}
	ev.Alarm.History = nil
	e.events = append(e.events, ev)
	if err := e.ledger.put(eventKind, eventKey(ev.Seq), &ev); err != nil || !ev.Tells() {
		return err
	}
	return e.deliver(&ev, a.Webhooks)
}

// tally counts an open alarm.
func (e *engine) tally(a *Alarm, n int64, unacked bool) {
	e.count.open[a.Severity].Add(n)
	if unacked {
		e.count.unacked.Add(n)
	}
}

// edit applies a change of an entity's type or attributes, or its deletion.
func (e *engine) edit(ctx context.Context, c *entity.Change) error {
	all := func(*rule) bool { return true }
	s, at := e.cache.find(c.Entity), e.committed(c)
	if s != nil && s.loaded { // as it was before the edit
		if err := e.eachLive(ctx, s, at, all, e.until); err != nil {
			return err
		}
	}
	if c.Edit.Deleted {
		return e.ended(ctx, c.Entity, c.TS)
	}
	if len(e.rules) == 0 || !c.Edit.Typed && (!c.Edit.Created || !e.index.live) && !slices.ContainsFunc(c.Edit.Attributes, e.slots.hasLeaf) {
		return nil
	}
	var had []*rule
	if s != nil {
		had, s.loaded = s.rules, false
	}
	s, _, err := e.know(ctx, c.Entity)
	if err != nil || s == nil {
		return err
	}
	e.forgetUnconcerned(s.id, s)
	if err := e.eachLive(ctx, s, at, all, e.until); err != nil { // where it was not known
		return err
	}
	for _, st := range slices.Clone(s.states) {
		if !s.concerns(st.rule) {
			if err := e.drop(ctx, st, Transition{TS: c.TS}, ByScope); err != nil {
				return err
			}
		}
	}
	for _, r := range s.rules {
		if !r.leaves && slices.Contains(had, r) {
			continue
		}
		if err := e.judge(ctx, s, r, c.TS); err != nil {
			return err
		}
	}
	return e.eachLive(ctx, s, at, all, e.judgeLive)
}

// judge evaluates a rule at a time at which something without a history has changed.
func (e *engine) judge(ctx context.Context, s *subject, r *rule, ts int64) error {
	if newest, ok := s.frame.newest(r); ok {
		ts = max(ts, newest)
	}
	if st := s.state(r); st != nil {
		st.run, st.next = nil, nil // it has what was before
		if st.late == nil {
			if err := e.advance(ctx, st, ts); err != nil {
				return err
			}
		}
	}
	return e.observe(ctx, s, r, ts, false)
}

// drop ends a state, and its alarm if it has one.
func (e *engine) drop(ctx context.Context, st *state, t Transition, cause Cause) error {
	if st.alarm != "" {
		if err := e.clear(ctx, st, t, cause); err != nil {
			return err
		}
	}
	st.machine, st.late, st.run, st.next, st.shelf = machine{}, nil, nil, nil, nil
	e.touch(st)
	return nil
}

// ended applies the deletion of an entity.
func (e *engine) ended(ctx context.Context, id string, ts int64) error {
	if s := e.cache.find(id); s != nil {
		if err := e.gone(ctx, s, ts); err != nil {
			return err
		}
	}
	e.forgetLater(id)
	e.forgetUnconcerned(id, nil)
	return e.deleted(ctx, id)
}

// gone ends the alarms of an entity that no longer exists.
func (e *engine) gone(ctx context.Context, s *subject, ts int64) error {
	for _, st := range s.states {
		if err := e.drop(ctx, st, Transition{TS: ts}, ByEntity); err != nil {
			return err
		}
	}
	s.loaded = false
	if len(s.states) == 0 {
		e.cache.forget(s.id)
	}
	return nil
}

// flushStates puts the states that have changed into the ledger, and drops those that are in the
// initial state again.
func (e *engine) flushStates() error {
	for _, st := range e.dirty {
		st.dirty = false
		key := part(st.s.id, st.rule.Name)
		if st.idle() {
			if st.kept {
				e.ledger.set(stateKind, key, nil)
			}
			e.end(st)
			continue
		}
		st.kept = true
		x := st.json()
		if err := e.ledger.put(stateKind, key, &x); err != nil {
			return err
		}
	}
	clear(e.dirty)
	e.dirty = e.dirty[:0]
	return nil
}

// end removes a state.
func (e *engine) end(st *state) {
	e.timers.Set(&st.timer, 0)
	s := st.s
	if s.remove(st) {
		if e.active--; e.active < MaxActive*9/10 {
			e.full = false
		}
	}
	e.cache.move(s)
}
