package attack_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// mail is what actors are told and asked. Its answer is the letter's number.
type mail struct {
	actor.Returns[uint64]
	l *letter
}

// letter is a message, with what becomes of it.
type letter struct {
	id       uint64
	seed     uint64 // of what its handler does
	to       *node
	from     *node
	outsider int
	seq      int // of those from one sender to one receiver, 0 if their order is open
	hops     int // letters of letters that it may lead to
	copies   int
	late     bool // its answer may come late or never
	asked    bool
	ping     bool
	last     bool   // it is of those before a shutdown
	behind   bool   // it was sent by a callback that had been left behind
	note     func() // what a timer, a watch, an answer has to report: nobody has sent it

	entries, stashes, forwards, dead atomic.Int64
	refused, unsure, moved           atomic.Bool
	abandoned                        atomic.Bool  // its handler was left behind
	reason                           atomic.Value // of its dead letter
	outcome                          atomic.Value // the text of the error with which an ask has ended

	mu        sync.Mutex
	forwarded []*node
}

func (l *letter) String() string {
	if l == nil {
		return "no letter"
	}
	return fmt.Sprintf("letter %d from %s/%d to %s (hops %d, asked %t, late %t, handled %d, forwarded %d, outcome %v)", l.id, l.from, l.outsider, l.to, l.hops, l.asked, l.late, l.entries.Load(), l.forwards.Load(), l.outcome.Load())
}

func (l *letter) anyForward(f func(*node) bool) bool {
	l.mu.Lock()
	all := slices.Clone(l.forwarded)
	l.mu.Unlock()
	return slices.ContainsFunc(all, f)
}

// node is an actor, over all of its incarnations.
type node struct {
	w         *world
	index     int
	nature    string
	parent    *node
	ref       actor.Ref[mail]
	inline    bool
	reentrant bool
	waitsRoom bool
	classes   uint64      // letters whose numbers are the same modulo that keep their order, 0 for all
	bulkhead  *bulkhead   // nil for the workers of the system
	shared    bool        // its handlers run on workers
	exceeds   atomic.Bool // a handler has waited in such a way that another worker may have taken the place of its
	barren    bool        // it has no children
	gated     bool
	pool      bool         // a Kill takes it away from its handler
	hurried   bool         // it ends within milliseconds when it is told to
	toldAt    atomic.Int64 // the tick at which it was, if it is hurried
	left      atomic.Int64 // the moment at which its last handler has
	killed    atomic.Bool
	inside    atomic.Int64 // which handler runs, 0 for none
	edges     edges

	mu       sync.Mutex
	children []*node
	lives    []*player

	seen map[source]int // what has been handled last; of the handlers
	gave map[*node]int  // what has been sent last, by receiver; of the handlers
}

func (n *node) anyChild(f func(*node) bool) bool {
	n.mu.Lock()
	all := slices.Clone(n.children)
	n.mu.Unlock()
	for _, c := range all {
		if f(c) || c.anyChild(f) {
			return true
		}
	}
	return false
}

func (n *node) kill() {
	n.killed.Store(true)
	n.ref.Kill()
}

// told notes that it was told to stop.
func (n *node) told() {
	if n.hurried {
		n.toldAt.CompareAndSwap(0, n.w.control.ticks.Load())
	}
}

// mayBeKilled reports whether its handlers may be left behind, so that what they send has no effect.
func (n *node) mayBeKilled() bool {
	if n == nil {
		return false
	}
	if n.w.killing.Load() {
		return true
	}
	for ; n != nil; n = n.parent {
		if n.killed.Load() {
			return true
		}
	}
	return false
}

// enter says that a handler begins or goes on, leave that it returns or waits.
func (n *node) enter(run int64) {
	if was := n.inside.Swap(run); was != 0 {
		n.w.Report("two handlers of %s at once", n)
	}
}

func (n *node) leave(run int64) {
	n.left.Store(n.w.moment.Add(1))
	n.inside.CompareAndSwap(run, 0)
}

