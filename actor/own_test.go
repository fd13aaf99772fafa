package actor_test

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/greenroom-go/greenroom/actortest"
)

// lifo is the order of a stack, of a bounded size if most is not 0: then the oldest message goes. It drops
// negative numbers, and panics for 13.
type lifo struct {
	most  int
	stack []actor.Envelope[int]
}

func (q *lifo) Put(m actor.Envelope[int]) {
	switch {
	case m.Message() < 0:
		m.Drop()
		m.Drop()
		return
	case m.Message() == 13:
		panic("thirteen")
	}
	q.stack = append(q.stack, m)
	if q.most > 0 && len(q.stack) > q.most {
		q.stack[0].Drop()
		q.stack = q.stack[1:]
	}
}

func (q *lifo) Take() (m actor.Envelope[int], ok bool) {
	if len(q.stack) == 0 {
		return m, false
	}
	last := len(q.stack) - 1
	m, q.stack = q.stack[last], q.stack[:last]
	return m, true
}

// stacked is an actor whose first message waits at a gate, and what it handles.
func stacked(k *actortest.Kit, most int) (ref actor.Ref[int], gate *actortest.Gate, handled *[]int) {
	gate, handled = actortest.NewGate(k), new([]int)
	gate.Close()
	ref = actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], n int) error {
		gate.Pass(ctx)
		*handled = append(*handled, n)
		if n == 99 {
			return errBroken
		}
		return nil
	}, actor.Ordered(func() actor.Queue[int] { return &lifo{most: most} }))
	ref.Tell(k.Context(), 0)
	k.Settle()
	return ref, gate, handled
}

func TestAQueueOfOnesOwnDecidesTheOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, gate, handled := stacked(k, 0)
		for n := range 5 {
			ref.Tell(k.Context(), n+1)
		}
		if tree, err := k.System().Inspect("/a", 0); err != nil || tree.Mailbox != 5 {
			k.T().Errorf("%+v, %v", tree, err)
		}
		ref.Drain()
		gate.Open()
		k.Settle()
		if want := []int{0, 5, 4, 3, 2, 1}; !slices.Equal(*handled, want) {
			k.T().Errorf("handled %v, want %v", *handled, want)
		}
	})
}

func TestAQueueOfOnesOwnDropsMessages(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, gate, handled := stacked(k, 2)
		for _, n := range []int{1, 2, -1, 3, 4} {
			ref.Tell(k.Context(), n)
		}
		letters := k.System().Stats().DeadLettersByReason
		if letters["overflowed"] != 3 {
			k.T().Errorf("dead letters: %v", letters)
		}
		gate.Open()
		k.Settle()
		if want := []int{0, 4, 3}; !slices.Equal(*handled, want) {
			k.T().Errorf("handled %v, want %v", *handled, want)
		}
	})
}

// counted counts how often its queue is asked.
type counted struct {
	lifo
	takes int
}

func (q *counted) Take() (actor.Envelope[int], bool) {
	q.takes++
	return q.lifo.Take()
}

// What a queue drops leaves no place in the mailbox, which would grow although the queue does not.
func TestWhatAQueueOfOnesOwnDropsTakesNoPlace(t *testing.T) {
	for name, drop := range map[string]int{"the new one": -1, "an old one": 1} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				q := &counted{lifo: lifo{most: 2}}
				later := make(chan func(int, error), 1)
				gate := actortest.NewGate(k)
				gate.Close()
				ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
					if n == 0 {
						later <- actor.Later(ctx, func(n int, _ error) int { return n })
					}
					gate.Pass(ctx)
					return nil
				}, actor.Ordered(func() actor.Queue[int] { return q }))
				ref.Tell(k.Context(), 0)
				(<-later)(5, nil)
				ref.Tell(k.Context(), 2)
				ref.Tell(k.Context(), 3)
				for range 20 {
					ref.Tell(k.Context(), drop)
				}
				now, cancel := context.WithCancel(k.Context())
				cancel() // the actor is at the gate
				d, err := k.System().Detail(now, ref.PID())
				if want := []actor.Mail{{Type: "(ordered)", Count: 2}, {Type: "(outcome)", Count: 1}}; err != nil || d.Mailbox != 3 || !slices.Equal(d.Mail, want) {
					k.T().Errorf("mailbox %d, mail %v, %v; want %v", d.Mailbox, d.Mail, err, want)
				}
				gate.Open()
				k.Settle()
				if letters := k.System().Stats().DeadLetters; letters != 20 || q.takes != 3 {
					k.T().Errorf("%d dead letters; the queue was asked %d times for 3 messages", letters, q.takes)
				}
			})
		})
	}
}

