package eventbus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/eventbus"
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

// heard is what the subscribers of these tests are told: an event with its topic.
type heard struct {
	topic string
	event any
}

// call makes a subscriber run something in its turn.
type call struct {
	actor.Returns[error]
	f func(ctx *actor.Context[any]) error
}

// ear is an actor that subscribes in its Init and notes what it hears.
type ear struct {
	init func(ctx *actor.Context[any]) error
	log  *journal
}

func (e *ear) Init(ctx *actor.Context[any]) error {
	if e.init == nil {
		return nil
	}
	return e.init(ctx)
}

func (e *ear) Receive(ctx *actor.Context[any], msg any) error {
	switch m := msg.(type) {
	case heard:
		e.log.add(fmt.Sprintf("%s=%v", m.topic, m.event))
	case call:
		actor.Reply(ctx, m, m.f(ctx))
	case func(ctx *actor.Context[any]) error:
		return m(ctx)
	}
	return nil
}

// journal is a list of what happened that several goroutines write.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) all() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.lines)
}

func (j *journal) len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.lines)
}

func (j *journal) last() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.lines) == 0 {
		return ""
	}
	return j.lines[len(j.lines)-1]
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

func (j *journal) expect(t *testing.T, want ...string) {
	t.Helper()
	until(t, "heard all", func() bool { return j.len() >= len(want) })
	if got := j.all(); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// listen subscribes in Init, and again in each incarnation.
func listen[Ev any](t testing.TB, sys *actor.System, bus *eventbus.Bus, name string, patterns []string, opts ...eventbus.SubscribeOption) (actor.Ref[any], *journal) {
	t.Helper()
	log := &journal{}
	ref := actor.Spawn(sys, name, func() *ear {
		return &ear{log: log, init: func(ctx *actor.Context[any]) error {
			for _, p := range patterns {
				if _, err := subscribe[Ev](ctx, bus, p, opts...); err != nil {
					return err
				}
			}
			return nil
		}}
	})
	return ref, log
}

func subscribe[Ev any](ctx *actor.Context[any], bus *eventbus.Bus, pattern string, opts ...eventbus.SubscribeOption) (*eventbus.Subscription, error) {
	return eventbus.Subscribe(ctx, bus, pattern, func(topic string, ev Ev) any { return heard{topic, ev} }, opts...)
}

// run runs something in an actor's turn, told and not asked, and waits for it.
func run(t testing.TB, ref actor.Ref[any], f func(ctx *actor.Context[any]) error) {
	t.Helper()
	done := make(chan struct{})
	ref.Tell(bg, func(ctx *actor.Context[any]) error {
		defer close(done)
		return f(ctx)
	})
	<-done
}

// block keeps an actor in its handler until the returned function is called.
func block(t testing.TB, ref actor.Ref[any]) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	ref.Tell(bg, func(*actor.Context[any]) error {
		close(entered)
		<-leave
		return nil
	})
	<-entered
	return sync.OnceFunc(func() { close(leave) })
}