// player is the state of an actor: one incarnation.
type player struct {
	n          *node
	count      int
	terminated int
	ready      bool  // Init has succeeded
	behaviors  []int // what Become has set, the last one counts
	born       int
	timers     map[string]*ticking
	run        int64
	starting   bool
}

var errPlanned = errors.New("planned")

// spawn starts an actor, whose nature is drawn.
func (w *world) spawn(parent actor.Spawner, of *node, r *rand.Rand) {
	if w.born.Load() > 60 {
		return
	}
	n := &node{w: w, index: int(w.born.Add(1)), parent: of, seen: make(map[source]int), gave: make(map[*node]int)}
	opts := w.nature(n, r)
	seed := r.Uint64()
	var e *edge
	if of != nil {
		of.mu.Lock()
		of.children = append(of.children, n)
		of.mu.Unlock()
		e = w.begin(of, n, "spawn", nil)
		defer w.end(e)
	}
	starts := 0
	newPlayer := func() *player {
		starts++
		return &player{n: n}
	}
	ref, err := actor.TrySpawn[mail](parent, "", func() *starter {
		return &starter{player: newPlayer(), seed: seed + uint64(starts), first: starts == 1}
	}, opts...)
	if err != nil {
		if !errors.Is(err, errPlanned) && !errors.Is(err, actor.ErrStopped) && !errors.Is(err, errUnsettled) {
			w.Report("spawn %s: %v", n, err)
		}
		return
	}
	n.ref = ref
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes.Store(new(append(w.all()[:len(w.all()):len(w.all())], n)))
}

// starter is a player with what its Init does.
type starter struct {
	*player
	seed  uint64
	first bool
}

