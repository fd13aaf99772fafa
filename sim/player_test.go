package sim

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// life is what an actor keeps over its incarnations, for the oracle.
type life struct {
	kind     playerKind
	busy     bool
	stage    int      // incarnations that have begun
	current  *player  // the last of them
	stash    []uint64 // what is set aside, in order
	expected []uint64 // what was unstashed and must come next
}

// player is the actor. Its fields are the incarnation's.
type player struct {
	*game
	life     *life
	now      uint64 // the card that is being handled
	watching map[actor.PID][]*watching
	promises []*actor.Promised[uint64]
	promised []uint64
	begun    bool // Init has returned nil
	over     bool
	timers   map[string]*timing
	handled  map[string]bool // the headers of cards that it has handled, by their ids
}

// enter and leave bracket the actor's callbacks.
func (p *player) enter(ctx *actor.Context[card], c card) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.busy {
		p.wrong("two callbacks of %s at once", ctx.Self())
	}
	if p.over || p.life.current != p {
		p.wrong("a callback of an incarnation of %s that has ended", ctx.Self())
	}
	p.life.busy, p.now = true, c.id
}

func (p *player) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.busy, p.now = false, 0
}

// Init implements actor.Initializer.
func (p *player) Init(ctx *actor.Context[card]) error {
	p.mu.Lock()
	if before := p.life.current; before != nil && before.begun && !before.over {
		p.wrong("an incarnation of %s begins before the last one has ended", ctx.Self())
	}
	p.life.stage++
	p.life.current = p
	p.lives[ctx.Self().PID()] = p.life
	p.life.expected, p.life.stash = append(p.life.stash, p.life.expected...), nil
	p.mu.Unlock()
	p.enter(ctx, card{})
	defer p.leave()
	p.watching = make(map[actor.PID][]*watching)
	p.timers, p.handled = make(map[string]*timing), make(map[string]bool)
	if n := ctx.Children(); len(n) > 0 {
		p.report("a new incarnation of %s has the children %v", ctx.Self(), n)
	}
	for _, o := range p.life.kind.first {
		if (p.life.stage%3 == 0) && p.moves[o.move].ends {
			continue
		}
		if done, err := p.do(ctx, card{}, o); done || err != nil {
			return err
		}
	}
	p.begun = true
	return nil
}

// Terminate implements actor.Terminator.
func (p *player) Terminate(ctx *actor.Context[card], _ error) {
	defer p.life.kind.gate.release()
	p.enter(ctx, card{})
	defer p.leave()
	if !p.begun {
		p.report("an incarnation of %s ends that has not begun", ctx.Self())
	}
	if n := ctx.Children(); len(n) > 0 {
		p.report("%s ends before its children %v", ctx.Self(), n)
	}
	defer func() { // also when what is planned is a panic
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
	}()
	for _, o := range p.life.kind.last {
		if done, err := p.do(ctx, card{}, o); done || err != nil {
			break
		}
	}
}

// Receive implements actor.Actor.
func (p *player) Receive(ctx *actor.Context[card], c card) error {
	p.enter(ctx, c)
	defer p.leave()
	p.checkHeader(ctx, c)
	if c.note != nil {
		if c.owner != p && (!c.sibling || c.owner.life != p.life) {
			p.report("%s got what an earlier incarnation had ordered", ctx.Self())
		}
		c.note()
		return nil
	}
	if ctx.Sender() != c.from {
		p.report("card %d from %s says that it is from %s", c.id, c.from, ctx.Sender())
	}
	p.handle(ctx.Self().PID(), c, p.life)
	for _, o := range c.ops {
		if done, err := p.do(ctx, c, o); done || err != nil {
			return err
		}
	}
	if len(p.promises) > 3 {
		p.keep()
	}
	p.answer(ctx, c)
	return nil
}

func (p *player) checkHeader(ctx *actor.Context[card], c card) {
	h := actor.HeaderOf(ctx)
	if !p.headers {
		if len(h) > 0 {
			p.report("a card in a game without headers has the header %v", h)
		}
		return
	}
	if c.id == 0 {
		if len(h) > 0 && !p.handled[h["id"]] {
			p.report("a note has the header %v, of no card in whose handler it can have been ordered", h)
		}
		return
	}
	p.handled[number64(c.id)] = true
	if h["id"] != number64(c.id) || h["by"] != number64(c.by) {
		p.report("card %d, sent while card %d was handled, has the header %v", c.id, c.by, h)
	}
}

// answer answers in one of the two ways.
func (p *player) answer(ctx *actor.Context[card], c card) {
	if c.id%2 == 0 {
		actor.ReplyFor(ctx, c.id)
	} else {
		actor.Reply(ctx, c, c.id)
	}
}

