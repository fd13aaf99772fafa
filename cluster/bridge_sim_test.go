package cluster_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/eventbus"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/sim"
)

// said is an event of a simulated node: its Nth.
type said struct {
	By string
	N  int
}

// bridgeWorld is a cluster in virtual time whose nodes have a bus with a bridge, on which they publish.
type bridgeWorld struct {
	*routeWorld
	speakers []*speaker
	ears     []*simEar
}

// speaker publishes on one node.
type speaker struct {
	*bridgeWorld
	node   *simNode
	name   string
	bus    *eventbus.Bus
	bridge *cluster.Bridged
	ref    actor.Ref[string]
	n      int
}

// simEar is a subscription.
type simEar struct {
	*speaker
	*eventbus.Subscription
	pattern string
	got     map[string]int // the last one, by who has said it
	count   int
}

var (
	simTopics   = []string{"a", "a.x", "a.y", "a.x.1", "a.y.1", "b.x"}
	simPatterns = []string{"a", "a.*", "a.>", "a.x", "*.x", ">", "a.*.1", "a.x.>"}
)

// open has a node publish, and hear.
func (w *bridgeWorld) open(n *simNode) {
	s := &speaker{bridgeWorld: w, node: n, name: fmt.Sprint(n.name, n.sys.Incarnation()), bus: eventbus.New(n.sys)}
	var err error
	if s.bridge, err = cluster.Bridge(n.member, "one", s.bus, "a", "a.>"); err != nil {
		w.w.Fatalf("bridge: %v", err)
	}
	s.ref = actor.SpawnFunc(n.sys, "speaker", func(ctx *actor.Context[string], topic string) error {
		s.n++
		return eventbus.Publish(ctx, s.bus, topic, said{s.name, s.n})
	})
	n.chaos = true
	w.speakers = append(w.speakers, s)
	s.listen()
}

// listen adds a subscription, and checks what it gets.
func (s *speaker) listen() {
	e := &simEar{speaker: s, pattern: simPatterns[s.w.Rand().IntN(len(simPatterns))], got: make(map[string]int)}
	var err error
	e.Subscription, err = eventbus.SubscribeFunc(s.bus, e.pattern, func(_ context.Context, topic string, m said) {
		switch {
		case !eventbus.Match(e.pattern, topic) || m.By != s.name && topic == "b.x":
			s.w.Fatalf("%s of %s has got %s", e.pattern, s.name, topic)
		case m.N <= e.got[m.By]:
			s.w.Fatalf("%s of %s has got %d of %s after %d", e.pattern, s.name, m.N, m.By, e.got[m.By])
		}
		e.got[m.By] = m.N
		e.count++
	})
	if err != nil {
		s.w.Fatalf("subscribe: %v", err)
	}
	s.ears = append(s.ears, e)
}

// active returns the speakers of the nodes that are there, and the subscriptions on these.
func (w *bridgeWorld) active() (speakers []*speaker, ears []*simEar) {
	up := w.up()
	for _, s := range w.speakers {
		if slices.Contains(up, s.node) {
			speakers = append(speakers, s)
		}
	}
	for _, e := range w.ears {
		if slices.Contains(up, e.node) {
			ears = append(ears, e)
		}
	}
	return speakers, ears
}

// talk has the nodes publish, and subscriptions come and go.
func (w *bridgeWorld) talk(times int) {
	for range times {
		w.w.Advance(w.w.Sometime(100 * time.Millisecond))
		speakers, ears := w.active()
		for _, s := range speakers {
			for range 3 {
				s.ref.Tell(context.Background(), simTopics[w.w.Rand().IntN(len(simTopics))])
			}
			if w.w.Rand().IntN(8) == 0 {
				s.listen()
			}
		}
		if len(ears) > 0 && w.w.Rand().IntN(3) == 0 {
			e := ears[w.w.Rand().IntN(len(ears))]
			e.Unsubscribe()
			w.ears = slices.DeleteFunc(w.ears, func(o *simEar) bool { return o == e })
		}
	}
}

// wanting returns which nodes want a topic of one.
func (w *bridgeWorld) wanting(of *speaker, topic string) (names []string) {
	_, ears := w.active()
	for _, e := range ears {
		if e.node != of.node && topic != "b.x" && eventbus.Match(e.pattern, topic) {
			names = append(names, e.node.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// known checks that all nodes know what the others want.
func (w *bridgeWorld) known() error {
	speakers, _ := w.active()
	for _, s := range speakers {
		for _, topic := range simTopics {
			if got, want := s.bridge.Wanting(topic), w.wanting(s, topic); !slices.Equal(got, want) {
				return fmt.Errorf("%s knows that %v want %s, and %v do", s.name, got, topic, want)
			}
		}
	}
	return nil
}

// TestSimBridgeBringsAllToThoseThatAreKnown has nodes that come, leave, crash and are cut off, and sessions that stand
// still or have no room. Meanwhile nothing comes twice or out of order, and later all comes.
func TestSimBridgeBringsAllToThoseThatAreKnown(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 2, 1000), Steps: 2_000_000}, func(world *sim.World) {
		w := &bridgeWorld{routeWorld: newRouteWorld(false, noPlant)}
		w.w, w.mesh, w.host = world, newMesh(world), w.open
		w.config = func(cfg *cluster.Config) { cfg.SetTypes(codec.NewTypes(codec.Of[said]("said"))) }
		names := []string{"a", "b", "c"}
		for _, name := range names {
			w.start(name)
			w.talk(10)
		}
		for range 5 {
			if up := w.up(); len(up) > 0 && world.Rand().IntN(3) == 0 {
				w.mesh.limit(up[world.Rand().IntN(len(up))], names[world.Rand().IntN(len(names))], world.Rand().IntN(4))
			}
			w.change(names)
			w.talk(world.Rand().IntN(20))
		}
		w.quiet = true
		w.mesh.heal()
		for _, n := range w.nodes {
			n.cut = false
			for _, name := range names {
				w.mesh.limit(n, name, 1<<20)
			}
		}
		world.Advance(3 * simTTL) // who was declared dead hears of it
		for _, name := range names {
			if !slices.ContainsFunc(w.up(), func(n *simNode) bool { return n.name == name }) {
				w.start(name)
			}
		}
		world.Eventually(20*simTTL, "all know what is wanted", w.known)
		world.Advance(time.Second) // what was on its way has come
		speakers, ears := w.active()
		before := make(map[*simEar]int)
		for _, e := range ears {
			before[e] = e.count
		}
		for range 5 {
			for _, s := range speakers {
				for _, topic := range simTopics {
					s.ref.Tell(context.Background(), topic)
				}
			}
		}
		world.Eventually(simTTL, "all is heard", func() error {
			for _, e := range ears {
				want := 0
				for _, topic := range simTopics {
					if eventbus.Match(e.pattern, topic) {
						want += 5
						if topic != "b.x" {
							want += 5 * (len(speakers) - 1)
						}
					}
				}
				if got := e.count - before[e]; got != want {
					return fmt.Errorf("%s of %s has got %d of %d", e.pattern, e.name, got, want)
				}
			}
			return nil
		})
	})
}
