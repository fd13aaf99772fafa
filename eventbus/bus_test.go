package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

// listen returns a probe that has subscribed to patterns, and is told "topic=event".
func listen[Ev any](k *actortest.Kit, bus *eventbus.Bus, patterns []string, opts ...eventbus.SubscribeOption) *actortest.Probe[any] {
	k.T().Helper()
	p := actortest.NewProbe[any](k)
	actortest.Do(p, func(ctx *actor.Context[any]) error {
		for _, pattern := range patterns {
			if _, err := subscribe[Ev](ctx, bus, pattern, opts...); err != nil {
				return err
			}
		}
		return nil
	})
	return p
}

func subscribe[Ev any](ctx *actor.Context[any], bus *eventbus.Bus, pattern string, opts ...eventbus.SubscribeOption) (*eventbus.Subscription, error) {
	return eventbus.Subscribe(ctx, bus, pattern, func(topic string, ev Ev) any { return fmt.Sprintf("%s=%v", topic, ev) }, opts...)
}

var errFails = errors.New("fails")

// ear subscribes in its Init, in each incarnation anew, and writes down what it hears.
type ear struct {
	log  *actortest.Journal
	init func(ctx *actor.Context[any]) error
}

// spawnEar starts an ear, and settles nothing: others may go on publishing meanwhile.
func spawnEar(k *actortest.Kit, bus *eventbus.Bus, pattern string, opts ...eventbus.SubscribeOption) (actor.Ref[any], *actortest.Journal) {
	log := actortest.NewJournal(k)
	return actor.Spawn(k.System(), "", func() *ear {
		return &ear{log, func(ctx *actor.Context[any]) error {
			_, err := subscribe[int](ctx, bus, pattern, opts...)
			return err
		}}
	}), log
}

func (e *ear) Init(ctx *actor.Context[any]) error { return e.init(ctx) }

func (e *ear) Receive(_ *actor.Context[any], msg any) error {
	switch m := msg.(type) {
	case string:
		e.log.Addf("%s", m)
	case error:
		return m
	}
	return nil
}

// block keeps a probe in its handler until the gate is opened.
func block(k *actortest.Kit, p *actortest.Probe[any]) *actortest.Gate {
	gate := actortest.NewGate(k)
	gate.Close()
	actortest.Do(p, func(ctx *actor.Context[any]) error {
		gate.Pass(ctx)
		return nil
	})
	return gate
}

func publish(k *actortest.Kit, bus *eventbus.Bus, topic string, events ...any) {
	k.T().Helper()
	for _, ev := range events {
		if err := eventbus.Publish(k.Context(), bus, topic, ev); err != nil {
			k.T().Errorf("publish %v to %s: %v", ev, topic, err)
		}
	}
}

// buffered are the ways to subscribe that all must behave the same.
var buffered = map[string][]eventbus.SubscribeOption{
	"direct": nil, "buffer": {eventbus.Buffer(1000, eventbus.DropNewest)},
}

func TestEventsReachWhoeverSubscribedToTheirTopic(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				one := listen[int](k, bus, []string{"sensors.*.temp", "doors.>"}, opts...)
				two := listen[int](k, bus, []string{"sensors.kitchen.temp"}, opts...)
				publish(k, bus, "sensors.kitchen.temp", 1)
				publish(k, bus, "sensors.hall.temp", 2)
				publish(k, bus, "sensors.hall.humidity", 3)
				publish(k, bus, "sensors.temp", 4)
				publish(k, bus, "doors.front.lock", 5)
				publish(k, bus, "doors", 6)
				one.ExpectAll("sensors.kitchen.temp=1", "sensors.hall.temp=2", "doors.front.lock=5")
				two.ExpectAll("sensors.kitchen.temp=1")
				if st := bus.Stats(); st.Subscriptions != 3 || st.Published != 6 || st.Unheard != 3 || st.Delivered != 4 || st.Dropped != 0 {
					k.T().Errorf("stats %+v", st)
				}
			})
		})
	}
}