func publish(t testing.TB, bus *eventbus.Bus, topic string, events ...any) {
	t.Helper()
	for _, ev := range events {
		if err := eventbus.Publish(bg, bus, topic, ev); err != nil {
			t.Errorf("publish %v to %s: %v", ev, topic, err)
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
			sys := newSystem(t)
			bus := eventbus.New(sys)
			_, one := listen[int](t, sys, bus, "one", []string{"sensors.*.temp", "doors.>"}, opts...)
			_, two := listen[int](t, sys, bus, "two", []string{"sensors.kitchen.temp"}, opts...)
			publish(t, bus, "sensors.kitchen.temp", 1)
			publish(t, bus, "sensors.hall.temp", 2)
			publish(t, bus, "sensors.hall.humidity", 3)
			publish(t, bus, "sensors.temp", 4)
			publish(t, bus, "doors.front.lock", 5)
			publish(t, bus, "doors", 6)
			one.expect(t, "sensors.kitchen.temp=1", "sensors.hall.temp=2", "doors.front.lock=5")
			two.expect(t, "sensors.kitchen.temp=1")
			if st := bus.Stats(); st.Subscriptions != 3 || st.Published != 6 || st.Unheard != 3 || st.Delivered != 4 || st.Dropped != 0 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestPublishingToNobodyIsNoError(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	publish(t, bus, "a.b", 1)
	if st := bus.Stats(); st.Published != 1 || st.Unheard != 1 || sys.Stats().DeadLetters != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestEventOfAnotherTypeIsNotDeliveredAndCounted(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	_, ints := listen[int](t, sys, bus, "ints", []string{"x"})
	_, errs := listen[error](t, sys, bus, "errors", []string{"x"})
	_, all := listen[any](t, sys, bus, "all", []string{"x"})
	publish(t, bus, "x", 1, "two", io.EOF, nil)
	ints.expect(t, "x=1")
	errs.expect(t, "x=EOF")
	all.expect(t, "x=1", "x=two", "x=EOF")
	if st := bus.Stats(); st.Mismatched != 3+3+1 || st.Delivered != 5 {
		t.Errorf("stats %+v", st)
	}
}

func TestBadTopicsAreRefused(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, _ := listen[int](t, sys, bus, "ear", nil)
	for _, err := range []error{
		eventbus.Publish(bg, bus, "a.*", 1), eventbus.Publish(bg, bus, "", 1), eventbus.PublishAll(bg, bus, "a..b", 1),
	} {
		if !errors.Is(err, eventbus.ErrTopic) || !strings.HasPrefix(err.Error(), "publish: bad topic") {
			t.Errorf("got %v", err)
		}
	}
	run(t, ref, func(ctx *actor.Context[any]) error {
		if _, err := subscribe[int](ctx, bus, ">.a"); !errors.Is(err, eventbus.ErrTopic) {
			t.Errorf("subscribe: %v", err)
		}
		return nil
	})
	for what, f := range map[string]func(){
		"listen": func() { eventbus.Listen[int](bg, bus, "a..") },
		"retain": func() { eventbus.New(sys, eventbus.Retain("a..")) },
		"buffer": func() { eventbus.Buffer(0, eventbus.Block) },
		"policy": func() { eventbus.Buffer(1, 9) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", what)
				}
			}()
			f()
		}()
	}
	if st := bus.Stats(); st.Published != 0 || st.Subscriptions != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestPublishAllReachesWhoeverCouldHearIt(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys, eventbus.Retain(">"))
	_, log := listen[int](t, sys, bus, "ear", []string{"partner.bob.do", "partner.alice.do", "partner.*.do", "partner.>", "partner.bob.undo", "x.>"})
	if err := eventbus.PublishAll(bg, bus, "partner.*.do", 7); err != nil {
		t.Fatal(err)
	}
	log.expect(t, slices.Repeat([]string{"partner.*.do=7"}, 4)...)
	if st := bus.Stats(); st.Retained != 0 || st.Delivered != 4 {
		t.Errorf("stats %+v", st)
	}
}

func TestUnsubscribeEndsTheSubscription(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys)
			ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, opts...)
			var sub *eventbus.Subscription
			run(t, ref, func(ctx *actor.Context[any]) (err error) {
				sub, err = subscribe[int](ctx, bus, "b", opts...)
				return err
			})
			publish(t, bus, "b", 1)
			log.expect(t, "b=1")
			sub.Unsubscribe()
			sub.Unsubscribe()
			publish(t, bus, "b", 2)
			publish(t, bus, "a", 3)
			log.expect(t, "b=1", "a=3")
			if st := bus.Stats(); st.Subscriptions != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

func TestSubscriptionEndsWithItsActor(t *testing.T) {
	for name, opts := range buffered {
		for how, end := range map[string]func(actor.Ref[any]){
			"stop": actor.Ref[any].Stop, "drain": actor.Ref[any].Drain, "kill": actor.Ref[any].Kill,
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				sys := newSystem(t)
				bus := eventbus.New(sys)
				ref, _ := listen[int](t, sys, bus, "ear", []string{"a", "b.>"}, opts...)
				end(ref)
				until(t, "ended", func() bool { return bus.Stats().Subscriptions == 0 })
				publish(t, bus, "a", 1)
				if st := bus.Stats(); st.Unheard != 1 {
					t.Errorf("stats %+v", st)
				}
			})
		}
	}
}

