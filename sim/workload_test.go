package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The generated workload: a tree of players that send each other cards. A card carries what
// its receiver does with it, cards for others included, so that all is drawn before the
// first one is sent and what happens is a matter of the order alone.

// card is the one message type of players, told and asked.
type card struct {
	actor.Returns[uint64]
	id       uint64 // 0 for what an actor sends itself
	seq      int    // of those from one sender to one receiver
	shuffled bool   // its place among the sender's cards is not known
	ops      []op
	from     actor.PID
	by       uint64  // the card that the sender was handling
	owner    *player // the incarnation that has ordered the note
	note     func()  // what a timer, a watch, a pipe has to report
	sibling  bool    // it is of a watch of a sibling, whose end may have restarted the owner: then the next incarnation gets it
}

// op is something that a callback does.
type op struct {
	move  int
	to    int // which player
	n     int
	draw  uint64 // for what must be drawn later
	inner []op   // what the card has that it sends
}

// game is a workload under way.
type game struct {
	*oracle
	sys     *actor.System
	moves   []move
	players []actor.Ref[card] // guarded by the oracle's mu, as is kinds
	kinds   []playerKind
	born    int // guarded by the oracle's mu
	routed  actor.Ref[card]
	clerk   actor.Ref[any]

	restarted atomic.Int32 // by orders

	mute    actor.Ref[string]
	headers bool // all cards carry headers
	exact   bool // time passes only when nobody has anything to do
	inline  bool // there is an actor that runs on its senders' stacks; guarded by the oracle's mu
}

// playerKind is how a player was spawned, and what it does at its beginning and its end.
type playerKind struct {
	ordered bool // its mailbox keeps the order
	waits   bool // sending to it may wait for room

	reentrant bool
	gate      *gate // nil for most
	first     []op
	last      []op
}

const (
	playersTop = 4
	playersAll = 24
)

// newGame starts the players at the top, in a system that is made with the options of the
// game.
func newGame(r *rand.Rand, newSystem func(...actor.SystemOption) *actor.System) *game {
	g := &game{moves: moves(), headers: r.IntN(3) == 0}
	opts := []actor.SystemOption{actor.BeforeSpawn(g.mayBeSpawned), actor.WithMaxWaiting(1 + r.IntN(20)), actor.WithBulkhead("side", 2, 3)}
	if g.headers {
		opts = append(opts, actor.BeforeSend(addHeader))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, actor.AroundReceive(g.around))
	}
	g.sys = newSystem(opts...)
	g.oracle = newOracle(g.sys, len(g.moves))
	g.clerk = actor.Spawn[any](g.sys, "clerk", func() *clerk { return &clerk{game: g} })
	g.mute = actor.SpawnFunc(g.sys, "mute", func(*actor.Context[string], string) error { return nil })
	for i := range playersTop {
		_, _ = g.spawn(g.sys, fmt.Sprintf("p%d", i), r, false)
	}
	top := g.players[:playersTop:playersTop]
	g.routed, _ = actor.Routed(g.sys, top[0].PID(), func(c card, to func(actor.Ref[card])) {
		if n := int(c.id) % (len(top) + 1); n < len(top) {
			to(top[n])
		}
	})
	return g
}

// addHeader says which card it is and which one the sender was handling.
func addHeader(_ context.Context, s *actor.Sending) error {
	if c, ok := s.Message.(card); ok {
		s.Header = actor.Header{"id": fmt.Sprint(c.id), "by": s.Header["id"]}
	}
	return nil
}

// around is middleware: it checks what it is told and keeps some cards for itself.
func (g *game) around(ctx context.Context, r actor.Reception, next func() error) error {
	c, ok := r.Message.(card)
	if !ok || c.id == 0 {
		return next()
	}
	if r.From != c.from || fmt.Sprint(r.Header) != fmt.Sprint(actor.HeaderOf(ctx)) {
		g.report("card %d from %s came to the middleware from %s with %v", c.id, c.from, r.From, r.Header)
	}
	if c.id%17 != 5 {
		return next()
	}
	g.consume(c.id, r.To)
	if c.id%2 == 0 {
		return nil
	}
	return errPlanned
}

// mayBeSpawned is middleware that refuses a name.
func (g *game) mayBeSpawned(s actor.Spawning) error {
	if s.Name == "unwanted" {
		return errPlanned
	}
	return nil
}

