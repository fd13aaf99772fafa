package router_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	stdtime "time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/router"
)

// task is what the routees of these tests are told. Asked, its answer is the path of
// whoever did it.
type task struct {
	actor.Returns[string]
	key  string
	from int
	n    int
	do   func(ctx *actor.Context[task]) error
}

// tally counts what each routee handles.
type tally struct {
	mu    sync.Mutex
	by    map[string]int
	total atomic.Int64
}

func (c *tally) receive(ctx *actor.Context[task], m task) error {
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

// expect settles and fails the test unless so many messages were handled.
func (c *tally) expect(k *actortest.Kit, messages int64) {
	k.T().Helper()
	k.Settle()
	if n := c.total.Load(); n != messages {
		k.T().Errorf("%d messages were handled, want %d", n, messages)
	}
}

func (c *tally) counts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.by)
}

func ask(k *actortest.Kit, to actor.Ref[task], m task) (who string) {
	k.T().Helper()
	return actortest.Ask(k, to, m).Answer()
}

// block keeps routees in their handlers until the gate is opened.
func block(k *actortest.Kit, refs ...actor.Ref[task]) *actortest.Gate {
	gate := actortest.NewGate(k)
	gate.Close()
	for _, to := range refs {
		to.Tell(k.Context(), task{do: func(ctx *actor.Context[task]) error {
			gate.Pass(ctx)
			return nil
		}})
	}
	k.Settle()
	return gate
}

func TestRoundRobinGivesEachRouteeTheSameNumber(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 4, c.receive)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					pool.Tell(k.Context(), task{})
				}
			})
		}
		wg.Wait()
		c.expect(k, 800)
		want := map[string]int{"/pool/1": 200, "/pool/2": 200, "/pool/3": 200, "/pool/4": 200}
		if got := c.counts(); !maps.Equal(got, want) {
			k.T().Errorf("got %v, want %v", got, want)
		}
	})
}

func TestRandomSpreadsEvenly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.Random, 4, c.receive)
		const n = 8000
		for range n {
			pool.Tell(k.Context(), task{})
		}
		c.expect(k, n)
		for path, got := range c.counts() {
			// Six standard deviations: it fails by chance once in 10⁸ runs.
			if dev := math.Abs(float64(got)-n/4) / math.Sqrt(n*3.0/16); dev > 6 {
				k.T().Errorf("%s got %d of %d, %.1f standard deviations off", path, got, n, dev)
			}
		}
	})
}

func TestBroadcastReachesEveryRouteeOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.Broadcast, 5, c.receive)
		for range 10 {
			pool.Tell(k.Context(), task{})
		}
		c.expect(k, 50)
		for path, got := range c.counts() {
			if got != 10 {
				k.T().Errorf("%s got %d, want 10", path, got)
			}
		}
	})
}

func TestBroadcastOfTheHandleIgnoresTheStrategy(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 3, c.receive)
		pool.Broadcast(k.Context(), task{})
		c.expect(k, 3)
		if got := c.counts(); len(got) != 3 {
			k.T().Errorf("reached %v", got)
		}
	})
}

func TestLeastLoadedPassesOverBusyRoutees(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.LeastLoaded, 5, c.receive)
		block(k, pool.Routees()[:4]...)
		for range 50 {
			if who := ask(k, pool.Ref, task{}); who != "/pool/5" {
				k.T().Fatalf("%s was asked and is busy", who)
			}
		}
	})
}

func TestLeastLoadedFillsMailboxesEvenly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.LeastLoaded, 4, c.receive)
		block(k, pool.Routees()...)
		pool.Routees()[1].Tell(k.Context(), task{})
		pool.Routees()[1].Tell(k.Context(), task{})
		for range 4*5 - 2 { // from one sender: what it decides on is exact
			pool.Tell(k.Context(), task{})
		}
		for i := range 4 {
			if n, ok := pool.Routees()[i].Backlog(); !ok || n != 6 { // five and the one being handled
				k.T().Errorf("/pool/%d has %d, %v", i+1, n, ok)
			}
		}
	})
}

