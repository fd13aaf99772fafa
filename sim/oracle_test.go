package sim

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// oracle knows what must hold of a game, however it goes: on the simulator and on the real
// scheduler.
type oracle struct {
	sys      *actor.System
	listener actor.Ref[actor.Event]

	mu       sync.Mutex
	problems []string
	next     uint64
	seqs     map[pair]int // the last one sent
	seen     map[pair]int // the last one handled
	downs    map[pair]bool
	sent     map[uint64]*sending
	watches  []*watching
	lives    map[actor.PID]*life
	kills    bool // somebody was killed: not everybody terminates
	unseen   bool // the world panics in place of handlers, which then have not seen their card
	done     []int
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
	held    bool // with Hold, and it has not left: it is gone with a sender that is killed
}

func newOracle(sys *actor.System, moves int) *oracle {
	o := &oracle{
		sys: sys, seqs: make(map[pair]int), seen: make(map[pair]int), downs: make(map[pair]bool),
		sent: make(map[uint64]*sending), lives: make(map[actor.PID]*life), done: make([]int, moves),
	}
	o.listener = actor.SpawnFunc(sys, "listener", o.listen())
	return o
}

// listen checks the events of each actor: they are in order, and none comes after its end.
func (o *oracle) listen() func(*actor.Context[actor.Event], actor.Event) error {
	ended := make(map[actor.PID]bool)
	restarts := make(map[actor.PID]uint64)
	check := func(e actor.Event, pid actor.PID) {
		if ended[pid] {
			o.report("after the end of %s there was %T %+v", pid, e, e)
		}
	}
	return func(_ *actor.Context[actor.Event], e actor.Event) error {
		switch e := e.(type) {
		case actor.ActorStarted:
			check(e, e.PID)
		case actor.ActorFailed:
			check(e, e.PID)
		case actor.ActorRestarted:
			check(e, e.PID)
			if e.Restarts <= restarts[e.PID] {
				o.report("%s says that it was restarted %d times, after %d", e.PID, e.Restarts, restarts[e.PID])
			}
			restarts[e.PID] = e.Restarts
		case actor.ActorStopped:
			check(e, e.PID)
			ended[e.PID] = true
			if (e.Reason == actor.Failed) != (e.Err != nil) {
				o.report("%s has stopped with the reason %s and the error %v", e.PID, e.Reason, e.Err)
			}
		default: // what concerns messages
		}
		return nil
	}
}

// report notes a violation.
func (o *oracle) report(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wrong(format, args...)
}

// wrong is report. REQUIRES: o.mu held.
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