func TestRestartedActorHearsEachEventOnce(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys)
			ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, opts...)
			for n := range 5 {
				run(t, ref, func(*actor.Context[any]) error { return errors.New("fails") })
				run(t, ref, func(*actor.Context[any]) error { return nil }) // by the next incarnation
				publish(t, bus, "a", 1)
				log.expect(t, slices.Repeat([]string{"a=1"}, n+1)...)
			}
			until(t, "cleaned up", func() bool { return bus.Stats().Subscriptions == 1 })
			if n := sys.Stats().Restarts; n != 5 {
				t.Errorf("%d restarts", n)
			}
		})
	}
}

// While a request is handled the actor's context is that of the request.
func TestSubscriptionMadeWhileHandlingARequestOutlivesIt(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys)
			ref, log := listen[int](t, sys, bus, "ear", nil, opts...)
			for i := range 3 {
				if failed, err := actor.Ask(bg, ref, call{f: func(ctx *actor.Context[any]) error {
					_, err := subscribe[int](ctx, bus, fmt.Sprintf("a.%d", i), opts...)
					return err
				}}); err != nil || failed != nil {
					t.Fatal(err, failed)
				}
			}
			publish(t, bus, "a.0", 1)
			publish(t, bus, "a.2", 2)
			log.expect(t, "a.0=1", "a.2=2")
			run(t, ref, func(*actor.Context[any]) error { return errors.New("fails") })
			until(t, "ended with the incarnation", func() bool { return bus.Stats().Subscriptions == 0 })
		})
	}
}

func TestOrderOfAPublisherIsKept(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys)
			opts := opts
			if opts != nil {
				opts = []eventbus.SubscribeOption{eventbus.Buffer(3, eventbus.Block)}
			}
			_, log := listen[int](t, sys, bus, "ear", []string{"a.*.odd", "a.*.even"}, opts...)
			const publishers, each = 4, 200
			var wg sync.WaitGroup
			for p := range publishers {
				wg.Go(func() {
					for n := range each {
						publish(t, bus, fmt.Sprintf("a.%d.%s", p, [...]string{"even", "odd"}[n%2]), n)
					}
				})
			}
			wg.Wait()
			until(t, "all heard", func() bool { return log.len() == publishers*each })
			next := map[string]int{}
			for _, line := range log.all() {
				topic, value, _ := strings.Cut(line, "=")
				p := strings.Split(topic, ".")[1]
				if value != fmt.Sprint(next[p]) {
					t.Fatalf("publisher %s: got %s, want %d", p, line, next[p])
				}
				next[p]++
			}
		})
	}
}

// fill publishes 1 to n while the subscriber is in a handler.
func fill(t *testing.T, policy eventbus.Policy, n int) (got []string, info eventbus.Info, st eventbus.Stats) {
	t.Helper()
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, eventbus.Buffer(3, policy))
	release := block(t, ref)
	publish(t, bus, "a", 0)
	until(t, "in the mailbox", func() bool { return bus.Stats().Delivered == 1 })
	for i := range n {
		publish(t, bus, "a", i+1)
	}
	info = bus.Subscriptions()[0]
	release()
	until(t, "heard", func() bool { return log.len() == 4 })
	return log.all(), info, bus.Stats()
}

