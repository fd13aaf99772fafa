package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The generated workload: a tree of players that send each other cards. A card carries what
// its receiver does with it, cards for others included, so that all is drawn before the
// first one is sent and what happens is a matter of the order alone.

// card is the one message type, told and asked.
type card struct {
	actor.Returns[uint64]
	id       uint64 // 0 for what an actor sends itself
	seq      int    // of those from one sender to one receiver
	shuffled bool   // it has been stashed or forwarded: its place in the order is another
	ops      []op
	from     actor.PID
	note     func(*oracle) // what a timer, a watch, a pipe has to report
}

// op is something that a handler does.
type op struct {
	verb  verb
	to    int // which player
	n     int
	inner []op // what the card has that it sends
}

type verb uint8

const (
	opTell verb = iota
	opTryTell
	opAsk
	opAskTimeout
	opAskOutside
	opAskThen
	opGather
	opPipe
	opPipeAsk
	opAfter
	opEvery
	opOn
	opCancel
	opIdle
	opSleep
	opBlocking
	opBecome
	opStack
	opUnbecome
	opStash
	opUnstash
	opWatch
	opUnwatch
	opLink
	opUnlink
	opSpawn
	opStop
	opDrain
	opKill
	opStopSelf
	opErrStop
	opFail
	opPanic
	opForward
	opPromise
	opReply
	opSubscribe
	opUnsubscribe
	verbs
)

// rare verbs end actors: with as many of them as of the others nobody would be left.
var rare = map[verb]bool{
	opStop: true, opDrain: true, opKill: true, opStopSelf: true, opErrStop: true, opFail: true, opPanic: true, opLink: true, opSubscribe: true,
}

// game is a workload under way.
type game struct {
	*oracle
	sys     *actor.System
	rand    *rand.Rand
	players []actor.Ref[card]
	kinds   []playerKind
	routed  actor.Ref[card]
}

// playerKind is how a player was spawned.
type playerKind struct {
	ordered bool // its mailbox keeps the order
	waits   bool // sending to it may wait for room
}

const playersTop = 4

func newGame(sys *actor.System, r *rand.Rand) *game {
	g := &game{oracle: newOracle(sys), sys: sys, rand: r}
	for i := range playersTop {
		g.spawn(sys, fmt.Sprintf("p%d", i))
	}
	top := g.players[:playersTop:playersTop]
	g.routed, _ = actor.Routed(sys, top[0].PID(), func(c card, to func(actor.Ref[card])) {
		if n := int(c.id) % (len(top) + 1); n < len(top) {
			to(top[n])
		}
	})
	for i := range playersTop { // children, spawned from outside by a card
		top[i].Tell(context.Background(), g.numbered(card{ops: []op{{verb: opSpawn, n: r.IntN(3) + 1}}}, actor.PID{}, top[i].PID()))
	}
	return g
}

// spawn starts a player whose nature is drawn.
func (g *game) spawn(parent actor.Spawner, name string) {
	kind := playerKind{ordered: true}
	var opts []actor.SpawnOption
	switch g.rand.IntN(10) {
	case 0:
		opts = append(opts, actor.Bounded(3, actor.Reject))
	case 1:
		opts = append(opts, actor.Bounded(3, actor.DropOldest))
	case 2:
		opts = append(opts, actor.Bounded(3, actor.DropNewest))
	case 3:
		opts, kind.waits = append(opts, actor.Bounded(2, actor.Block)), true
	case 4:
		opts, kind.ordered = append(opts, actor.Priority(func(c card) int { return int(c.id % 3) })), false
	case 5:
		opts, kind.ordered = append(opts, actor.Conflate(func(c card) uint64 { return c.id % 4 })), false
	case 6:
		opts = append(opts, actor.Inline())
	case 7:
		opts = append(opts, actor.Pinned(), actor.Weight(2))
	}
	opts = append(opts, []actor.SpawnOption{actor.Transient, actor.Permanent, actor.Temporary}[g.rand.IntN(3)])
	super := []actor.SupervisionOption{actor.MaxRestarts(3, time.Minute)}
	if g.rand.IntN(2) == 0 {
		super = append(super, actor.Backoff(10*time.Millisecond, 50*time.Millisecond))
	}
	if g.rand.IntN(3) == 0 {
		super = append(super, actor.Exhausted(actor.Stop))
	}
	choice := g.rand.IntN(8)
	super = append(super, actor.Decide(func(error) actor.Directive {
		return []actor.Directive{actor.Resume, actor.Escalate, actor.Stop, 0, 0, 0, 0, 0}[choice]
	}))
	opts = append(opts, actor.Supervise([]actor.Strategy{actor.OneForOne, actor.AllForOne, actor.RestForOne}[g.rand.IntN(3)], super...))
	life := &life{}
	ref := actor.Spawn[card](parent, name, func() *player { return &player{game: g, life: life} }, opts...)
	g.players, g.kinds = append(g.players, ref), append(g.kinds, kind)
	life.kind = kind
}

