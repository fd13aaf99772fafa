package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	stdtime "time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

var bg = context.Background()

// newSystem returns a quiet system that must stop cleanly at the end of the test.
func newSystem(t testing.TB) *actor.System {
	t.Helper()
	sys := actor.NewSystem("test", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() {
		if _, err := sys.Shutdown(bg); err != nil {
			t.Errorf("shutdown: %v", err)
		}
	})
	return sys
}

// task is what the routees of these tests are told. Asked, its answer is the path of
// whoever did it.
type task struct {
	actor.Returns[string]
	key  string
	from int
	n    int
	do   func(ctx *actor.Context[task]) error
}

// crew counts what its members handle.
type crew struct {
	mu    sync.Mutex
	by    map[string]int
	total atomic.Int64
}

func (c *crew) receive(ctx *actor.Context[task], m task) error {
	path := ctx.Self().PID().Path()
	c.mu.Lock()
	if c.by == nil {
		c.by = make(map[string]int)
	}
	c.by[path]++
	c.mu.Unlock()
	c.total.Add(1)
	if m.do != nil {
		return m.do(ctx)
	}
	actor.Reply(ctx, m, path)
	return nil
}

func (c *crew) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

func ask(t testing.TB, to actor.Ref[task], m task) string {
	t.Helper()
	who, err := actor.Ask(bg, to, m)
	if err != nil {
		t.Fatalf("ask: %v", err)
	}
	return who
}

// until waits for a state that others bring about.
func until(t testing.TB, what string, reached func() bool) {
	t.Helper()
	for !reached() {
		if t.Context().Err() != nil {
			t.Fatalf("the test is over and still not %s", what)
		}
		runtime.Gosched()
	}
}

// downOf returns a function that waits for the end of an actor.
func downOf(t testing.TB, sys *actor.System, pid actor.PID) func() actor.Down {
	t.Helper()
	downs := make(chan actor.Down, 1)
	watcher := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
		if d, ok := m.(actor.Down); ok {
			downs <- d
			return nil
		}
		ctx.Watch(pid, func(d actor.Down) any { return d })
		actor.ReplyFor(ctx, true)
		return nil
	})
	if _, err := actor.AskFor[bool](bg, watcher, "watch"); err != nil {
		t.Fatal(err)
	}
	return func() actor.Down { return <-downs }
}

// block keeps a routee in its handler until the returned function is called.
func block(t testing.TB, to actor.Ref[task]) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	to.Tell(bg, task{do: func(*actor.Context[task]) error {
		close(entered)
		<-leave
		return nil
	}})
	<-entered
	return sync.OnceFunc(func() { close(leave) })
}

func TestRoundRobinGivesEachRouteeTheSameNumber(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 4, c.receive)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				pool.Tell(bg, task{})
			}
		})
	}
	wg.Wait()
	until(t, "all handled", func() bool { return c.total.Load() == 800 })
	want := map[string]int{"/pool/1": 200, "/pool/2": 200, "/pool/3": 200, "/pool/4": 200}
	if got := c.counts(); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRandomSpreadsEvenly(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.Random, 4, c.receive)
	const n = 8000
	for range n {
		pool.Tell(bg, task{})
	}
	until(t, "all handled", func() bool { return c.total.Load() == n })
	for path, got := range c.counts() {
		// Six standard deviations: it fails by chance once in 10⁸ runs.
		if dev := math.Abs(float64(got)-n/4) / math.Sqrt(n*3.0/16); dev > 6 {
			t.Errorf("%s got %d of %d, %.1f standard deviations off", path, got, n, dev)
		}
	}
}

func TestBroadcastReachesEveryRouteeOnce(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.Broadcast, 5, c.receive)
	for range 10 {
		pool.Tell(bg, task{})
	}
	until(t, "all handled", func() bool { return c.total.Load() == 50 })
	for path, got := range c.counts() {
		if got != 10 {
			t.Errorf("%s got %d, want 10", path, got)
		}
	}
}