func TestDropOldestKeepsTheNewest(t *testing.T) {
	got, info, st := fill(t, eventbus.DropOldest, 10)
	if want := []string{"a=0", "a=8", "a=9", "a=10"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if info.Waiting != 3 || info.Dropped != 7 || st.Dropped != 7 || st.Delivered != 4 {
		t.Errorf("info %+v stats %+v", info, st)
	}
}

func TestDropNewestKeepsTheOldest(t *testing.T) {
	got, info, st := fill(t, eventbus.DropNewest, 10)
	if want := []string{"a=0", "a=1", "a=2", "a=3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if info.Waiting != 3 || info.Dropped != 7 || st.Dropped != 7 || st.Delivered != 4 {
		t.Errorf("info %+v stats %+v", info, st)
	}
}

func TestBlockHoldsThePublisherUntilThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		bus := eventbus.New(sys)
		ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, eventbus.Buffer(1, eventbus.Block))
		release := block(t, ref)
		publish(t, bus, "a", 1)
		synctest.Wait() // 1 is in the mailbox
		publish(t, bus, "a", 2)
		var published atomic.Bool
		go func() {
			publish(t, bus, "a", 3)
			published.Store(true)
		}()
		synctest.Wait()
		if published.Load() {
			t.Error("the publisher did not wait")
		}
		release()
		synctest.Wait()
		if !published.Load() {
			t.Error("the publisher still waits")
		}
		log.expect(t, "a=1", "a=2", "a=3")
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestBlockEndsWithTheContextOrThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		bus := eventbus.New(sys, eventbus.WithPatience(time.Second))
		ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, eventbus.Buffer(1, eventbus.Block))
		_, other := listen[int](t, sys, bus, "other", []string{"a"})
		release := block(t, ref)
		publish(t, bus, "a", 1)
		synctest.Wait()
		publish(t, bus, "a", 2)

		ctx, cancel := context.WithTimeout(bg, 3*time.Second)
		defer cancel()
		canceled, cancelNow := context.WithCancel(bg)
		cancelNow()
		for _, tc := range []struct {
			ctx   context.Context
			cause error
			after time.Duration
		}{{ctx, context.DeadlineExceeded, 3 * time.Second}, {bg, context.DeadlineExceeded, time.Second}, {canceled, context.Canceled, 0}} {
			began := time.Now()
			err := eventbus.Publish(tc.ctx, bus, "a", 3)
			if !errors.Is(err, eventbus.ErrFull) || !errors.Is(err, tc.cause) || time.Since(began) != tc.after {
				t.Errorf("after %v: %v", time.Since(began), err)
			}
		}
		release()
		synctest.Wait()
		log.expect(t, "a=1", "a=2")
		other.expect(t, "a=1", "a=2", "a=3", "a=3", "a=3")
		if st := bus.Stats(); st.Dropped != 3 {
			t.Errorf("stats %+v", st)
		}
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestBlockedPublisherGoesOnWhenTheSubscriptionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		bus := eventbus.New(sys)
		ctx, cancel := context.WithCancel(bg)
		eventbus.Listen[int](ctx, bus, "a", eventbus.Buffer(1, eventbus.Block))
		publish(t, bus, "a", 1)
		done := make(chan error, 1)
		go func() { done <- eventbus.Publish(bg, bus, "a", 2) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("publish: %v", err)
		}
		synctest.Wait()
		if st := bus.Stats(); st.Subscriptions != 0 || st.Dropped != 2 {
			t.Errorf("stats %+v", st)
		}
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
}

func TestPublishingToItselfDoesNotDeadlock(t *testing.T) {
	for _, policy := range []eventbus.Policy{eventbus.DropOldest, eventbus.DropNewest, eventbus.Block} {
		t.Run(policy.String(), func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys)
			ref, log := listen[int](t, sys, bus, "ear", []string{"a"}, eventbus.Buffer(2, policy))
			full := 0
			run(t, ref, func(ctx *actor.Context[any]) error {
				for i := range 20 {
					if err := eventbus.Publish(ctx, bus, "a", i); errors.Is(err, eventbus.ErrFull) {
						full++
					} else if err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			until(t, "all accounted for", func() bool { st := bus.Stats(); return st.Delivered+st.Dropped == 20 })
			until(t, "all heard", func() bool { return uint64(log.len()) == bus.Stats().Delivered })
			if st := bus.Stats(); (policy == eventbus.Block) != (full > 0) || policy == eventbus.Block && uint64(full) != st.Dropped {
				t.Errorf("%d were refused, stats %+v", full, st)
			}
		})
	}
}

func TestPublishingFromAHandlerToItselfDirectly(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	last := make(chan int, 1)
	senders := make(chan actor.PID, 100)
	ref := actor.SpawnFunc(sys, "counter", func(ctx *actor.Context[int], n int) error {
		if n == 0 {
			if _, err := eventbus.Subscribe(ctx, bus, "n", func(_ string, n int) int { return n }); err != nil {
				return err
			}
		} else {
			senders <- ctx.Sender()
		}
		if n == 100 {
			last <- n
			return nil
		}
		return eventbus.Publish(ctx, bus, "n", n+1)
	})
	ref.Tell(bg, 0)
	<-last
	if from := <-senders; from != ref.PID() {
		t.Errorf("the sender of an event is %v", from)
	}
}

func TestSubscribeAndUnsubscribeWhileOthersPublish(t *testing.T) {
	for name, opts := range buffered {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys, eventbus.Retain("r.>"))
			_, steady := listen[int](t, sys, bus, "steady", []string{"*.b"}, opts...)
			var stop atomic.Bool
			var wg sync.WaitGroup
			for p := range 2 {
				wg.Go(func() {
					for n := 0; !stop.Load(); n++ {
						publish(t, bus, [...]string{"a.b", "r.c"}[p], n)
						for bus.Stats().Delivered > sys.Stats().Handled+100 && !stop.Load() {
							runtime.Gosched() // or the mailboxes grow faster than they are read
						}
					}
				})
			}
			for a := range 4 {
				ref, _ := listen[int](t, sys, bus, "", nil, opts...)
				wg.Go(func() {
					for n := range 100 {
						run(t, ref, func(ctx *actor.Context[any]) error {
							s, err := subscribe[int](ctx, bus, [...]string{"a.>", "a.*", ">", "r.c", "*.b"}[(a+n)%5], opts...)
							if err == nil {
								s.Unsubscribe()
							}
							return err
						})
					}
				})
			}
			until(t, "something heard", func() bool { return steady.len() > 10 })
			stop.Store(true)
			wg.Wait()
			until(t, "quiet", func() bool { return bus.Stats().Subscriptions == 1 })
			if n := sys.Stats().Failures; n > 0 {
				t.Errorf("%d failures: %v", n, sys.DeadLetters())
			}
			if info := bus.Subscriptions()[0]; info.Pattern != "*.b" || info.Type != "int" {
				t.Errorf("left: %+v", info)
			}
		})
	}
}