// deal draws a card's content.
func (g *game) deal(depth int) (ops []op) {
	for range 1 + g.rand.IntN(3) {
		o := op{verb: verb(g.rand.IntN(int(verbs))), to: g.rand.IntN(16), n: 1 + g.rand.IntN(20)}
		if o.verb == opSpawn || rare[o.verb] && g.rand.IntN(4) > 0 {
			o.verb = opTell
		}
		if depth > 0 {
			o.inner = g.deal(depth - 1)
		}
		ops = append(ops, o)
	}
	return ops
}

// numbered makes a card one that the oracle knows.
func (g *game) numbered(c card, from, to actor.PID) card {
	c.id, c.seq = g.send(from, to)
	c.from = from
	return c
}

// play sends n cards from outside.
func (g *game) play(ctx context.Context, n int, between func()) {
	for range n {
		ops := g.deal(2)
		i := g.rand.IntN(playersTop)
		g.mu.Lock()
		to := g.players[i]
		waits := g.kinds[i].waits
		g.mu.Unlock()
		switch g.rand.IntN(6) {
		case 0:
			if !waits {
				g.ask(ctx, actor.PID{}, to, ops)
			}
		case 1:
			g.routed.Tell(ctx, g.numbered(card{ops: ops, shuffled: true}, actor.PID{}, g.routed.PID()))
		default:
			to.Tell(ctx, g.numbered(card{ops: ops, shuffled: true}, actor.PID{}, to.PID()))
		}
		between()
	}
}

// ask asks and checks the answer.
func (g *game) ask(ctx context.Context, from actor.PID, to actor.Ref[card], ops []op) {
	c := g.numbered(card{ops: ops}, from, to.PID())
	g.asked(c.id)
	answer, err := actor.Ask(ctx, to, c)
	g.answered(c.id, answer, err)
}

// life is what an actor keeps over its incarnations, for the oracle.
type life struct {
	kind  playerKind
	busy  bool
	stage int // incarnations that have begun
}

// player is the actor. Its fields are the incarnation's.
type player struct {
	*game
	life        *life
	incarnation int
	watching    map[actor.PID][]*watching
	promises    []*actor.Promised[uint64]
	promised    []uint64
	over        bool
	timers      map[string]*timing
}

// enter and leave bracket the actor's callbacks.
func (p *player) enter(ctx *actor.Context[card]) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.life.busy {
		p.wrong("two callbacks of %s at once", ctx.Self())
	}
	p.life.busy = true
}

func (p *player) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life.busy = false
}

// Init implements actor.Initializer.
func (p *player) Init(ctx *actor.Context[card]) error {
	p.enter(ctx)
	defer p.leave()
	p.life.stage++
	p.incarnation = p.life.stage
	p.watching = make(map[actor.PID][]*watching)
	p.timers = make(map[string]*timing)
	p.began(p)
	return nil
}

// Terminate implements actor.Terminator.
func (p *player) Terminate(ctx *actor.Context[card], _ error) {
	p.enter(ctx)
	defer p.leave()
	p.ended(p)
}

