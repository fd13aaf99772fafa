package router_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/router"
)

// Job is a request: its answer says who did it.
type Job struct {
	actor.Returns[string]
	ID string
}

// Worker answers each job with its own name.
type Worker struct{}

func NewWorker() *Worker { return &Worker{} }

func (*Worker) Receive(ctx *actor.Context[Job], job Job) error {
	actor.Reply(ctx, job, fmt.Sprintf("%s did %s", ctx.Self().PID().Path(), job.ID))
	return nil
}

func exampleSystem() (sys *actor.System, shutdown func()) {
	sys = actor.NewSystem("example", actor.WithLogger(slog.New(slog.DiscardHandler)))
	return sys, func() { _, _ = sys.Shutdown(context.Background()) }
}

func ExampleRoundRobin() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPool(sys, "workers", router.RoundRobin, 3, NewWorker)
	for _, id := range []string{"a", "b", "c", "d"} {
		done, err := actor.Ask(ctx, pool.Ref, Job{ID: id})
		fmt.Println(done, err)
	}
	// Output:
	// /workers/1 did a <nil>
	// /workers/2 did b <nil>
	// /workers/3 did c <nil>
	// /workers/1 did d <nil>
}

func ExampleRandom() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPool(sys, "workers", router.Random, 3, NewWorker)
	who := map[string]bool{}
	for range 1000 {
		done, err := actor.Ask(ctx, pool.Ref, Job{ID: "it"})
		if err != nil {
			fmt.Println(err)
		}
		who[done] = true
	}
	fmt.Println(len(who), "workers did something")
	// Output: 3 workers did something
}

func ExampleLeastLoaded() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	done := make(chan string)
	pool := router.SpawnPoolFunc(sys, "workers", router.LeastLoaded, 2, func(ctx *actor.Context[moment], t moment) error {
		if t.long != nil {
			<-t.long
		}
		done <- ctx.Self().PID().Path()
		return nil
	})
	long := make(chan struct{})
	busy := pool.Routees()[0]
	busy.Tell(ctx, moment{long})
	for range 3 {
		pool.Tell(ctx, moment{})
		fmt.Println(<-done)
		idle(pool.Routees()[1])
	}
	close(long)
	fmt.Println(<-done, "at last")
	// Output:
	// /workers/2
	// /workers/2
	// /workers/2
	// /workers/1 at last
}

func ExampleConsistentHash() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	byID := router.ConsistentHash(func(j Job) string { return j.ID })
	pool := router.SpawnPool(sys, "workers", byID, 3, NewWorker)
	ask := func(id string) {
		done, err := actor.Ask(ctx, pool.Ref, Job{ID: id})
		fmt.Println(done, err)
	}
	ask("alice")
	ask("bob")
	ask("alice")
	if err := pool.Resize(ctx, 4); err != nil { // the fourth takes over a quarter of the keys
		fmt.Println(err)
	}
	ask("alice")
	ask("bob")
	// Output:
	// /workers/3 did alice <nil>
	// /workers/1 did bob <nil>
	// /workers/3 did alice <nil>
	// /workers/4 did alice <nil>
	// /workers/1 did bob <nil>
}

func ExampleConsistentHashNumber() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	type order struct {
		actor.Returns[string]
		customer int
	}
	byCustomer := router.ConsistentHashNumber(func(o order) int { return o.customer })
	pool := router.SpawnPoolFunc(sys, "desks", byCustomer, 4, func(ctx *actor.Context[order], o order) error {
		actor.Reply(ctx, o, ctx.Self().PID().Path())
		return nil
	})
	first, _ := actor.Ask(context.Background(), pool.Ref, order{customer: 4711})
	again, _ := actor.Ask(context.Background(), pool.Ref, order{customer: 4711})
	fmt.Println(first == again)
	// Output: true
}

func ExampleBroadcast() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	var mu sync.Mutex
	var lines []string
	pool := router.SpawnPoolFunc(sys, "screens", router.Broadcast, 3, func(ctx *actor.Context[string], text string) error {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, ctx.Self().PID().Path()+" shows "+text)
		return nil
	})
	pool.Tell(context.Background(), "goal!")
	shutdown() // handles what is in the mailboxes first
	slices.Sort(lines)
	for _, line := range lines {
		fmt.Println(line)
	}
	// Output:
	// /screens/1 shows goal!
	// /screens/2 shows goal!
	// /screens/3 shows goal!
}