func (w *world) nature(n *node, r *rand.Rand) (opts []actor.SpawnOption) {
	add := func(name string, o ...actor.SpawnOption) {
		n.nature += " " + name
		opts = append(opts, o...)
	}
	n.barren = r.IntN(2) == 0 || w.children == 0
	home := true
	switch {
	case r.IntN(14) < w.inline:
		home = false
		n.inline = true
		add("inline", actor.Inline())
	case r.IntN(10) == 0:
		home = false
		add("pinned", actor.Pinned())
	case w.bonding > 0 && r.IntN(4) == 0:
		n.gated = true
		add("gated", actor.Gated(&gate{w: w, seed: r.Uint64()}))
	case r.IntN(3) == 0:
		n.reentrant = true
		add("reentrant", actor.Reentrant())
	}
	n.settle(r, add)
	n.shared = home
	if r.IntN(14) < w.bounded {
		most := 1 + r.IntN(4)
		switch r.IntN(7) {
		case 0:
			add("reject", actor.Bounded(most, actor.Reject))
		case 1:
			add("dropOldest", actor.Bounded(most, actor.DropOldest))
		case 2:
			add("dropNewest", actor.Bounded(most, actor.DropNewest))
		case 3, 4:
			n.waitsRoom = true
			add("block", actor.Bounded(most, actor.Block))
		}
		switch r.IntN(6) {
		case 0:
			n.classes = 3
			add("priority", actor.Priority(func(m mail) int { return int(m.id() % 3) }))
		case 1:
			n.classes = 4
			add("conflate", actor.Conflate(func(m mail) uint64 { return m.id() % 4 }))
		}
	}
	if w.groups || w.faults > 0 {
		opts = append(opts, actor.Supervise(actor.Strategy(r.IntN(3)*btoi(w.groups)), actor.MaxRestarts(200, time.Second), actor.Backoff(0, time.Duration(r.IntN(2000))*time.Microsecond),
			actor.Decide(func(err error) actor.Directive {
				switch r := errSeed(err); {
				case r%7 == 0:
					return actor.Resume
				case r%11 == 0:
					return actor.Stop
				case r%13 == 0:
					return actor.Escalate
				}
				return actor.Restart
			})))
		add("", []actor.Lifetime{actor.Transient, actor.Permanent, actor.Temporary, actor.Transient}[r.IntN(4)])
	}
	n.pool = home && !n.reentrant
	if w.clings > 0 {
		switch r.IntN(6) {
		case 0:
			n.hurried = true
			n.killed.Store(true)
			add("hurried", actor.StopWithin(time.Duration(1+r.IntN(60))*time.Millisecond))
		case 1:
			add("patient", actor.StopWithin(10*time.Minute))
		}
	}
	if r.IntN(5) == 0 && home && !n.gated {
		w.restless.Store(true)
		add("passivate", actor.Passivate(time.Duration(1+r.IntN(3))*time.Millisecond))
	}
	if r.IntN(8) == 0 {
		add("weight", actor.Weight(1+r.IntN(16)))
	}
	n.fit(r, add)
	return opts
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (m mail) id() uint64 {
	if m.l == nil {
		return 0
	}
	return m.l.id
}

// planned is a failure that says by itself what is to be done about it.
type planned uint64

func (p planned) Error() string        { return fmt.Sprintf("planned %d", uint64(p)) }
func (p planned) Is(target error) bool { return target == errPlanned }

func errSeed(err error) uint64 {
	if p, ok := errors.AsType[planned](err); ok {
		return uint64(p)
	}
	return 1
}

// pick chooses somebody to send to, nil for nobody.
func (w *world) pick(from *node, r *rand.Rand) *node {
	all := w.all()
	if len(all) == 0 {
		return nil
	}
	if r.IntN(4) > 0 && len(all) > 12 {
		all = all[len(all)-12:]
	}
	for range 4 {
		n := all[r.IntN(len(all))]
		if !w.acyclic || from == nil || n.index > from.index {
			return n
		}
	}
	return nil
}

// newLetter writes a letter; from is nil for outsiders, r for what needs no handler.
func (w *world) newLetter(from, to *node, r *rand.Rand) *letter {
	l := &letter{from: from, to: to, copies: 1}
	if r != nil {
		l.seed, l.hops, l.late = r.Uint64(), r.IntN(4), r.IntN(20) < w.late
	}
	w.budget.Add(-1)
	w.mu.Lock()
	defer w.mu.Unlock()
	l.id = uint64(len(w.sent) + 1)
	w.sent = append(w.sent, l)
	return l
}

// sent gives the letter its place among those of its sender.
func (l *letter) sent() {
	var told map[*node]int
	if from := l.from; from == nil {
		told = l.to.w.toldBy[l.outsider]
	} else if from.reentrant && l.to.waitsRoom {
		return
	} else {
		told = from.gave
	}
	told[l.to]++
	l.seq = told[l.to]
}

// ask asks. from is nil for outsiders.
func (w *world) ask(ctx context.Context, p *player, to *node, l *letter, limited bool, opts ...actor.WaitOption) (uint64, error) {
	l.asked = true
	var from *node
	if p != nil {
		from = p.n
	}
	kind := "ask"
	if _, own := ctx.(*actor.Context[mail]); p != nil && !own {
		kind = "ask with a derived context"
	}
	e := w.begin(from, to, kind, l)
	defer w.end(e)
	got, err := actor.Ask(ctx, to.ref, mail{l: l}, opts...)
	w.asked(e, l, got, err, limited)
	return got, err
}

// asked judges the outcome of an ask.
func (w *world) asked(e *edge, l *letter, got uint64, err error, limited bool) {
	sure := !e.from.mayBeKilled()
	l.outcome.Store(fmt.Sprint(err))
	switch {
	case err == nil:
		w.counts.asks.Add(1)
		if got != l.id || l.abandoned.Load() {
			w.Report("answer: %s got %d, and was left behind: %t", l, got, l.abandoned.Load())
		}
		if l.entries.Load() == 0 {
			w.Report("answer: %s has one, and was not handled", l)
		}
	case errors.Is(err, actor.ErrDeadlock):
		sure = false
		w.deadlock(e, err)
	case errors.Is(err, actor.ErrTooManyWaiting):
		sure = false
		w.counts.tooMany.Add(1)
	case errors.Is(err, context.DeadlineExceeded):
		sure = false
		w.counts.timeouts.Add(1)
		if !limited {
			w.Report("stall: %s has timed out: %v", l, err)
		}
	case errors.Is(err, context.Canceled): // also while it waited for room
		sure = false
	case !endsAsk(err):
		w.Report("ask: %s ended with %v", l, err)
	}
	if !sure {
		l.unsure.Store(true)
	}
}

// endsAsk reports whether an ask may have ended with err, but for what its asker does.
func endsAsk(err error) bool {
	pe := (*actor.PanicError)(nil)
	return errors.Is(err, actor.ErrStopped) || errors.Is(err, actor.ErrUnhandled) || errors.Is(err, errPlanned) ||
		errors.Is(err, actor.ErrMailboxFull) || errors.As(err, &pe) || strings.Contains(err.Error(), "runtime.Goexit")
}

func (w *world) tryTell(ctx context.Context, p *player, to *node, l *letter) {
	var from *node
	if p != nil {
		from = p.n
	}
	e := w.begin(from, to, "room", l)
	defer w.end(e)
	err := to.ref.TryTell(ctx, mail{l: l})
	switch {
	case err == nil:
		if from.mayBeKilled() {
			l.unsure.Store(true)
		}
		return
	case errors.Is(err, actor.ErrDeadlock):
		w.deadlock(e, err)
	case !errors.Is(err, actor.ErrStopped) && !errors.Is(err, actor.ErrMailboxFull) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled):
		w.Report("try: %s ended with %v", l, err)
	}
	l.refused.Store(true)
}