func TestBroadcastOfTheHandleIgnoresTheStrategy(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 3, c.receive)
	pool.Broadcast(bg, task{})
	until(t, "all handled", func() bool { return c.total.Load() == 3 })
	if got := c.counts(); len(got) != 3 {
		t.Errorf("reached %v", got)
	}
}

func TestLeastLoadedPassesOverBusyRoutees(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.LeastLoaded, 5, c.receive)
	for _, r := range pool.Routees()[:4] {
		defer block(t, r)()
	}
	for range 50 {
		if who := ask(t, pool.Ref, task{}); who != "/pool/5" {
			t.Fatalf("%s was asked and is busy", who)
		}
		until(t, "idle", func() bool {
			n, ok := pool.Routees()[4].Backlog()
			return ok && n == 0
		})
	}
}

func TestLeastLoadedFillsMailboxesEvenly(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.LeastLoaded, 4, c.receive)
	for _, r := range pool.Routees() {
		defer block(t, r)()
	}
	pool.Routees()[1].Tell(bg, task{})
	pool.Routees()[1].Tell(bg, task{})
	for range 4*5 - 2 { // from one sender: what it decides on is exact
		pool.Tell(bg, task{})
	}
	for i := range 4 {
		if n, ok := pool.Routees()[i].Backlog(); !ok || n != 6 { // five and the one being handled
			t.Errorf("/pool/%d has %d, %v", i+1, n, ok)
		}
	}
}

func TestLeastLoadedUsesMembersWithoutANameToo(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	named, unnamed := actor.SpawnFunc(sys, "named", c.receive), actor.SpawnFunc(sys, "", c.receive)
	group := router.SpawnGroup(sys, "group", router.LeastLoaded, named, unnamed)
	for range 200 {
		ask(t, group.Ref, task{})
	}
	if got := c.counts(); len(got) != 2 {
		t.Errorf("only %v were used", got)
	}
}

func TestScatterGatherTakesTheFirstAnswer(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	cause := errors.New("no")
	refuse := actor.SpawnFunc(sys, "refuse", func(*actor.Context[task], task) error { return cause })
	slow, quick := actor.SpawnFunc(sys, "slow", c.receive), actor.SpawnFunc(sys, "quick", c.receive)
	release := block(t, slow)
	group := router.SpawnGroup(sys, "group", router.ScatterGather, refuse, slow, quick)
	if who := ask(t, group.Ref, task{}); who != "/quick" {
		t.Errorf("%s answered first", who)
	}
	release()
	only := router.SpawnGroup(sys, "refusers", router.ScatterGather, refuse)
	if _, err := actor.Ask(bg, only.Ref, task{}); !errors.Is(err, cause) {
		t.Errorf("all refuse: %v", err)
	}
}

func TestAskGoesThroughEveryStrategy(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	strategies := map[string]router.Strategy[task]{
		"round robin": router.RoundRobin[task], "random": router.Random[task], "broadcast": router.Broadcast[task],
		"least loaded": router.LeastLoaded[task], "scatter gather": router.ScatterGather[task],
		"hash":         router.ConsistentHash(func(m task) string { return m.key }),
		"hash bytes":   router.ConsistentHash(func(m task) []byte { return []byte(m.key) }),
		"hash uuid":    router.ConsistentHash(func(m task) (id [16]byte) { copy(id[:], m.key); return id }),
		"hash number":  router.ConsistentHashNumber(func(m task) int { return m.n }),
		"hash bounded": router.ConsistentHash(func(m task) string { return m.key }, router.BoundedLoad(1.5)),
	}
	for name, strategy := range strategies {
		pool := router.SpawnPoolFunc(sys, "", strategy, 3, c.receive)
		group := router.SpawnGroup(sys, "", strategy, pool.Routees()...)
		for _, ref := range []actor.Ref[task]{pool.Ref, group.Ref} {
			if who := ask(t, ref, task{key: name}); !strings.HasPrefix(who, pool.PID().Path()+"/") {
				t.Errorf("%s: answered by %s", name, who)
			}
		}
	}
}