func TestMailInAQueueOfOnesOwnSurvivesARestartAndIsBuriedAtTheEnd(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, gate, handled := stacked(k, 0)
		for _, n := range []int{1, 99, 2} {
			ref.Tell(k.Context(), n)
		}
		gate.Open()
		k.Settle()
		k.ExpectFailures(1)
		if want := []int{0, 2, 99, 1}; !slices.Equal(*handled, want) {
			k.T().Errorf("handled %v, want %v", *handled, want)
		}
		gate.Close()
		for n := range 4 {
			ref.Tell(k.Context(), n)
			k.Settle()
		}
		ref.Stop()
		gate.Open()
		k.Settle()
		if letters := k.System().Stats().DeadLettersByReason; letters["stopped"] != 3 {
			k.T().Errorf("dead letters: %v", letters)
		}
		if err := ref.TryTell(k.Context(), 1); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestAPanicInAQueueOfOnesOwnIsTheSenders(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref, gate, handled := stacked(k, 0)
		func() {
			defer func() {
				if v := recover(); v != "thirteen" {
					k.T().Errorf("recovered %v", v)
				}
			}()
			ref.Tell(k.Context(), 13)
		}()
		ref.Tell(k.Context(), 1)
		gate.Open()
		k.Settle()
		if want := []int{0, 1}; !slices.Equal(*handled, want) {
			k.T().Errorf("handled %v, want %v", *handled, want)
		}
	})
}

// backlog is a queue of requests, newest first.
type backlog struct{ stack []actor.Envelope[get] }

func (q *backlog) Put(m actor.Envelope[get]) { q.stack = append(q.stack, m) }

func (q *backlog) Take() (m actor.Envelope[get], ok bool) {
	if len(q.stack) == 0 {
		return m, false
	}
	last := len(q.stack) - 1
	m, q.stack = q.stack[last], q.stack[:last]
	return m, true
}

func TestRequestsKeepTheirAskersInAQueueOfOnesOwn(t *testing.T) {
	sys := actortest.NewSystem(t)
	n := 0
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error {
		n++
		actor.Reply(ctx, m, n)
		return nil
	}, actor.Ordered(func() actor.Queue[get] { return new(backlog) }))
	var wg sync.WaitGroup
	var mu sync.Mutex
	seen := make(map[int]bool)
	for range 8 {
		wg.Go(func() {
			for range 200 {
				got, err := actor.Ask(bg, ref, get{}, actor.Within(time.Minute)) // newest first: one may wait for all others
				mu.Lock()
				if err != nil || seen[got] {
					t.Errorf("got %d, %v, which another one has", got, err)
				}
				seen[got] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(seen) != 1600 {
		t.Errorf("%d answers", len(seen))
	}
}

// tally counts what an observer is told.
type tally struct {
	mu                        sync.Mutex
	posted, received, emptied int
	most                      int
}

func (o *tally) Posted(_ actor.PID, waiting int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.posted++
	o.most = max(o.most, waiting)
}

func (o *tally) Received(actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.received++
}

func (o *tally) Emptied(actor.PID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.emptied++
}

func TestAnObserverSeesEachKindOfMailbox(t *testing.T) {
	for name, test := range map[string]struct {
		opts    []actor.SpawnOption
		handled int
	}{
		"plain":     {nil, 6},
		"bounded":   {[]actor.SpawnOption{actor.Bounded(3, actor.Reject)}, 4},
		"evicts":    {[]actor.SpawnOption{actor.Bounded(3, actor.DropOldest)}, 4},
		"priority":  {[]actor.SpawnOption{actor.Priority(func(n int) int { return n })}, 6},
		"conflate":  {[]actor.SpawnOption{actor.Conflate(func(n int) int { return n % 2 })}, 3},
		"ordered":   {[]actor.SpawnOption{actor.Ordered(func() actor.Queue[int] { return new(lifo) })}, 6},
		"reentrant": {[]actor.SpawnOption{actor.Reentrant()}, 6},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				o := new(tally)
				hold := make(chan struct{})
				ref := actor.SpawnFunc(k.System(), "a", func(_ *actor.Context[int], n int) error {
					if n == 0 {
						<-hold
					}
					return nil
				}, append(test.opts, actor.ObserveMailbox(o))...)
				taken := 0
				for n := range 6 {
					if ref.TryTell(k.Context(), n) == nil {
						taken++
					}
					k.Settle()
				}
				waiting := test.handled - 1
				if name == "evicts" || name == "conflate" {
					waiting = o.most // while one is in place of another it is the same number
				}
				if o.posted != taken || o.most != waiting || o.emptied != 0 {
					k.T().Errorf("%d were taken, and while the first is handled it has seen %+v", taken, o)
				}
				close(hold)
				k.Settle()
				if o.received != test.handled || o.emptied != 1 {
					k.T().Errorf("in the end it has seen %+v", o)
				}
				ref.Tell(k.Context(), 7)
				k.Settle()
				if o.posted != taken+1 || o.received != test.handled+1 || o.emptied != 2 {
					k.T().Errorf("after another message it has seen %+v", o)
				}
			})
		})
	}
}

