package alarm

import (
	"context"
	"log/slog"
	"math"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// A live rule looks at the clock or at presence. It is about what is known now: its times are
// those of the server's clock, and late readings change nothing of what it has raised. It is
// evaluated when something changes that it reads, and when its answer changes because time
// passes. Nobody looks at an entity in between, and nothing is kept of one for which neither
// can happen.

// retryLive is when an entity is looked at again for which there was no room.
const retryLive = time.Minute

// await is an entity for which the answer of a live rule changes at some time, or may have
// changed by then: a later time is not noted before the earlier one has come, as most readings
// put it off.
type await struct {
	timer timer
	rule  *rule
	id    string
}

// await has an entity looked at for a rule by a time, math.MaxInt64 for never.
func (e *engine) await(r *rule, id string, at int64) {
	x := r.awaits[id]
	switch {
	case at == math.MaxInt64:
		return
	case x == nil && e.awaits >= MaxAwaited:
		e.count.overflow.Add(1)
		if !e.crowded {
			e.crowded = true
			e.log.Warn("too many entities wait for a time for rules of alarms; further ones are looked at when something changes", slog.Int("most", MaxAwaited))
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
	if was := x.timer.At(); was == 0 || at < was {
		e.timers.Set(&x.timer, max(1, at))
	}
}

// forgetAwaits forgets what a rule waits for.
func (e *engine) forgetAwaits(r *rule) {
	for _, x := range r.awaits {
		e.timers.Set(&x.timer, 0)
	}
	e.awaits -= len(r.awaits)
	r.awaits = nil
}

// due looks at an entity whose time has come.
func (e *engine) due(ctx context.Context, x *await, now int64) error {
	e.timers.Set(&x.timer, 0)
	delete(x.rule.awaits, x.id)
	if e.awaits--; e.awaits < MaxAwaited*9/10 {
		e.crowded = false
	}
	s, _, err := e.know(ctx, x.id)
	if err != nil || s == nil || !s.concerns(x.rule) {
		return err
	}
	return e.observeLive(ctx, s, x.rule, now)
}

// observeLive evaluates a live rule for an entity.
func (e *engine) observeLive(ctx context.Context, s *subject, r *rule, now int64) error {
	e.count.evaluations.Add(1)
	st := s.state(r)
	if st == nil {
		s.env.Now = now
		var m machine
		if !m.holds(r, &s.frame) {
			e.await(r, s.id, r.next(&s.frame))
			return nil
		}
		if st = e.begin(s, r); st == nil {
			e.await(r, s.id, now+retryLive.Milliseconds())
			return nil
		}
	}
	now = max(now, st.at, st.since)
	s.env.Now = now
	if err := e.advance(ctx, st, now); err != nil {
		return err
	}
	before := st.machine
	t, ok := st.observe(r, now, st.holds(r, &s.frame))
	if ok {
		if err := e.turn(ctx, st, t); err != nil {
			return err
		}
	} else if st.machine != before {
		e.touch(st)
	}
	e.await(r, s.id, r.next(&s.frame))
	return nil
}

// observeAllLive evaluates those live rules of an entity that are asked for.
func (e *engine) observeAllLive(ctx context.Context, s *subject, now int64, is func(*rule) bool) error {
	for _, r := range s.live {
		if !is(r) {
			continue
		}
		if err := e.observeLive(ctx, s, r, now); err != nil {
			return err
		}
	}
	return nil
}

// presence takes a change of presence in.
func (e *engine) presence(ctx context.Context, c *entity.Change) error {
	if !e.index.presence {
		return nil
	}
	s, _, err := e.know(ctx, c.Entity)
	if err != nil || s == nil {
		return err
	}
	s.presence = *c.Presence
	return e.observeAllLive(ctx, s, e.began, func(r *rule) bool { return r.presence })
}

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
