package remote

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/remote/internal/session"
	"github.com/greenroom-go/greenroom/sim"
)

// The messages of the simulation.
type (
	note struct {
		From string // the sender, its incarnation included
		N    int    // of those from it to the receiver, from 1 on
	}
	inquiry struct {
		actor.Returns[int]
		From string
		N    int
	}
	pause struct{ actor.Returns[int] } // is not answered
)

var simTypes = codec.NewTypes(codec.Of[note]("note"), codec.Of[inquiry]("inquiry"), codec.Of[pause]("pause"))

// What the actors of a node are told by the test.
type (
	tellTo   struct{ target *life }
	askOf    struct{ target *life }
	pauseOf  struct{ target *life }
	watchOf  struct{ target *life }
	linkTo   struct{ target *life }
	unlinkOf struct{ target *life }
	outcome  struct {
		ask *asking
		err error
	}
	downOf struct {
		target *life
		down   actor.Down
	}
)

// asking is an ask that was sent.
type asking struct {
	target *life
	over   bool
	err    error
}

// life is a node from its start until it crashes.
type life struct {
	s       *stage
	name    string // with the incarnation
	node    *sim.Node
	station *station
	member  actor.Ref[any] // checks what it gets
	pausing actor.Ref[any] // does not answer
	linked  actor.Ref[any]

	sent    map[*life]int  // notes and inquiries
	got     map[string]int // the same, by sender
	dead    map[string]int // dead letters of those, by the life that they were for
	buried  uint64         // all dead letters
	down    uint64         // messages in NodeDowns
	unknown uint64         // those of them that may have been handled
	asks    []*asking
	watched map[*life]int
	downs   map[*life]int
	refused map[*life]bool // it was said once that the target is unreachable
	paused  int            // pauses that have begun and not ended
}

// stage is a simulated cluster, with the lives of its nodes in the order of their beginning.
type stage struct {
	w     *sim.World
	f     *fabric
	names []string
	lives []*life
	over  bool // the nodes leave, which nobody checks
}

func newStage(w *sim.World, planted plant) *stage {
	s := &stage{w: w, f: &fabric{w: w, stations: map[string]*station{}, planted: planted}, names: []string{"a", "b", "c"}}
	for _, name := range s.names {
		s.start(name)
	}
	return s
}

// present returns the nodes that live.
func (s *stage) present() (living []*life) {
	for _, l := range s.lives {
		if !l.station.dead {
			living = append(living, l)
		}
	}
	return living
}

func (s *stage) start(name string) {
	l := &life{
		s: s, node: s.w.Node(name), sent: map[*life]int{}, got: map[string]int{}, dead: map[string]int{},
		watched: map[*life]int{}, downs: map[*life]int{}, refused: map[*life]bool{},
	}
	sys := l.node.System()
	l.name = nameOf(name, sys.Incarnation())
	c := Config{Types: simTypes, Peers: map[string]string{}}
	for _, other := range s.names {
		c.Peers[other] = other
	}
	if _, err := listen(sys, &c, func(n *Node, sc session.Config) (network, error) {
		l.station = s.f.join(l.node, sc, tampered{handler{n}, s.f.planted})
		return l.station, nil
	}); err != nil {
		s.w.Fatalf("listen: %v", err)
	}
	l.member = actor.SpawnFunc(sys, "member", l.receive)
	l.pausing = actor.SpawnFunc(sys, "pausing", l.pause, actor.Reentrant())
	l.linked = actor.SpawnFunc(sys, "linked", l.link)
	actor.Subscribe(sys, actor.SpawnFunc(sys, "listener", l.hear))
	s.lives = append(s.lives, l)
}

func nameOf(node string, inc uint32) string { return fmt.Sprintf("%s~%d", node, inc) }

// lost reports whether the node has given another one up.
func (l *life) lost(other *life) bool {
	return l.station.host.IsLost(other.node.Name(), other.node.System().Incarnation())
}

// ref returns the reference of an actor of another node, or false if that is unreachable: then it
// must stay so.
func (l *life) ref(ctx *actor.Context[any], target *life, pid actor.PID) (ref actor.Ref[any], ok bool) {
	ref, err := actor.Lookup[any](l.node.System(), pid)
	if err == nil && pid == target.member.PID() {
		err = ref.TryTell(ctx, note{l.name, l.sent[target] + 1})
		if err == nil {
			l.sent[target]++
		}
	}
	switch {
	case err == nil && l.refused[target]:
		l.s.w.Fatalf("%s speaks to %s again, which was lost", l.name, target.name)
	case err != nil && !errors.Is(err, actor.ErrUnreachable):
		l.s.w.Fatalf("%s looks %s up, or tells it something: %v", l.name, target.name, err)
	case err != nil && l.lost(target): // it may be another incarnation's turn yet
		l.refused[target] = true
	}
	return ref, err == nil
}