// keep keeps the promises.
func (p *player) keep() {
	for i, promise := range p.promises {
		promise.Resolve(p.promised[i])
	}
	p.promises, p.promised = nil, nil
}

var errPlanned = errors.New("planned")

// do does one thing. It reports true when the card is out of the callback's hands.
func (p *player) do(ctx *actor.Context[card], c card, o op) (done bool, err error) {
	p.did(o.move)
	m := p.moves[o.move]
	if m.waits && p.life.kind.reentrant && p.begun {
		defer p.interlude(ctx, c)()
	}
	return m.do(p, ctx, c, o)
}

// interlude lets others have the player while a move waits, until what it returns is called.
func (p *player) interlude(ctx *actor.Context[card], c card) (over func()) {
	sender := ctx.Sender()
	p.leave()
	p.now = c.id
	return func() {
		p.enter(ctx, c)
		p.checkHeader(ctx, c)
		if now := ctx.Sender(); now != sender {
			p.report("card %d of %s is from %s, and after a wait from %s", c.id, ctx.Self(), sender, now)
		}
	}
}

// target returns the player that the op is about.
func (p *player) target(o op) (actor.Ref[card], playerKind) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := o.to % len(p.players)
	return p.players[i], p.kinds[i]
}

// next makes a card that the handler sends with its context.
func (p *player) next(ctx *actor.Context[card], o op, to actor.PID) card {
	return p.numbered(card{ops: o.inner, by: p.now}, ctx.Self().PID(), to)
}

// noting makes the message of something that the incarnation has ordered.
func (p *player) noting(note func()) card { return card{owner: p, note: note} }

// spot is a kind of callback.
type spot uint8

const (
	inReceive spot = 1 << iota
	inInit
	inTerminate
	anywhere = inReceive | inInit | inTerminate
)

// move is something that a callback of a player can do.
type move struct {
	name  string
	where spot
	rare  bool // it ends actors: with as many of them as of the others nobody would be left
	ends  bool // in Init: there would be no incarnation
	waits bool // with the handler's own context: a reentrant player handles others meanwhile
	do    func(p *player, ctx *actor.Context[card], c card, o op) (done bool, err error)
}

// act is a move that leaves the card where it is.
func act(f func(p *player, ctx *actor.Context[card], o op)) func(*player, *actor.Context[card], card, op) (bool, error) {
	return func(p *player, ctx *actor.Context[card], _ card, o op) (bool, error) {
		f(p, ctx, o)
		return false, nil
	}
}

// moves lists what players do. The first one stands in for those that do not fit.
func moves() []move {
	all := []move{{name: "tell", where: anywhere, do: act((*player).tell)}}
	all = append(all, messageMoves()...)
	all = append(all, waitMoves()...)
	all = append(all, timeMoves()...)
	return append(all, lifeMoves()...)
}

// messageMoves send, answer and pass on.
func messageMoves() []move {
	return []move{
		{name: "try tell", where: anywhere, do: act((*player).tryTell)},
		{name: "tell by the router", where: anywhere, do: act(func(p *player, ctx *actor.Context[card], o op) {
			c := p.next(ctx, o, p.routed.PID())
			c.shuffled = true
			p.routed.Tell(ctx, c)
		})},
		{name: "tell the clerk", where: anywhere, do: act((*player).tellClerk)},
		{name: "reply", where: inReceive, do: func(p *player, ctx *actor.Context[card], c card, _ op) (bool, error) {
			p.answer(ctx, c)
			return false, nil
		}},
		{name: "promise", where: inReceive, do: (*player).promise},
		{name: "keep promises", where: anywhere, do: act(func(p *player, _ *actor.Context[card], _ op) { p.keep() })},
		{name: "reject promises", where: anywhere, do: act(func(p *player, _ *actor.Context[card], _ op) {
			for _, promise := range p.promises {
				promise.Reject(errPlanned)
			}
			p.promises, p.promised = nil, nil
		})},
		{name: "hold", where: anywhere, do: act((*player).hold)},
		{name: "refuse", where: inReceive, do: (*player).refuse},
		{name: "forward", where: inReceive, do: (*player).forward},
		{name: "forward to the clerk", where: inReceive, do: (*player).forwardToClerk},
		{name: "forward to the wrong one", where: inReceive, do: func(p *player, ctx *actor.Context[card], c card, _ op) (bool, error) {
			if err := actor.Forward(ctx, p.mute); !errors.Is(err, actor.ErrNotAccepted) {
				p.report("card %d was forwarded to who does not take it: %v", c.id, err)
			}
			return false, nil
		}},
		{name: "stash", where: inReceive, do: (*player).putAside},
		{name: "unstash", where: inReceive, do: act((*player).unstash)},
		{name: "become", where: inReceive | inInit, do: act(func(p *player, ctx *actor.Context[card], _ op) { ctx.Become(p.Receive) })},
		{name: "become stacked", where: inReceive | inInit, do: act(func(p *player, ctx *actor.Context[card], _ op) { ctx.BecomeStacked(p.Receive) })},
		{name: "unbecome", where: inReceive | inInit, do: act(func(_ *player, ctx *actor.Context[card], _ op) { ctx.Unbecome() })},
		{name: "look around", where: anywhere, do: act((*player).lookAround)},
	}
}