// note is a message that an actor orders for itself.
func (p *player) note(f func()) mail {
	p.n.w.orders.Add(1)
	return mail{l: &letter{to: p.n, note: f}}
}

// Init implements [actor.Initializer].
func (s *starter) Init(ctx *actor.Context[mail]) error {
	n := s.n
	s.run = n.w.moment.Add(1)
	n.enter(s.run)
	defer n.leave(s.run)
	n.mu.Lock()
	n.lives = append(n.lives, s.player)
	n.mu.Unlock()
	r := rand.New(rand.NewPCG(s.seed, 3))
	s.starting = true
	defer func() { s.starting = false }()
	if n.w.faults > 0 && !n.w.last.Load() && r.IntN(40) == 0 {
		return planned(r.Uint64())
	}
	// A later Init may wait for a sibling that starts after it, and so may the Init of who is on its stack.
	limited := !s.first || n.w.groups && n.parent != nil && n.parent.inline
	for range r.IntN(3) {
		s.waitOrTell(ctx, r, limited, &letter{hops: 2})
	}
	if !s.first && s.clings(r) && s.cling(ctx, r) {
		return s.haunt(ctx, r, mail{})
	}
	s.ready = true
	return nil
}

// Terminate implements [actor.Terminator].
func (s *starter) Terminate(ctx *actor.Context[mail], _ error) {
	n := s.n
	s.run = n.w.moment.Add(1)
	n.enter(s.run)
	defer n.leave(s.run)
	if s.terminated++; s.terminated > 1 || !s.ready {
		n.w.Report("%s: Terminate number %d of an incarnation, ready %t", n, s.terminated, s.ready)
	}
	r := rand.New(rand.NewPCG(s.seed, 4))
	s.starting = true
	if r.IntN(4) == 0 && n.w.budget.Load() > 0 {
		s.waitOrTell(ctx, r, true, &letter{hops: 1})
	}
	if s.clings(r) && s.cling(ctx, r) {
		_ = s.haunt(ctx, r, mail{})
	}
}

// waitOrTell does something that may wait.
func (p *player) waitOrTell(ctx *actor.Context[mail], r *rand.Rand, limited bool, l *letter) {
	if r.IntN(10) < p.n.w.asks {
		p.doAsk(ctx, r, limited, l)
	} else {
		p.doTell(ctx, r, l)
	}
}