func TestPublishingToNobodyIsNoError(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		publish(k, bus, "a.b", 1)
		if st := bus.Stats(); st.Published != 1 || st.Unheard != 1 || k.System().Stats().DeadLetters != 0 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestEventOfAnotherTypeIsNotDeliveredAndCounted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ints := listen[int](k, bus, []string{"x"})
		errs := listen[error](k, bus, []string{"x"})
		all := listen[any](k, bus, []string{"x"})
		publish(k, bus, "x", 1, "two", io.EOF, nil)
		ints.ExpectAll("x=1")
		errs.ExpectAll("x=EOF")
		all.ExpectAll("x=1", "x=two", "x=EOF")
		if st := bus.Stats(); st.Mismatched != 3+3+1 || st.Delivered != 5 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestBadTopicsAreRefused(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[int](k, bus, nil)
		for _, err := range []error{
			eventbus.Publish(k.Context(), bus, "a.*", 1), eventbus.Publish(k.Context(), bus, "", 1), eventbus.PublishAll(k.Context(), bus, "a..b", 1),
		} {
			if !errors.Is(err, eventbus.ErrTopic) || !strings.HasPrefix(err.Error(), "publish: bad topic") {
				k.T().Errorf("got %v", err)
			}
		}
		actortest.Do(ear, func(ctx *actor.Context[any]) error {
			if _, err := subscribe[int](ctx, bus, ">.a"); !errors.Is(err, eventbus.ErrTopic) {
				k.T().Errorf("subscribe: %v", err)
			}
			return nil
		})
		for what, f := range map[string]func(){
			"listen": func() { eventbus.Listen[int](k.Context(), bus, "a..") },
			"retain": func() { eventbus.New(k.System(), eventbus.Retain("a..")) },
			"buffer": func() { eventbus.Buffer(0, eventbus.Block) },
			"policy": func() { eventbus.Buffer(1, 9) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						k.T().Errorf("%s: no panic", what)
					}
				}()
				f()
			}()
		}
		if st := bus.Stats(); st.Published != 0 || st.Subscriptions != 0 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestPublishAllReachesWhoeverCouldHearIt(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.Retain(">"))
		ear := listen[int](k, bus, []string{"partner.bob.do", "partner.alice.do", "partner.*.do", "partner.>", "partner.bob.undo", "x.>"})
		if err := eventbus.PublishAll(k.Context(), bus, "partner.*.do", 7); err != nil {
			k.T().Fatal(err)
		}
		ear.ExpectAll(slices.Repeat([]any{"partner.*.do=7"}, 4)...)
		if st := bus.Stats(); st.Retained != 0 || st.Delivered != 4 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestUnsubscribeEndsTheSubscription(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				ear := listen[int](k, bus, []string{"a"}, opts...)
				var sub *eventbus.Subscription
				actortest.Do(ear, func(ctx *actor.Context[any]) (err error) {
					sub, err = subscribe[int](ctx, bus, "b", opts...)
					return err
				})
				publish(k, bus, "b", 1)
				ear.ExpectAll("b=1")
				sub.Unsubscribe()
				sub.Unsubscribe()
				publish(k, bus, "b", 2)
				publish(k, bus, "a", 3)
				ear.ExpectAll("a=3")
				if st := bus.Stats(); st.Subscriptions != 1 {
					k.T().Errorf("stats %+v", st)
				}
			})
		})
	}
}

func TestSubscriptionEndsWithItsActor(t *testing.T) {
	for name, opts := range buffered {
		for how, end := range map[string]func(actor.Ref[any]){
			"stop": actor.Ref[any].Stop, "drain": actor.Ref[any].Drain, "kill": actor.Ref[any].Kill,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					bus := eventbus.New(k.System())
					ear := listen[int](k, bus, []string{"a", "b.>"}, opts...)
					end(ear.Ref())
					k.Settle()
					if bus.Stats().Subscriptions != 0 {
						k.T().Error("not ended")
					}
					publish(k, bus, "a", 1)
					if st := bus.Stats(); st.Unheard != 1 {
						k.T().Errorf("stats %+v", st)
					}
				})
			})
		}
	}
}