// spawn starts a player whose nature is drawn.
func (g *game) spawn(parent actor.Spawner, name string, r *rand.Rand, try bool) (ref actor.Ref[card], err error) {
	g.mu.Lock()
	tooMany := g.born >= playersAll
	g.born++
	g.mu.Unlock()
	if tooMany {
		return ref, nil
	}
	opts, kind := g.nature(r)
	if parent == actor.Spawner(g.sys) {
		kind.first = nil // there is nobody to deal with yet
	}
	life := &life{kind: kind}
	newPlayer := func() *player { return &player{game: g, life: life} }
	props := actor.NewProps[card](newPlayer).With(opts...)
	byProps := len(opts)%2 == 0
	switch {
	case try && byProps:
		ref, err = props.TrySpawn(parent, name)
	case try:
		ref, err = actor.TrySpawn[card](parent, name, newPlayer, opts...)
	case byProps:
		ref = props.Spawn(parent, name)
	default:
		ref = actor.Spawn[card](parent, name, newPlayer, opts...)
	}
	if err != nil {
		return ref, err
	}
	g.mu.Lock()
	g.players, g.kinds = append(g.players, ref), append(g.kinds, kind)
	g.mu.Unlock()
	return ref, nil
}

// nature draws how a player is spawned.
func (g *game) nature(r *rand.Rand) (opts []actor.SpawnOption, kind playerKind) {
	kind = playerKind{ordered: true}
	home := false // of its own
	switch r.IntN(12) {
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
		home = true
		opts = append(opts, actor.Inline())
		g.mu.Lock()
		g.inline = true
		g.mu.Unlock()
	case 7:
		home = true
		opts = append(opts, actor.Pinned(), actor.Weight(2), actor.OnBulkhead("side"))
	case 8:
		opts = append(opts, actor.AroundReceive(g.around))
	}
	if kind.reentrant = !home && r.IntN(4) == 0; kind.reentrant {
		opts = append(opts, actor.Reentrant())
	} else if !home && r.IntN(4) == 0 {
		kind.gate = &gate{}
		opts = append(opts, actor.Gated(kind.gate))
	}
	if r.IntN(3) == 0 {
		kind.first = g.deal(r, 1, inInit)
	}
	if r.IntN(3) == 0 {
		kind.last = g.deal(r, 1, inTerminate)
	}
	if len(kind.first)+len(kind.last) == 0 && kind.gate == nil && r.IntN(2) == 0 { // one that wakes itself at its end never rests
		opts = append(opts, actor.Passivate(5*time.Millisecond))
	}
	opts = append(opts, []actor.SpawnOption{actor.Transient, actor.Permanent, actor.Temporary}[r.IntN(3)])
	return append(opts, supervising(r)), kind
}

// supervising draws how a player looks after its children.
func supervising(r *rand.Rand) actor.SuperviseOption {
	opts := []actor.SupervisionOption{actor.MaxRestarts(3, time.Minute)}
	if r.IntN(2) == 0 {
		opts = append(opts, actor.Backoff(10*time.Millisecond, 50*time.Millisecond))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, actor.Exhausted(actor.Stop))
	}
	switch choice := r.IntN(8); choice {
	case 0, 1, 2:
		opts = append(opts, actor.Decide(func(error) actor.Directive {
			return []actor.Directive{actor.Resume, actor.Escalate, actor.Stop}[choice]
		}))
	case 3: // in turns
		n := new(atomic.Int32)
		opts = append(opts, actor.Decide(func(error) actor.Directive {
			return []actor.Directive{actor.Resume, actor.Restart, actor.Escalate}[n.Add(1)%3]
		}))
	case 4:
		opts = append(opts, actor.Decide(func(error) actor.Directive { panic("planned") }))
	}
	return actor.Supervise([]actor.Strategy{actor.OneForOne, actor.AllForOne, actor.RestForOne}[r.IntN(3)], opts...)
}