// assign returns who gets each of n keys.
func assign(t *testing.T, to actor.Ref[task], n int) []string {
	t.Helper()
	who := make([]string, n)
	for i := range who {
		who[i] = ask(t, to, task{key: fmt.Sprintf("key-%d", i)})
	}
	return who
}

func TestConsistentHashIsBalancedAndMovesAsFewKeysAsItCan(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	const n, keys = 8, 4000
	var members []actor.Ref[task]
	for i := range n {
		members = append(members, actor.SpawnFunc(sys, fmt.Sprintf("m%d", i), c.receive))
	}
	group := router.SpawnGroup(sys, "group", router.ConsistentHash(func(m task) string { return m.key }), members...)
	before := assign(t, group.Ref, keys)
	share := map[string]int{}
	for _, who := range before {
		share[who]++
	}
	for _, m := range members {
		if got := share[m.PID().Path()]; math.Abs(float64(got)-keys/n) > 0.2*keys/n {
			t.Errorf("%s has %d keys of %d, want about %d", m, got, keys, keys/n)
		}
	}
	const leaver = "/m3"
	if err := group.Remove(bg, members[3]); err != nil {
		t.Fatal(err)
	}
	for i, who := range assign(t, group.Ref, keys) {
		if before[i] != leaver && who != before[i] {
			t.Fatalf("key %d moved from %s to %s though %s left", i, before[i], who, leaver)
		}
		if who == leaver {
			t.Fatalf("key %d is still with %s", i, leaver)
		}
	}
	if err := group.Add(bg, members[3]); err != nil { // at another place in the list
		t.Fatal(err)
	}
	if after := assign(t, group.Ref, keys); !slices.Equal(before, after) {
		t.Error("the keys are not where they were before the member left and came back")
	}
}

func TestConsistentHashKeepsItsKeysWhenARouteeIsReplaced(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.ConsistentHash(func(m task) string { return m.key }), 4, c.receive)
	before, old := assign(t, pool.Ref, 100), pool.Routees()
	old[1].Stop()
	until(t, "replaced", func() bool {
		now := pool.Routees()
		return len(now) == 4 && !slices.Contains(now, old[1])
	})
	if after := assign(t, pool.Ref, 100); !slices.Equal(before, after) {
		t.Error("keys moved though the replacement has the same name")
	}
}

func TestConsistentHashIsTheSameInEveryProcess(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.ConsistentHash(func(m task) string { return m.key }), 5, c.receive)
	got := strings.Join(assign(t, pool.Ref, 10), " ")
	// Pinned: with another hash the keys of everybody who updates would move.
	const want = "/pool/4 /pool/3 /pool/5 /pool/1 /pool/2 /pool/3 /pool/1 /pool/4 /pool/5 /pool/3"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBoundedLoadSpillsAPopularKeyAndNoMoreThanNeeded(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	const n, factor, messages = 5, 1.25, 200
	hash := router.ConsistentHash(func(m task) string { return m.key }, router.BoundedLoad(factor))
	pool := router.SpawnPoolFunc(sys, "pool", hash, n, c.receive)
	home := ask(t, pool.Ref, task{key: "hot"})
	for _, r := range pool.Routees() {
		defer block(t, r)()
	}
	for range messages { // from one sender: what it decides on is exact
		pool.Tell(bg, task{key: "hot"})
	}
	limit := int(math.Ceil(factor * (messages + n) / n))
	least := messages
	for _, r := range pool.Routees() {
		load, ok := r.Backlog()
		if !ok || load > limit {
			t.Errorf("%s has %d messages, the limit is %d (%v)", r, load, limit, ok)
		}
		if r.PID().Path() == home && load < limit-2 {
			t.Errorf("the key's own %s has only %d messages of %d allowed", r, load, limit)
		}
		least = min(least, load)
	}
	if want := messages - (n-1)*limit; least < want {
		t.Errorf("the last routee has %d messages, want at least %d", least, want)
	}
}