func (p *player) tell(ctx *actor.Context[card], o op) {
	to, _ := p.target(o)
	to.Tell(ctx, p.next(ctx, o, to.PID()))
}

func (p *player) tryTell(ctx *actor.Context[card], o op) {
	to, _ := p.target(o)
	c := p.next(ctx, o, to.PID())
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := to.TryTell(limited, c); err != nil {
		p.unsent(c.id)
	}
}

func (p *player) tellClerk(ctx *actor.Context[card], o op) {
	if o.n%2 == 0 {
		p.clerk.Tell(ctx, poke{})
		return
	}
	p.clerk.Tell(ctx, p.next(ctx, o, p.clerk.PID()))
}

func (p *player) promise(ctx *actor.Context[card], c card, _ op) (done bool, err error) {
	if p.isAsked(c.id) {
		p.promises, p.promised = append(p.promises, actor.Promise(ctx, c)), append(p.promised, c.id)
	}
	return false, nil
}

func (p *player) forward(ctx *actor.Context[card], c card, o op) (done bool, err error) {
	if !p.mayMove(c.id) {
		return false, nil
	}
	to, _ := p.target(o)
	p.unhandle(c.id)
	return true, actor.Forward(ctx, to)
}

func (p *player) forwardToClerk(ctx *actor.Context[card], c card, _ op) (done bool, err error) {
	if !p.mayMove(c.id) {
		return false, nil
	}
	p.unhandle(c.id)
	return true, actor.Forward(ctx, p.clerk)
}

func (p *player) putAside(ctx *actor.Context[card], c card, _ op) (done bool, err error) {
	if !p.mayMove(c.id) {
		return false, nil
	}
	p.unhandle(c.id)
	p.mu.Lock()
	p.life.stash = append(p.life.stash, c.id)
	p.mu.Unlock()
	return true, ctx.Stash()
}

func (p *player) unstash(ctx *actor.Context[card], _ op) {
	ctx.Unstash()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.expected, p.life.stash = append(p.life.stash, p.life.expected...), nil
}

// lookAround asks for all that a handler can know without waiting.
func (p *player) lookAround(ctx *actor.Context[card], o op) {
	to, _ := p.target(o)
	pid := to.PID()
	same := func(what string, got, want any) {
		if got != want {
			p.report("%s of %s: got %v, want %v", what, pid, got, want)
		}
	}
	text, err := pid.MarshalText()
	var back actor.PID
	same("text", errors.Join(err, back.UnmarshalText(text)), nil)
	same("address read back", back, pid)
	back, err = actor.ParsePID(to.String())
	same("address parsed", back, pid)
	same("error", err, nil)
	same("node", pid.Node(), p.sys.Name())
	same("zero", pid.IsZero() || to.IsZero(), false)
	if ref, err := actor.Lookup[card](p.sys, pid); err == nil {
		same("look-up", ref, to)
	} else {
		same("look-up's error", errors.Is(err, actor.ErrStopped), true)
	}
	if ref, err := actor.LookupPath[card](p.sys, pid.Path()); err == nil {
		same("path", ref.PID().Path(), pid.Path())
	}
	_, err = actor.Lookup[string](p.sys, ctx.Self().PID())
	same("look-up by another type", errors.Is(err, actor.ErrNotAccepted), true)
	same("system", ctx.System(), p.sys)
	if n, ok := ctx.Self().Backlog(); n < 0 || !ok {
		p.report("the backlog of %s, which is here, is %d, %v", ctx.Self(), n, ok)
	}
	if tree, err := p.sys.Inspect(ctx.Parent().Path(), 1); err == nil && tree.Info.Children == 0 {
		p.report("the parent of %s has no children", ctx.Self())
	}
	if at, ok := ctx.Deadline(); ok && p.exact && time.Now().After(at) && ctx.Err() == nil {
		p.report("the asker's deadline is over and the context is not")
	}
	if err := ctx.Err(); (err != nil) != isClosed(ctx.Done()) {
		p.report("the context of %s has the error %v, and Done says otherwise", ctx.Self(), err)
	}
	same("value", ctx.Value(spot(0)), nil)
	ctx.Log().LogAttrs(ctx, slog.LevelDebug, "look around", slog.Int("letters", len(p.sys.DeadLetters())))
	p.sys.Log().LogAttrs(ctx, slog.LevelDebug, "looked around")
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
