package cluster_test

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/eventbus"
	"github.com/greenroom-go/greenroom/internal/pause"
)

const (
	barRounds      = 31
	barTells       = 20_000 // a round
	barActivations = 3000
	barAsks        = 300
)

// BenchmarkBars compares virtual actors with what there is without them, in turns, in one run. It reports the middle
// ones of the rounds, quotients and differences included:
//
//   - a tell to an active virtual actor of this node, with one to an ordinary actor;
//   - actors that become active by their first message, with ordinary ones that are spawned and told one;
//   - an ask to a virtual actor of another node, with one to an ordinary actor there.
//
// It is
//
//	go test ./cluster -run NONE -bench Bars -benchtime 1x
func BenchmarkBars(b *testing.B) {
	tells, virtualTells := tellers(b)
	spawns, activations := beginners(b)
	asks, virtualAsks := askers(b)
	for b.Loop() {
		one := compare(tells, virtualTells)
		one.report(b, "tell", barTells)
		b.ReportMetric(middle(one.differences)/barTells, "tell_more_ns")
		one = compare(spawns, activations)
		one.report(b, "activation", barActivations)
		b.ReportMetric(barActivations*1e9/middle(one.with), "activations/s")
		compare(asks, virtualAsks).report(b, "remote_ask", barAsks)
	}
}

// comparison has what the rounds took, in ns.
type comparison struct{ without, with, quotients, differences []float64 }

func compare(without, with func() time.Duration) (c comparison) {
	for i := range barRounds + 1 {
		var x, y float64
		if i%2 == 0 {
			x, y = float64(without()), float64(with())
		} else {
			y, x = float64(with()), float64(without())
		}
		if i > 0 { // the first one warms up
			c.without, c.with = append(c.without, x), append(c.with, y)
			c.quotients, c.differences = append(c.quotients, y/x), append(c.differences, y-x)
		}
	}
	return c
}

func (c comparison) report(b *testing.B, what string, n float64) {
	b.ReportMetric(middle(c.without)/n, what+"_without_ns")
	b.ReportMetric(middle(c.with)/n, what+"_with_ns")
	b.ReportMetric(middle(c.quotients), what+"_ratio")
}

