package alarm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// fireEntities is how many unknown entities are read for due work before the changes that have
	// come meanwhile are applied.
	fireEntities = 256
	// purgeAlarms is how many alarms are looked at at once for whether they are kept long
	// enough.
	purgeAlarms = 500
)

// publishRules makes the rules known to readers.
func (e *engine) publishRules() {
	list := make([]Installed, 0, len(e.rules))
	for _, name := range slices.Sorted(maps.Keys(e.rules)) {
		if r := e.rules[name]; !r.removed {
			list = append(list, r.Installed)
		}
	}
	e.installed.Store(&list)
	e.count.rules.Store(int64(len(list)))
}

// putRule puts a rule in force.
func (e *engine) putRule(ctx context.Context, in Rule, condition string) (Installed, error) {
	old, tag := e.rules[in.Name], ""
	if old != nil && !old.removed {
		tag = old.ETag
	}
	if err := entity.CheckCondition(condition, tag); err != nil {
		return Installed{}, fmt.Errorf("rule %q: %w", in.Name, err)
	}
	if old == nil && len(e.rules) >= MaxRules {
		return Installed{}, fmt.Errorf("rule %q: %w: at most %d rules are allowed", in.Name, ErrLimit, MaxRules)
	}
	now := e.now()
	e.place.Version = max(e.place.Version+1, now)
	installed := Installed{Rule: in, Version: e.place.Version, Updated: now, Effective: now, ETag: ruleTag(e.place.Version), Pending: true}
	same := old != nil && !old.removed && old.sameConditions(&in)
	if same {
		installed.Effective, installed.Pending = old.Effective, old.Pending
	} else if old != nil {
		installed.Effective = max(now, old.Effective+1)
	}
	r, err := compile(installed, e.slots.of)
	if err != nil {
		return Installed{}, err
	}
	if same {
		r.swept, r.missed, r.since, r.retyped, r.ready, r.waits, r.bit, r.awaits, r.refused = old.swept, old.missed, old.since, old.retyped, old.ready, old.waits, old.bit, old.awaits, old.refused
		*old = *r // the states know it by its address
		r = old
	} else {
		e.endRule(old)
		e.rules[in.Name] = r
	}
	x := r.json()
	if err := e.ledger.put(ruleKind, r.Name, &x); err != nil {
		return Installed{}, err
	}
	e.publishRules()
	if err := e.retype(); err != nil {
		return Installed{}, err
	}
	err = e.endSome(ctx)
	r.waits = !r.ready
	return installed, err
}

// deleteRule takes a rule out of force.
func (e *engine) deleteRule(ctx context.Context, name, condition string) error {
	r := e.rules[name]
	if r == nil || r.removed {
		return fmt.Errorf("rule %.64q: %w", name, ErrNotFound)
	}
	if err := entity.CheckCondition(condition, r.ETag); err != nil {
		return fmt.Errorf("rule %q: %w", name, err)
	}
	e.endRule(r)
	r.removed = true
	x := r.json()
	x.Deleted = true
	if err := e.ledger.put(ruleKind, name, &x); err != nil {
		return err
	}
	e.publishRules()
	return e.endSome(ctx)
}

// endRule schedules the states of a rule to end.
func (e *engine) endRule(r *rule) {
	if r == nil {
		return
	}
	r.removed = true
	e.forgetAwaits(r)
	e.reindex()
	for _, s := range e.cache.held {
		if st := s.state(r); st != nil && !st.ending {
			st.late, st.run, st.next = nil, nil, nil
			e.timers.Set(&st.timer, 0)
			st.ending = true
			e.ending = append(e.ending, st)
		}
	}
}

// endSome ends some of the states whose rule is no longer in force. After a crash the rest is found
// by the version of the rule in them.
//
// A rule that replaces another of the same name is not ready before that, because their states have
// the same name.
func (e *engine) endSome(ctx context.Context) error {
	n := min(len(e.ending), e.steps.items/5)
	for _, st := range e.ending[:n] {
		if err := e.drop(ctx, st, Transition{TS: e.now()}, ByRule); err != nil {
			return err
		}
	}
	if e.ending = e.ending[n:]; len(e.ending) > 0 {
		return nil
	}
	e.ending = nil
	for name, r := range e.rules {
		switch {
		case r.broken:
		case r.removed:
			delete(e.rules, name)
			e.ledger.set(ruleKind, name, nil)
		case r.waits:
			if err := e.lookAgainFor(r, r.Effective); err != nil {
				return err
			}
		}
		r.ready, r.waits = true, false
	}
	e.reindex()
	return nil
}

// clock returns the time up to which pending conditions can be judged: everything committed by then
// has been applied.
func (e *engine) clock() int64 { return min(e.known, e.now()) }

