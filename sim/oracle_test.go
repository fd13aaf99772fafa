package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// oracle knows what must hold of a game, however it goes: on the simulator and on the real
// scheduler.
type oracle struct {
	sys      *actor.System
	listener actor.Ref[actor.Event]
	spawning sync.Mutex

	mu       sync.Mutex
	problems []string
	next     uint64
	seqs     map[pair]int // the last one sent
	seen     map[pair]int // the last one handled
	downs    map[pair]bool
	sent     map[uint64]*sending
	watches  map[*watching]bool
}

type pair struct{ from, to actor.PID }

// sending is what has become of a card.
type sending struct {
	handled int
	copies  int  // how many there are: a gather sends several
	unsent  bool // refused, and the sender knows
	ask     bool
	answers int
	mayEnd  bool // the ask may end without the asker: it is gone
	moved   int
}

func newOracle(sys *actor.System) *oracle {
	o := &oracle{
		sys: sys, seqs: make(map[pair]int), seen: make(map[pair]int), downs: make(map[pair]bool),
		sent: make(map[uint64]*sending), watches: make(map[*watching]bool),
	}
	o.listener = actor.SpawnFunc(sys, "listener", func(*actor.Context[actor.Event], actor.Event) error { return nil })
	return o
}

// wrong notes a violation. REQUIRES: o.mu held.
func (o *oracle) wrong(format string, args ...any) {
	if len(o.problems) < 10 {
		o.problems = append(o.problems, fmt.Sprintf(format, args...))
	}
}

// problem returns the first violation.
func (o *oracle) problem() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.problems) == 0 {
		return nil
	}
	return errors.New(o.problems[0])
}

func (o *oracle) send(from, to actor.PID) (id uint64, seq int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.next++
	o.sent[o.next] = &sending{copies: 1}
	k := pair{from, to}
	o.seqs[k]++
	return o.next, o.seqs[k]
}

func (o *oracle) unsent(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].unsent = true
}

// handle notes that a card is being handled and checks the order.
func (o *oracle) handle(self actor.PID, c card, ordered bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[c.id]
	if s.handled++; s.handled > s.copies {
		o.wrong("card %d was handled %d times", c.id, s.handled)
	}
	if c.from.IsZero() || c.shuffled || s.moved > 0 || !ordered {
		return
	}
	k := pair{c.from, self}
	if c.seq <= o.seen[k] {
		o.wrong("%s got card %d from %s after card %d", self, c.seq, c.from, o.seen[k])
	}
	o.seen[k] = c.seq
	if o.downs[k] {
		o.wrong("%s got a card from %s after its Down", self, c.from)
	}
}

// unhandle takes a handling back: the card will be handled again, elsewhere or later.
func (o *oracle) unhandle(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].handled--
}

// mayStash bounds how often a card goes round.
func (o *oracle) mayStash(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[id]
	s.moved++
	return s.moved < 3 && s.copies == 1
}

func (o *oracle) asked(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].ask = true
}

func (o *oracle) isAsked(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return id != 0 && o.sent[id].ask
}

func (o *oracle) mayEnd(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].mayEnd = true
}

func (o *oracle) gathered(id uint64, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[id]
	s.copies, s.ask, s.answers, s.mayEnd = n, true, 1, true
}

// answered notes the end of an ask.
func (o *oracle) answered(id, answer uint64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[id]
	if s.answers++; s.answers > 1 {
		o.wrong("ask %d has ended %d times", id, s.answers)
	}
	if err == nil && answer != id {
		o.wrong("ask %d got the answer %d", id, answer)
	}
	if err == nil && s.handled == 0 && s.moved == 0 {
		o.wrong("ask %d was answered and not handled", id)
	}
}

// early says that something that was due at when happens now.
func (o *oracle) early(what string, when time.Time) {
	if now := time.Now(); now.Before(when) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.wrong("%s came %v early", what, when.Sub(now))
	}
}

// watching is one Watch.
type watching struct {
	by     *player
	who    actor.PID
	target actor.PID
	downs  int
	ended  bool // it was taken back, or ended with its incarnation
}

func (o *oracle) watch(ctx *actor.Context[card], p *player, target actor.PID) {
	w := &watching{by: p, who: ctx.Self().PID(), target: target}
	o.mu.Lock()
	o.watches[w] = true
	o.mu.Unlock()
	p.watching[target] = append(p.watching[target], w)
	ctx.Watch(target, func(d actor.Down) card {
		return card{note: func(o *oracle) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if w.downs++; w.downs > 1 || w.ended {
				o.wrong("%s got %d Downs of one watch of %s, ended %v", w.who, w.downs, target, w.ended)
			}
			if d.PID != target {
				o.wrong("a watch of %s got the Down of %s", target, d.PID)
			}
			if p.life.kind.ordered {
				o.downs[pair{target, w.who}] = true
			}
		}}
	})
}

func (o *oracle) unwatch(p *player, target actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range p.watching[target] {
		w.ended = true
	}
	delete(p.watching, target)
}

// timing is one timer.
type timing struct {
	due    time.Time
	period time.Duration
	over   bool
	times  int
}