func TestLeastLoadedUsesMembersWithoutANameToo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		named, unnamed := actor.SpawnFunc(sys, "named", c.receive), actor.SpawnFunc(sys, "", c.receive)
		group := router.SpawnGroup(sys, "group", router.LeastLoaded, named, unnamed)
		for range 200 {
			ask(k, group.Ref, task{})
		}
		if got := c.counts(); len(got) != 2 {
			k.T().Errorf("only %v were used", got)
		}
	})
}

func TestScatterGatherTakesTheFirstAnswer(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		cause := errors.New("no")
		refuse := actor.SpawnFunc(sys, "refuse", func(*actor.Context[task], task) error { return cause })
		slow, quick := actor.SpawnFunc(sys, "slow", c.receive), actor.SpawnFunc(sys, "quick", c.receive)
		gate := block(k, slow)
		group := router.SpawnGroup(sys, "group", router.ScatterGather, refuse, slow, quick)
		if who := ask(k, group.Ref, task{}); who != "/quick" {
			k.T().Errorf("%s answered first", who)
		}
		gate.Open()
		only := router.SpawnGroup(sys, "refusers", router.ScatterGather, refuse)
		if _, err := actor.Ask(k.Context(), only.Ref, task{}); !errors.Is(err, cause) {
			k.T().Errorf("all refuse: %v", err)
		}
		k.ExpectFailures(2)
	})
}

func TestAskGoesThroughEveryStrategy(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
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
			pool := router.SpawnPoolFunc(k.System(), "", strategy, 3, c.receive)
			group := router.SpawnGroup(k.System(), "", strategy, pool.Routees()...)
			for _, ref := range []actor.Ref[task]{pool.Ref, group.Ref} {
				if who := ask(k, ref, task{key: name}); !strings.HasPrefix(who, pool.PID().Path()+"/") {
					k.T().Errorf("%s: answered by %s", name, who)
				}
			}
		}
	})
}

// assign returns who gets each of n keys.
func assign(k *actortest.Kit, to actor.Ref[task], n int) []string {
	k.T().Helper()
	who := make([]string, n)
	for i := range who {
		who[i] = ask(k, to, task{key: fmt.Sprintf("key-%d", i)})
	}
	return who
}

func TestConsistentHashIsBalancedAndMovesAsFewKeysAsItCan(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		const n, keys = 8, 4000
		var members []actor.Ref[task]
		for i := range n {
			members = append(members, actor.SpawnFunc(k.System(), fmt.Sprintf("m%d", i), c.receive))
		}
		group := router.SpawnGroup(k.System(), "group", router.ConsistentHash(func(m task) string { return m.key }), members...)
		before := assign(k, group.Ref, keys)
		share := map[string]int{}
		for _, who := range before {
			share[who]++
		}
		for _, m := range members {
			if got := share[m.PID().Path()]; math.Abs(float64(got)-keys/n) > 0.2*keys/n {
				k.T().Errorf("%s has %d keys of %d, want about %d", m, got, keys, keys/n)
			}
		}
		const leaver = "/m3"
		if err := group.Remove(k.Context(), members[3]); err != nil {
			k.T().Fatal(err)
		}
		for i, who := range assign(k, group.Ref, keys) {
			if before[i] != leaver && who != before[i] {
				k.T().Fatalf("key %d moved from %s to %s though %s left", i, before[i], who, leaver)
			}
			if who == leaver {
				k.T().Fatalf("key %d is still with %s", i, leaver)
			}
		}
		if err := group.Add(k.Context(), members[3]); err != nil { // at another place in the list
			k.T().Fatal(err)
		}
		if after := assign(k, group.Ref, keys); !slices.Equal(before, after) {
			k.T().Error("the keys are not where they were before the member left and came back")
		}
	})
}