func TestBoundedLoadStaysWithTheKeyWhileItsRouteeIsIdle(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	key := func(m task) string { return m.key }
	plain := router.SpawnPoolFunc(sys, "pool", router.ConsistentHash(key), 5, c.receive)
	bounded := router.SpawnGroup(sys, "bounded", router.ConsistentHash(key, router.BoundedLoad(1.25)), plain.Routees()...)
	want := assign(t, plain.Ref, 50)
	for i := range want {
		until(t, "idle", func() bool {
			ref, err := actor.LookupPath[task](sys, want[i])
			n, ok := ref.Backlog()
			return err == nil && ok && n == 0
		})
		if who := ask(t, bounded.Ref, task{key: fmt.Sprintf("key-%d", i)}); who != want[i] {
			t.Errorf("key %d went to %s, want %s", i, who, want[i])
		}
	}
}

func TestBoundedLoadRefusesAFactorThatCannotBeKept(t *testing.T) {
	for _, factor := range []float64{1, 0, -2, math.NaN(), math.Inf(1)} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "greater than 1") {
					t.Errorf("factor %v: %v", factor, r)
				}
			}()
			router.BoundedLoad(factor)
		}()
	}
}

func TestEmptyRouterMakesDeadLetters(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	strategies := map[string]router.Strategy[task]{
		"round robin": router.RoundRobin[task], "random": router.Random[task], "broadcast": router.Broadcast[task],
		"least loaded": router.LeastLoaded[task], "scatter gather": router.ScatterGather[task],
		"hash": router.ConsistentHash(func(m task) string { return m.key }, router.BoundedLoad(2)),
	}
	for name, strategy := range strategies {
		pool := router.SpawnPoolFunc(sys, "", strategy, 0, c.receive)
		group := router.SpawnGroup(sys, "", strategy)
		for _, ref := range []actor.Ref[task]{pool.Ref, group.Ref} {
			before := sys.Stats().DeadLetters
			ref.Tell(bg, task{})
			if got := sys.Stats().DeadLetters - before; got != 1 {
				t.Errorf("%s: %d dead letters for a told message", name, got)
			}
			if d := sys.DeadLetters()[0]; d.To != ref.PID() || d.Reason != actor.NoActor {
				t.Errorf("%s: dead letter %+v", name, d)
			}
			if err := ref.TryTell(bg, task{}); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s: TryTell: %v", name, err)
			}
			if _, err := actor.Ask(bg, ref, task{}); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s: Ask: %v", name, err)
			}
		}
		before := sys.Stats().DeadLetters
		pool.Broadcast(bg, task{})
		if got := sys.Stats().DeadLetters - before; got != 1 {
			t.Errorf("%s: %d dead letters for a broadcast", name, got)
		}
	}
}

func TestOrderOfASenderIsKeptForEachRoutee(t *testing.T) {
	sys := newSystem(t)
	type pair struct {
		who  string
		from int
	}
	var mu sync.Mutex
	last, handled := map[pair]int{}, 0
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 3, func(ctx *actor.Context[task], m task) error {
		mu.Lock()
		defer mu.Unlock()
		p := pair{ctx.Self().PID().Path(), m.from}
		if m.n <= last[p] {
			t.Errorf("%v got %d after %d", p, m.n, last[p])
		}
		last[p] = m.n
		handled++
		return nil
	})
	var wg sync.WaitGroup
	for from := range 4 {
		wg.Go(func() {
			for n := range 500 {
				pool.Tell(bg, task{from: from, n: n + 1})
			}
		})
	}
	wg.Wait()
	until(t, "all handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return handled == 2000
	})
}

