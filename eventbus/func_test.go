package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

func TestAFunctionIsCalledBeforePublishReturns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System(), eventbus.Retain("a.>"))
		publish(k, bus, "a.old", 1)
		type key struct{}
		var heard []string
		s, err := eventbus.SubscribeFunc(bus, "a.*", func(ctx context.Context, topic string, ev int) {
			heard = append(heard, fmt.Sprint(topic, "=", ev, ctx.Value(key{})))
			if topic == "a.first" {
				if err := eventbus.Publish(ctx, bus, "a.second", 3); err != nil {
					k.T().Error(err)
				}
			}
		})
		if err != nil {
			k.T().Fatal(err)
		}
		if err := eventbus.Publish(context.WithValue(k.Context(), key{}, "!"), bus, "a.first", 2); err != nil {
			k.T().Error(err)
		}
		publish(k, bus, "a.other", "not an int")
		if want := "[a.old=1 <nil> a.first=2! a.second=3!]"; fmt.Sprint(heard) != want {
			k.T().Errorf("got %v, want %s", heard, want)
		}
		if i := s.Info(); i.Delivered != 3 || i.Mismatched != 1 || !i.Actor.IsZero() {
			k.T().Errorf("got %+v", i)
		}
		s.Unsubscribe()
		publish(k, bus, "a.late", 4)
		if len(heard) != 3 {
			k.T().Errorf("it still hears: %v", heard)
		}
	})
}

func TestAFunctionWithABufferHoldsUpNoPublisher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := eventbus.New(actortest.NewSystem(t))
		began := time.Now()
		var heard []int
		var ctxOf context.Context
		s, err := eventbus.SubscribeFunc(bus, "a", func(ctx context.Context, _ string, ev int) {
			time.Sleep(time.Second)
			heard, ctxOf = append(heard, ev), ctx
		}, eventbus.Buffer(2, eventbus.DropOldest))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if err := eventbus.Publish(bg, bus, "a", i); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		if time.Since(began) != 0 {
			t.Errorf("publishing took %v", time.Since(began))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if fmt.Sprint(heard) != "[0 2 3]" || ctxOf.Err() != nil {
			t.Errorf("heard %v, %v", heard, ctxOf.Err())
		}
		s.Unsubscribe()
		synctest.Wait() // and the bubble's end finds no goroutine
		if ctxOf.Err() == nil {
			t.Error("its context lives on")
		}
	})
}

func TestAFunctionThatFillsItsOwnBufferIsToldAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := eventbus.New(actortest.NewSystem(t))
		defer bus.Close()
		errs := make(chan error, 2)
		if _, err := eventbus.SubscribeFunc(bus, "a", func(ctx context.Context, _ string, ev int) {
			if ev == 0 {
				for range 2 {
					errs <- eventbus.Publish(ctx, bus, "a", 1)
				}
			}
		}, eventbus.Buffer(1, eventbus.Block)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := eventbus.Publish(bg, bus, "a", 0); err != nil {
			t.Fatal(err)
		}
		if first, second := <-errs, <-errs; first != nil || !errors.Is(second, eventbus.ErrFull) || time.Since(began) != 0 {
			t.Errorf("after %v: %v, %v", time.Since(began), first, second)
		}
	})
}

// A subscriber on the publisher's goroutine ends it: who comes after gets the event, and all are counted.
func TestAnEventReachesThoseAfterOneThatEndsTheGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := eventbus.New(actortest.NewSystem(t))
		defer bus.Close()
		heard := 0
		for i := range 9 {
			if _, err := eventbus.SubscribeFunc(bus, "a", func(context.Context, string, int) {
				if heard++; i%3 == 1 {
					runtime.Goexit()
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
		go func() { _ = eventbus.Publish(bg, bus, "a", 1) }()
		synctest.Wait()
		if st := bus.Stats(); heard != 9 || st.Delivered != 6 || st.Dropped != 3 {
			t.Errorf("%d have heard it: %+v", heard, st)
		}
	})
}

func TestAFunctionThatEndsItsGoroutineByARetainedEventIsNoSubscriber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := eventbus.New(actortest.NewSystem(t), eventbus.Retain("a"))
		defer bus.Close()
		if err := eventbus.Publish(bg, bus, "a", 1); err != nil {
			t.Fatal(err)
		}
		go func() {
			_, _ = eventbus.SubscribeFunc(bus, "a", func(context.Context, string, int) { runtime.Goexit() })
		}()
		synctest.Wait()
		if n := bus.Stats().Subscriptions; n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestAFunctionThatEndsItsGoroutineEndsItsSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bus := eventbus.New(actortest.NewSystem(t))
		if _, err := eventbus.SubscribeFunc(bus, "a", func(context.Context, string, int) { runtime.Goexit() }, eventbus.Buffer(1, eventbus.DropOldest)); err != nil {
			t.Fatal(err)
		}
		if err := eventbus.Publish(bg, bus, "a", 0); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := bus.Stats().Subscriptions; n != 0 {
			t.Errorf("%d subscriptions are left", n)
		}
	})
}