func (l *life) receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case note:
		l.next(m.From, m.N)
	case inquiry:
		l.next(m.From, m.N)
		actor.Reply(ctx, m, m.N)
	case tellTo:
		l.ref(ctx, m.target, m.target.member.PID())
	case askOf:
		l.ask(ctx, m.target)
	case pauseOf:
		l.askInVain(ctx, m.target)
	case outcome:
		if m.ask.over = true; m.err != nil && !errors.Is(m.err, actor.ErrUnreachable) {
			l.s.w.Fatalf("an ask of %s to %s ends with %v", l.name, m.ask.target.name, m.err)
		}
		m.ask.err = m.err
	case watchOf:
		l.watched[m.target]++
		ctx.Watch(m.target.member.PID(), func(d actor.Down) any { return downOf{m.target, d} })
	case downOf:
		if m.down.Err != nil && strings.Contains(m.down.Err.Error(), "another incarnation") {
			l.watched[m.target]-- // it may be there yet, when the other one is known to be lost
			return nil
		}
		if l.downs[m.target]++; !l.s.over && (m.down.Reason != actor.NoConnection || !l.lost(m.target)) {
			l.s.w.Fatalf("%s hears of %s: %+v", l.name, m.target.name, m.down)
		}
	}
	return nil
}

// next checks that nothing is missing, doubled or out of order.
func (l *life) next(from string, n int) {
	if l.got[from]++; n != l.got[from] {
		l.s.w.Fatalf("%s gets %d of %s in place of %d", l.name, n, from, l.got[from])
	}
}

// ask asks without waiting.
func (l *life) ask(ctx *actor.Context[any], target *life) {
	ref, ok := l.ref(ctx, target, target.member.PID())
	if !ok {
		return
	}
	a := &asking{target: target}
	l.asks = append(l.asks, a)
	l.sent[target]++
	actor.AskThen(ctx, ref, inquiry{From: l.name, N: l.sent[target]}, func(_ int, err error) any { return outcome{a, err} }, actor.Within(time.Hour))
}

// askInVain asks an actor that does not answer, and gives up after a while.
func (l *life) askInVain(ctx *actor.Context[any], target *life) {
	if _, ok := l.ref(ctx, target, target.member.PID()); !ok {
		return
	}
	ref, ok := l.ref(ctx, target, target.pausing.PID())
	if !ok {
		return
	}
	asking, cancel := context.WithCancel(l.s.w.Context())
	actor.AskFuture(asking, ref, pause{}, actor.Within(time.Hour))
	l.s.w.At(l.s.w.Sometime(3*time.Second), cancel)
}

func (l *life) pause(ctx *actor.Context[any], _ any) error {
	l.paused++
	if err := ctx.Sleep(time.Hour); err == nil {
		l.s.w.Fatalf("%s: an asker has not given up, and its node is not lost", l.name)
	}
	l.paused--
	return nil
}

func (l *life) link(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case linkTo:
		ctx.Link(m.target.linked.PID())
	case unlinkOf:
		ctx.Unlink(m.target.linked.PID())
	}
	return nil
}

// hear keeps the books of what is lost.
func (l *life) hear(_ *actor.Context[any], m any) error {
	switch m := m.(type) {
	case actor.DeadLetter:
		if m.To.Node() == l.node.Name() {
			return nil // its own actors end, and so on
		}
		if m.Reason != actor.NoConnection && !l.s.over {
			l.s.w.Fatalf("%s: %+v", l.name, m)
		}
		l.buried++
		if m.To.Path() == "/member" {
			l.dead[nameOf(m.To.Node(), m.To.Incarnation())]++
		}
	case actor.NodeDown:
		l.down += m.Dropped + m.Unknown
		l.unknown += m.Unknown
	}
	return nil
}

// check looks at the books of all nodes, when all is quiet.
func (s *stage) check() {
	for _, l := range s.present() {
		if l.buried != l.down {
			s.w.Fatalf("%s has %d dead letters, and NodeDowns with %d", l.name, l.buried, l.down)
		}
		for _, t := range s.lives {
			sent, got, dead := l.sent[t], t.got[l.name], l.dead[t.name]
			if got > sent || !t.station.dead && got+dead < sent || got+dead > sent+int(l.unknown) {
				s.w.Fatalf("%s has sent %d to %s, which has got %d; %d are dead letters, %d unknown", l.name, sent, t.name, got, dead, l.unknown)
			}
			if downs := l.downs[t]; downs != l.watched[t] && l.lost(t) || downs > 0 && !l.lost(t) {
				s.w.Fatalf("%s watches %s %d times and has heard %d times; lost %v", l.name, t.name, l.watched[t], downs, l.lost(t))
			}
			if !t.station.dead && t != l && !l.lost(t) && !t.lost(l) && l.isLinked(t) != t.isLinked(l) {
				s.w.Fatalf("%s is linked with %s: %v; the other way round: %v", l.name, t.name, l.isLinked(t), t.isLinked(l))
			}
		}
		for _, a := range l.asks {
			if !a.over {
				s.w.Fatalf("an ask of %s to %s has no end", l.name, a.target.name)
			}
		}
		if l.paused > 0 {
			s.w.Fatalf("%s: %d handlers have not heard that their asker has given up", l.name, l.paused)
		}
	}
}