func TestNewSubscriberGetsWhatIsRetained(t *testing.T) {
	for name, opts := range map[string][]eventbus.SubscribeOption{
		"direct": nil, "small buffer": {eventbus.Buffer(1, eventbus.Block)},
	} {
		t.Run(name, func(t *testing.T) {
			sys := newSystem(t)
			bus := eventbus.New(sys, eventbus.Retain("state.*", "config.>"))
			publish(t, bus, "state.a", 1, 2)
			publish(t, bus, "state.b", 3)
			publish(t, bus, "state.deep.er", 4)
			publish(t, bus, "config.x.y", "text")
			publish(t, bus, "config.x.z", 5)
			publish(t, bus, "state.a", 6)
			_, log := listen[int](t, sys, bus, "ear", []string{">"}, opts...)
			publish(t, bus, "state.a", 7)
			log.expect(t, "state.b=3", "config.x.z=5", "state.a=6", "state.a=7")

			if v, ok := eventbus.Last[int](bus, "state.b"); v != 3 || !ok {
				t.Errorf("last %v %v", v, ok)
			}
			if v, ok := eventbus.Last[string](bus, "state.b"); ok {
				t.Errorf("last as a string %v", v)
			}
			if !eventbus.Forget(bus, "state.b") || eventbus.Forget(bus, "state.b") {
				t.Error("forget")
			}
			if st := bus.Stats(); st.Retained != 3 || st.Mismatched != 1 {
				t.Errorf("stats %+v", st)
			}
		})
	}
}

// Whoever subscribes while values are published sees each topic's values in order,
// without a gap after the first one and without one twice.
func TestRetainedValueIsNeitherMissedNorRepeatedNorOvertaken(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys, eventbus.Retain(">"))
	const last = 3000
	publish(t, bus, "n", 0)
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range last {
			publish(t, bus, "n", n+1)
			if n%8 == 0 {
				runtime.Gosched()
			}
		}
	})
	var logs []*journal
	for i := range 30 {
		opts := buffered["direct"]
		if i%2 == 0 {
			opts = []eventbus.SubscribeOption{eventbus.Buffer(last+1, eventbus.DropNewest)}
		}
		_, log := listen[int](t, sys, bus, "", []string{"*"}, opts...)
		logs = append(logs, log)
	}
	wg.Wait()
	end := fmt.Sprintf("n=%d", last)
	for i, log := range logs {
		until(t, "all heard", func() bool { return log.last() == end })
		lines, first := log.all(), 0
		if _, err := fmt.Sscanf(lines[0], "n=%d", &first); err != nil {
			t.Fatal(err)
		}
		for k, line := range lines {
			if want := fmt.Sprintf("n=%d", first+k); line != want {
				t.Fatalf("subscriber %d heard %s, want %s", i, line, want)
			}
		}
	}
}