// Receive implements [actor.Actor].
func (p *player) Receive(ctx *actor.Context[mail], m mail) error {
	p.handledBy(0)
	return p.receive(ctx, m)
}

func (p *player) receive(ctx *actor.Context[mail], m mail) error {
	n, w, l := p.n, p.n.w, m.l
	run := w.moment.Add(1)
	n.enter(run)
	p.run = run
	defer func() { n.leave(run) }()
	p.count++
	if l.note != nil {
		w.notes.Add(1)
		l.note()
		return nil
	}
	l.entries.Add(1)
	p.inOrder(l)
	if l.ping {
		actor.Reply(ctx, m, l.id)
		return nil
	}
	r := rand.New(rand.NewPCG(l.seed, uint64(l.entries.Load())))
	if p.clings(r) && p.cling(ctx, r) {
		return p.haunt(ctx, r, m)
	}
	if l.last {
		actor.Reply(ctx, m, l.id)
		return nil
	}
	if l.late && l.entries.Load() < 3 {
		switch r.IntN(3) {
		case 0:
			l.moved.Store(true)
			if ctx.Stash() == nil {
				l.stashes.Add(1)
				ctx.After("unstash", time.Duration(r.IntN(2000))*time.Microsecond, p.note(func() { ctx.Unstash() }))
				return nil
			}
		case 1:
			p.promise(ctx, m, r)
			return nil
		}
	}
	if r.IntN(6) == 0 {
		ctx.Unstash()
	}
	if l.forwards.Load() < 3 && r.IntN(10) == 0 {
		if to := w.pick(n, r); to != nil {
			p.forward(ctx, l, to)
			return nil
		}
	}
	for range r.IntN(3) {
		p.act(ctx, r, l)
		p.run = run
	}
	return p.finish(ctx, m, r)
}

func (p *player) forward(ctx *actor.Context[mail], l *letter, to *node) {
	l.moved.Store(true)
	l.mu.Lock()
	l.forwarded = append(l.forwarded, to)
	l.mu.Unlock()
	var e *edge
	if to.inline {
		e = p.n.w.begin(p.n, to, "tell", l)
		defer p.n.w.end(e)
	}
	l.forwards.Add(1)
	if err := actor.Forward(ctx, to.ref); err != nil {
		l.forwards.Add(-1)
		if !p.n.mayBeKilled() {
			p.n.w.Report("forward: %s: %v", l, err)
		}
	} else if p.n.mayBeKilled() || p.n.gated && l.asked { // the asker is told, and nobody else, if it is dropped
		l.unsure.Store(true)
	}
}

func (p *player) promise(ctx *actor.Context[mail], m mail, r *rand.Rand) {
	promised, id, w := actor.Promise(ctx, m), m.l.id, p.n.w
	switch r.IntN(3) {
	case 0: // never kept
	case 1:
		w.pending.Add(1)
		go func() {
			defer w.pending.Add(-1)
			runtime.Gosched()
			promised.Resolve(id)
		}()
	default:
		ctx.After("promise", time.Duration(r.IntN(1000))*time.Microsecond, p.note(func() { promised.Resolve(id) }))
	}
}

// finish answers, or fails.
func (p *player) finish(ctx *actor.Context[mail], m mail, r *rand.Rand) error {
	w, n := p.n.w, p.n
	if r.IntN(60) < w.faults && !w.last.Load() && (!w.strict || n.parent == nil && n.barren) {
		switch r.IntN(4) {
		case 0:
			panic("planned")
		case 1:
			if !n.inline { // else it would end whoever sends
				runtime.Goexit()
			}
		default:
			return planned(r.Uint64())
		}
	}
	switch r.IntN(12) {
	case 0:
		return nil
	case 1:
		return actor.Refuse(ctx, errPlanned)
	case 2:
		if r.IntN(40) < w.ends && !w.last.Load() { // else what waits for a shutdown is not handled
			return actor.ErrStop
		}
	}
	actor.Reply(ctx, m, m.l.id)
	return nil
}