func TestAnObserverSeesAMessageAgainThatWasStashed(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		o := new(tally)
		open := false
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], n int) error {
			if n == 2 {
				open = true
				ctx.Unstash()
			}
			if open {
				return nil
			}
			return ctx.Stash()
		}, actor.ObserveMailbox(o))
		ref.Tell(k.Context(), 1)
		ref.Tell(k.Context(), 2)
		k.Settle()
		if o.posted != 2 || o.received != 3 {
			k.T().Errorf("%+v", o)
		}
	})
}

func TestAnObserverSeesWhoHasWaitedForRoom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		o := new(tally)
		gate := actortest.NewGate(k)
		gate.Close()
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], _ int) error {
			gate.Pass(ctx)
			return nil
		}, actor.Bounded(1, actor.Block), actor.ObserveMailbox(o))
		errs := make(chan error, 5)
		for range cap(errs) {
			go func() { errs <- ref.TryTell(k.Context(), 1) }()
		}
		k.Settle()
		gate.Open()
		for range cap(errs) {
			if err := <-errs; err != nil {
				k.T().Error(err)
			}
		}
		k.Settle()
		if o.posted != 5 || o.received != 5 || o.emptied == 0 {
			k.T().Errorf("%+v", o)
		}
	})
}

// keepsTwo is the order of a queue that drops the oldest of more than two messages.
type keepsTwo struct{ list []actor.Envelope[any] }

func (q *keepsTwo) Put(m actor.Envelope[any]) {
	if q.list = append(q.list, m); len(q.list) > 2 {
		q.list[0].Drop()
		q.list = q.list[1:]
	}
}

func (q *keepsTwo) Take() (m actor.Envelope[any], ok bool) {
	if len(q.list) == 0 {
		return m, false
	}
	m, q.list = q.list[0], q.list[1:]
	return m, true
}

// What a queue of one's own drops does not wait, and is not handled.
func TestWhatAQueueOfOnesOwnDropsIsNotHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, h, ran := actortest.NewSystem(t), newHeld(), uint64(0)
		ref := actor.SpawnFunc(sys, "a", func(_ *actor.Context[any], m any) error {
			if ran++; m == "first" {
				close(h.entered)
				<-h.release
			}
			return nil
		}, actor.Ordered(func() actor.Queue[any] { return new(keepsTwo) }))
		ref.Tell(bg, "first")
		<-h.entered
		for n := range 10 {
			ref.Tell(bg, n)
		}
		if tree, err := sys.Inspect("/a", 0); err != nil || tree.Mailbox != 2 {
			t.Errorf("%d messages wait, want 2; %v", tree.Mailbox, err)
		}
		close(h.release)
		synctest.Wait()
		if st := sys.Stats(); st.Handled != ran || st.Handled+st.DeadLetters != 11 {
			t.Errorf("11 sent, %d handlers, %d handled, %d dead letters", ran, st.Handled, st.DeadLetters)
		}
	})
}

// refuses is a queue that takes nothing, and looks how much there is.
type refuses struct{ look func() }

func (q refuses) Put(m actor.Envelope[int]) {
	m.Drop()
	q.look()
}

func (refuses) Take() (m actor.Envelope[int], ok bool) { return m, false }

func TestABacklogIsNeverLessThanNothing(t *testing.T) {
	sys := actortest.NewSystem(t)
	var ref actor.Ref[int]
	ref = actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil }, actor.Ordered(func() actor.Queue[int] {
		return refuses{func() {
			if n, _ := ref.Backlog(); n < 0 {
				t.Errorf("%d messages wait", n)
			}
		}}
	}))
	ref.Tell(bg, 1)
}

