package sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
	"github.com/greenroom-go/greenroom/router"
	"github.com/greenroom-go/greenroom/schedule"
	"github.com/greenroom-go/greenroom/sim"
)

// Job is work for one of several.
type Job struct {
	actor.Returns[int]
	Number int
}

// books count what has become of jobs.
type books struct {
	sent, done map[int]int
}

// TestRoutersLoseNoJobInAnyOrder sends jobs through each kind of router, whose routees fail
// and end, and which changes its size meanwhile.
func TestRoutersLoseNoJobInAnyOrder(t *testing.T) {
	for name, s := range map[string]router.Strategy[Job]{
		"round robin":     router.RoundRobin[Job],
		"random":          router.Random[Job],
		"least loaded":    router.LeastLoaded[Job],
		"bounded load":    router.ConsistentHashNumber(func(j Job) int { return j.Number }, router.BoundedLoad(1.25)),
		"consistent hash": router.ConsistentHashNumber(func(j Job) int { return j.Number }),
	} {
		t.Run(name, func(t *testing.T) {
			opts := sim.Options{Runs: 300, Strategy: sim.Portfolio(), Faults: sim.Faults{Lag: 0.1, Stop: 0.05, Swarm: true, Of: func(p actor.PID) bool {
				return len(p.Path()) > len("/pool/") && p.Path() != "/pool"
			}}}
			sim.Check(t, opts, func(w *sim.World) {
				b := books{make(map[int]int), make(map[int]int)}
				pool := router.SpawnPoolFunc(w.System(), "pool", s, 3, func(ctx *actor.Context[Job], j Job) error {
					b.done[j.Number]++
					actor.Reply(ctx, j, j.Number)
					return nil
				})
				for client := range 3 {
					w.Go(fmt.Sprint("client-", client), func(ctx *actor.Context[sim.Begin]) {
						for i := range 4 {
							n := 10*client + i
							b.sent[n]++
							if i%2 == 0 {
								pool.Tell(ctx, Job{Number: n})
							} else if got, err := actor.Ask(ctx, pool.Ref, Job{Number: n}); err == nil && got != n {
								w.Fatalf("job %d was answered %d", n, got)
							}
						}
					})
				}
				w.Go("boss", func(ctx *actor.Context[sim.Begin]) {
					for _, size := range []int{5, 1, 2} {
						if err := pool.Resize(ctx, size); err != nil {
							w.Fatalf("resize to %d: %v", size, err)
						}
					}
				})
				w.Heal()
				w.Advance(time.Minute)
				if n := len(pool.Routees()); n != 2 {
					w.Fatalf("there are %d routees in the end", n)
				}
				dead := make(map[int]int)
				for _, d := range w.System().DeadLetters() {
					if j, ok := d.Message.(Job); ok {
						dead[j.Number]++
					}
				}
				for n := range b.sent {
					if b.done[n]+dead[n] != 1 {
						w.Fatalf("job %d was done %d times and is %d dead letters", n, b.done[n], dead[n])
					}
				}
			})
		})
	}
}

// TestARequestToAllGetsOneAnswerInAnyOrder asks a group whose members end.
func TestARequestToAllGetsOneAnswerInAnyOrder(t *testing.T) {
	for name, s := range map[string]router.Strategy[Job]{"broadcast": router.Broadcast[Job], "scatter, gather": router.ScatterGather[Job]} {
		t.Run(name, func(t *testing.T) {
			sim.Check(t, sim.Options{Runs: 300, Strategy: sim.Portfolio()}, func(w *sim.World) {
				var members []actor.Ref[Job]
				for range 3 {
					members = append(members, actor.SpawnFunc(w.System(), "member-*", func(ctx *actor.Context[Job], j Job) error {
						if j.Number < 0 {
							return actor.ErrStop
						}
						actor.Reply(ctx, j, j.Number)
						return nil
					}))
				}
				group := router.SpawnGroup(w.System(), "group", s, members[:2]...)
				w.Go("change", func(ctx *actor.Context[sim.Begin]) {
					if err := group.Add(ctx, members[2]); err != nil {
						w.Fatalf("add: %v", err)
					}
					members[0].Tell(ctx, Job{Number: -1})
				})
				w.Go("asker", func(ctx *actor.Context[sim.Begin]) {
					for n := range 3 {
						if got, err := actor.Ask(ctx, group.Ref, Job{Number: n}); err != nil || got != n {
							w.Fatalf("ask %d: got %d, %v", n, got, err)
						}
					}
				})
				w.Settle()
			})
		})
	}
}