func TestResizeUnderLoadLosesNothing(t *testing.T) {
	for name, strategy := range map[string]router.Strategy[task]{
		"round robin": router.RoundRobin[task], "least loaded": router.LeastLoaded[task],
		"hash": router.ConsistentHashNumber(func(m task) int { return m.n }, router.BoundedLoad(1.25)),
	} {
		t.Run(name, func(t *testing.T) {
			sys, c := newSystem(t), &crew{}
			pool := router.SpawnPoolFunc(sys, "pool", strategy, 3, c.receive)
			var stop atomic.Bool
			var sent atomic.Int64
			var wg sync.WaitGroup
			for range 3 {
				wg.Go(func() {
					for n := 0; !stop.Load(); n++ {
						pool.Tell(bg, task{n: n})
						sent.Add(1)
						for sent.Load()-c.total.Load()-int64(sys.Stats().DeadLetters) > 1000 {
							runtime.Gosched()
						}
					}
				})
			}
			for round := range 30 {
				size := (round*7)%9 + round%2
				if err := pool.Resize(bg, size); err != nil {
					t.Error(err)
				}
				if got := len(pool.Routees()); got != size {
					t.Errorf("resized to %d and there are %d", size, got)
				}
				for goal := sent.Load() + 50; sent.Load() < goal; {
					runtime.Gosched()
				}
			}
			stop.Store(true)
			wg.Wait()
			pool.Drain()
			downOf(t, sys, pool.PID())()
			if got := c.total.Load() + int64(sys.Stats().DeadLetters); got != sent.Load() {
				t.Errorf("sent %d, handled %d, dead letters %d", sent.Load(), c.total.Load(), sys.Stats().DeadLetters)
			}
		})
	}
}

func TestResizeDownHandlesWhatTheRemovedHaveGot(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 3, c.receive)
	removed := pool.Routees()[1:]
	var releases []func()
	var downs []func() actor.Down
	for _, r := range removed {
		releases = append(releases, block(t, r))
		downs = append(downs, downOf(t, sys, r.PID()))
	}
	for range 30 {
		pool.Tell(bg, task{})
	}
	if err := pool.Resize(bg, 1); err != nil {
		t.Fatal(err)
	}
	if got := pool.Routees(); len(got) != 1 || got[0].PID().Path() != "/pool/1" {
		t.Errorf("left are %v", got)
	}
	for range 5 {
		pool.Tell(bg, task{})
	}
	for i := range removed {
		releases[i]()
		if d := downs[i](); d.Reason != actor.Stopped {
			t.Errorf("%v ended as %v", d.PID, d.Reason)
		}
	}
	until(t, "all handled", func() bool { return c.total.Load() == 30+5+2 })
	if got := c.counts(); got["/pool/1"] != 15 || got["/pool/2"] != 11 || got["/pool/3"] != 11 {
		t.Errorf("handled %v", got)
	}
	if n := sys.Stats().DeadLetters; n != 0 {
		t.Errorf("%d dead letters", n)
	}
}

func TestResizeUpDoesNotTakeTheNameOfARouteeThatStillDrains(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
	release := block(t, pool.Routees()[1])
	defer release()
	for _, size := range []int{1, 2} {
		if err := pool.Resize(bg, size); err != nil {
			t.Fatal(err)
		}
	}
	if got := pool.Routees()[1].PID().Path(); got != "/pool/3" {
		t.Errorf("the new routee is %s", got)
	}
}

func TestResizeFromARouteesOwnHandler(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 1, c.receive)
	for _, size := range []int{3, 0} {
		done := make(chan error, 1)
		pool.Tell(bg, task{do: func(ctx *actor.Context[task]) error {
			done <- pool.Resize(ctx, size)
			return nil
		}})
		if err := <-done; err != nil || len(pool.Routees()) != size {
			t.Errorf("resize to %d: %v, now %v", size, err, pool.Routees())
		}
	}
}

func TestResizeRefusesWhatCannotBe(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 1, c.receive)
	if err := pool.Resize(bg, -1); !errors.Is(err, router.ErrBadSize) {
		t.Errorf("negative: %v", err)
	}
	down := downOf(t, sys, pool.PID())
	pool.Stop()
	down()
	if err := pool.Resize(bg, 1); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
	if _, err := router.TrySpawnPoolFunc(sys, "p", router.RoundRobin, -3, c.receive); !errors.Is(err, router.ErrBadSize) {
		t.Errorf("spawn: %v", err)
	}
	if _, err := router.TrySpawnPoolFunc(sys, "p", nil, 3, c.receive); !errors.Is(err, router.ErrNoStrategy) {
		t.Errorf("spawn without a strategy: %v", err)
	}
	if _, err := router.TrySpawnPoolFunc(sys, "a/b", router.RoundRobin, 3, c.receive); !errors.Is(err, actor.ErrBadName) {
		t.Errorf("spawn with a bad name: %v", err)
	}
	if _, err := router.TrySpawnGroup[task](sys, "g", nil); !errors.Is(err, router.ErrNoStrategy) {
		t.Errorf("group without a strategy: %v", err)
	}
	if _, err := router.TrySpawnGroup(sys, "g", router.RoundRobin, actor.Ref[task]{}); !errors.Is(err, router.ErrZeroRef) {
		t.Errorf("group of nobody: %v", err)
	}
}