// custom is the order of a queue that is called back before it gives a message and after it has got one.
type custom[M any] struct {
	list []actor.Envelope[M]
	put  func(q *custom[M], m actor.Envelope[M]) // may be nil
	take func(q *custom[M])                      // may be nil
}

func (q *custom[M]) Put(m actor.Envelope[M]) {
	q.list = append(q.list, m)
	if q.put != nil {
		q.put(q, m)
	}
}

func (q *custom[M]) Take() (m actor.Envelope[M], ok bool) {
	if q.take != nil {
		q.take(q)
	}
	if len(q.list) == 0 {
		return m, false
	}
	m, q.list = q.list[0], q.list[1:]
	return m, true
}

// drop drops the i-th message.
func (q *custom[M]) drop(i int) {
	q.list[i].Drop()
	q.list = slices.Delete(q.list, i, i+1)
}

// keeps is a queue that returns its first message again and again.
type keeps struct{ first actor.Envelope[int] }

func (q *keeps) Put(m actor.Envelope[int]) {
	if q.first == (actor.Envelope[int]{}) {
		q.first = m
	}
}

func (q *keeps) Take() (m actor.Envelope[int], ok bool) { return q.first, true }

func TestATakeThatReturnsAMessageTwiceIsAFailure(t *testing.T) {
	for name, q := range map[string]actor.Queue[int]{"twice": &keeps{}, "none": &nothing{}} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				ref := actor.SpawnFunc(k.System(), "a", func(*actor.Context[int], int) error { return nil },
					actor.Ordered(func() actor.Queue[int] { return q }), actor.Temporary)
				k.Watch(ref)
				ref.Tell(k.Context(), 1)
				ref.Tell(k.Context(), 2)
				if down := actortest.ExpectDown(k, ref); down.Reason != actor.Failed || !strings.Contains(fmt.Sprint(down.Err), "Take of a queue") {
					k.T().Errorf("it ended with %+v", down)
				}
				k.ExpectFailures(1)
			})
		})
	}
}

// nothing is a queue that returns the zero Envelope.
type nothing struct{}

func (*nothing) Put(actor.Envelope[int])                {}
func (*nothing) Take() (m actor.Envelope[int], ok bool) { return m, true }

// What is in the stash becomes dead letters also when the queue drops a message at that moment. There is no
// bubble, since the actor waits for the lock of the queue meanwhile.
func TestWhatIsStashedIsNotLostWhileAQueueDrops(t *testing.T) {
	for name, inPut := range map[string]bool{"in Put": true, "in Take": false} {
		t.Run(name, func(t *testing.T) {
			sys := actor.NewSystem("s", actor.WithLogger(slog.New(slog.DiscardHandler)))
			h, q, calls := newHeld(), new(custom[get]), 0
			hold := func() {
				if calls++; calls == 2 {
					q.drop(len(q.list) - 1)
					close(h.entered)
					<-h.release
				}
			}
			if inPut {
				q.put = func(*custom[get], actor.Envelope[get]) { hold() }
			} else {
				q.take = func(*custom[get]) { hold() }
			}
			ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[get], _ get) error { return ctx.Stash() },
				actor.Ordered(func() actor.Queue[get] { return q }))
			until := func(reached func(d actor.Detail) bool) {
				for d, err := sys.Detail(bg, ref.PID()); err == nil && !reached(d); d, err = sys.Detail(bg, ref.PID()) {
					<-time.After(time.Millisecond)
				}
			}
			stashed := actor.AskFuture(bg, ref, get{}, actor.Within(time.Minute))
			until(func(d actor.Detail) bool { return d.Stash == 1 })
			told := make(chan struct{})
			go func() { defer close(told); ref.Tell(bg, get{}) }()
			<-h.entered
			ref.Kill()
			until(func(d actor.Detail) bool { return d.State != "running" })
			close(h.release)
			if _, err := stashed.Wait(bg); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("the asker gets %v, want ErrStopped", err)
			}
			<-told
			if report, err := sys.Shutdown(bg); err != nil || sys.Stats().DeadLetters != 2 {
				t.Errorf("%d dead letters, want 2; %+v, %v", sys.Stats().DeadLetters, report, err)
			}
		})
	}
}