// act does one thing.
func (p *player) act(ctx *actor.Context[mail], r *rand.Rand, l *letter) {
	w, n := p.n.w, p.n
	if l.hops == 0 || w.budget.Load() <= 0 {
		return
	}
	limited := !w.strict
	if w.computes > 0 && r.IntN(20) < w.computes {
		p.compute(time.Duration(r.IntN(500)) * time.Microsecond)
		return
	}
	if w.timers > 0 && r.IntN(20) < w.timers {
		p.doTimer(ctx, r)
		return
	}
	if w.bonding > 0 && r.IntN(20) < w.bonding {
		p.doBond(ctx, r)
		return
	}
	if w.outcomes > 0 && r.IntN(20) < w.outcomes {
		p.doOutcome(ctx, r, l)
		return
	}
	switch r.IntN(12) {
	case 0:
		p.doAskThen(ctx, r, l)
	case 1:
		if !n.barren && r.IntN(10) < w.children {
			w.spawn(ctx, n, r)
		}
	case 2:
		if to := w.pick(nil, r); to != n {
			w.disturb(to, r)
		}
	case 3:
		p.doWatch(ctx, r)
	case 4:
		p.doTry(ctx, r, l)
	case 5:
		p.doPause(ctx, r)
	case 6:
		p.doFuture(ctx, r, l)
	case 7:
		p.doEnd(ctx, r)
	case 8:
		if w.late > 0 {
			ctx.After(fmt.Sprint(r.IntN(3)), time.Duration(r.IntN(2000))*time.Microsecond, p.note(func() {}))
		}
	default:
		p.waitOrTell(ctx, r, limited, l)
	}
}

// isLimited reports whether the asker of the handler's message gives up soon.
func isLimited(ctx context.Context) bool {
	when, ok := ctx.Deadline()
	return ok && time.Until(when) < time.Minute
}

// within is the time of a wait that is limited.
func within(limited bool, r *rand.Rand) (opts []actor.WaitOption) {
	if limited {
		opts = append(opts, actor.Within(time.Duration(1+r.IntN(1500))*time.Microsecond))
	}
	return opts
}

// wait waits with the handler's own context: a reentrant actor may handle other messages meanwhile.
func (p *player) wait(own bool, f func()) {
	n, run := p.n, p.run
	if aside := own && n.reentrant && !p.starting; aside {
		n.leave(run)
		through := false
		defer func() {
			if through {
				n.enter(run)
				p.run = run
			}
		}()
		f()
		through = true
		return
	}
	f()
}

func (p *player) letter(r *rand.Rand, to *node, of *letter) *letter {
	l := p.n.w.newLetter(p.n, to, r)
	l.hops = min(l.hops, of.hops-1)
	return l
}

// request is letter for what is asked and whose outcome the handler does not wait for.
func (p *player) request(r *rand.Rand, to *node, of *letter) *letter {
	l := p.letter(r, to, of)
	l.asked = true
	l.unsure.Store(true)
	l.sent()
	return l
}

func (p *player) doTell(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	w, n := p.n.w, p.n
	to := w.pick(nil, r)
	if to == nil || w.acyclic && to.inline && to.index <= n.index {
		return
	}
	l := p.letter(r, to, of)
	l.sent()
	if to.inline {
		defer w.end(w.begin(n, to, "tell", l))
	}
	defer func() {
		if n.mayBeKilled() {
			l.unsure.Store(true)
		}
	}()
	to.ref.Tell(ctx, mail{l: l})
}

func (p *player) doTry(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	to := p.n.w.pick(p.n, r)
	if to == nil {
		return
	}
	l := p.letter(r, to, of)
	l.sent()
	if p.n.w.strict {
		p.n.w.tryTell(ctx, p, to, l)
		return
	}
	limited, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(1500))*time.Microsecond)
	defer cancel()
	p.n.w.tryTell(limited, p, to, l)
}