func ExampleScatterGather() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	slow := make(chan struct{})
	mirror := func(name string) actor.Ref[Job] {
		return actor.SpawnFunc(sys, name, func(ctx *actor.Context[Job], job Job) error {
			switch name {
			case "broken":
				return fmt.Errorf("no disk")
			case "slow":
				<-slow
			}
			actor.Reply(ctx, job, job.ID+" from "+name)
			return nil
		})
	}
	group := router.SpawnGroup(sys, "mirrors", router.ScatterGather, mirror("broken"), mirror("slow"), mirror("quick"))
	fmt.Println(actor.Ask(context.Background(), group.Ref, Job{ID: "file"}))
	close(slow)
	// Output: file from quick <nil>
}

func ExampleSpawnGroup() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	alice, bob := actor.Spawn(sys, "alice", NewWorker), actor.Spawn(sys, "bob", NewWorker)
	group := router.SpawnGroup(sys, "team", router.RoundRobin, alice)
	if err := group.Add(ctx, bob); err != nil {
		fmt.Println(err)
	}
	for range 2 {
		fmt.Println(actor.Ask(ctx, group.Ref, Job{ID: "it"}))
	}
	if err := group.Remove(ctx, alice); err != nil {
		fmt.Println(err)
	}
	fmt.Println(len(group.Routees()), group.Routees()[0] == bob)
	// Output:
	// /alice did it <nil>
	// /bob did it <nil>
	// 1 true
}

func ExamplePool_Resize() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPool(sys, "workers", router.RoundRobin, 2, NewWorker)
	fmt.Println(pool.Resize(ctx, 5), len(pool.Routees()))
	fmt.Println(pool.Resize(ctx, 1), len(pool.Routees()))
	fmt.Println(pool.Resize(ctx, -1))
	// Output:
	// <nil> 5
	// <nil> 1
	// resize /workers: bad pool size -1: want 0 or more
}

// A strategy of one's own: the first routee gets everything, the others stand by.
func ExampleStrategy() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	first := func(_ *actor.System, routees []actor.Ref[Job]) actor.Route[Job] {
		return func(_ Job, to func(actor.Ref[Job])) { to(routees[0]) }
	}
	pool := router.SpawnPool(sys, "workers", first, 3, NewWorker)
	for range 2 {
		fmt.Println(actor.Ask(context.Background(), pool.Ref, Job{ID: "it"}))
	}
	// Output:
	// /workers/1 did it <nil>
	// /workers/1 did it <nil>
}

// A message for every routee, whatever the strategy; and all the answers.
func ExamplePool_Broadcast() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPool(sys, "workers", router.RoundRobin, 3, NewWorker)
	pool.Broadcast(ctx, Job{ID: "flush"})
	var answers []string
	for _, answer := range actor.Gather(ctx, pool.Routees(), Job{ID: "count"}) {
		answers = append(answers, answer.Value)
	}
	slices.Sort(answers)
	fmt.Println(answers)
	// Output: [/workers/1 did count /workers/2 did count /workers/3 did count]
}

// A message for every member, whatever the strategy.
func ExampleGroup_Broadcast() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	heard := make(chan string, 2)
	listen := func(ctx *actor.Context[Job], job Job) error {
		heard <- fmt.Sprint(ctx.Self().PID().Path(), " hears ", job.ID)
		return nil
	}
	ann, bob := actor.SpawnFunc(sys, "ann", listen), actor.SpawnFunc(sys, "bob", listen)
	group := router.SpawnGroup(sys, "team", router.RoundRobin, ann, bob)
	group.Broadcast(ctx, Job{ID: "lunch"})
	lines := []string{<-heard, <-heard}
	slices.Sort(lines)
	fmt.Println(lines)
	// Output: [/ann hears lunch /bob hears lunch]
}

// A popular key spills over to others when its routee has too much to do.
func ExampleBoundedLoad() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	release := make(chan struct{})
	byTopic := router.ConsistentHash(func(moment) string { return "the talk of the town" }, router.BoundedLoad(1.5))
	var handled [3]int
	pool := router.SpawnPoolFunc(sys, "reporters", byTopic, 3, func(ctx *actor.Context[moment], _ moment) error {
		handled[ctx.Self().PID().Path()[len("/reporters/")]-'1']++
		return actor.Blocking(ctx, func() error { <-release; return nil })
	})
	for range 12 {
		pool.Tell(ctx, moment{})
	}
	close(release)
	shutdown() // handles what is in the mailboxes first
	slices.Sort(handled[:])
	fmt.Println("the busiest of three has", handled[2], "of 12")
	// Output: the busiest of three has 6 of 12
}