// News is an event.
type News struct{ By, Number int }

// reader subscribes, and checks the order of what it gets.
type reader struct {
	w    *sim.World
	bus  *eventbus.Bus
	opts []eventbus.SubscribeOption
	last map[int]int
	seen *int
}

// Init implements actor.Initializer.
func (r *reader) Init(ctx *actor.Context[News]) error {
	_, err := eventbus.Subscribe(ctx, r.bus, "news.*", func(_ string, n News) News { return n }, r.opts...)
	return err
}

// Receive implements actor.Actor.
func (r *reader) Receive(_ *actor.Context[News], n News) error {
	if n.Number <= r.last[n.By] {
		r.w.Fatalf("news %d of publisher %d came after %d", n.Number, n.By, r.last[n.By])
	}
	r.last[n.By] = n.Number
	*r.seen++
	return nil
}

// TestNewsComeInOrderInAnyOrderOfTheRest has publishers on a bus, and readers that are
// restarted.
func TestNewsComeInOrderInAnyOrderOfTheRest(t *testing.T) {
	const publishers, each = 3, 5
	for name, opts := range map[string][]eventbus.SubscribeOption{
		"direct": nil, "buffered": {eventbus.Buffer(publishers*each, eventbus.DropNewest)},
	} {
		t.Run(name, func(t *testing.T) {
			sim.Check(t, sim.Options{Runs: 150, Strategy: sim.Portfolio()}, func(w *sim.World) {
				bus := eventbus.New(w.System())
				calm, shaky := 0, 0
				read := func(name string, seen *int) actor.Ref[News] {
					return actor.Spawn[News](w.System(), name, func() *reader { return &reader{w, bus, opts, make(map[int]int), seen} })
				}
				read("calm", &calm)
				w.Panic(read("shaky", &shaky).PID(), 1+w.Rand().IntN(publishers*each), sim.After)
				for p := range publishers {
					w.Go(fmt.Sprint("publisher-", p), func(ctx *actor.Context[sim.Begin]) {
						for n := range each {
							if err := eventbus.Publish(ctx, bus, "news.today", News{p, n + 1}); err != nil {
								w.Fatalf("publish: %v", err)
							}
						}
					})
				}
				w.Settle()
				if calm != publishers*each || shaky == 0 || shaky > calm {
					w.Fatalf("of %d news the readers got %d and %d", publishers*each, calm, shaky)
				}
				bus.Close()
			})
		})
	}
}

// Tune is a request to subscribe.
type Tune struct{ actor.Returns[error] }

// TestASubscriptionMadeInARequestLastsInARun has an actor subscribe while it handles a request, whose
// context ends with it.
func TestASubscriptionMadeInARequestLastsInARun(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 20}, func(w *sim.World) {
		bus, heard := eventbus.New(w.System()), 0
		radio := actor.SpawnFunc(w.System(), "radio", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case Tune:
				_, err := eventbus.Subscribe(ctx, bus, "news.*", func(_ string, n News) any { return n })
				actor.Reply(ctx, m, err)
			case News:
				heard++
			}
			return nil
		})
		w.Go("listener", func(ctx *actor.Context[sim.Begin]) {
			if failed, err := actor.Ask(ctx, radio, Tune{}); failed != nil || err != nil {
				w.Fatalf("subscribe: %v, %v", failed, err)
			}
			if err := eventbus.Publish(ctx, bus, "news.today", News{}); err != nil {
				w.Fatalf("publish: %v", err)
			}
		})
		w.Settle()
		if heard != 1 {
			w.Fatalf("heard %d times", heard)
		}
		bus.Close()
	})
}

// TestASchedulesTimesAreVirtual lets a day pass.
func TestASchedulesTimesAreVirtual(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 3}, func(w *sim.World) {
		hours := 0
		actor.SpawnFunc(w.System(), "clock", func(ctx *actor.Context[bool], begin bool) error {
			if begin {
				ctx.On("hour", schedule.MustCron("0 * * * *"), false)
				return nil
			}
			hours++
			return nil
		}).Tell(w.Context(), true)
		w.Advance(24*time.Hour + time.Second)
		if hours != 24 {
			w.Fatalf("a day has %d hours", hours)
		}
	})
}