func (p *player) doAsk(ctx *actor.Context[mail], r *rand.Rand, limited bool, of *letter) {
	w := p.n.w
	to := w.pick(p.n, r)
	if to == nil {
		return
	}
	l := p.letter(r, to, of)
	limited = limited || l.late || isLimited(ctx)
	opts := within(limited, r)
	l.sent()
	switch r.IntN(4) {
	case 0: // a context of its own
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		_, _ = w.ask(derived, p, to, l, limited, opts...)
	case 1:
		if limited {
			derived, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(1500))*time.Microsecond)
			defer cancel()
			_, _ = w.ask(derived, p, to, l, limited)
			return
		}
		fallthrough
	default:
		p.wait(true, func() { _, _ = w.ask(ctx, p, to, l, limited, opts...) })
	}
}

// watching is something whose news come once.
type watching struct {
	by   *player
	to   *node // nil for an answer
	what string
	news atomic.Int64
	over atomic.Bool // it was taken back
}

func (w *world) expect(by *player, to *node, what string) *watching {
	w.orders.Add(1)
	x := &watching{by: by, to: to, what: what}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watches = append(w.watches, x)
	return x
}

func (x *watching) came() {
	if x.over.Load() {
		x.by.n.w.Report("%s of %s for %s comes after it was taken back", x.what, x.to, x.by.n)
	}
	if n := x.news.Add(1); n > 1 {
		x.by.n.w.Report("%s of %s for %s came %d times", x.what, x.to, x.by.n, n)
	}
}

func (p *player) doWatch(ctx *actor.Context[mail], r *rand.Rand) {
	w := p.n.w
	to := w.pick(nil, r)
	x := w.expect(p, to, "Down")
	ctx.Watch(to.ref.PID(), func(d actor.Down) mail {
		return p.note(func() {
			w.counts.downs.Add(1)
			x.came()
			if d.PID != to.ref.PID() {
				w.Report("down: %s for %s", d.PID, to)
			}
		})
	})
}

func (p *player) doPause(ctx *actor.Context[mail], r *rand.Rand) {
	d := time.Duration(r.IntN(300)) * time.Microsecond
	switch r.IntN(3) {
	case 0:
		e := p.n.w.begin(p.n, nil, "sleep", nil)
		defer p.n.w.end(e)
		p.wait(true, func() { _ = ctx.Sleep(d) })
	case 1:
		_ = actor.Blocking(ctx, func() error { <-time.After(d); return nil })
	default:
		p.compute(d)
	}
}

func (p *player) doEnd(ctx *actor.Context[mail], r *rand.Rand) {
	w := p.n.w
	to := w.pick(p.n, r)
	if to == nil || to == p.n {
		return
	}
	e := w.begin(p.n, to, "end", nil)
	defer w.end(e)
	p.wait(true, func() {
		_, err := to.ref.Wait(ctx, within(true, r)...)
		if errors.Is(err, actor.ErrDeadlock) && w.acyclic {
			w.deadlock(e, err)
		}
	})
}

// checkNotices waits until those who live have what they are to be told.
func (w *world) checkNotices() bool {
	var missing *watching
	ok := w.control.until(patience, func() bool {
		w.mu.Lock()
		all := w.watches
		w.mu.Unlock()
		missing = nil
		for _, x := range all {
			if x.news.Load() == 0 && !x.over.Load() && x.by.lives() && (x.to == nil || x.to.ended()) {
				missing = x
				return false
			}
		}
		return true
	})
	if !ok {
		w.Report("notice: %s has not got the %s of %s", missing.by.n, missing.what, missing.to)
	}
	return ok
}

func (n *node) ended() bool {
	_, ok := n.ref.Backlog()
	return !ok
}

// lives reports whether that is the incarnation that the actor has now.
func (p *player) lives() bool {
	n := p.n
	if n.ended() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lives[len(n.lives)-1] == p && p.ready && p.terminated == 0
}
