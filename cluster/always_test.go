package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/router"
	"github.com/greenroom-go/greenroom/sim"
)

func TestLocalSingletonIsActiveWithoutAMessageAndAgainAfterItsEnd(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		one, err := cluster.Singleton(cluster.Alone(k.System()), "billing", func() *counter { return log.newCounter("one") }, cluster.IdleAfter(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		log.expect(t, "one begins")
		k.Advance(time.Hour) // it is not passivated
		log.expect(t)
		if one.PID().String() != "*/billing/0#0" {
			t.Errorf("its address is %s", one)
		}
		one.Tell(k.Context(), msg{do: stop})
		k.Advance(2 * time.Second)
		log.expect(t, "one ends with 1", "one begins")
		one.Tell(k.Context(), msg{do: func(*actor.Context[msg], *counter) error { return errors.New("broken") }})
		if n := count(k.Context(), t, one); n != 1 {
			t.Errorf("after a restart it has handled %d", n)
		}
		k.ExpectFailures(1)
	})
}

func TestLocalSpreadActorsHaveNumbersAndARouter(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := newLogbook()
		workers, err := cluster.Spread(cluster.Alone(k.System()), "worker", 4, func(n int) *counter { return log.newCounter(fmt.Sprint("w", n)) }, cluster.Hot(1), cluster.ShardCount(7))
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		if n := workers.Active(); n != 4 {
			t.Errorf("%d are active", n)
		}
		some, err := workers.Routed(router.RoundRobin)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 8 {
			if n := count(k.Context(), t, some); n != 1+i/4 {
				t.Errorf("the one asked as %d has handled %d", i, n)
			}
		}
		for _, key := range []string{"4", "-1", "01", "+1", "x"} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("there is a worker %q", key)
					}
				}()
				workers.Ref(key)
			}()
			pid, err := actor.ParsePID("*/worker/" + key + "#0")
			if err != nil {
				t.Fatal(err)
			}
			ref, err := actor.Lookup[msg](k.System(), pid)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := actor.Ask(k.Context(), ref, msg{}); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("an ask of %s ends with %v", ref, err)
			}
		}
	})
}

func TestLocalCopiesAreTheOneOfANodeThatIsAlone(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, node := newLogbook(), cluster.Alone(k.System())
		one := func() *counter { return log.newCounter("cache") }
		caches, err := cluster.Everywhere(node, "cache", one)
		if err != nil {
			t.Fatal(err)
		}
		if n := count(k.Context(), t, caches.All()); n != 1 || !slices.Equal(caches.Refs(), []actor.Ref[msg]{caches.Here()}) {
			t.Errorf("it has handled %d, and they are %v", n, caches.Refs())
		}
		if _, err := cluster.Everywhere(node, "cache", one); !errors.Is(err, actor.ErrNameTaken) {
			t.Errorf("a second one: %v", err)
		}
	})
}

// places is where the actors of a test are active.
type places struct {
	mu   sync.Mutex
	at   map[string][]string // the nodes, by key, in the order in which they were activated
	news chan struct{}       // closed at each change
}

func newPlaces() *places { return &places{at: make(map[string][]string), news: make(chan struct{})} }

func (p *places) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	do()
	close(p.news)
	p.news = make(chan struct{})
}

// until waits until a condition holds.
func (p *places) until(ctx context.Context, t testing.TB, what string, holds func(at map[string][]string) bool) {
	t.Helper()
	for {
		p.mu.Lock()
		ok, news := holds(p.at), p.news
		p.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-news:
		case <-ctx.Done():
			t.Fatalf("it is not so that %s: %v", what, p.at)
		}
	}
}

// settler says where it is, and answers an add with that.
type settler struct {
	key, node string
	places    *places
	sum       int
}

func (s *settler) Init(*actor.Context[add]) error {
	s.places.change(func() { s.places.at[s.key] = append(s.places.at[s.key], s.node) })
	return nil
}

func (s *settler) Terminate(*actor.Context[add], error) {
	s.places.change(func() {
		at := s.places.at[s.key]
		if i := slices.Index(at, s.node); i >= 0 {
			s.places.at[s.key] = slices.Delete(slices.Clone(at), i, i+1)
		}
	})
}

func (s *settler) Receive(ctx *actor.Context[add], m add) error {
	s.sum += m.N
	actor.ReplyFor(ctx, sum{s.sum, s.node})
	return nil
}