func middle(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

type tiny struct{}

func (tiny) Receive(ctx *actor.Context[msg], _ msg) error {
	actor.ReplyFor(ctx, 1)
	return nil
}

// tellers tell an actor from outside, and wait until it has handled that.
func tellers(b *testing.B) (without, with func() time.Duration) {
	sys := actortest.NewSystem(b)
	kind, err := cluster.Register(cluster.Alone(sys), "tiny", func(string) tiny { return tiny{} })
	if err != nil {
		b.Fatal(err)
	}
	tell := func(to actor.Ref[msg]) func() time.Duration {
		return func() time.Duration {
			began := time.Now()
			for range barTells {
				to.Tell(b.Context(), msg{})
			}
			count(b.Context(), b, to)
			return time.Since(began)
		}
	}
	return tell(actor.Spawn(sys, "ordinary", func() tiny { return tiny{} })), tell(kind.Ref("a"))
}

// once counts that it was told something.
type once struct {
	left *atomic.Int64
	done chan struct{}
}

func (a once) Receive(*actor.Context[msg], msg) error {
	if a.left.Add(-1) == 0 {
		close(a.done)
	}
	return nil
}

// beginners make actors, each of which handles one message. What a round has made ends after it with its system.
func beginners(b *testing.B) (without, with func() time.Duration) {
	begin := func(ways func(sys *actor.System, newActor func(string) once) func(key string) actor.Ref[msg]) func() time.Duration {
		return func() time.Duration {
			left, done := new(atomic.Int64), make(chan struct{})
			left.Store(barActivations)
			sys := actor.NewSystem("beginners")
			ref := ways(sys, func(string) once { return once{left, done} })
			began := time.Now()
			for i := range barActivations {
				ref(strconv.Itoa(i)).Tell(b.Context(), msg{})
			}
			<-done
			took := time.Since(began)
			_, _ = sys.Shutdown(context.Background())
			return took
		}
	}
	return begin(func(sys *actor.System, newActor func(string) once) func(string) actor.Ref[msg] {
			return func(key string) actor.Ref[msg] {
				return actor.Spawn(sys, key, func() once { return newActor(key) })
			}
		}), begin(func(sys *actor.System, newActor func(string) once) func(string) actor.Ref[msg] {
			kind, err := cluster.Register(cluster.Alone(sys), "once", newActor)
			if err != nil {
				b.Fatal(err)
			}
			return kind.Ref
		})
}

// askers ask an actor of another node.
func askers(b *testing.B) (without, with func() time.Duration) {
	engine, v := new(memory.Engine), &vault{sums: make(map[string]int)}
	there, here := connect(b, engine, "a", v), connect(b, engine, "b", v, cluster.Elsewhere())
	ordinary := actor.Spawn(there.System(), "ordinary", func() *tally { return &tally{"ordinary", "a", v} })
	if _, err := here.ask(b.Context(), "k"); err != nil { // they know each other
		b.Fatal(err)
	}
	ref, err := actor.Lookup[add](here.System(), ordinary.PID())
	if err != nil {
		b.Fatal(err)
	}
	ask := func(to actor.Ref[add]) func() time.Duration {
		return func() time.Duration {
			began := time.Now()
			for range barAsks {
				if _, err := actor.Ask(b.Context(), to, add{N: 1}); err != nil {
					b.Fatal(err)
				}
			}
			return time.Since(began)
		}
	}
	return ask(ref), ask(here.tallies.Ref("k"))
}

// BenchmarkBridge publishes on a node, to two others of which one has a subscription, by a [cluster.Bridge] and by
// [cluster.Everywhere], whose copies publish to the bus of their node. It reports the middle ones of the rounds: the
// processor time of an event, on all three nodes. As a control both others have a subscription. It is
//
//	go test ./cluster -run NONE -bench Bridge -benchtime 1x
func BenchmarkBridge(b *testing.B) {
	for b.Loop() {
		everywhere, bridged := publishers(b, "b")
		compare(everywhere, bridged).report(b, "one", barEvents)
		everywhere, bridged = publishers(b, "b", "c")
		compare(everywhere, bridged).report(b, "both", barEvents)
	}
}

const barEvents = 2000 // a round

// copyOfBus publishes what it is told.
type copyOfBus struct {
	bus   *eventbus.Bus
	heard chan struct{}
}

func (a copyOfBus) Receive(ctx *actor.Context[reading], m reading) error {
	err := eventbus.Publish(ctx, a.bus, "z.x", m)
	if m.N == barEvents {
		a.heard <- struct{}{}
	}
	return err
}

// publishers publish by copies and by a bridge, and wait until all nodes have got all that they get.
func publishers(b *testing.B, wants ...string) (everywhere, bridged func() time.Duration) {
	engine, hubs, copies := new(memory.Engine), make(map[string]*hub), make(map[string]*cluster.Copies[reading])
	heard, copied := make(chan struct{}), make(chan struct{})
	for _, name := range []string{"a", "b", "c"} {
		h := newHub(b, engine, name)
		var err error
		if copies[name], err = cluster.Everywhere(h.Node, "bus", func() copyOfBus { return copyOfBus{h.bus, copied} }); err != nil {
			b.Fatal(err)
		}
		hubs[name] = h
	}
	for _, name := range wants {
		_, err := eventbus.SubscribeFunc(hubs[name].bus, "*.x", func(_ context.Context, topic string, m reading) {
			if m.N == barEvents && topic == "a.x" {
				heard <- struct{}{}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	a := hubs["a"]
	for !slices.Equal(a.bridge.Wanting("a.x"), wants) || len(copies["a"].Refs()) < len(hubs) {
		_ = pause.For(b.Context(), time.Millisecond)
	}
	round := func(publish func(m reading), done <-chan struct{}, times int) func() time.Duration {
		return func() time.Duration {
			began := processorTime(b)
			for i := range barEvents {
				publish(reading{i + 1})
			}
			for range times {
				<-done
			}
			return processorTime(b) - began
		}
	}
	all := copies["a"].All()
	return round(func(m reading) { all.Tell(b.Context(), m) }, copied, len(hubs)),
		round(func(m reading) { publishAt(b, a, "a.x", m) }, heard, len(wants))
}

// processorTime returns how much of it the process has had.
func processorTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