func TestRestartedActorHearsEachEventOnce(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				ref, log := spawnEar(k, bus, "a", opts...)
				for range 5 {
					ref.Tell(k.Context(), errFails)
					k.ExpectFailures(1)
					publish(k, bus, "a", 1)
					log.Expect("a=1")
				}
				if n := bus.Stats().Subscriptions; n != 1 {
					k.T().Errorf("%d subscriptions, want that of the last incarnation", n)
				}
				if n := k.System().Stats().Restarts; n != 5 {
					k.T().Errorf("%d restarts", n)
				}
			})
		})
	}
}

// While a request is handled the actor's context is that of the request.
func TestSubscriptionMadeWhileHandlingARequestOutlivesIt(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				ear := listen[int](k, bus, nil, opts...)
				ear.Handle(func(ctx *actor.Context[any], m any) error {
					if topic, ok := m.(subscribeTo); ok {
						_, err := subscribe[int](ctx, bus, topic.pattern, opts...)
						actor.Reply(ctx, topic, err)
					}
					return nil
				})
				for i := range 3 {
					req := subscribeTo{pattern: fmt.Sprintf("a.%d", i)}
					if err := actortest.Ask(k, ear.Ref(), req).Answer(); err != nil {
						k.T().Fatal(err)
					}
					ear.Expect(req)
				}
				publish(k, bus, "a.0", 1)
				publish(k, bus, "a.2", 2)
				ear.ExpectAll("a.0=1", "a.2=2")
				actortest.Do(ear, func(*actor.Context[any]) error { return errFails })
				k.ExpectFailures(1)
				if n := bus.Stats().Subscriptions; n != 0 {
					k.T().Errorf("%d subscriptions have outlived their incarnation", n)
				}
			})
		})
	}
}

// subscribeTo asks a subscriber to subscribe.
type subscribeTo struct {
	actor.Returns[error]
	pattern string
}

func TestOrderOfAPublisherIsKept(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				opts := opts
				if opts != nil {
					opts = []eventbus.SubscribeOption{eventbus.Buffer(3, eventbus.Block)}
				}
				ear := listen[int](k, bus, []string{"a.*.odd", "a.*.even"}, opts...)
				const publishers, each = 4, 200
				var wg sync.WaitGroup
				for p := range publishers {
					wg.Go(func() {
						for n := range each {
							publish(k, bus, fmt.Sprintf("a.%d.%s", p, [...]string{"even", "odd"}[n%2]), n)
						}
					})
				}
				wg.Wait()
				lines := ear.All()
				if len(lines) != publishers*each {
					k.T().Errorf("%d events were heard, want %d", len(lines), publishers*each)
				}
				next := map[string]int{}
				for _, line := range lines {
					topic, value, _ := strings.Cut(line.(string), "=")
					p := strings.Split(topic, ".")[1]
					if value != fmt.Sprint(next[p]) {
						k.T().Fatalf("publisher %s: got %s, want %d", p, line, next[p])
					}
					next[p]++
				}
			})
		})
	}
}

func TestAFullBufferDropsByItsPolicy(t *testing.T) {
	for policy, heard := range map[eventbus.Policy][]any{
		eventbus.DropOldest: {"a=0", "a=8", "a=9", "a=10"},
		eventbus.DropNewest: {"a=0", "a=1", "a=2", "a=3"},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				bus := eventbus.New(k.System())
				ear := listen[int](k, bus, []string{"a"}, eventbus.Buffer(3, policy))
				gate := block(k, ear)
				publish(k, bus, "a", 0)
				k.Settle() // it is in the mailbox, and no longer in the buffer
				for i := range 10 {
					publish(k, bus, "a", i+1)
				}
				info := bus.Subscriptions()[0]
				gate.Open()
				ear.ExpectAll(heard...)
				if st := bus.Stats(); info.Waiting != 3 || info.Dropped != 7 || st.Dropped != 7 || st.Delivered != 4 {
					k.T().Errorf("info %+v stats %+v", info, st)
				}
			})
		})
	}
}