// TestWhatIsAlwaysActiveMovesWithItsShards has a singleton, numbered actors and copies on two nodes, one
// of which leaves.
func TestWhatIsAlwaysActiveMovesWithItsShards(t *testing.T) {
	t.Parallel()
	const n = 6
	ctx, engine, p := t.Context(), new(memory.Engine), newPlaces()
	type member struct {
		*connected
		boss    actor.Ref[add]
		workers *cluster.Kind[add]
		caches  *cluster.Copies[add]
	}
	start := func(name string) (m member) {
		m.connected = connect(t, engine, name, &vault{sums: make(map[string]int)})
		var err error
		if m.boss, err = cluster.Singleton(m.Node, "boss", func() *settler { return &settler{key: "boss", node: name, places: p} }); err != nil {
			t.Fatal(err)
		}
		if m.workers, err = cluster.Spread(m.Node, "worker", n, func(i int) *settler { return &settler{key: fmt.Sprint("w", i), node: name, places: p} }); err != nil {
			t.Fatal(err)
		}
		if m.caches, err = cluster.Everywhere(m.Node, "cache", func() *settler { return &settler{key: "cache", node: name, places: p} }); err != nil {
			t.Fatal(err)
		}
		return m
	}
	have := func(at map[string][]string, node string) (count int) {
		for i := range n {
			if slices.Equal(at[fmt.Sprint("w", i)], []string{node}) {
				count++
			}
		}
		return count
	}
	a := start("a")
	p.until(ctx, t, "a has all", func(at map[string][]string) bool {
		return have(at, "a") == n && slices.Equal(at["boss"], []string{"a"})
	})
	b := start("b")
	p.until(ctx, t, "each has half of the numbered ones", func(at map[string][]string) bool {
		return have(at, "a") == n/2 && have(at, "b") == n/2
	})
	if got, err := actor.Ask(ctx, b.boss, add{N: 1}); err != nil || got != (sum{1, "a"}) {
		t.Errorf("the singleton answers b with %v %v", got, err)
	}
	knows := func(m member, copies int) {
		t.Helper()
		for len(m.caches.Refs()) != copies { // the engine's watch says so meanwhile
			if _, err := actor.Ask(ctx, m.boss, add{}); err != nil {
				t.Fatalf("%s knows %v: %v", m.Name(), m.caches.Refs(), err)
			}
		}
	}
	knows(a, 2)
	knows(b, 2)
	a.caches.All().Tell(ctx, add{N: 5})
	for i, ref := range a.caches.Refs() {
		if got, err := actor.Ask(ctx, ref, add{}); err != nil || got != (sum{5, []string{"a", "b"}[i]}) {
			t.Errorf("copy %d answers %v %v", i, got, err)
		}
	}
	if err := a.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	p.until(ctx, t, "b has all", func(at map[string][]string) bool {
		return have(at, "b") == n && slices.Equal(at["boss"], []string{"b"})
	})
	if got, err := actor.Ask(ctx, b.boss, add{N: 1}); err != nil || got != (sum{1, "b"}) {
		t.Errorf("the singleton answers %v %v", got, err)
	}
	knows(b, 1)
}

// wakeful is an actor of a simulated cluster that is always active.
type wakeful struct {
	r  *routeWorld
	n  *simNode
	at cluster.Activation
}

// Init notes who is active, with the epoch.
func (a *wakeful) Init(*actor.Context[msg]) error {
	b := &a.r.begun[a.at.Shard.Number]
	switch e := a.at.Shard.Epoch; {
	case e < b.epoch || e == b.epoch && b.node != a.n.name:
		a.r.wrong("%s is activated by %s with the epoch %d, after %s with %d", a.at.Key, a.n.name, e, b.node, b.epoch)
	default:
		*b = epochOf{e, a.n.name}
	}
	if a.r.w.Rand().IntN(8) == 0 && !a.r.quiet {
		return errors.New("not today")
	}
	a.r.awake[a.at.Shard.Number] = a
	return nil
}

// Receive ends it, as it wants now and then.
func (a *wakeful) Receive(ctx *actor.Context[msg], _ msg) error {
	ctx.Stop()
	return nil
}

func (a *wakeful) Terminate(*actor.Context[msg], error) {
	if a.r.awake[a.at.Shard.Number] == a {
		a.r.awake[a.at.Shard.Number] = nil
	}
}

// TestSimWhatIsAlwaysActiveIsActiveAgain has numbered actors, whom nobody tells anything but to end, on
// nodes that come, leave, crash and are cut off.
func TestSimWhatIsAlwaysActiveIsActiveAgain(t *testing.T) {
	sim.Check(t, sim.Options{Runs: soaktest.Rounds(t, 3, 2000), Steps: 2_000_000}, func(w *sim.World) {
		r := newRouteWorld(false, noPlant)
		r.w, r.mesh = w, newMesh(w)
		kinds := make(map[*simNode]*cluster.Kind[msg])
		r.host = func(n *simNode) {
			kind, err := cluster.RegisterSpawned(n.member, "always", func(at cluster.Activation, opts ...actor.SpawnOption) (actor.Ref[msg], error) {
				return actor.TrySpawn(at.Parent, at.Key, func() *wakeful { return &wakeful{r: r, n: n, at: at} }, opts...)
			}, cluster.Numbered(simShards))
			if err != nil {
				w.Fatalf("register: %v", err)
			}
			kinds[n] = kind
			n.chaos = true
		}
		names := []string{"a", "b", "c"}
		for _, name := range names {
			r.start(name)
			w.Advance(w.Sometime(2 * time.Second))
		}
		for range 6 {
			r.change(names)
			for range 4 {
				w.Advance(w.Sometime(simTTL / 2))
				for _, n := range r.up() {
					kinds[n].Ref(fmt.Sprint(w.Rand().IntN(simShards))).Tell(context.Background(), msg{})
				}
			}
		}
		r.quiet = true
		r.mesh.heal()
		for _, n := range r.nodes {
			n.cut = false
		}
		w.Advance(3 * simTTL)
		for _, name := range names {
			if !slices.ContainsFunc(r.up(), func(n *simNode) bool { return n.name == name }) {
				r.start(name)
			}
		}
		w.Eventually(20*simTTL, "all are active", func() error {
			up := r.up()
			for i, a := range r.awake {
				switch {
				case a == nil:
					return fmt.Errorf("%d is not active", i)
				case !slices.Contains(up, a.n):
					return fmt.Errorf("%d is active on %s, which is not up", i, a.n.name)
				case a.at.Shard.Epoch != r.begun[i].epoch:
					return fmt.Errorf("%d is active with the epoch %d, and %s has had %d", i, a.at.Shard.Epoch, r.begun[i].node, r.begun[i].epoch)
				}
			}
			return nil
		})
	})
}
