package alarm

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// A live rule uses the clock or presence. It is about what is known now: its times are those of the
// server's clock, and late readings do not change the alarms that it has raised. It is evaluated
// when something that it reads changes, and when its answer changes because time passes. The entity
// is not examined in between, and nothing is kept about an entity for which neither can happen.
//
// The engine may be behind, because of a burst of changes or other work, but the alarms do not
// depend on that: each change is judged as of its commit, and each change of an answer by time
// alone as of its own time. So answers that change by themselves before a change are handled before
// that change is put into the frame. A frame that was just loaded is ahead of the waiting changes,
// and is reconstructed for the time being judged, see valuesAt. Nothing from before the engine or
// the rule began is judged: at that time all entities are examined.

// retryLive is how long to wait before examining an entity again for which there was no room.
const retryLive = time.Minute

// await is an entity for which the answer of a live rule changes at some time. The timer may be due
// earlier, since most readings postpone that time; it is reset only when it fires.
type await struct {
	timer timer
	rule  *rule
	id    string
	at    int64
}

// await schedules an entity to be examined for a rule at a time, and not before; math.MaxInt64
// means never.
func (e *engine) await(r *rule, id string, at int64) {
	x := r.awaits[id]
	switch {
	case x == nil && at == math.MaxInt64:
		return
	case x == nil && e.awaits >= e.steps.awaits:
		e.count.overflow.Add(1)
		r.refused = true
		if !e.crowded {
			e.crowded = true
			e.log.Warn("too many entities wait for a time for rules of alarms; further ones are looked at when something changes, or when there is room", slog.Int("most", e.steps.awaits))
		}
		return
	case x == nil:
		x = &await{rule: r, id: id}
		x.timer.Value.await = x
		if r.awaits == nil {
			r.awaits = make(map[string]*await)
		}
		r.awaits[id] = x
		e.awaits++
	}
	x.at = max(1, at)
	if was := x.timer.At(); was == 0 || x.at < was {
		e.timers.Set(&x.timer, x.at)
	}
}

// forget forgets what waits.
func (e *engine) forget(x *await) {
	if x.timer.At() == 0 {
		return // it is done with
	}
	e.timers.Set(&x.timer, 0)
	delete(x.rule.awaits, x.id)
	e.awaits--
}

// forgetAwaits forgets what a rule waits for that is not in force any more, in parts.
func (e *engine) forgetAwaits(r *rule) {
	if len(r.awaits) > 0 {
		e.dropped = append(e.dropped, r.awaits)
	}
	r.awaits = nil
}

// forgetUnconcerned forgets what rules wait for that do not concern an entity, nil for one that is not
// there any more.
func (e *engine) forgetUnconcerned(id string, s *subject) {
	if !e.index.live {
		return
	}
	for _, r := range e.index.rules {
		if x := r.awaits[id]; x != nil && (s == nil || !s.concerns(r)) {
			e.forget(x)
		}
	}
}

// clearAwaits takes a part of what was forgotten away, and has the entities looked at for which there
// was no room, once there is.
func (e *engine) clearAwaits() {
	for n := e.steps.items; n > 0 && len(e.dropped) > 0; {
		list := e.dropped[0]
		for id, x := range list {
			if n--; n < 0 {
				return
			}
			e.forget(x)
			delete(list, id)
		}
		e.dropped = e.dropped[1:]
	}
	if !e.crowded || e.awaits >= e.steps.awaits*9/10 {
		return
	}
	e.crowded = false
	for _, r := range e.rules {
		if r.refused {
			r.refused, r.Pending, r.swept = false, !r.removed, ""
		}
	}
	e.publishRules()
}

// due examines an entity whose time may have come, and reports whether it had to be read.
func (e *engine) due(ctx context.Context, x *await) (read bool, err error) {
	switch {
	case x.at == math.MaxInt64 || x.rule.removed:
		e.forget(x)
		return false, nil
	case x.at > x.timer.At():
		e.timers.Set(&x.timer, x.at)
		return false, nil
	}
	s, read, err := e.know(ctx, x.id)
	if err != nil {
		return read, err
	}
	if s == nil || !s.concerns(x.rule) {
		e.forget(x)
		return true, nil
	}
	return read, e.until(ctx, s, x.rule, x.at)
}

// eachLive calls f with the selected live rules of an entity, each with the moment at which it
// judges what happened at a time.
func (e *engine) eachLive(ctx context.Context, s *subject, at int64, is func(*rule) bool, f func(context.Context, *subject, *rule, int64) error) error {
	for _, r := range s.live {
		if !is(r) {
			continue
		}
		if err := f(ctx, s, r, e.moment(s, r, at)); err != nil {
			return err
		}
	}
	return nil
}