func TestBlockHoldsThePublisherUntilThereIsRoom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[int](k, bus, []string{"a"}, eventbus.Buffer(1, eventbus.Block))
		gate := block(k, ear)
		publish(k, bus, "a", 1)
		k.Settle() // 1 is in the mailbox
		publish(k, bus, "a", 2)
		var published atomic.Bool
		go func() {
			publish(k, bus, "a", 3)
			published.Store(true)
		}()
		k.Settle()
		if published.Load() {
			k.T().Error("the publisher did not wait")
		}
		gate.Open()
		if !published.Load() {
			k.T().Error("the publisher still waits")
		}
		ear.ExpectAll("a=1", "a=2", "a=3")
	})
}

func TestPublishersThatWaitForRoomAreServedInTheirOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ctx, cancel := context.WithCancel(k.Context())
		events := eventbus.Listen[int](ctx, bus, "a", eventbus.Buffer(1, eventbus.Block))
		publish(k, bus, "a", 0)
		const n = 20
		for i := 1; i <= n; i++ {
			ctx, cancel := context.WithTimeout(k.Context(), time.Duration(n+i%4)*time.Second)
			defer cancel()
			go func() {
				if err := eventbus.Publish(ctx, bus, "a", i); (err != nil) != (i%4 == 0) {
					t.Errorf("publisher %d: %v", i, err)
				}
			}()
			k.Settle()
		}
		k.Advance(n * time.Second) // each fourth has given up
		want := 0
		for e := range events {
			if e != want {
				t.Errorf("event %d comes in place of %d", e, want)
			}
			if want++; want%4 == 0 {
				want++
			}
			if want > n {
				break
			}
			time.Sleep(time.Millisecond) // those who were woken may be quicker than the others
		}
		cancel()
	})
}

func TestBlockEndsWithTheContextOrThePatience(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.WithPatience(time.Second))
		ear := listen[int](k, bus, []string{"a"}, eventbus.Buffer(1, eventbus.Block))
		other := listen[int](k, bus, []string{"a"})
		gate := block(k, ear)
		publish(k, bus, "a", 1)
		k.Settle()
		publish(k, bus, "a", 2)

		ctx, cancel := context.WithTimeout(k.Context(), 3*time.Second)
		defer cancel()
		canceled, cancelNow := context.WithCancel(k.Context())
		cancelNow()
		for _, tc := range []struct {
			ctx   context.Context
			cause error
			after time.Duration
		}{{ctx, context.DeadlineExceeded, 3 * time.Second}, {k.Context(), context.DeadlineExceeded, time.Second}, {canceled, context.Canceled, 0}} {
			began := k.Elapsed()
			err := eventbus.Publish(tc.ctx, bus, "a", 3)
			if took := k.Elapsed() - began; !errors.Is(err, eventbus.ErrFull) || !errors.Is(err, tc.cause) || took != tc.after {
				k.T().Errorf("after %v: %v", took, err)
			}
		}
		gate.Open()
		ear.ExpectAll("a=1", "a=2")
		other.ExpectAll("a=1", "a=2", "a=3", "a=3", "a=3")
		if st := bus.Stats(); st.Dropped != 3 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestBlockedPublisherGoesOnWhenTheSubscriptionEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ctx, cancel := context.WithCancel(k.Context())
		eventbus.Listen[int](ctx, bus, "a", eventbus.Buffer(1, eventbus.Block))
		publish(k, bus, "a", 1)
		done := make(chan error, 1)
		go func() { done <- eventbus.Publish(k.Context(), bus, "a", 2) }()
		k.Settle()
		cancel()
		if err := <-done; err != nil {
			k.T().Errorf("publish: %v", err)
		}
		k.Settle()
		if st := bus.Stats(); st.Subscriptions != 0 || st.Dropped != 2 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

// keyOfNothing is the key of a value that nobody looks at.
type keyOfNothing struct{}