func TestConsistentHashKeepsItsKeysWhenARouteeIsReplaced(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.ConsistentHash(func(m task) string { return m.key }), 4, c.receive)
		before, old := assign(k, pool.Ref, 100), pool.Routees()
		old[1].Stop()
		k.Settle()
		if now := pool.Routees(); len(now) != 4 || slices.Contains(now, old[1]) {
			k.T().Errorf("not replaced: %v", now)
		}
		if after := assign(k, pool.Ref, 100); !slices.Equal(before, after) {
			k.T().Error("keys moved though the replacement has the same name")
		}
	})
}

func TestConsistentHashIsTheSameInEveryProcess(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		pool := router.SpawnPoolFunc(k.System(), "pool", router.ConsistentHash(func(m task) string { return m.key }), 5, c.receive)
		got := strings.Join(assign(k, pool.Ref, 10), " ")
		// Pinned: with another hash the keys of everybody who updates would move.
		const want = "/pool/4 /pool/3 /pool/5 /pool/1 /pool/2 /pool/3 /pool/1 /pool/4 /pool/5 /pool/3"
		if got != want {
			k.T().Errorf("got  %s\nwant %s", got, want)
		}
	})
}

func TestBoundedLoadSpillsAPopularKeyAndNoMoreThanNeeded(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		const n, factor, messages = 5, 1.25, 200
		hash := router.ConsistentHash(func(m task) string { return m.key }, router.BoundedLoad(factor))
		pool := router.SpawnPoolFunc(k.System(), "pool", hash, n, c.receive)
		home := ask(k, pool.Ref, task{key: "hot"})
		block(k, pool.Routees()...)
		for range messages { // from one sender: what it decides on is exact
			pool.Tell(k.Context(), task{key: "hot"})
		}
		limit := int(math.Ceil(factor * (messages + n) / n))
		least := messages
		for _, r := range pool.Routees() {
			load, ok := r.Backlog()
			if !ok || load > limit {
				k.T().Errorf("%s has %d messages, the limit is %d (%v)", r, load, limit, ok)
			}
			if r.PID().Path() == home && load < limit-2 {
				k.T().Errorf("the key's own %s has only %d messages of %d allowed", r, load, limit)
			}
			least = min(least, load)
		}
		if want := messages - (n-1)*limit; least < want {
			k.T().Errorf("the last routee has %d messages, want at least %d", least, want)
		}
	})
}

func TestBoundedLoadStaysWithTheKeyWhileItsRouteeIsIdle(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		c := new(tally)
		key := func(m task) string { return m.key }
		plain := router.SpawnPoolFunc(k.System(), "pool", router.ConsistentHash(key), 5, c.receive)
		bounded := router.SpawnGroup(k.System(), "bounded", router.ConsistentHash(key, router.BoundedLoad(1.25)), plain.Routees()...)
		want := assign(k, plain.Ref, 50)
		for i := range want {
			if who := ask(k, bounded.Ref, task{key: fmt.Sprintf("key-%d", i)}); who != want[i] {
				k.T().Errorf("key %d went to %s, want %s", i, who, want[i])
			}
		}
	})
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
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
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
				ref.Tell(k.Context(), task{})
				if got := sys.Stats().DeadLetters - before; got != 1 {
					k.T().Errorf("%s: %d dead letters for a told message", name, got)
				}
				if d := sys.DeadLetters()[0]; d.To != ref.PID() || d.Reason != actor.NoActor {
					k.T().Errorf("%s: dead letter %+v", name, d)
				}
				if err := ref.TryTell(k.Context(), task{}); !errors.Is(err, actor.ErrStopped) {
					k.T().Errorf("%s: TryTell: %v", name, err)
				}
				if _, err := actor.Ask(k.Context(), ref, task{}); !errors.Is(err, actor.ErrStopped) {
					k.T().Errorf("%s: Ask: %v", name, err)
				}
			}
			before := sys.Stats().DeadLetters
			pool.Broadcast(k.Context(), task{})
			if got := sys.Stats().DeadLetters - before; got != 1 {
				k.T().Errorf("%s: %d dead letters for a broadcast", name, got)
			}
		}
	})
}