func TestSubscribingTheZeroRefPanics(t *testing.T) {
	bus := eventbus.New(actortest.NewSystem(t))
	defer func() {
		if r := fmt.Sprint(recover()); !strings.Contains(r, "zero Ref") {
			t.Errorf("got %s", r)
		}
	}()
	_, _ = eventbus.SubscribeRef(bus, "a", actor.Ref[any]{}, func(string, int) any { return nil })
}

func TestAPanicOfAFunctionIsNotThePublishersFault(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		n := 0
		if _, err := eventbus.SubscribeFunc(bus, "a", func(context.Context, string, int) {
			n++
			panic("ouch")
		}); err != nil {
			k.T().Fatal(err)
		}
		publish(k, bus, "a", 1, 2)
		if st := bus.Stats(); n != 2 || st.Dropped != 2 || st.Delivered != 0 {
			k.T().Errorf("%d calls, %+v", n, st)
		}
	})
}

func TestAReferenceIsSubscribedOverRestartsUntilItsActorEnds(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		log := actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(_ *actor.Context[any], m any) error {
			log.Addf("%v", m)
			if m == "a=0" {
				return errFails
			}
			return nil
		})
		wrap := func(topic string, ev int) any { return fmt.Sprint(topic, "=", ev) }
		if _, err := eventbus.SubscribeRef(bus, "a", ref, wrap); err != nil {
			k.T().Fatal(err)
		}
		gone, err := eventbus.SubscribeRef(bus, "a", ref, wrap)
		if err != nil {
			k.T().Fatal(err)
		}
		gone.Unsubscribe()
		publish(k, bus, "a", 0, 1)
		log.Expect("a=0", "a=1")
		k.ExpectFailures(1)
		ref.Stop()
		if _, err := ref.Wait(k.Context()); err != nil {
			k.T().Error(err)
		}
		k.Settle()
		if n := bus.Stats().Subscriptions; n != 0 {
			k.T().Errorf("%d subscriptions are left", n)
		}
		if _, err := eventbus.SubscribeRef(bus, "a", ref, wrap); err != nil {
			k.T().Error(err)
		}
		k.Settle()
		if n := bus.Stats().Subscriptions; n != 0 {
			k.T().Errorf("%d subscriptions of an actor that is gone", n)
		}
	})
}

func TestSubscribingAFunctionOrAReferenceRefusesWhatSubscribeRefuses(t *testing.T) {
	sys := actortest.NewSystem(t)
	bus := eventbus.New(sys)
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[any], any) error { return nil })
	try := func(pattern string) (err1, err2 error) {
		_, err1 = eventbus.SubscribeFunc(bus, pattern, func(context.Context, string, int) {})
		_, err2 = eventbus.SubscribeRef(bus, pattern, ref, func(string, int) any { return nil })
		return err1, err2
	}
	if err1, err2 := try("a..b"); !errors.Is(err1, eventbus.ErrTopic) || !errors.Is(err2, eventbus.ErrTopic) {
		t.Errorf("a bad pattern: %v, %v", err1, err2)
	}
	bus.Close()
	if err1, err2 := try("a"); !errors.Is(err1, eventbus.ErrClosed) || !errors.Is(err2, eventbus.ErrClosed) {
		t.Errorf("a closed bus: %v, %v", err1, err2)
	}
}

func ExampleSubscribeFunc() {
	sys, shutdown := exampleSystem()
	defer shutdown()
	ctx := context.Background()

	bus := eventbus.New(sys)
	s, err := eventbus.SubscribeFunc(bus, "sensors.*.temp", func(_ context.Context, topic string, t Temperature) {
		fmt.Println(topic, t)
	})
	if err != nil {
		fmt.Println(err)
	}
	_ = eventbus.Publish(ctx, bus, "sensors.kitchen.temp", Temperature(21.5)) // calls it
	s.Unsubscribe()
	_ = eventbus.Publish(ctx, bus, "sensors.hall.temp", Temperature(15))
	// Output: sensors.kitchen.temp 21.5
}

// A typed topic has the type of the events.
func ExampleTopic_SubscribeFunc() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	bus := eventbus.New(sys)
	_, err := rooms.SubscribeFunc(bus, func(_ context.Context, topic string, t Temperature) { fmt.Println(topic, t) })
	fmt.Println(err, kitchen.Publish(context.Background(), bus, 21.5))
	// Output:
	// sensors.kitchen.temp 21.5
	// <nil> <nil>
}

// An actor that was started elsewhere is subscribed from outside.
func ExampleSubscribeRef() {
	sys, shutdown := exampleSystem()
	defer shutdown()

	bus, heard := eventbus.New(sys), make(chan string, 1)
	printer := actor.SpawnFunc(sys, "printer", func(_ *actor.Context[string], line string) error {
		heard <- line
		return nil
	})
	_, err := eventbus.SubscribeRef(bus, "sensors.>", printer, func(topic string, t Temperature) string {
		return fmt.Sprint(topic, " ", t)
	})
	fmt.Println(err, eventbus.Publish(context.Background(), bus, "sensors.kitchen.temp", Temperature(21.5)))
	fmt.Println(<-heard)
	// Output:
	// <nil> <nil>
	// sensors.kitchen.temp 21.5
}
