package actor_test

import (
	"errors"
	"slices"
	"sync"
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