func TestOrderOfASenderIsKeptForEachRoutee(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		type pair struct {
			who  string
			from int
		}
		var mu sync.Mutex
		last, handled := map[pair]int{}, 0
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 3, func(ctx *actor.Context[task], m task) error {
			mu.Lock()
			defer mu.Unlock()
			p := pair{ctx.Self().PID().Path(), m.from}
			if m.n <= last[p] {
				k.T().Errorf("%v got %d after %d", p, m.n, last[p])
			}
			last[p] = m.n
			handled++
			return nil
		})
		var wg sync.WaitGroup
		for from := range 4 {
			wg.Go(func() {
				for n := range 500 {
					pool.Tell(k.Context(), task{from: from, n: n + 1})
				}
			})
		}
		wg.Wait()
		k.Settle()
		if handled != 2000 {
			k.T().Errorf("%d messages were handled, want 2000", handled)
		}
	})
}

func TestASenderThatIsLateChoosesAgain(t *testing.T) {
	for _, ended := range []bool{false, true} {
		t.Run(fmt.Sprint("ended: ", ended), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				c := new(tally)
				var pause func() // of a sender that has chosen
				last := func(_ *actor.System, routees []actor.Ref[task]) actor.Route[task] {
					return func(_ task, to func(actor.Ref[task])) {
						if wait := pause; wait != nil {
							pause = nil
							wait()
						}
						to(routees[len(routees)-1])
					}
				}
				pool := router.SpawnPoolFunc(k.System(), "pool", last, 2, c.receive)
				gate := block(k, pool.Routees()[1])
				if ended {
					gate.Open()
				}
				pause = func() {
					if err := pool.Resize(k.Context(), 1); err != nil {
						k.T().Error(err)
					}
					k.Advance(stdtime.Second) // longer than a removed routee lingers
				}
				pool.Tell(k.Context(), task{})
				pause = nil
				if got, err := actor.Ask(k.Context(), pool.Ref, task{}); err != nil || got != "/pool/1" {
					k.T().Errorf("asked, %q answers: %v", got, err)
				}
				gate.Open()
				k.Settle()
				if got := c.counts(); got["/pool/1"] != 2 || k.System().Stats().DeadLetters != 0 {
					k.T().Errorf("handled %v, %d dead letters", got, k.System().Stats().DeadLetters)
				}
			})
		})
	}
}

func TestGroupDropsAMemberThatEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		a, b := actor.SpawnFunc(sys, "a", c.receive), actor.SpawnFunc(sys, "b", c.receive)
		group := router.SpawnGroup(sys, "group", router.RoundRobin, a, b)
		a.Stop()
		k.Settle()
		if !slices.Equal(group.Routees(), []actor.Ref[task]{b}) {
			k.T().Error("not dropped")
		}
		for range 3 {
			if who := ask(k, group.Ref, task{}); who != "/b" {
				k.T().Errorf("%s answered", who)
			}
		}
		b.Kill()
		k.Settle()
		if len(group.Routees()) != 0 {
			k.T().Error("not empty")
		}
	})
}

func TestGroupKeepsAMemberThatIsRestarted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		a := actor.SpawnFunc(sys, "a", c.receive)
		group := router.SpawnGroup(sys, "group", router.RoundRobin, a)
		group.Tell(k.Context(), task{do: func(*actor.Context[task]) error { return errInit }})
		if who := ask(k, group.Ref, task{}); who != "/a" {
			k.T().Errorf("%s answered", who)
		}
		if n := sys.Stats().Restarts; n != 1 {
			k.T().Errorf("%d restarts", n)
		}
		k.ExpectFailures(1)
	})
}