func TestPublishingToItselfDoesNotDeadlock(t *testing.T) {
	for _, policy := range []eventbus.Policy{eventbus.DropOldest, eventbus.DropNewest, eventbus.Block} {
		for name, with := range map[string]func(*actor.Context[any]) context.Context{
			"own context":     func(ctx *actor.Context[any]) context.Context { return ctx },
			"derived context": func(ctx *actor.Context[any]) context.Context { return context.WithValue(ctx, keyOfNothing{}, 1) },
		} {
			t.Run(policy.String()+"/"+name, func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					bus := eventbus.New(k.System())
					ear := listen[int](k, bus, []string{"a"}, eventbus.Buffer(2, policy))
					full, began := 0, k.Elapsed()
					actortest.Do(ear, func(ctx *actor.Context[any]) error {
						for i := range 20 {
							if err := eventbus.Publish(with(ctx), bus, "a", i); errors.Is(err, eventbus.ErrFull) {
								full++
							} else if err != nil {
								k.T().Error(err)
							}
						}
						return nil
					})
					if took := k.Elapsed() - began; took != 0 {
						k.T().Errorf("it waited %v for itself", took)
					}
					if st, heard := bus.Stats(), len(ear.All()); st.Delivered+st.Dropped != 20 || uint64(heard) != st.Delivered {
						k.T().Errorf("%d were heard, stats %+v", heard, st)
					}
					if st := bus.Stats(); (policy == eventbus.Block) != (full > 0) || policy == eventbus.Block && uint64(full) != st.Dropped {
						k.T().Errorf("%d were refused, stats %+v", full, st)
					}
				})
			})
		}
	}
}

// A goroutine that a handler has begun may wait for the handler's actor.
func TestAHandlersGoroutineWaitsForRoomAtItsActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[int](k, bus, []string{"a"}, eventbus.Buffer(1, eventbus.Block))
		errs := make(chan error, 1)
		actortest.Do(ear, func(ctx *actor.Context[any]) error {
			derived := context.WithoutCancel(ctx)
			for i := range 2 { // one is in the mailbox, one waits
				if err := eventbus.Publish(derived, bus, "a", i); err != nil {
					k.T().Error(err)
				}
			}
			go func() { errs <- eventbus.Publish(derived, bus, "a", 2) }()
			return nil
		})
		if err := <-errs; err != nil {
			t.Error(err)
		}
		ear.ExpectAll("a=0", "a=1", "a=2")
	})
}

func TestPublishingFromAHandlerToItselfDirectly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		p := actortest.NewProbe[int](k)
		p.Handle(func(ctx *actor.Context[int], n int) error {
			if n == 0 {
				if _, err := eventbus.Subscribe(ctx, bus, "n", func(_ string, n int) int { return n }); err != nil {
					return err
				}
			}
			if n == 100 {
				return nil
			}
			return eventbus.Publish(ctx, bus, "n", n+1)
		})
		p.Ref().Tell(k.Context(), 0)
		for n := range 101 {
			p.Expect(n)
			if from := p.Sender(); n > 0 && from != p.Ref().PID() {
				k.T().Errorf("the sender of event %d is %v", n, from)
			}
		}
		p.ExpectNone()
	})
}

func TestSubscribeAndUnsubscribeWhileOthersPublish(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				sys := k.System()
				bus := eventbus.New(sys, eventbus.Retain("r.>"))
				_, steady := spawnEar(k, bus, "*.b", opts...)
				var stop atomic.Bool
				var told atomic.Int64
				var publishers, subscribers sync.WaitGroup
				for p := range 2 {
					publishers.Go(func() {
						for n := 0; !stop.Load(); n++ {
							publish(k, bus, [...]string{"a.b", "r.c"}[p], n)
							if p == 0 {
								told.Add(1)
							}
							for bus.Stats().Delivered > sys.Stats().Handled+100 && !stop.Load() {
								runtime.Gosched() // or the mailboxes grow faster than they are read
							}
						}
					})
				}
				for a := range 4 {
					come := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
						n, ok := m.(int)
						if !ok {
							return nil
						}
						s, err := subscribe[int](ctx, bus, [...]string{"a.>", "a.*", ">", "r.c", "*.b"}[(a+n)%5], opts...)
						if err == nil {
							s.Unsubscribe()
						}
						actor.ReplyFor(ctx, true)
						return err
					})
					subscribers.Go(func() {
						for n := range 100 {
							if _, err := actor.AskFor[bool](k.Context(), come, n); err != nil {
								k.T().Error(err)
							}
						}
					})
				}
				subscribers.Wait()
				for told.Load() <= 10 {
					runtime.Gosched()
				}
				stop.Store(true)
				publishers.Wait()
				if heard := steady.All(); len(heard) <= 10 {
					k.T().Errorf("only %q was heard", heard)
				}
				if n := bus.Stats().Subscriptions; n != 1 {
					k.T().Errorf("%d subscriptions are left, want 1", n)
				}
				if info := bus.Subscriptions()[0]; info.Pattern != "*.b" || info.Type != "int" {
					k.T().Errorf("left: %+v", info)
				}
			})
		})
	}
}