// advanceClock advances the engine's clock if something waits for that: at once if no change waits
// to be applied, and otherwise once those are applied.
func (e *engine) advanceClock(ctx context.Context) error {
	now := e.now()
	next := e.timers.Next()
	wanted := next <= now && next > e.known
	for _, st := range e.running {
		wanted = wanted || st.run.waits()
	}
	if !wanted || e.gate.head != "" {
		return nil
	}
	head, err := e.head(ctx)
	if err != nil {
		return err
	}
	if e.place.Cursor == "" || e.place.Cursor == head {
		e.known = now
	} else {
		e.gate = gate{head, now}
	}
	return nil
}

// head returns the cursor of the last change that is committed.
func (e *engine) head(ctx context.Context) (string, error) {
	sub, err := e.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return "", err
	}
	defer sub.Close()
	return sub.Cursor(), nil
}

// fire does the work that is due by the clock.
func (e *engine) fire(ctx context.Context) error {
	now := e.clock()
	read := 0
	for n := 0; n < applyAtOnce && read < e.steps.fire && e.timers.Next() <= now && len(e.ledger.items) < e.steps.items; n++ {
		w := &e.timers.First().Value
		if x := w.later; x != nil {
			if err := e.takeUp(ctx, x); err != nil {
				return err
			}
			continue
		}
		if x := w.await; x != nil {
			is, err := e.due(ctx, x)
			if err != nil {
				return err
			}
			if is {
				read++
			}
			continue
		}
		st := w.state
		if st.shelf != nil && st.shelf.Until <= now {
			if err := e.unshelve(ctx, st); err != nil {
				return err
			}
		}
		if st.pending && st.late == nil && st.since+st.wait(st.rule) <= now {
			s, _, err := e.know(ctx, st.s.id)
			if err != nil {
				return err
			}
			if s == nil || !s.concerns(st.rule) {
				if err := e.drop(ctx, st, Transition{TS: now}, ByScope); err != nil {
					return err
				}
				continue
			}
			if err := e.advance(ctx, st, now); err != nil {
				return err
			}
		}
		e.touch(st)
	}
	return nil
}

// unshelve ends a shelf whose time is over.
func (e *engine) unshelve(ctx context.Context, st *state) error {
	st.shelf = nil
	if st.alarm == "" {
		return nil
	}
	a, err := e.ledger.alarm(ctx, st.alarm)
	if errors.Is(err, ErrNotFound) {
		e.unreadable(ctx, err)
		return nil
	}
	if err != nil {
		return err
	}
	was := a.prior()
	a.Shelved = nil
	return e.write(a, was, Transition{Kind: Unshelved})
}

// commit makes the decisions durable, with the place up to which changes are processed, and
// publishes them.
func (e *engine) commit(ctx context.Context) error {
	if err := e.flushStates(); err != nil {
		return err
	}
	if len(e.ledger.items) > 0 || e.moved {
		e.trimEvents()
		if err := e.ledger.put(placeKind, placeKey, &e.place); err != nil {
			return err
		}
		if err := e.ledger.commit(ctx); err != nil {
			return err
		}
		e.moved = false
		e.count.commits.Add(1)
	}
	for _, f := range e.then {
		f()
	}
	e.then = nil
	e.hub.publish(e.events)
	e.events = nil
	if e.idle() {
		e.release(nil)
	}
	return nil
}

// trimEvents removes the oldest events.
func (e *engine) trimEvents() {
	for n := 0; e.place.Event >= e.place.First+MaxEvents && n < e.steps.items; n++ {
		e.ledger.set(eventKind, eventKey(e.place.First), nil)
		e.place.First++
	}
}

// reached records that a change is processed.
func (e *engine) reached(cursor string, committed int64) {
	e.place.Cursor, e.place.At, e.moved = cursor, min(committed, e.began), true
	if e.gate.head == cursor {
		e.known, e.gate = e.gate.at, gate{}
	}
	for len(e.leads) > 0 && (e.leads[0].over || e.leads[0].head == cursor) {
		e.leads[0].over = true
		e.leads = e.leads[1:]
	}
	if len(e.waiting) == 0 {
		return
	}
	if list := e.waiting[cursor]; list != nil {
		e.waited = append(e.waited, list...)
		delete(e.waiting, cursor)
	}
}

// wait returns a channel that receives nil when everything committed now and all work due now is
// done and durable.
func (e *engine) wait(ctx context.Context) (chan error, error) {
	if err := e.retype(); err != nil {
		return nil, err
	}
	head, err := e.head(ctx)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	if e.place.Cursor == "" || e.place.Cursor == head {
		e.waited = append(e.waited, done)
	} else {
		e.waiting[head] = append(e.waiting[head], done)
	}
	return done, nil
}