// Receive implements actor.Actor.
func (p *player) Receive(ctx *actor.Context[card], c card) error {
	p.enter(ctx)
	defer p.leave()
	if c.note != nil {
		c.note(p.oracle)
		return nil
	}
	p.handle(ctx.Self().PID(), c, p.life.kind.ordered)
	for _, o := range c.ops {
		if done, err := p.do(ctx, c, o); done || err != nil {
			return err
		}
	}
	if len(p.promises) > 3 {
		p.keep()
	}
	actor.Reply(ctx, c, c.id)
	return nil
}

// keep keeps the promises.
func (p *player) keep() {
	for i, promise := range p.promises {
		promise.Resolve(p.promised[i])
	}
	p.promises, p.promised = nil, nil
}

var errPlanned = errors.New("planned")

// do does one thing. It reports true when the card is out of the handler's hands.
func (p *player) do(ctx *actor.Context[card], c card, o op) (done bool, err error) {
	self := ctx.Self().PID()
	p.mu.Lock()
	i := o.to % len(p.players)
	to, kind := p.players[i], p.kinds[i]
	p.mu.Unlock()
	switch o.verb {
	case opTell:
		to.Tell(ctx, p.numbered(card{ops: o.inner}, self, to.PID()))
	case opTryTell:
		next := p.numbered(card{ops: o.inner}, self, to.PID())
		limited, cancel := context.WithTimeout(ctx, time.Second)
		if err := to.TryTell(limited, next); err != nil {
			p.unsent(next.id)
		}
		cancel()
	case opAsk, opAskTimeout, opAskOutside:
		p.doAsk(ctx, to, kind, o)
	case opAskThen:
		if !kind.waits {
			p.doAskThen(ctx, to, o)
		}
	case opGather:
		p.doGather(ctx, o)
	case opPipe, opPipeAsk:
		p.doPipe(ctx, to, kind, o)
	case opAfter, opEvery, opOn, opCancel, opIdle:
		p.doTimer(ctx, o)
	case opSleep:
		before := time.Now()
		if ctx.Sleep(time.Duration(o.n)*time.Millisecond) == nil {
			p.early("Sleep", before.Add(time.Duration(o.n)*time.Millisecond))
		}
	case opBlocking:
		_ = actor.Blocking(ctx, func() error { return nil })
	case opBecome:
		ctx.Become(p.Receive)
	case opStack:
		ctx.BecomeStacked(p.Receive)
	case opUnbecome:
		ctx.Unbecome()
	case opStash:
		if c.id != 0 && !c.shuffled && p.mayStash(c.id) {
			p.unhandle(c.id)
			return true, ctx.Stash()
		}
	case opUnstash:
		ctx.Unstash()
	case opForward:
		if c.id != 0 && p.mayStash(c.id) {
			p.unhandle(c.id)
			return true, actor.Forward(ctx, to)
		}
	case opPromise:
		if p.isAsked(c.id) {
			p.promises, p.promised = append(p.promises, actor.Promise(ctx, c)), append(p.promised, c.id)
		}
	case opReply:
		actor.Reply(ctx, c, c.id)
	default:
		return p.doLife(ctx, to, o)
	}
	return false, nil
}

// doLife is do for what concerns the life of actors.
func (p *player) doLife(ctx *actor.Context[card], to actor.Ref[card], o op) (done bool, err error) {
	switch o.verb {
	case opWatch:
		p.watch(ctx, p, to.PID())
	case opUnwatch:
		ctx.Unwatch(to.PID())
		p.unwatch(p, to.PID())
	case opLink:
		if to != ctx.Self() {
			ctx.Link(to.PID())
		}
	case opUnlink:
		ctx.Unlink(to.PID())
	case opSpawn:
		if p.incarnation == 1 {
			p.mu.Lock()
			n := len(p.players)
			p.mu.Unlock()
			for i := range o.n {
				p.spawnChild(ctx, fmt.Sprintf("c%d-%d", n, i))
			}
		}
	case opStop:
		to.Stop()
	case opDrain:
		to.Drain()
	case opKill:
		to.Kill()
	case opStopSelf:
		ctx.Stop()
	case opErrStop:
		return true, actor.ErrStop
	case opFail:
		return true, errPlanned
	case opPanic:
		panic("planned")
	case opSubscribe:
		actor.Subscribe(p.sys, p.listener)
	case opUnsubscribe:
		actor.Unsubscribe(p.sys, p.listener)
	default: // none of these
	}
	return false, nil
}

