package actor

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A profile times the messages of some turns, drawn by the workers, and lets each stand for those that
// it was drawn from. To time every message would cost more than most messages do: reading the
// clock twice takes as long as handling one. While no profile is taken, a turn pays one load for that.

const (
	sampleTurns = 512                  // a turn is drawn from so many at most,
	sampleTime  = 5 * time.Millisecond // or from as many as there are in that time
	profileMost = 10_000               // actors and types that a profile tells apart
)

// Usage is what actors spent on messages of one type while a profile was taken.
type Usage struct {
	PID     PID    // zero for what the profile had no room for: it distinguishes 10 000 actors and types
	Type    string // of the message; in parentheses where a timer or the like has made it
	Samples int    // messages that were timed

	// Messages and Time are estimates for all messages. Time is what handlers take, with their
	// middleware. Waits with their own context do not count; any other blocking does.
	Messages uint64
	Time     time.Duration
	Longest  time.Duration // of those that were timed
	// Waited is how long the first messages of the timed turns had waited in the mailbox: the
	// longest wait, to a few milliseconds.
	Waited time.Duration
}

// profiles are those that are being taken. The list does not change.
type profiles struct{ list []*profile }

// profile is one that is being taken.
type profile struct {
	mu    sync.Mutex
	usage map[usageKey]*Usage // nil when it is over
}

type usageKey struct {
	actor *core
	typ   string
}

// Profile measures, until ctx ends, where the handlers' time goes. It returns estimates for each
// actor and type of message, most time first: each worker times the messages of one turn in 512, or of
// one in 5 ms where turns are rarer. It does not cover messages whose handler panics, and what
// [Pinned] and [Inline] actors do.
//
// It blocks until ctx ends, and panics if ctx has no end. Several may run at the same time. It must
// not be called in a handler.
func (s *System) Profile(ctx context.Context) []Usage {
	required(ctx != nil && ctx.Done() != nil, "Profile: the context has no end: context.WithTimeout says for how long")
	p := &profile{usage: make(map[usageKey]*Usage)}
	s.changeProfiles(func(list []*profile) []*profile { return append(list, p) })
	<-ctx.Done()
	s.changeProfiles(func(list []*profile) []*profile {
		return slices.DeleteFunc(list, func(o *profile) bool { return o == p })
	})
	p.mu.Lock()
	usage := p.usage
	p.usage = nil
	p.mu.Unlock()
	list := make([]Usage, 0, len(usage))
	for key, u := range usage {
		u.PID, u.Type = key.actor.pid(), key.typ
		list = append(list, *u)
	}
	slices.SortFunc(list, func(a, b Usage) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), cmp.Compare(b.Messages, a.Messages), comparePIDs(a.PID, b.PID), cmp.Compare(a.Type, b.Type))
	})
	return list
}

// changeProfiles tells the workers what is being taken.
func (s *System) changeProfiles(change func([]*profile) []*profile) {
	s.profiling.Lock()
	defer s.profiling.Unlock()
	var now *profiles
	if old := s.sched.profiles.Load(); old != nil {
		now = &profiles{change(slices.Clone(old.list))}
	} else {
		now = &profiles{change(nil)}
	}
	if len(now.list) == 0 {
		now = nil
	}
	for _, sched := range s.scheds {
		sched.profiles.Store(now)
	}
}

// sampler is how a worker draws turns. It belongs to the worker.
type sampler struct {
	of    *profiles // for which turns are drawn
	span  uint32    // of how many turns one is drawn
	drawn uint32    // which one
	turn  uint32    // how many of them have begun
	began int64     // when the first did, by the coarse clock
	now   *timing   // of the message that is being timed
}

// sample returns the timing of the turn that begins, nil if it is not to be timed. ps is not nil.
func (w *worker) sample(ps *profiles) *timing {
	s, now := &w.sampler, w.s.monitor.coarse.Load()
	if s.of != ps {
		*s = sampler{of: ps}
	}
	if s.turn == s.span || now-s.began >= int64(sampleTime) {
		s.draw(now)
	}
	if s.turn++; s.turn != s.drawn {
		return nil
	}
	return &timing{of: ps, turns: uint64(s.span)}
}

// draw draws one of the next turns. How many these are is decided before, by the turns of the last draw
// and without a look at those to come: so a turn that takes long, and seems to be the last of many for
// that reason, is drawn as often as any other.
func (s *sampler) draw(now int64) {
	span := 2 * s.span
	if took := now - s.began; took > 0 {
		span = min(span, uint32(int64(s.turn)*int64(sampleTime)/took))
	}
	s.span = min(max(span, 1), sampleTurns)
	s.drawn, s.turn, s.began = 1+rand.Uint32N(s.span), 0, now
}

// timing is of a turn whose messages are timed. It belongs to the turn.
type timing struct {
	of    *profiles
	turns uint64        // for which it stands
	began time.Time     // when the handler began, or went on after a wait
	spent time.Duration // of the message, before that
	waits time.Duration // how long the next message has waited
}

// begin notes that a message is about to be handled on w.
func (t *timing) begin(w *worker) {
	t.spent, t.began = 0, time.Now()
	if w != nil {
		w.sampler.now = t
	}
}

// pause notes that the handler waits. t may be nil.
func (t *timing) pause() {
	if t != nil {
		t.spent += time.Since(t.began)
	}
}

// resume ends what pause began, on another worker perhaps. t may be nil.
func (t *timing) resume(w *worker) {
	if t != nil {
		t.began = time.Now()
		w.sampler.now = t
	}
}

// end books the message.
func (t *timing) end(c *core, typ string) {
	t.pause()
	for _, p := range t.of.list {
		p.book(c, typ, t)
	}
	t.waits = 0
}

func (p *profile) book(c *core, typ string, t *timing) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.usage == nil {
		return
	}
	key := usageKey{c, typ}
	u := p.usage[key]
	if u == nil {
		if len(p.usage) >= profileMost {
			key = usageKey{}
		}
		if u = p.usage[key]; u == nil {
			u = new(Usage)
			p.usage[key] = u
		}
	}
	u.Samples++
	u.Messages += t.turns
	u.Time += t.spent * time.Duration(t.turns)
	u.Longest = max(u.Longest, t.spent)
	u.Waited = max(u.Waited, t.waits)
}

// timeTurn returns the timing of the turn that is about to handle mail, nil if it is not to be timed.
func (c *cell[M]) timeTurn(s *mailbox[M], ps *profiles) *timing {
	w := c.core.worker.Load()
	if w == nil {
		return nil
	}
	t := w.sample(ps)
	if now := c.core.sched().monitor.coarse.Load(); t != nil && s.done() == 0 && s.since > 0 {
		t.waits = time.Duration(max(0, now-s.since))
	}
	return t
}

// handleTimed is handle for a message that is timed.
func (c *cell[M]) handleTimed(s *mailbox[M], plain bool, t *timing) error {
	typ := s.cur.typeName()
	t.begin(c.core.worker.Load())
	handled, err := c.handle(s, plain)
	if handled {
		t.end(&c.core, typ)
	}
	if w := c.core.worker.Load(); w != nil {
		w.sampler.now = nil
	}
	return err
}