func TestATakeThatFailsLosesNoMessage(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("take") }, "end of the goroutine": runtime.Goexit} {
		for _, d := range []actor.Directive{actor.Resume, actor.Restart, actor.Stop} {
			t.Run(fmt.Sprint(name, d), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return d })))
					calls := 0
					q := &custom[any]{take: func(*custom[any]) {
						if calls++; calls == 2 {
							fail()
						}
					}}
					var handled []any
					ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
						handled = append(handled, m)
						if g, ok := m.(get); ok {
							actor.Reply(ctx, g, 7)
						}
						return nil
					}, actor.Ordered(func() actor.Queue[any] { return q }))
					ref.Tell(bg, 1)
					synctest.Wait()
					n, err := actor.Ask(bg, ref, get{})
					want := []any{1, get{}}
					if d == actor.Stop {
						want = want[:1]
					}
					if answered := n == 7 && err == nil; answered != (d != actor.Stop) || !answered && !errors.Is(err, actor.ErrStopped) {
						t.Errorf("answered %d, %v", n, err)
					}
					synctest.Wait()
					if waits, _ := ref.Backlog(); waits != 0 || !slices.Equal(handled, want) {
						t.Errorf("handled %v, and %d wait", handled, waits)
					}
					if st := sys.Stats(); st.Failures != 1 || st.Handled != uint64(len(want)) || st.Handled+st.DeadLetters != 2 {
						t.Errorf("%d failures, %d handled, %d dead letters", st.Failures, st.Handled, st.DeadLetters)
					}
				})
			})
		}
	}
}

func TestADrainHandlesWhatWasToldBeforeToAQueueOfOnesOwn(t *testing.T) {
	sys := actortest.NewSystem(t)
	for began := time.Now(); time.Since(began) < time.Second; { // the window was between two locks
		var saw atomic.Bool
		ref := actor.SpawnFunc(sys, "", func(_ *actor.Context[int], n int) error {
			if n == 1 {
				saw.Store(true)
			}
			return nil
		}, actor.Ordered(func() actor.Queue[int] { return new(lifo) }))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for range 100 {
					if ref.TryTell(bg, 2) != nil {
						return
					}
				}
			})
		}
		runtime.Gosched()
		if err := ref.TryTell(bg, 1); err != nil {
			t.Fatal(err)
		}
		ref.Drain()
		wg.Wait()
		if _, err := ref.Wait(bg); err != nil || !saw.Load() {
			t.Fatalf("what was told before the drain was not handled, and the actor has ended with %v", err)
		}
	}
}

func TestWhatAQueueDropsBeforeItPanicsIsADeadLetter(t *testing.T) {
	for name, test := range map[string]struct {
		put, take func(q *custom[get])
		answered  bool
	}{
		"an older one, in Put": {put: func(q *custom[get]) {
			if len(q.list) == 3 {
				q.drop(0)
				panic("put")
			}
		}},
		"the new one, in Put": {put: func(q *custom[get]) {
			if len(q.list) == 3 {
				q.drop(2)
				panic("put")
			}
		}, answered: true},
		"one, in Take": {take: func(q *custom[get]) {
			if len(q.list) == 3 {
				q.drop(0)
				panic("take")
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate := actortest.NewGate(k)
				gate.Close()
				q := &custom[get]{take: test.take}
				if test.put != nil {
					q.put = func(q *custom[get], _ actor.Envelope[get]) { test.put(q) }
				}
				ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[get], m get) error {
					gate.Pass(ctx)
					actor.Reply(ctx, m, 1)
					return nil
				}, actor.Ordered(func() actor.Queue[get] { return q }))
				ref.Tell(k.Context(), get{})
				k.Settle()
				first := actor.AskFuture(k.Context(), ref, get{})
				ref.Tell(k.Context(), get{})
				func() {
					defer func() { _ = recover() }()
					ref.Tell(k.Context(), get{})
				}()
				if test.take != nil {
					gate.Open()
					k.Settle()
					k.ExpectFailures(1)
				}
				if letters := k.System().Stats().DeadLettersByReason; letters["overflowed"] != 1 {
					k.T().Errorf("dead letters: %v", letters)
				}
				gate.Open()
				if _, err := first.Wait(k.Context()); (err == nil) != test.answered || err != nil && !errors.Is(err, actor.ErrMailboxFull) {
					k.T().Errorf("the oldest request got %v", err)
				}
				k.Settle()
				if n, _ := ref.Backlog(); n != 0 {
					k.T().Errorf("%d wait", n)
				}
			})
		})
	}
}