func (l *life) isLinked(t *life) bool {
	d, err := l.node.System().Detail(l.s.w.Context(), l.linked.PID())
	if err != nil {
		l.s.w.Fatalf("%v", err)
	}
	return slices.Contains(d.Links, t.linked.PID())
}

// act has a random node do something to another one, or to an earlier life of it.
func (s *stage) act() {
	r := s.w.Rand()
	living := s.present()
	if len(living) == 0 {
		return
	}
	l, t := living[r.IntN(len(living))], s.lives[r.IntN(len(s.lives))]
	if t.node.Name() == l.node.Name() {
		return
	}
	switch r.IntN(10) {
	case 0:
		l.member.Tell(s.w.Context(), watchOf{t})
	case 1:
		l.linked.Tell(s.w.Context(), linkTo{t})
	case 2:
		l.linked.Tell(s.w.Context(), unlinkOf{t})
	case 3:
		l.member.Tell(s.w.Context(), pauseOf{t})
	case 4, 5:
		l.member.Tell(s.w.Context(), askOf{t})
	default:
		for range 1 + r.IntN(20) {
			l.member.Tell(s.w.Context(), tellTo{t})
		}
	}
}

// trouble cuts the network, and crashes nodes, now and then.
func (s *stage) trouble() {
	r := s.w.Rand()
	living := s.present()
	if len(living) == 0 {
		return
	}
	l := living[r.IntN(len(living))]
	switch r.IntN(6) {
	case 0:
		l.station.crash()
		s.w.At(s.w.Sometime(5*time.Second), func() { s.start(l.node.Name()) })
	case 1:
		l.station.Disconnect(s.names[r.IntN(len(s.names))])
	default:
		t := living[r.IntN(len(living))]
		if t == l {
			return
		}
		there, back := s.w.Link(l.node, t.node), s.w.Link(t.node, l.node)
		both := r.IntN(2) == 0
		there.Cut()
		if both {
			back.Cut()
		}
		s.w.At(s.w.Sometime(18*time.Second), func() {
			there.Mend()
			back.Mend()
		})
	}
}

// reach has each node ask each other one, and says who has no answer.
func (s *stage) reach(what string, must func(l, t *life) bool) {
	living := s.present()
	before := map[*life]int{}
	for _, l := range living {
		before[l] = len(l.asks)
		for _, t := range living {
			if t != l {
				l.member.Tell(s.w.Context(), askOf{t})
			}
		}
	}
	s.w.Advance(20 * time.Second)
	for _, l := range living {
		for _, t := range living {
			i := slices.IndexFunc(l.asks[before[l]:], func(a *asking) bool { return a.target == t && a.over && a.err == nil })
			if t != l && must(l, t) && i < 0 {
				s.w.Fatalf("%s: %s does not reach %s", what, l.name, t.name)
			}
		}
	}
}

// play is a run: a time of trouble, and then peace, in which who has not lost each other goes on, and
// who is started anew is reached.
func play(w *sim.World, planted plant) {
	s := newStage(w, planted)
	const troubled = 40 * time.Second
	for range 60 {
		w.At(w.Sometime(troubled), s.act)
	}
	for range w.Rand().IntN(8) {
		w.At(w.Sometime(troubled), s.trouble)
	}
	w.Advance(troubled + 20*time.Second) // all cuts have ended
	w.Heal()
	w.Advance(30 * time.Second)
	s.check()
	s.reach("after the heal", func(l, t *life) bool { return !l.lost(t) && !t.lost(l) })
	s.check()
	for _, l := range s.present() {
		if slices.ContainsFunc(s.present(), func(t *life) bool { return l.lost(t) || t.lost(l) }) {
			l.station.crash()
			s.start(l.node.Name())
		}
	}
	w.Advance(30 * time.Second) // all know that the earlier ones have gone
	s.reach("after a new start", func(l, t *life) bool { return true })
	s.check()
	s.over = true
}

var simFaults = sim.Faults{Link: sim.LinkFaults{Drop: 0.02, Duplicate: 0.05, Delay: 50 * time.Millisecond}, Lag: 0.02, Swarm: true}

func TestSimNodesKeepTheirPromises(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 20, 2000), Faults: simFaults}, func(w *sim.World) { play(w, nothing) })
}

func TestSimPlantedFaultsAreFound(t *testing.T) {
	for planted, name := range map[plant]string{
		gaps: "a missing chunk is not noticed", repeats: "a chunk is taken twice", silence: "a loss is not reported",
		oldHello: "a hello says less than has arrived", reversal: "a run is reversed", noCancel: "a request is not canceled",
		noOutcome: "asks have no end", noUnlink: "unlinks are not confirmed",
	} {
		t.Run(name, func(t *testing.T) {
			failure, found := sim.Find(t, sim.Options{Runs: 300, Faults: simFaults, TwiceEvery: -1}, func(w *sim.World) { play(w, planted) })
			if !found {
				t.Fatal("it is not found")
			}
			t.Logf("in run %d: %s", failure.Run, failure.Text)
		})
	}
}