// picky is a routee whose Init fails while told to.
type picky struct {
	crew
	refuse *atomic.Bool
	init   func()
}

var errInit = errors.New("not today")

func (p *picky) Init(*actor.Context[task]) error {
	if p.init != nil {
		p.init()
	}
	if p.refuse.Load() {
		return errInit
	}
	return nil
}

func (p *picky) Receive(ctx *actor.Context[task], m task) error { return p.crew.receive(ctx, m) }

func TestSpawnPoolReportsAFailingInit(t *testing.T) {
	sys := newSystem(t)
	var refuse atomic.Bool
	refuse.Store(true)
	newRoutee := func() *picky { return &picky{refuse: &refuse} }
	if _, err := router.TrySpawnPool(sys, "pool", router.RoundRobin, 2, newRoutee); !errors.Is(err, errInit) {
		t.Fatalf("got %v", err)
	}
	refuse.Store(false)
	pool := router.SpawnPool(sys, "again", router.RoundRobin, 2, newRoutee)
	refuse.Store(true)
	if err := pool.Resize(bg, 4); !errors.Is(err, errInit) {
		t.Errorf("resize: %v", err)
	}
	if n := len(pool.Routees()); n != 2 {
		t.Errorf("%d routees after a resize that failed", n)
	}
	refuse.Store(false)
	if err := pool.Resize(bg, 3); err != nil || len(pool.Routees()) != 3 {
		t.Errorf("resize: %v, now %d", err, len(pool.Routees()))
	}
}

func TestFailingRouteeIsRestartedInItsPlace(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
	before := pool.Routees()
	pool.Tell(bg, task{do: func(*actor.Context[task]) error { panic("ouch") }})
	for _, want := range []string{"/pool/2", "/pool/1", "/pool/2"} {
		if who := ask(t, pool.Ref, task{}); who != want {
			t.Errorf("%s answered, want %s", who, want)
		}
	}
	if !slices.Equal(before, pool.Routees()) {
		t.Error("the routees are others")
	}
	if n := sys.Stats().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
}

func TestRouteeThatEndsIsReplaced(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[task]){
		"by itself": func(r actor.Ref[task]) {
			r.Tell(bg, task{do: func(*actor.Context[task]) error { return actor.ErrStop }})
		},
		"stopped": actor.Ref[task].Stop,
		"killed":  actor.Ref[task].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			sys, c := newSystem(t), &crew{}
			pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 3, c.receive)
			victim := pool.Routees()[1]
			end(victim)
			until(t, "replaced", func() bool {
				now := pool.Routees()
				return len(now) == 3 && !slices.Contains(now, victim)
			})
			if who := ask(t, pool.Routees()[1], task{}); who != "/pool/2" {
				t.Errorf("the replacement is %s", who)
			}
		})
	}
}

func TestRouteeThatFailsTooOftenIsReplacedAndItsSiblingsLive(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive, router.Supervision(
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(2, stdtime.Hour), actor.Exhausted(actor.Stop))))
	before := pool.Routees()
	for range 3 {
		before[0].Tell(bg, task{do: func(*actor.Context[task]) error { return errInit }})
	}
	until(t, "replaced", func() bool {
		now := pool.Routees()
		return len(now) == 2 && now[0] != before[0] && now[1] == before[1]
	})
}