// deal draws what a callback does.
func (g *game) deal(r *rand.Rand, depth int, where spot) (ops []op) {
	for range 1 + r.IntN(3) {
		o := op{move: r.IntN(len(g.moves)), to: r.IntN(playersAll), n: 1 + r.IntN(20), draw: r.Uint64()}
		m := &g.moves[o.move]
		if m.rare && r.IntN(4) > 0 || m.where&where == 0 {
			o.move = 0
		}
		if depth > 0 {
			o.inner = g.deal(r, depth-1, inReceive)
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
func (g *game) play(ctx context.Context, r *rand.Rand, n int, between func()) {
	for range n {
		ops := g.deal(r, 2, inReceive)
		i := r.IntN(playersTop)
		g.mu.Lock()
		to := g.players[i]
		waits := g.kinds[i].waits
		g.mu.Unlock()
		switch r.IntN(8) {
		case 0:
			if !waits {
				g.ask(ctx, card{ops: ops}, actor.PID{}, to)
			}
		case 1:
			g.routed.Tell(ctx, g.numbered(card{ops: ops, shuffled: true}, actor.PID{}, g.routed.PID()))
		case 2:
			g.clerk.Tell(ctx, g.numbered(card{ops: ops, shuffled: true}, actor.PID{}, g.clerk.PID()))
		case 3:
			g.look(ctx, to)
		default:
			to.Tell(ctx, g.numbered(card{ops: ops, shuffled: true}, actor.PID{}, to.PID()))
		}
		between()
	}
}

// look looks at the system from outside.
func (g *game) look(ctx context.Context, to actor.Ref[card]) {
	d, err := g.sys.Detail(ctx, to.PID())
	if err == nil && d.PID != to.PID().String() {
		g.report("the detail of %s is that of %s", to.PID(), d.PID)
	}
	tree, err := g.sys.Inspect("/", 3)
	if err != nil || len(tree.Children) > 3 || tree.More != (tree.Info.Children > 3) {
		g.report("the root looks like %+v, %v", tree, err)
	}
	if st := g.sys.Stats(); st.Actors < 0 || st.Waiting < 0 || st.Queued < 0 {
		g.report("the counters are %+v", st)
	}
	seen := make(map[string]bool)
	for info := range g.sys.Actors() {
		if seen[info.PID] || info.Path == "/" {
			g.report("all actors have %s twice, or the root", info.PID)
		}
		seen[info.PID] = true
	}
}

// ask asks and checks the answer.
func (g *game) ask(ctx context.Context, c card, from actor.PID, to actor.Ref[card]) {
	g.askUntil(ctx, g.limit(ctx), c, from, to)
}

// askUntil is ask for who knows when it must have ended.
func (g *game) askUntil(ctx context.Context, limit time.Time, c card, from actor.PID, to actor.Ref[card]) {
	c = g.numbered(c, from, to.PID())
	g.asked(c.id)
	if c.id%3 == 0 {
		answer, err := actor.AskFor[uint64](ctx, to, c)
		g.answered(c.id, answer, err, limit)
		return
	}
	answer, err := actor.Ask(ctx, to, c)
	g.answered(c.id, answer, err, limit)
}

// limit is when an ask with that context must have ended, the zero time when that cannot
// be said.
func (g *game) limit(ctx context.Context) time.Time {
	g.mu.Lock()
	inline := g.inline
	g.mu.Unlock()
	if !g.exact || inline { // who asks an inline actor is in its handler
		return time.Time{}
	}
	if at, ok := ctx.Deadline(); ok {
		if now := time.Now(); at.Before(now) {
			return now // it ends at once
		}
		return at
	}
	return time.Now().Add(5 * time.Second)
}

// clerk is an actor that takes anything.
type clerk struct {
	*game
	quiet time.Time
}

type (
	poke  struct{ actor.Unobtrusive }
	query struct{ actor.Returns[string] }
	bored struct{}
)

const patienceOfClerk = 30 * time.Millisecond

// Init implements actor.Initializer.
func (k *clerk) Init(ctx *actor.Context[any]) error {
	k.quiet = time.Now()
	ctx.SetReceiveTimeout(patienceOfClerk, bored{})
	return nil
}

// Receive implements actor.Actor.
func (k *clerk) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case card:
		k.consume(m.id, ctx.Self().PID())
		actor.Reply(ctx, m, m.id)
	case query:
		actor.Reply(ctx, m, "yes")
	case bored:
		k.early("the clerk's receive timeout", k.quiet.Add(patienceOfClerk))
		ctx.SetReceiveTimeout(0, nil)
	case poke:
		return nil
	default:
		return fmt.Errorf("a clerk got a %T", m)
	}
	k.quiet = time.Now()
	return nil
}

// Inspect implements actor.Inspector.
func (k *clerk) Inspect() any { return k.quiet }