// doTimer sets or cancels a timer.
func (p *player) doTimer(ctx *actor.Context[card], o op) {
	key := fmt.Sprint(o.to % 3)
	d := time.Duration(o.n) * time.Millisecond
	t := &timing{due: time.Now().Add(d)}
	if o.verb == opIdle {
		ctx.SetReceiveTimeout(d, card{note: func(k *oracle) { k.early("the receive timeout", t.due) }})
		if o.to%2 == 0 {
			ctx.SetReceiveTimeout(0, card{})
		} else {
			ctx.After("no more", 5*d, card{note: func(*oracle) { ctx.SetReceiveTimeout(0, card{}) }})
		}
		return
	}
	if old := p.timers[key]; old != nil {
		old.over = true
	}
	p.timers[key] = t
	msg := card{note: func(k *oracle) {
		k.early("timer "+key, t.due)
		k.mu.Lock()
		defer k.mu.Unlock()
		if t.over {
			k.wrong("timer %s came after it was canceled or replaced", key)
		}
		if t.times++; t.period == 0 {
			t.over = true
			return
		}
		t.due = t.due.Add(t.period)
		if t.times >= 3 {
			t.over = true
			ctx.Cancel(key)
		}
	}}
	switch o.verb {
	case opAfter:
		ctx.After(key, d, msg)
	case opEvery:
		t.period = d
		ctx.Every(key, d, msg)
	case opOn:
		t.due = time.Time{}
		ctx.On(key, twice{time.Now().Add(d)}, card{note: func(k *oracle) { k.early("On", time.Now().Truncate(time.Millisecond)) }})
	default:
		t.over = true
		ctx.Cancel(key)
	}
}

// twice is a schedule of two times.
type twice struct{ first time.Time }

func (s twice) Next(after time.Time) time.Time {
	for i := range 2 {
		if at := s.first.Add(time.Duration(i) * time.Millisecond); at.After(after) {
			return at
		}
	}
	return time.Time{}
}

// began and ended bracket an incarnation.
func (o *oracle) began(p *player) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.over {
		o.wrong("an incarnation began after its end")
	}
}

func (o *oracle) ended(p *player) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.over {
		o.wrong("an incarnation was terminated twice")
	}
	p.over = true
}

// atRest checks what must hold when nothing is left to happen.
func (g *game) atRest() {
	g.mu.Lock()
	players := append([]actor.Ref[card](nil), g.players...)
	g.mu.Unlock()
	for _, p := range players {
		tree, err := g.sys.Inspect(p.PID().Path(), 0)
		if err != nil {
			continue
		}
		g.mu.Lock()
		if tree.Mailbox > 0 || tree.State != "running" {
			g.wrong("at rest %s is %s with %d messages", tree.Path, tree.State, tree.Mailbox)
		}
		g.mu.Unlock()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for w := range g.watches {
		_, err := actor.Lookup[card](g.sys, w.target)
		_, gone := actor.Lookup[card](g.sys, w.who)
		if gone == nil && !w.by.over && !w.ended && w.by.incarnation == w.by.life.stage && (err != nil) != (w.downs == 1) {
			g.wrong("%s has got %d Downs of %s, which is gone: %v", w.who, w.downs, w.target, err != nil)
		}
	}
	for id, s := range g.sent {
		if s.ask && s.answers == 0 && !s.mayEnd {
			g.wrong("ask %d has not ended", id)
		}
	}
}

// afterShutdown checks what must hold in the end: each card was handled or is a dead
// letter, once.
func (g *game) afterShutdown() {
	st := g.sys.Stats()
	g.mu.Lock()
	defer g.mu.Unlock()
	buried := make(map[uint64]int)
	for _, d := range g.sys.DeadLetters() {
		if c, ok := d.Message.(card); ok {
			buried[c.id]++
		}
	}
	lost, all := uint64(0), uint64(0)
	var which []string
	for id, s := range g.sent {
		n := s.handled + buried[id]
		all += uint64(buried[id])
		switch {
		case n > s.copies:
			g.wrong("of card %d there were %d: %d handled, %d dead", id, s.copies, s.handled, buried[id])
		case s.unsent && n > 0:
			g.wrong("card %d was refused, and handled %d times, %d dead", id, s.handled, buried[id])
		case !s.unsent && !s.ask && n < s.copies:
			lost++
			which = append(which, fmt.Sprintf("%d %+v", id, *s))
		}
	}
	conflated := st.DeadLettersByReason[actor.Conflated.String()]
	if st.DeadLetters-conflated > 256 {
		return // the tools do not keep more
	}
	if all != st.DeadLetters-conflated {
		g.wrong("%d dead letters are kept, %d were counted", all, st.DeadLetters-conflated)
	}
	if lost > conflated {
		g.wrong("%d told cards were neither handled nor are they dead letters; %d were conflated: %v", lost, conflated, which)
	}
	if st.Actors != 0 || st.Timers != 0 {
		g.wrong("%d actors and %d timers left", st.Actors, st.Timers)
	}
}

// shutdown ends the game's system.
func (g *game) shutdown(ctx context.Context) error {
	_, err := g.sys.Shutdown(ctx)
	return err
}