func TestReportsNameTheMessageOfAQueueOfOnesOwn(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		stuck, overload := actortest.Events[actor.Stuck](k), actortest.Events[actor.Overload](k)
		until := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "sink", func(_ *actor.Context[int], n int) error {
			<-until
			if n == 99 {
				return errBroken
			}
			return nil
		}, actor.Ordered(func() actor.Queue[int] { return new(lifo) }))
		flood := actor.SpawnFunc(k.System(), "flood", func(ctx *actor.Context[int], n int) error {
			for range n {
				ref.Tell(ctx, 1)
			}
			return nil
		})
		flood.Tell(k.Context(), 1)
		k.Settle()
		ref.Tell(k.Context(), 1)
		flood.Tell(k.Context(), 1100)
		k.Advance(200 * time.Millisecond)
		if e := stuck.All(); len(e) != 1 || e[0].MessageType != "int" || e[0].Sender != flood.PID() {
			k.T().Errorf("%+v", e)
		}
		if d, err := k.System().Detail(k.Context(), ref.PID()); err != nil || d.Current != "int" || d.Sender != flood.PID() {
			k.T().Errorf("current %q from %v, %v", d.Current, d.Sender, err)
		}
		if e := overload.All(); len(e) != 1 || len(e[0].Top) != 2 || e[0].Top[0].PID != flood.PID() || e[0].Top[1].PID != (actor.PID{}) {
			k.T().Errorf("%+v", e)
		}
		ref.Tell(k.Context(), 99)
		close(until)
		k.Settle()
		k.ExpectFailures(1)
		d, err := k.System().Detail(k.Context(), ref.PID())
		if err != nil || len(d.Failures) != 1 || d.Failures[0].MessageType != "int" || d.Current != "" || d.Sender != (actor.PID{}) {
			k.T().Errorf("%+v, %v", d, err)
		}
	})
}

func TestAProfileTellsTheMessagesOfAQueueOfOnesOwnApart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[any], m any) error {
			if m == "begin" {
				ctx.Every("tick", 2*time.Millisecond, 0)
			}
			if m == 0 {
				ctx.Self().Tell(ctx, "x")
			}
			time.Sleep(time.Millisecond)
			return nil
		}, actor.Ordered(func() actor.Queue[any] { return new(custom[any]) })).Tell(k.Context(), "begin")
		for range 1000 { // which turns are timed is a matter of chance
			ctx, cancel := context.WithTimeout(k.Context(), 200*time.Millisecond)
			usage := k.System().Profile(ctx)
			cancel()
			for _, u := range usage {
				if u.Type == "string" {
					return
				}
				if u.Type != "(timer tick)" {
					k.T().Fatalf("%+v", u)
				}
			}
		}
		k.T().Error("no message was timed")
	})
}

func TestKillTellsTheAskerOfAMessageOfAQueueOfOnesOwn(t *testing.T) {
	for name, inTake := range map[string]bool{"that is handled": false, "that is taken meanwhile": true} {
		t.Run(name, func(t *testing.T) {
			sys, h := actortest.NewSystem(t), newHeld()
			hold := func() {
				close(h.entered)
				<-h.release
			}
			q := new(custom[get])
			if inTake {
				q.take = func(*custom[get]) { hold() }
			}
			ref := actor.SpawnFunc(sys, "a", func(*actor.Context[get], get) error {
				hold()
				return nil
			}, actor.Ordered(func() actor.Queue[get] { return q }))
			answer := actor.AskFuture(bg, ref, get{}, actor.Within(10*time.Second))
			<-h.entered
			ref.Kill()
			for inTake {
				if tree, err := sys.Inspect("/a", 0); err != nil || tree.State == "stopping" {
					break
				}
				<-time.After(time.Millisecond)
			}
			if inTake {
				close(h.release)
			}
			if _, err := answer.Wait(bg); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("the asker got %v", err)
			}
			if !inTake {
				close(h.release)
			}
		})
	}
}

// Envelopes that stand for messages become no dead letters: they push none out. Nobody listens here; otherwise all are described.
func TestDeadLettersAreKeptWhateverElseIsInTheMailbox(t *testing.T) {
	sys, h := actortest.NewSystem(t), newHeld()
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], n int) error {
		if n < 100 {
			return ctx.Stash()
		}
		close(h.entered)
		<-h.release
		return nil
	}, actor.Ordered(func() actor.Queue[int] { return new(custom[int]) }))
	for n := range 201 {
		if ref.Tell(bg, n); n == 100 {
			<-h.entered
		}
	}
	ref.Stop()
	close(h.release)
	if _, err := ref.Wait(bg); err != nil {
		t.Fatal(err)
	}
	if n := len(sys.DeadLetters()); n != 200 {
		t.Errorf("%d dead letters are kept of 200", n)
	}
}