func TestListenYieldsUntilTheContextEnds(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ctx, cancel := context.WithCancel(bg)
	defer cancel()
	seq := eventbus.ListenTopic[int](ctx, bus, "sensors.>")
	publish(t, bus, "sensors.a", 1)
	publish(t, bus, "sensors.b", "no int")
	publish(t, bus, "sensors.c.d", 2)
	var got []string
	for topic, n := range seq {
		got = append(got, fmt.Sprint(topic, "=", n))
		if n == 2 {
			publish(t, bus, "sensors.e", 3)
			cancel()
		}
	}
	if want := []string{"sensors.a=1", "sensors.c.d=2"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if st := bus.Stats(); st.Subscriptions != 0 || st.Dropped != 1 || st.Mismatched != 1 {
		t.Errorf("stats %+v", st)
	}
	for range seq {
		t.Error("an event after the end")
	}
}

func TestListenEndsWhenTheLoopIsLeft(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	seq := eventbus.Listen[int](bg, bus, "a", eventbus.Buffer(2, eventbus.DropOldest))
	publish(t, bus, "a", 1, 2, 3)
	for n := range seq {
		if n != 2 {
			t.Errorf("got %d, the oldest of the two that are left is 2", n)
		}
		break
	}
	if st := bus.Stats(); st.Subscriptions != 0 || st.Delivered != 1 || st.Dropped != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestListenWithoutALoopEndsWithTheContext(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ctx, cancel := context.WithCancel(bg)
	eventbus.Listen[int](ctx, bus, "a")
	cancel()
	until(t, "ended", func() bool { return bus.Stats().Subscriptions == 0 })
}

func TestCloseEndsEverything(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, _ := listen[int](t, sys, bus, "ear", []string{"a", "b"})
	seq := eventbus.Listen[int](bg, bus, "a")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range seq {
			t.Error("an event")
		}
	}()
	bus.Close()
	bus.Close()
	<-done
	if err := eventbus.Publish(bg, bus, "a", 1); !errors.Is(err, eventbus.ErrClosed) {
		t.Errorf("publish: %v", err)
	}
	if err := eventbus.PublishAll(bg, bus, "*", 1); !errors.Is(err, eventbus.ErrClosed) {
		t.Errorf("publish to all: %v", err)
	}
	run(t, ref, func(ctx *actor.Context[any]) error {
		if _, err := subscribe[int](ctx, bus, "a"); !errors.Is(err, eventbus.ErrClosed) {
			t.Errorf("subscribe: %v", err)
		}
		return nil
	})
	for range eventbus.Listen[int](bg, bus, "a") {
		t.Error("an event of a closed bus")
	}
	if st := bus.Stats(); st.Subscriptions != 0 {
		t.Errorf("stats %+v", st)
	}
}

func TestPanicOfAWrapIsNotThePublishersFault(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, _ := listen[int](t, sys, bus, "ear", nil)
	run(t, ref, func(ctx *actor.Context[any]) error {
		_, err := eventbus.Subscribe(ctx, bus, "a", func(string, int) any { panic("ouch") })
		return err
	})
	_, log := listen[int](t, sys, bus, "other", []string{"a"})
	publish(t, bus, "a", 1, 2)
	log.expect(t, "a=1", "a=2")
	if st := bus.Stats(); st.Dropped != 2 || st.Delivered != 2 {
		t.Errorf("stats %+v", st)
	}
}

func TestSubscriptionDescribesItself(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, _ := listen[error](t, sys, bus, "ear", []string{"b.>", "a"}, eventbus.Buffer(4, eventbus.Block))
	list := bus.Subscriptions()
	if len(list) != 2 || list[0].Pattern != "a" || list[1].Pattern != "b.>" {
		t.Fatalf("got %+v", list)
	}
	want := eventbus.Info{Pattern: "a", Type: "error", Actor: ref.PID(), Buffer: 4, Policy: eventbus.Block}
	if list[0] != want {
		t.Errorf("got %+v, want %+v", list[0], want)
	}
}

func TestManySubscriptionsOfOnePatternComeAndGo(t *testing.T) {
	sys := newSystem(t)
	bus := eventbus.New(sys)
	ref, log := listen[int](t, sys, bus, "ear", nil)
	const n = 10_000
	run(t, ref, func(ctx *actor.Context[any]) error {
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
	publish(t, bus, "a.b", 1)
	until(t, "all heard", func() bool { return log.len() == n/100 })
	ref.Stop()
	until(t, "ended", func() bool { return bus.Stats().Subscriptions == 0 })
}