// busy reports whether there is work besides new changes.
func (e *engine) busy() bool {
	if e.working() || len(e.late)+len(e.running)+len(e.waited) > 0 || !e.deletions.none() || e.timers.Next() <= e.now() {
		return true
	}
	for _, r := range e.rules {
		if r.Pending && !r.removed {
			return true
		}
	}
	return false
}

// working reports whether some of that work can be done at once, without waiting for changes first.
func (e *engine) working() bool {
	if len(e.ending)+len(e.dropped) > 0 || len(e.late) > 0 && len(e.running) < replaysAtOnce || len(e.ledger.items) == 0 && !e.deletions.none() {
		return true
	}
	for _, st := range e.running {
		if !st.run.waits() || e.gate.head == "" {
			return true
		}
	}
	if next := e.timers.Next(); next <= e.clock() || next <= e.now() && e.gate.head == "" {
		return true
	}
	for _, r := range e.rules {
		if r.Pending && !r.removed && len(e.late) < sweepLate {
			return true
		}
	}
	return len(e.waited) > 0 && e.gate.head == ""
}

// idle reports whether no work is left except new changes and what is not yet due.
func (e *engine) idle() bool {
	waited := e.waited
	e.waited = nil
	busy := e.busy()
	e.waited = waited
	return !busy
}

// awaited reports whether somebody waits for a commit and it is time for it.
func (e *engine) awaited() bool { return len(e.waited) > 0 && e.idle() }

// release answers the callers that wait.
func (e *engine) release(err error) {
	for _, done := range e.waited {
		done <- err
	}
	e.waited = nil
	if err == nil {
		return
	}
	for _, list := range e.waiting {
		for _, done := range list {
			done <- err
		}
	}
	clear(e.waiting)
}

// switchFeed starts following the changes if there are rules, or alarms whose entities may be
// deleted, and stops otherwise.
func (f *follower) switchFeed(ctx context.Context) error {
	e := f.e
	wanted := len(e.rules) > 0 || e.kept
	switch {
	case wanted && f.feed == nil:
		q := entity.ChangesQuery{Cursor: e.place.Cursor, Edits: true, Commands: true, Presence: true, Buffer: feedBuffer} // each: a place may be that of any
		changes, err := f.s.rt.Follow(ctx, q)
		missed := errors.Is(err, entity.ErrCursorExpired) || errors.Is(err, entity.ErrCursorInvalid)
		if missed {
			f.s.count.missed.Add(1)
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "alarms have missed changes that are not kept any more; all entities are looked at again", slog.String("cursor", q.Cursor))
			if err := e.lookAgain(); err != nil {
				return err
			}
			q.Cursor = ""
			changes, err = f.s.rt.Follow(ctx, q)
		}
		if err == nil && missed { // what is deleted from here on is followed
			if err = f.endMissing(ctx); err != nil {
				changes.Close()
			}
		}
		if err != nil {
			return err
		}
		if q.Cursor == "" {
			e.place.At = e.now()
		}
		e.place.Cursor, e.moved, e.gate = changes.Cursor(), true, gate{}
		e.endLeads()
		f.feed = startFeed(f.s.ctx, &f.s.wg, changes, &f.s.count.lagged)
		return f.commit(ctx)
	case !wanted && (f.feed != nil || e.place.Cursor != ""):
		if f.feed != nil {
			f.feed.stop()
			f.feed = nil
		}
		e.place.Cursor, e.moved, e.gate = "", true, gate{}
		e.endLeads()
		e.release(errAnew)
		return f.commit(ctx)
	}
	return nil
}

// purgeSome removes some of the alarms past their retention.
func (f *follower) purgeSome(ctx context.Context) error {
	if e := f.e; e.kept && len(e.rules) == 0 && len(e.ledger.items) == 0 { // no more are made
		if err := e.lookForAlarms(ctx); err != nil {
			return err
		}
	}
	list, err := f.s.rt.Items(ctx, entity.ItemsQuery{Kind: closedKind, From: f.purge, Limit: purgeAlarms})
	if err != nil {
		return err
	}
	before := f.e.now() - f.s.cfg.Retention.Milliseconds()
	for i := range list {
		a, err := decodeAlarm(list[i].Key, list[i].Body)
		if err != nil {
			continue // it stays as it is
		}
		if a.Ended < before {
			f.e.ledger.drop(a)
		}
	}
	if f.purge = ""; len(list) == purgeAlarms {
		f.purge = list[len(list)-1].Key + "\x00"
	}
	return nil
}