// did counts that a move was made.
func (o *oracle) did(move int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.done[move]++
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

// handle notes that a player handles a card and checks the order.
func (o *oracle) handle(self actor.PID, c card, l *life) {
	o.consume(c.id, self)
	o.mu.Lock()
	defer o.mu.Unlock()
	if c.from.IsZero() || c.shuffled || o.sent[c.id].moved > 0 || !l.kind.ordered {
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

// consume notes that an actor has got a card, and that it was that card's turn.
func (o *oracle) consume(id uint64, self actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[id]
	if s.handled++; s.handled > s.copies {
		o.wrong("card %d was handled %d times", id, s.handled)
	}
	l := o.lives[self]
	if l == nil || len(l.expected) == 0 || o.unseen {
		return
	}
	if l.expected[0] != id {
		o.wrong("%s got card %d, and it was the turn of %v, which were unstashed", self, id, l.expected)
	}
	l.expected = l.expected[1:]
}

// unhandle takes a handling back: the card will be handled again, elsewhere or later.
func (o *oracle) unhandle(id uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].handled--
}

// mayMove says whether a card may be passed on or put aside, and bounds how often.
func (o *oracle) mayMove(id uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := o.sent[id]
	if s == nil || s.copies > 1 {
		return false
	}
	s.moved++
	return s.moved < 3
}

func (o *oracle) held(id uint64, held bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent[id].held = held
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

// answered notes the end of an ask, which must not come after limit, unless that is zero.
func (o *oracle) answered(id, answer uint64, err error, limit time.Time) {
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
	if late := time.Since(limit); !limit.IsZero() && late > 0 {
		o.wrong("ask %d has ended %v after its time was up: %v", id, late, err)
	}
}

// early says that something that was due at when happens now.
func (o *oracle) early(what string, when time.Time) {
	if now := time.Now(); now.Before(when) {
		o.report("%s came %v early", what, when.Sub(now))
	}
}

// kill notes that somebody is killed.
func (o *oracle) kill(actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.kills = true
}

// watching is one Watch.
type watching struct {
	by     *player
	who    actor.PID
	target actor.PID
	downs  int
	ended  bool // it was taken back
}

func (o *oracle) watch(ctx *actor.Context[card], p *player, target actor.PID) {
	w := &watching{by: p, who: ctx.Self().PID(), target: target}
	o.mu.Lock()
	o.watches = append(o.watches, w)
	o.mu.Unlock()
	p.watching[target] = append(p.watching[target], w)
	ctx.Watch(target, func(d actor.Down) card {
		c := p.noting(func() { o.down(w, d) })
		c.sibling = path.Dir(target.Path()) == path.Dir(w.who.Path())
		return c
	})
}

// down checks a Down.
func (o *oracle) down(w *watching, d actor.Down) {
	_, err := actor.Lookup[card](o.sys, w.target)
	o.mu.Lock()
	defer o.mu.Unlock()
	if w.downs++; w.downs > 1 || w.ended {
		o.wrong("%s got %d Downs of one watch of %s, ended %v", w.who, w.downs, w.target, w.ended)
	}
	if d.PID != w.target || !errors.Is(err, actor.ErrStopped) {
		o.wrong("a watch of %s got the Down of %s, and looking it up gives %v", w.target, d.PID, err)
	}
	if (d.Reason == actor.Failed) != (d.Err != nil) || d.Reason == actor.Killed && !o.kills {
		o.wrong("the Down of %s has the reason %s and the error %v, and somebody was killed: %v", d.PID, d.Reason, d.Err, o.kills)
	}
	if w.by.life.kind.ordered {
		o.downs[pair{w.target, w.who}] = true
	}
}

// hasEnded checks what somebody was told who has waited for the end of an actor.
func (o *oracle) hasEnded(pid actor.PID, d actor.Down) {
	_, err := actor.Lookup[card](o.sys, pid)
	o.mu.Lock()
	defer o.mu.Unlock()
	if d.PID != pid || d.Reason == 0 || !errors.Is(err, actor.ErrStopped) {
		o.wrong("the end of %s was told as %+v, and looking it up gives %v", pid, d, err)
	}
	if (d.Reason == actor.Failed) != (d.Err != nil) {
		o.wrong("the end of %s has the reason %s and the error %v", d.PID, d.Reason, d.Err)
	}
}

func (o *oracle) unwatch(p *player, target actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, w := range p.watching[target] {
		w.ended = true
	}
	delete(p.watching, target)
}

// atRest checks what must hold when nothing is left to happen.
func (g *game) atRest(ctx context.Context) {
	g.mu.Lock()
	players := append([]actor.Ref[card](nil), g.players...)
	g.mu.Unlock()
	for _, p := range players {
		d, err := g.sys.Detail(ctx, p.PID())
		if err != nil {
			continue
		}
		if n, ok := p.Backlog(); d.Mailbox > 0 || d.State != "running" && d.State != "passive" || d.Busy || d.Current != "" && d.Waits != (actor.PID{}) || n > 0 || !ok {
			g.report("at rest %s is %s with %d messages, a backlog of %d, %+v", p.PID(), d.State, d.Mailbox, n, d)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, w := range g.watches {
		_, err := actor.Lookup[card](g.sys, w.target)
		_, gone := actor.Lookup[card](g.sys, w.who)
		if gone == nil && !w.by.over && !w.ended && w.by == w.by.life.current && (err != nil) != (w.downs == 1) {
			g.wrong("%s has got %d Downs of %s, which is gone: %v", w.who, w.downs, w.target, err != nil)
		}
	}
	for id, s := range g.sent {
		if s.ask && s.answers == 0 && !s.mayEnd {
			g.wrong("ask %d has not ended", id)
		}
	}
}

// shutdown ends the game's system.
func (g *game) shutdown(ctx context.Context) error {
	_, err := g.sys.Shutdown(ctx)
	return err
}

// afterShutdown checks what must hold in the end: each card was handled or is a dead
// letter, once, and nobody takes anything any more. patient says that the shutdown had the
// time that it wanted.
func (g *game) afterShutdown(patient bool) {
	for _, kind := range g.kinds {
		kind.gate.release() // that of one who was killed still holds something: it becomes dead letters
	}
	st := g.sys.Stats()
	if st.Actors != 0 || st.Timers != 0 || st.Waiting != 0 {
		g.report("%d actors, %d timers and %d waiting handlers are left", st.Actors, st.Timers, st.Waiting)
	}
	if !patient {
		g.kill(actor.PID{})
	}
	g.accounts(st)
	if _, err := actor.TrySpawnFunc(g.sys, "late", func(*actor.Context[card], card) error { return nil }); !errors.Is(err, actor.ErrStopped) {
		g.report("a spawn after the shutdown: %v", err)
	}
	if _, err := actor.Ask(context.Background(), g.clerk, query{}); !errors.Is(err, actor.ErrStopped) {
		g.report("an ask after the shutdown: %v", err)
	}
	if n, ok := g.clerk.Backlog(); n != 0 || ok {
		g.report("the backlog after the shutdown is %d, %v", n, ok)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for pid, l := range g.lives {
		if p := l.current; patient && !g.kills && p.begun && !p.over {
			g.wrong("%s was not terminated", pid)
		}
	}
}

// accounts checks that sent is handled plus dead.
func (g *game) accounts(st actor.Stats) {
	g.mu.Lock()
	defer g.mu.Unlock()
	buried := make(map[uint64]int)
	kept := uint64(0)
	for _, d := range g.sys.DeadLetters() {
		kept++
		switch {
		case d.Reason == actor.Stopped, d.Reason == actor.Failed, d.Reason == actor.NoActor, d.Reason == actor.Overflowed, d.Reason == actor.Killed && g.kills:
		default:
			g.wrong("%s is a dead letter with the reason %s", d.Type, d.Reason)
		}
		if c, ok := d.Message.(card); ok {
			buried[c.id]++
		}
	}
	conflated := st.DeadLettersByReason[actor.Conflated.String()]
	if st.DeadLetters-conflated > 256 {
		return // the tools do not keep more
	}
	lost := uint64(0)
	var which []string
	for id, s := range g.sent {
		n := s.handled + buried[id]
		switch {
		case n > s.copies:
			g.wrong("of card %d there were %d: %d handled, %d dead", id, s.copies, s.handled, buried[id])
		case s.unsent && n > 0:
			g.wrong("card %d was refused, and handled %d times, %d dead", id, s.handled, buried[id])
		case !s.unsent && !s.ask && !s.held && n < s.copies:
			lost++
			which = append(which, fmt.Sprintf("%d %+v", id, *s))
		}
	}
	if kept != st.DeadLetters-conflated {
		g.wrong("%d dead letters are kept, %d were counted", kept, st.DeadLetters-conflated)
	}
	if lost > conflated && !g.unseen {
		g.wrong("%d told cards were neither handled nor are they dead letters; %d were conflated: %v", lost, conflated, which)
	}
}
