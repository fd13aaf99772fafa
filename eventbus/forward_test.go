package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/eventbus"
)

// recorder is a forwarder that notes what it gets.
type recorder struct {
	log     *[]string
	changes int
	err     error
}

func (r *recorder) Forward(_ context.Context, c eventbus.Forwarded) error {
	*r.log = append(*r.log, fmt.Sprint("forwarded ", c.Topic, "=", c.Event, " ", c.All))
	return r.err
}

func (r *recorder) Changed() { r.changes++ }

func TestAForwarderGetsWhatIsPublishedHereBeforeTheSubscriptions(t *testing.T) {
	var log []string
	bus, r := eventbus.New(actortest.NewSystem(t), eventbus.Retain("a.>")), &recorder{log: &log}
	forwarding, err := bus.Forward(r, "a.>")
	if err != nil {
		t.Fatal(err)
	}
	_, err = eventbus.SubscribeFunc(bus, ">", func(ctx context.Context, topic string, ev int) {
		log = append(log, fmt.Sprint("heard ", topic, "=", ev))
		if topic == "a.first" {
			_ = eventbus.Publish(ctx, bus, "a.second", 2)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	expect := func(err error, want ...string) {
		t.Helper()
		if err != nil || !slices.Equal(log, want) {
			t.Errorf("%v, %q, want %q", err, log, want)
		}
		log = nil
	}
	expect(eventbus.Publish(bg, bus, "a.first", 1), "forwarded a.first=1 false", "heard a.first=1", "forwarded a.second=2 false", "heard a.second=2")
	expect(eventbus.Publish(bg, bus, "b.first", 1), "heard b.first=1")
	expect(eventbus.PublishAll(bg, bus, "a.*", 3), "forwarded a.*=3 true", "heard a.*=3")
	expect(eventbus.PublishAll(bg, bus, ">", 4), "heard >=4") // not all its topics are the forwarder's
	// What comes from elsewhere is not forwarded on, and not retained.
	expect(forwarding.Deliver(bg, eventbus.Forwarded{Topic: "a.x", Event: 5}), "heard a.x=5")
	expect(forwarding.Deliver(bg, eventbus.Forwarded{Topic: "a.x.*", Event: 6, All: true}), "heard a.x.*=6")
	expect(forwarding.Deliver(bg, eventbus.Forwarded{Topic: "b.x", Event: 7}))
	expect(forwarding.Deliver(bg, eventbus.Forwarded{Topic: ">", Event: 8, All: true}))
	if _, ok := eventbus.Last[int](bus, "a.x"); ok || bus.Stats().Retained != 2 {
		t.Errorf("%+v", bus.Stats())
	}
	r.err = errors.New("too far")
	if err := eventbus.Publish(bg, bus, "a.y", 9); !errors.Is(err, r.err) || !strings.HasPrefix(err.Error(), "publish a.y: ") {
		t.Errorf("got %v", err)
	}
	if err := eventbus.PublishAll(bg, bus, "a.y.>", 10); !errors.Is(err, r.err) {
		t.Errorf("got %v", err)
	}
	expect(nil, "forwarded a.y=9 false", "heard a.y=9", "forwarded a.y.>=10 true", "heard a.y.>=10")
	forwarding.End()
	forwarding.End()
	expect(eventbus.Publish(bg, bus, "a.z", 11), "heard a.z=11")
	if _, err := bus.Forward(r, "a.z"); err != nil { // the topics are free again
		t.Error(err)
	}
}

func TestAForwarderHearsOfPatterns(t *testing.T) {
	var log []string
	bus, r := eventbus.New(actortest.NewSystem(t)), &recorder{log: &log}
	forwarding, err := bus.Forward(r, "a.*.c", "b.>")
	if err != nil {
		t.Fatal(err)
	}
	var subs []*eventbus.Subscription
	for _, p := range []string{"a.b.*", "a.b.*", "b.x", "c.>", "*", "*.>", "a.b.c.d"} {
		s, err := eventbus.SubscribeFunc(bus, p, func(context.Context, string, int) {})
		if err != nil {
			t.Fatal(err)
		}
		subs = append(subs, s)
	}
	if want := []string{"a.*.c", "a.b.c", "b.>", "b.x"}; !slices.Equal(forwarding.Patterns(), want) || r.changes != 6 {
		t.Errorf("after %d changes: %q, want %q", r.changes, forwarding.Patterns(), want)
	}
	subs[0].Unsubscribe()
	if !slices.Contains(forwarding.Patterns(), "a.b.c") || r.changes != 6 {
		t.Errorf("after %d changes: %q", r.changes, forwarding.Patterns())
	}
	subs[1].Unsubscribe()
	if slices.Contains(forwarding.Patterns(), "a.b.c") || r.changes != 7 {
		t.Errorf("after %d changes: %q", r.changes, forwarding.Patterns())
	}
	bus.Close()
	if len(forwarding.Patterns()) > 0 || r.changes != 12 {
		t.Errorf("after %d changes: %q", r.changes, forwarding.Patterns())
	}
	if err := forwarding.Deliver(bg, eventbus.Forwarded{Topic: "b.x"}); !errors.Is(err, eventbus.ErrClosed) {
		t.Error(err)
	}
}

func TestForwardersOfABusHaveNoTopicInCommon(t *testing.T) {
	var log []string
	bus, r := eventbus.New(actortest.NewSystem(t)), &recorder{log: &log}
	forwarding, err := bus.Forward(r, "a.*.c", "b.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"a.b.*", ">", "*.*.c", "b.*", "b.x.>", "a.>"} {
		if _, err := bus.Forward(r, "z", p); err == nil || !strings.Contains(err.Error(), `"`+p+`"`) {
			t.Errorf("%s: %v", p, err)
		}
	}
	for _, p := range []string{"a.b", "a.b.d", "*", "a.*.c.>", "c.>"} {
		other, err := bus.Forward(r, p)
		if err != nil {
			t.Errorf("%s: %v", p, err)
			continue
		}
		other.End()
	}
	if _, err := bus.Forward(r, "a..b"); !errors.Is(err, eventbus.ErrTopic) {
		t.Error(err)
	}
	for _, c := range []eventbus.Forwarded{{Topic: "b.*"}, {Topic: "b.>.x", All: true}} {
		if err := forwarding.Deliver(bg, c); !errors.Is(err, eventbus.ErrTopic) {
			t.Errorf("%v: %v", c, err)
		}
	}
	bus.Close()
	if _, err := bus.Forward(r, "q"); !errors.Is(err, eventbus.ErrClosed) {
		t.Error(err)
	}
}

func TestWhatComesFromElsewhereDoesNotWaitForRoom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var log []string
		bus := eventbus.New(k.System())
		forwarding, err := bus.Forward(&recorder{log: &log}, ">")
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		events := eventbus.Listen[int](k.Context(), bus, "a", eventbus.Buffer(1, eventbus.Block))
		first := forwarding.Deliver(k.Context(), eventbus.Forwarded{Topic: "a", Event: 1})
		second := forwarding.Deliver(k.Context(), eventbus.Forwarded{Topic: "a", Event: 2})
		if first != nil || !errors.Is(second, eventbus.ErrFull) || time.Since(began) > 0 || bus.Stats().Dropped != 1 {
			t.Errorf("after %v: %v, %v, %+v", time.Since(began), first, second, bus.Stats())
		}
		for ev := range events {
			if ev != 1 {
				t.Errorf("got %d", ev)
			}
			break
		}
	})
}

func TestWhatAGateHoldsIsForwardedWhenItMayLeave(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var log []string
		bus, gate := eventbus.New(k.System()), &shutGate{}
		if _, err := bus.Forward(&recorder{log: &log}, ">"); err != nil {
			t.Fatal(err)
		}
		mouth := actor.SpawnFunc(k.System(), "mouth", func(ctx *actor.Context[int], _ int) error {
			return eventbus.Publish(ctx, bus, "a", 1)
		}, actor.Gated(gate))
		mouth.Tell(k.Context(), 1)
		k.Settle()
		if len(log) > 0 {
			t.Errorf("has left: %q", log)
		}
		for _, leave := range gate.held {
			leave(nil)
		}
		if !slices.Equal(log, []string{"forwarded a=1 false"}) {
			t.Errorf("got %q", log)
		}
	})
}