func TestGroupAddAndRemove(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		a, b, gone := actor.SpawnFunc(sys, "a", c.receive), actor.SpawnFunc(sys, "b", c.receive), actor.SpawnFunc(sys, "gone", c.receive)
		k.Watch(gone)
		gone.Stop()
		actortest.ExpectDown(k, gone)
		group := router.SpawnGroup[task](sys, "group", router.RoundRobin)
		expect := func(err error, want ...actor.Ref[task]) {
			k.T().Helper()
			if got := group.Routees(); err != nil || !slices.Equal(got, want) {
				k.T().Errorf("got %v, %v; want %v", got, err, want)
			}
		}
		expect(group.Add(k.Context(), a, b, a), a, b)
		expect(group.Add(k.Context(), a), a, b)
		expect(group.Remove(k.Context(), gone), a, b)
		expect(group.Remove(k.Context(), a, a), b)
		if err := group.Add(k.Context(), gone); err != nil {
			k.T().Fatal(err)
		}
		k.Settle()
		if !slices.Equal(group.Routees(), []actor.Ref[task]{b}) {
			k.T().Error("not dropped")
		}
		if err := group.Add(k.Context(), actor.Ref[task]{}); !errors.Is(err, router.ErrZeroRef) {
			k.T().Errorf("zero: %v", err)
		}
		a.Stop()
		k.Settle()
		if !errors.Is(a.TryTell(k.Context(), task{}), actor.ErrStopped) {
			k.T().Error("not gone")
		}
		expect(nil, b) // its end concerns the group no more

		k.Watch(group)
		group.Stop()
		actortest.ExpectDown(k, group)
		if err := group.Add(k.Context(), b); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("stopped: %v", err)
		}
		if who := ask(k, b, task{}); who != "/b" {
			k.T().Errorf("the member did not survive its group: %s", who)
		}
	})
}

func TestGroupOfRoutersOverOneActorWatchesBoth(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		c := new(tally)
		pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
		other, err := actor.Routed(sys, pool.PID(), func(m task, to func(actor.Ref[task])) { to(pool.Ref) })
		if err != nil {
			k.T().Fatal(err)
		}
		group := router.SpawnGroup(sys, "group", router.RoundRobin, pool.Ref, other)
		if err := group.Remove(k.Context(), other); err != nil {
			k.T().Fatal(err)
		}
		ask(k, group.Ref, task{})
		pool.Stop()
		k.Settle()
		if len(group.Routees()) != 0 {
			k.T().Error("not dropped")
		}
	})
}

func TestRouterThatEndsTakesNothingAnyMore(t *testing.T) {
	for name, end := range map[string]func(actor.Ref[task]){
		"stop": actor.Ref[task].Stop, "drain": actor.Ref[task].Drain, "kill": actor.Ref[task].Kill,
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				sys := k.System()
				c := new(tally)
				a := actor.SpawnFunc(sys, "a", c.receive)
				group := router.SpawnGroup(sys, "group", router.RoundRobin, a)
				pool := router.SpawnPoolFunc(sys, "pool", router.RoundRobin, 2, c.receive)
				for _, ref := range []actor.Ref[task]{group.Ref, pool.Ref} {
					k.Watch(ref)
					end(ref)
					actortest.ExpectDown(k, ref)
					if !errors.Is(ref.TryTell(k.Context(), task{}), actor.ErrStopped) {
						k.T().Error("not closed")
					}
				}
				k.Settle()
				if len(pool.Routees())+len(group.Routees()) != 0 {
					k.T().Error("not empty")
				}
				ask(k, a, task{})
			})
		})
	}
}

func TestSenderOfARoutedMessageIsTheOriginalOne(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		routee := actortest.NewProbe[task](k)
		group := router.SpawnGroup(k.System(), "group", router.RoundRobin, routee.Ref())
		pool := router.SpawnPoolFunc(k.System(), "pool", router.RoundRobin, 1, func(ctx *actor.Context[task], _ task) error {
			return actor.Forward(ctx, routee.Ref())
		})
		sender := actor.SpawnFunc(k.System(), "sender", func(ctx *actor.Context[int], _ int) error {
			pool.Tell(ctx, task{key: "by the pool"})
			group.Tell(ctx, task{key: "by the group"})
			return nil
		})
		sender.Tell(k.Context(), 1)
		for range 2 {
			if m := routee.Next(); routee.Sender() != sender.PID() {
				k.T().Errorf("%s: the sender is %v", m.key, routee.Sender())
			}
		}
	})
}