// moment returns when a live rule judges what happened at a time: not before it was in force, and not
// before what it has judged.
func (e *engine) moment(s *subject, r *rule, at int64) int64 {
	from := max(e.opened, r.Effective)
	if st := s.state(r); st != nil {
		from = max(from, st.at, st.since)
	}
	if at < from {
		at = min(from, e.now()) // the clock may have been set back
	}
	return at
}

// until carries out, up to a time, the transitions of a live rule and an entity that time alone
// causes.
func (e *engine) until(ctx context.Context, s *subject, r *rule, at int64) error {
	for {
		x := r.awaits[s.id]
		if x == nil || x.at > at {
			break
		}
		e.forget(x)
		if err := e.judgeLive(ctx, s, r, x.at); err != nil {
			return err
		}
	}
	if st := s.state(r); st != nil {
		return e.advance(ctx, st, at)
	}
	return nil
}

// judgeLive evaluates a live rule for an entity, as that was at a time.
func (e *engine) judgeLive(ctx context.Context, s *subject, r *rule, at int64) error {
	again := int64(math.MaxInt64)
	if at < s.read {
		is := s.values
		was, err := e.valuesAt(ctx, s, r, at)
		if errors.Is(err, entity.ErrNotFound) {
			return nil // it was deleted meanwhile, which is a change of its own
		}
		if err != nil {
			return err
		}
		if was != nil {
			s.values, again = was, s.read
			defer func() { s.values = is }()
		}
	}
	e.count.evaluations.Add(1)
	s.env.Now = at
	st := s.state(r)
	if st == nil {
		var m machine
		if !m.holds(r, &s.frame) {
			e.await(r, s.id, min(again, r.next(&s.frame)))
			return nil
		}
		if st = e.begin(s, r); st == nil {
			e.await(r, s.id, at+retryLive.Milliseconds())
			return nil
		}
	}
	if err := e.advance(ctx, st, at); err != nil {
		return err
	}
	before := st.machine
	if st.pending && st.since > at { // the clock was set back
		st.since = at
	}
	t, ok := st.observe(r, at, st.holds(r, &s.frame))
	if ok {
		if err := e.turn(ctx, st, t); err != nil {
			return err
		}
	} else if st.machine != before {
		e.touch(st)
	}
	e.await(r, s.id, min(again, r.next(&s.frame)))
	return nil
}

// valuesAt returns the values that a rule reads of an entity as they were at a time before it was
// loaded, or nil if they are what is known now. Late readings are in it as if they had been in
// time.
func (e *engine) valuesAt(ctx context.Context, s *subject, r *rule, at int64) ([]slotValue, error) {
	at = max(at, s.heard)
	if !s.ahead(r, at) {
		return nil, nil
	}
	values := slices.Clone(s.values)
	for i := range values {
		x := &values[i]
		switch {
		case x.ts <= at || x.v.IsZero():
		case x.slot == r.updated:
			ts, err := e.updatedBy(ctx, s.id, at)
			if err != nil {
				return nil, err
			}
			x.ts, x.v = ts, timeOf(ts)
		case slices.Contains(r.keys, x.slot):
			last, _, err := e.lastBy(ctx, s.id, e.slots.paths[x.slot].name, at)
			if err != nil {
				return nil, err
			}
			x.ts, x.v = last.TS, last.Value
		}
	}
	return values, nil
}

// hear records that a reading of an entity with this time has arrived.
func (e *engine) hear(s *subject, ts int64) {
	s.heard = max(s.heard, ts)
	if !e.index.updated {
		return
	}
	if was, ok := s.ts(e.slots.updated); !ok || ts > was {
		s.put(e.slots.updated, ts, value.Time(ts))
	}
}

// presence applies a change of presence.
func (e *engine) presence(ctx context.Context, c *entity.Change) error {
	if !e.index.presence {
		return nil
	}
	s, _, err := e.know(ctx, c.Entity)
	if err != nil || s == nil {
		return err
	}
	looks, at := func(r *rule) bool { return r.presence }, e.committed(c)
	if err := e.eachLive(ctx, s, at, looks, e.until); err != nil {
		return err
	}
	s.presence = *c.Presence
	return e.eachLive(ctx, s, at, looks, e.judgeLive)
}

// committed returns when a change was committed, by the clock of the engine.
func (e *engine) committed(c *entity.Change) int64 { return min(c.Committed, e.began) }

// next returns when the answer of a live rule changes by itself.
func (r *rule) next(f *frame) int64 {
	next := int64(math.MaxInt64)
	if r.raiseTurns != nil {
		next = r.raiseTurns.Next(f, &f.env)
	}
	if r.clearTurns != nil {
		next = min(next, r.clearTurns.Next(f, &f.env))
	}
	return next
}