func TestEscalationRestartsThePoolInItsCurrentSize(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 1, c.receive, router.Supervision(
		actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, stdtime.Hour))))
	if err := pool.Resize(bg, 3); err != nil {
		t.Fatal(err)
	}
	before := pool.Routees()
	before[0].Tell(bg, task{do: func(*actor.Context[task]) error { return errInit }})
	until(t, "all replaced", func() bool {
		now := pool.Routees()
		return len(now) == 3 && !slices.ContainsFunc(before, func(r actor.Ref[task]) bool { return slices.Contains(now, r) })
	})
	ask(t, pool.Ref, task{})
}

func TestRemoveEndedLetsThePoolShrink(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 3, c.receive, router.RemoveEnded())
	for left := 2; left >= 0; left-- {
		pool.Routees()[0].Stop()
		until(t, "removed", func() bool { return len(pool.Routees()) == left })
	}
	pool.Tell(bg, task{})
	until(t, "a dead letter", func() bool { return sys.Stats().DeadLetters == 1 })
	if err := pool.Resize(bg, 2); err != nil || len(pool.Routees()) != 2 {
		t.Errorf("resize: %v, now %d", err, len(pool.Routees()))
	}
}

func TestRouteeThatCannotLiveIsReplacedAtGrowingIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		var refuse atomic.Bool
		var inits atomic.Int64
		var at []stdtime.Duration
		began := stdtime.Now()
		pool := router.SpawnPool(sys, "pool", router.RoundRobin, 1, func() *picky {
			return &picky{refuse: &refuse, init: func() {
				inits.Add(1)
				at = append(at, stdtime.Since(began))
			}}
		})
		refuse.Store(true)
		pool.Routees()[0].Stop()
		stdtime.Sleep(stdtime.Minute)
		refuse.Store(false)
		if len(pool.Routees()) != 0 {
			t.Error("a routee that could not start serves")
		}
		stdtime.Sleep(10 * stdtime.Second)
		if len(pool.Routees()) != 1 {
			t.Error("not replaced when it could have been")
		}
		want := []stdtime.Duration{0, 0, 100, 300, 700, 1500, 3100, 6300, 12700, 22700, 32700, 42700, 52700, 62700}
		for i := range want {
			want[i] *= stdtime.Millisecond
		}
		round := func(d stdtime.Duration) stdtime.Duration { return d.Round(50 * stdtime.Millisecond) }
		for i, d := range at {
			if i < len(want) && round(d) != want[i] {
				t.Errorf("attempt %d after %v, want %v", i, d, want[i])
			}
		}
		if len(at) != len(want) {
			t.Errorf("attempts at %v", at)
		}
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestGroupDropsAMemberThatEnds(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	a, b := actor.SpawnFunc(sys, "a", c.receive), actor.SpawnFunc(sys, "b", c.receive)
	group := router.SpawnGroup(sys, "group", router.RoundRobin, a, b)
	a.Stop()
	until(t, "dropped", func() bool { return slices.Equal(group.Routees(), []actor.Ref[task]{b}) })
	for range 3 {
		if who := ask(t, group.Ref, task{}); who != "/b" {
			t.Errorf("%s answered", who)
		}
	}
	b.Kill()
	until(t, "empty", func() bool { return len(group.Routees()) == 0 })
}

func TestGroupKeepsAMemberThatIsRestarted(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	a := actor.SpawnFunc(sys, "a", c.receive)
	group := router.SpawnGroup(sys, "group", router.RoundRobin, a)
	group.Tell(bg, task{do: func(*actor.Context[task]) error { return errInit }})
	if who := ask(t, group.Ref, task{}); who != "/a" {
		t.Errorf("%s answered", who)
	}
	if n := sys.Stats().Restarts; n != 1 {
		t.Errorf("%d restarts", n)
	}
}