func TestCloseEndsEverything(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[int](k, bus, []string{"a", "b"})
		seq := eventbus.Listen[int](k.Context(), bus, "a")
		done := make(chan struct{})
		go func() {
			defer close(done)
			for range seq {
				k.T().Error("an event")
			}
		}()
		bus.Close()
		bus.Close()
		<-done
		if err := eventbus.Publish(k.Context(), bus, "a", 1); !errors.Is(err, eventbus.ErrClosed) {
			k.T().Errorf("publish: %v", err)
		}
		if err := eventbus.PublishAll(k.Context(), bus, "*", 1); !errors.Is(err, eventbus.ErrClosed) {
			k.T().Errorf("publish to all: %v", err)
		}
		actortest.Do(ear, func(ctx *actor.Context[any]) error {
			if _, err := subscribe[int](ctx, bus, "a"); !errors.Is(err, eventbus.ErrClosed) {
				k.T().Errorf("subscribe: %v", err)
			}
			return nil
		})
		for range eventbus.Listen[int](k.Context(), bus, "a") {
			k.T().Error("an event of a closed bus")
		}
		if st := bus.Stats(); st.Subscriptions != 0 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestPanicOfAWrapIsNotThePublishersFault(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		actortest.Do(actortest.NewProbe[any](k), func(ctx *actor.Context[any]) error {
			_, err := eventbus.Subscribe(ctx, bus, "a", func(string, int) any { panic("ouch") })
			return err
		})
		ear := listen[int](k, bus, []string{"a"})
		publish(k, bus, "a", 1, 2)
		ear.ExpectAll("a=1", "a=2")
		if st := bus.Stats(); st.Dropped != 2 || st.Delivered != 2 {
			k.T().Errorf("stats %+v", st)
		}
	})
}

func TestSubscriptionDescribesItself(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[error](k, bus, []string{"b.>", "a"}, eventbus.Buffer(4, eventbus.Block))
		list := bus.Subscriptions()
		if len(list) != 2 || list[0].Pattern != "a" || list[1].Pattern != "b.>" {
			k.T().Fatalf("got %+v", list)
		}
		want := eventbus.Info{Pattern: "a", Type: "error", Actor: ear.Ref().PID(), Buffer: 4, Policy: eventbus.Block}
		if list[0] != want {
			k.T().Errorf("got %+v, want %+v", list[0], want)
		}
	})
}

func TestManySubscriptionsOfOnePatternComeAndGo(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		ear := listen[int](k, bus, nil)
		const n = 10_000
		actortest.Do(ear, func(ctx *actor.Context[any]) error {
			for i := range n {
				s, err := subscribe[int](ctx, bus, "a.*")
				if err != nil {
					return err
				}
				if i%100 != 0 {
					s.Unsubscribe()
				}
			}
			return nil
		})
		publish(k, bus, "a.b", 1)
		if heard := len(ear.All()); heard != n/100 {
			k.T().Errorf("%d of %d have heard it", heard, n/100)
		}
		ear.Ref().Stop()
		k.Settle()
		if bus.Stats().Subscriptions != 0 {
			k.T().Error("not ended")
		}
	})
}