// Without RemoveEnded a routee that ends is replaced.
func ExampleRemoveEnded() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPoolFunc(sys, "temps", router.RoundRobin, 2, func(ctx *actor.Context[Job], job Job) error {
		ctx.Stop() // one job each
		actor.Reply(ctx, job, ctx.Self().PID().Path())
		return nil
	}, router.RemoveEnded())
	for n := range 2 {
		fmt.Println(actor.Ask(ctx, pool.Ref, Job{}))
		for len(pool.Routees()) > 1-n {
			runtime.Gosched() // until the pool has noticed
		}
	}
	_, err := actor.Ask(ctx, pool.Ref, Job{})
	fmt.Println(errors.Is(err, actor.ErrStopped))
	// Output:
	// /temps/1 <nil>
	// /temps/2 <nil>
	// true
}

// Options of the routees, and how the pool supervises them.
func ExampleSupervision() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	decide := actor.Decide(func(error) actor.Directive { return actor.Resume }) // keep the count
	n := 0
	pool, err := router.TrySpawnPoolFunc(sys, "tellers", router.RoundRobin, 1, func(ctx *actor.Context[Job], job Job) error {
		if n++; job.ID == "forged" {
			return errors.New("forged")
		}
		actor.Reply(ctx, job, fmt.Sprint(n, " so far"))
		return nil
	}, router.Supervision(actor.Supervise(actor.OneForOne, decide)), router.RouteeOptions(actor.Bounded(1000, actor.Reject)))
	fmt.Println(err)
	pool.Tell(ctx, Job{ID: "forged"})
	fmt.Println(actor.Ask(ctx, pool.Ref, Job{}))
	// Output:
	// <nil>
	// 2 so far <nil>
}

func ExampleTrySpawnPool() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	_, err := router.TrySpawnPool(sys, "workers", router.RoundRobin, -1, NewWorker)
	fmt.Println(err)
	_, err = router.TrySpawnPool[Job](sys, "workers", nil, 4, NewWorker)
	fmt.Println(err)
	pool, err := router.TrySpawnPool(sys, "workers", router.RoundRobin, 4, NewWorker)
	fmt.Println(len(pool.Routees()), err)
	_, err = router.TrySpawnPool(sys, "workers", router.RoundRobin, 4, NewWorker)
	fmt.Println(err)
	// Output:
	// spawn pool "workers": bad pool size -1: want 0 or more
	// spawn pool "workers": no strategy: RoundRobin is one
	// 4 <nil>
	// spawn /workers: name taken
}

func ExampleTrySpawnGroup() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	alice := actor.Spawn(sys, "alice", NewWorker)
	var nobody actor.Ref[Job]
	_, err := router.TrySpawnGroup(sys, "team", router.RoundRobin, alice, nobody)
	fmt.Println(err)
	group, err := router.TrySpawnGroup(sys, "team", router.RoundRobin, alice)
	fmt.Println(err)
	fmt.Println(group.Add(context.Background(), group.Ref))
	// Output:
	// spawn group "team": member is the zero Ref: number 2 of 2
	// <nil>
	// add to /team: member is the group itself: give it actors, or other routers
}

// moment is how long something takes: until the channel is closed.
type moment struct{ long chan struct{} }

// idle returns when an actor has nothing to do.
func idle(ref actor.Ref[moment]) {
	for {
		if n, ok := ref.Backlog(); !ok || n == 0 {
			return
		}
		runtime.Gosched()
	}
}

// A pool spawns its routees and supervises them.
func ExampleSpawnPool() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPool(sys, "workers", router.RoundRobin, 2, NewWorker)
	done, err := actor.Ask(ctx, pool.Ref, Job{ID: "a"})
	fmt.Println(done, err)
	for _, worker := range pool.Routees() {
		fmt.Println(worker.PID().Path())
	}
	// Output:
	// /workers/1 did a <nil>
	// /workers/1
	// /workers/2
}

// A pool whose routees are a function.
func ExampleSpawnPoolFunc() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	pool := router.SpawnPoolFunc(sys, "greeters", router.RoundRobin, 2,
		func(ctx *actor.Context[Job], job Job) error {
			actor.Reply(ctx, job, "hello "+job.ID)
			return nil
		})
	fmt.Println(actor.Ask(ctx, pool.Ref, Job{ID: "Roger"}))
	// Output: hello Roger <nil>
}

func ExampleGroup_Add() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	ann := actor.Spawn(sys, "ann", NewWorker)
	bob := actor.Spawn(sys, "bob", NewWorker)
	group := router.SpawnGroup(sys, "desks", router.RoundRobin, ann)
	fmt.Println(group.Add(ctx, bob), len(group.Routees()))
	fmt.Println(group.Remove(ctx, ann), len(group.Routees()))
	fmt.Println(actor.Ask(ctx, group.Ref, Job{ID: "a"}))
	// Output:
	// <nil> 2
	// <nil> 1
	// /bob did a <nil>
}