func TestGroupAddAndRemove(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	a, b, gone := actor.SpawnFunc(sys, "a", c.receive), actor.SpawnFunc(sys, "b", c.receive), actor.SpawnFunc(sys, "gone", c.receive)
	down := downOf(t, sys, gone.PID())
	gone.Stop()
	down()
	group := router.SpawnGroup[task](sys, "group", router.RoundRobin)
	expect := func(err error, want ...actor.Ref[task]) {
		t.Helper()
		if got := group.Routees(); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
	expect(group.Add(bg, a, b, a), a, b)
	expect(group.Add(bg, a), a, b)
	expect(group.Remove(bg, gone), a, b)
	expect(group.Remove(bg, a, a), b)
	if err := group.Add(bg, gone); err != nil {
		t.Fatal(err)
	}
	until(t, "dropped", func() bool { return slices.Equal(group.Routees(), []actor.Ref[task]{b}) })
	if err := group.Add(bg, actor.Ref[task]{}); !errors.Is(err, router.ErrZeroRef) {
		t.Errorf("zero: %v", err)
	}
	a.Stop()
	until(t, "gone", func() bool { return errors.Is(a.TryTell(bg, task{}), actor.ErrStopped) })
	expect(nil, b) // its end concerns the group no more

	groupDown := downOf(t, sys, group.PID())
	group.Stop()
	groupDown()
	if err := group.Add(bg, b); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("stopped: %v", err)
	}
	if who := ask(t, b, task{}); who != "/b" {
		t.Errorf("the member did not survive its group: %s", who)
	}
}

func TestGroupOfRoutersOverOneActorWatchesBoth(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
	other, err := actor.Routed(sys, pool.PID(), func(m task, to func(actor.Ref[task])) { to(pool.Ref) })
	if err != nil {
		t.Fatal(err)
	}
	group := router.SpawnGroup(sys, "group", router.RoundRobin, pool.Ref, other)
	if err := group.Remove(bg, other); err != nil {
		t.Fatal(err)
	}
	ask(t, group.Ref, task{})
	pool.Stop()
	until(t, "dropped", func() bool { return len(group.Routees()) == 0 })
}

func TestRouterThatEndsTakesNothingAnyMore(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[task]){
		"stop": actor.Ref[task].Stop, "drain": actor.Ref[task].Drain, "kill": actor.Ref[task].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			sys, c := newSystem(t), &crew{}
			a := actor.SpawnFunc(sys, "a", c.receive)
			group := router.SpawnGroup(sys, "group", router.RoundRobin, a)
			pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
			for _, ref := range []actor.Ref[task]{group.Ref, pool.Ref} {
				down := downOf(t, sys, ref.PID())
				end(ref)
				down()
				until(t, "closed", func() bool { return errors.Is(ref.TryTell(bg, task{}), actor.ErrStopped) })
			}
			until(t, "empty", func() bool { return len(pool.Routees())+len(group.Routees()) == 0 })
			ask(t, a, task{})
		})
	}
}

func TestPoolAsTheChildOfAnActor(t *testing.T) {
	sys, c := newSystem(t), &crew{}
	parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[any], m any) error {
		actor.ReplyFor(ctx, router.SpawnPoolFunc(ctx, "pool", router.RoundRobin, 2, c.receive))
		return nil
	})
	pool, err := actor.AskFor[*router.Pool[task]](bg, parent, "spawn")
	if err != nil {
		t.Fatal(err)
	}
	if who := ask(t, pool.Ref, task{}); who != "/parent/pool/1" {
		t.Errorf("answered by %s", who)
	}
	down := downOf(t, sys, pool.PID())
	parent.Stop()
	down()
	until(t, "closed", func() bool { return errors.Is(pool.TryTell(bg, task{}), actor.ErrStopped) })
}

func TestSenderOfARoutedMessageIsTheOriginalOne(t *testing.T) {
	sys := newSystem(t)
	senders := make(chan actor.PID, 1)
	pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 1, func(ctx *actor.Context[task], _ task) error {
		senders <- ctx.Sender()
		return nil
	})
	sender := actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[int], _ int) error {
		pool.Tell(ctx, task{})
		return nil
	})
	sender.Tell(bg, 1)
	if got := <-senders; got != sender.PID() {
		t.Errorf("sender %v", got)
	}
}