// spawnChild starts a child; children are spawned one game at a time.
func (p *player) spawnChild(ctx *actor.Context[card], name string) {
	p.spawning.Lock()
	defer p.spawning.Unlock()
	p.mu.Lock()
	n := len(p.players)
	p.mu.Unlock()
	if n > 12 {
		return
	}
	life := &life{kind: playerKind{ordered: true}}
	ref := actor.Spawn[card](ctx, name, func() *player { return &player{game: p.game, life: life} })
	p.mu.Lock()
	p.players, p.kinds = append(p.players, ref), append(p.kinds, life.kind)
	p.mu.Unlock()
}

func (p *player) doAsk(ctx *actor.Context[card], to actor.Ref[card], kind playerKind, o op) {
	if kind.waits {
		return
	}
	switch o.verb {
	case opAskTimeout:
		limited, cancel := context.WithTimeout(ctx, time.Duration(o.n)*time.Millisecond)
		defer cancel()
		p.ask(limited, ctx.Self().PID(), to, o.inner)
	case opAskOutside: // whoever loses the handler's context loses the cycle's detection with it
		limited, cancel := context.WithTimeout(context.Background(), time.Duration(o.n)*time.Millisecond)
		defer cancel()
		p.ask(limited, actor.PID{}, to, o.inner)
	default:
		p.ask(ctx, ctx.Self().PID(), to, o.inner)
	}
}

func (p *player) doAskThen(ctx *actor.Context[card], to actor.Ref[card], o op) {
	c := p.numbered(card{ops: o.inner}, ctx.Self().PID(), to.PID())
	p.asked(c.id)
	p.mayEnd(c.id) // with the incarnation
	actor.AskThen(ctx, to, c, func(answer uint64, err error) card {
		return card{note: func(k *oracle) { k.answered(c.id, answer, err) }}
	})
}

func (p *player) doGather(ctx *actor.Context[card], o op) {
	p.mu.Lock()
	var refs []actor.Ref[card]
	for i, k := range p.kinds[:playersTop] {
		if !k.waits {
			refs = append(refs, p.players[i])
		}
	}
	p.mu.Unlock()
	c := p.numbered(card{shuffled: true}, ctx.Self().PID(), ctx.Self().PID())
	p.gathered(c.id, len(refs))
	limited, cancel := context.WithTimeout(ctx, time.Duration(o.n)*time.Millisecond)
	defer cancel()
	n := 0
	for _, a := range actor.Gather(limited, refs, c) {
		if n++; a.Err == nil && a.Value != c.id {
			p.mu.Lock()
			p.wrong("gather %d was answered %d", c.id, a.Value)
			p.mu.Unlock()
		}
	}
	if n != len(refs) {
		p.mu.Lock()
		p.wrong("gather of %d yielded %d", len(refs), n)
		p.mu.Unlock()
	}
}

func (p *player) doPipe(ctx *actor.Context[card], to actor.Ref[card], kind playerKind, o op) {
	come := 0
	actor.Pipe(ctx, func(life context.Context) (int, error) {
		if o.verb == opPipeAsk && !kind.waits {
			limited, cancel := context.WithTimeout(life, time.Duration(o.n)*time.Millisecond)
			defer cancel()
			p.ask(limited, actor.PID{}, to, o.inner)
		}
		return o.n, nil
	}, func(n int, err error) card {
		return card{note: func(k *oracle) {
			k.mu.Lock()
			defer k.mu.Unlock()
			if come++; come > 1 || n != o.n || err != nil {
				k.wrong("outcome of a pipe: %d, %v, the %d. time", n, err, come)
			}
		}}
	})
}
