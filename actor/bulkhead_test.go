package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// tide counts how many are inside at once.
type tide struct{ now, most, total atomic.Int32 }

func (h *tide) enter() {
	now := h.now.Add(1)
	h.total.Add(1)
	for {
		most := h.most.Load()
		if now <= most || h.most.CompareAndSwap(most, now) {
			return
		}
	}
}

func (h *tide) leave() { h.now.Add(-1) }

func TestBulkheadRunsSoManyHandlersAtOnce(t *testing.T) {
	for name, says := range map[string]bool{"that block": false, "that say they do": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h tide
				sys := actortest.NewSystem(t, actor.WithBulkhead("db", 3, 1))
				query := func() error {
					time.Sleep(time.Second)
					return nil
				}
				for range 20 {
					actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
						h.enter()
						defer h.leave()
						if says {
							return actor.Blocking(ctx, query)
						}
						return query()
					}, actor.OnBulkhead("db")).Tell(bg, 1)
				}
				time.Sleep(50 * time.Millisecond)
				if b := sys.Stats().Bulkheads; len(b) != 1 || b[0].Busy != 3 || b[0].Queued != 17 || b[0].Name != "db" || b[0].Workers != 3 || b[0].Weight != 1 {
					t.Errorf("the counters: %+v", b)
				}
				// The others do not wait for it.
				other := actor.SpawnFunc(sys, "other", func(ctx *actor.Context[balance], m balance) error { actor.Reply(ctx, m, 1); return nil })
				began := time.Now()
				if _, err := actor.Ask(bg, other, balance{}); err != nil || time.Since(began) != 0 {
					t.Errorf("an actor beside it: %v after %v", err, time.Since(began))
				}
				time.Sleep(20 * time.Second)
				if n := h.total.Load(); n != 20 {
					t.Errorf("%d of 20 handled", n)
				}
				if n := h.most.Load(); n != 3 {
					t.Errorf("%d at once", n)
				}
				if b := sys.Stats().Bulkheads[0]; b.Handled != 20 || b.Busy != 0 || b.Queued != 0 {
					t.Errorf("the counters at the end: %+v", b)
				}
			})
		})
	}
}

// A handler that waits by its own context lets others of its bulkhead run, also the one that answers.
// Any other wait counts.
func TestHandlerThatWaitsByItsContextDoesNotFillItsBulkhead(t *testing.T) {
	type reference = actor.Ref[balance]
	ask := func(ctx context.Context, to reference) error {
		_, err := actor.Ask(ctx, to, balance{})
		return err
	}
	derived := func(ctx context.Context, wait func(context.Context) error) error {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		return wait(limited)
	}
	for name, test := range map[string]struct {
		wait   func(ctx *actor.Context[int], to reference) error
		counts bool
	}{
		"Ask": {wait: func(ctx *actor.Context[int], to reference) error { return ask(ctx, to) }},
		"Ask Within": {wait: func(ctx *actor.Context[int], to reference) error {
			_, err := actor.Ask(ctx, to, balance{}, actor.Within(time.Minute))
			return err
		}},
		"Sleep": {wait: func(ctx *actor.Context[int], to reference) error {
			if err := ctx.Sleep(time.Second); err != nil {
				return err
			}
			return ask(ctx, to)
		}},
		"a Future": {wait: func(ctx *actor.Context[int], to reference) error {
			_, err := actor.AskFuture(ctx, to, balance{}).Wait(ctx)
			return err
		}},
		"Ask by a derived context": {wait: func(ctx *actor.Context[int], to reference) error {
			return derived(ctx, func(ctx context.Context) error { return ask(ctx, to) })
		}},
		"Ask within Blocking": {counts: true, wait: func(ctx *actor.Context[int], to reference) error {
			return actor.Blocking(ctx, func() error { return ask(ctx, to) })
		}},
		"Ask by a derived context within Blocking": {counts: true, wait: func(ctx *actor.Context[int], to reference) error {
			return derived(ctx, func(limited context.Context) error {
				return actor.Blocking(ctx, func() error { return ask(limited, to) })
			})
		}},
		"a Future by a derived context": {wait: func(ctx *actor.Context[int], to reference) error {
			return derived(ctx, func(limited context.Context) error {
				_, err := actor.AskFuture(ctx, to, balance{}).Wait(limited)
				return err
			})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
				where := "one"
				if test.counts {
					where = ""
				}
				answers := actor.SpawnFunc(sys, "answers", func(ctx *actor.Context[balance], m balance) error {
					time.Sleep(time.Millisecond)
					actor.Reply(ctx, m, 1)
					return nil
				}, actor.OnBulkhead(where))
				var h tide
				said := make(chan error, 10)
				for range cap(said) {
					actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
						h.enter()
						defer h.leave()
						said <- test.wait(ctx, answers)
						return nil
					}, actor.OnBulkhead("one")).Tell(bg, 1)
				}
				for range cap(said) {
					if err := <-said; err != nil {
						t.Fatal(err)
					}
				}
				if most := h.most.Load(); test.counts && most > 1 {
					t.Errorf("%d at once", most)
				}
			})
		})
	}
}

// Whoever waits for room in a mailbox of its own bulkhead lets the other make some.
// Also where the handler is that of an inline actor, or of one in the handler of that.
func TestHandlerThatWaitsForRoomDoesNotFillItsBulkhead(t *testing.T) {
	for inline := range 3 {
		synctest.Test(t, func(t *testing.T) {
			sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
			var handled atomic.Int32
			sink := actor.SpawnFunc(sys, "sink", func(*actor.Context[int], int) error { handled.Add(1); return nil },
				actor.Bounded(1, actor.Block), actor.OnBulkhead("one"))
			send := func(ctx *actor.Context[int], n int) error {
				for range n {
					if err := sink.TryTell(ctx, 1); err != nil {
						return err
					}
				}
				return nil
			}
			for range inline {
				next := actor.SpawnFunc(sys, "", send, actor.Inline())
				send = func(ctx *actor.Context[int], n int) error { next.Tell(ctx, n); return nil }
			}
			actor.SpawnFunc(sys, "source", send, actor.OnBulkhead("one")).Tell(bg, 100)
			synctest.Wait()
			if n := handled.Load(); n != 100 {
				t.Errorf("through %d inline actors: %d of 100 handled", inline, n)
			}
		})
	}
}

// Whoever has waited for room is one too many until its turn ends, and whom it has told must wait then.
func TestWhoWasToldByOneTooManyWaitsForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithBulkhead("db", 1, 1))
		room, done := make(chan struct{}), make(chan struct{})
		full := actor.SpawnFunc(sys, "full", func(*actor.Context[int], int) error { <-room; return nil }, actor.Bounded(1, actor.Block))
		full.Tell(bg, 1)
		synctest.Wait()
		full.Tell(bg, 2) // the first one is being handled
		var told atomic.Bool
		last := actor.SpawnFunc(sys, "last", func(*actor.Context[int], int) error { told.Store(true); return nil }, actor.OnBulkhead("db"))
		first := actor.SpawnFunc(sys, "first", func(ctx *actor.Context[int], _ int) error {
			if err := full.TryTell(ctx, 3); err != nil {
				t.Error(err)
			}
			last.Tell(ctx, 1)
			return nil
		}, actor.OnBulkhead("db"))
		busy := actor.SpawnFunc(sys, "busy", func(*actor.Context[int], int) error { <-done; return nil }, actor.OnBulkhead("db"))
		first.Tell(bg, 1)
		synctest.Wait()
		busy.Tell(bg, 1)
		synctest.Wait()
		close(room)
		synctest.Wait()
		if b := sys.Stats().Bulkheads[0]; told.Load() || b.Busy != 1 || b.Queued != 1 {
			t.Errorf("told %t beside one that blocks: %+v", told.Load(), b)
		}
		close(done)
		synctest.Wait()
		if !told.Load() {
			t.Error("not told when there was a worker")
		}
	})
}

func TestChildrenAreWhereTheirParentIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithBulkhead("db", 1, 1), actor.WithBulkhead("mail", 2, 3))
		where := func(pid actor.PID) string {
			for i := range sys.Actors() {
				if i.PID == pid.String() {
					return i.Bulkhead
				}
			}
			return "nowhere"
		}
		forward := func(*actor.Context[int], int) error { return nil }
		pids := make(chan actor.PID, 4)
		for _, opts := range [][]actor.SpawnOption{nil, {actor.Pinned()}, {actor.Inline()}, {actor.Bounded(3, actor.Block)}} {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				pids <- actor.SpawnFunc(ctx, "", forward).PID()
				pids <- actor.SpawnFunc(ctx, "", forward, actor.OnBulkhead("mail")).PID()
				pids <- actor.SpawnFunc(ctx, "", forward, actor.OnBulkhead("")).PID()
				pids <- actor.SpawnFunc(ctx, "", forward, actor.Weight(3)).PID()
				return nil
			}, append(opts, actor.OnBulkhead("db"))...).Tell(bg, 1)
			var got []string
			for range cap(pids) {
				got = append(got, where(<-pids))
			}
			if want := []string{"db", "mail", "", "db"}; !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		}
		_, err := actor.TrySpawnFunc(sys, "x", forward, actor.OnBulkhead("files"))
		if err == nil || !strings.Contains(err.Error(), `spawn "x": the system has no bulkhead "files", it has ["" "db" "mail"]`) {
			t.Errorf("a bulkhead that there is not: %v", err)
		}
	})
}

func TestBulkheadsThatCannotBe(t *testing.T) {
	for want, opts := range map[string]func() []actor.SystemOption{
		`the name "" must be UTF-8 and not empty`: func() []actor.SystemOption { return []actor.SystemOption{actor.WithBulkhead("", 1, 1)} },
		"workers must be from 1 to 10000, not 0":  func() []actor.SystemOption { return []actor.SystemOption{actor.WithBulkhead("x", 0, 1)} },
		"weight must be from 1 to 255, not 256":   func() []actor.SystemOption { return []actor.SystemOption{actor.WithBulkhead("x", 1, 256)} },
		"the system has that bulkhead already": func() []actor.SystemOption {
			return []actor.SystemOption{actor.WithBulkhead("x", 1, 1), actor.WithBulkhead("x", 2, 1)}
		},
	} {
		func() {
			defer func() {
				if r := recover(); !strings.Contains(fmt.Sprint(r), want) {
					t.Errorf("%v, want %s", r, want)
				}
			}()
			actor.NewSystem("x", opts()...)
		}()
	}
}

// Who was killed in a handler that does not return gives its place to others, and is told of.
func TestKillFreesAPlaceInABulkhead(t *testing.T) {
	for name, stuck := range map[string]func(ctx *actor.Context[int], never chan struct{}) error{
		"in a handler": func(_ *actor.Context[int], never chan struct{}) error { <-never; return nil },
		"in Blocking": func(ctx *actor.Context[int], never chan struct{}) error {
			return actor.Blocking(ctx, func() error { <-never; return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				never := make(chan struct{})
				sys := actor.NewSystem("x", quiet, actor.WithBulkhead("db", 1, 1))
				spawn := func(name string) (actor.Ref[int], chan struct{}) {
					begun := make(chan struct{})
					ref := actor.SpawnFunc(sys, name, func(ctx *actor.Context[int], _ int) error {
						close(begun)
						return stuck(ctx, never)
					}, actor.OnBulkhead("db"))
					ref.Tell(bg, 1)
					return ref, begun
				}
				first, begun := spawn("first")
				<-begun
				_, begun = spawn("second")
				time.Sleep(time.Second)
				select {
				case <-begun:
					t.Fatal("two handlers where one may be")
				default:
				}
				first.Kill()
				<-begun
				if busy := sys.Stats().Bulkheads[0].Busy; busy != 1 {
					t.Errorf("%d busy", busy)
				}
				ctx, cancel := context.WithTimeout(bg, time.Second)
				defer cancel()
				report, err := sys.Shutdown(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || len(report.Unfinished) != 2 {
					t.Errorf("%v, unfinished: %v", err, report.Unfinished)
				}
				close(never)
			})
		})
	}
}

// Handlers that compute without an end, in one bulkhead, do not starve another one, nor the
// system's own workers.
func TestBulkheadsDoNotStarveEachOther(t *testing.T) {
	sys := actortest.NewSystem(t, actor.WithBulkhead("computes", 4, 1), actor.WithBulkhead("other", 1, 1))
	var stop atomic.Bool
	defer stop.Store(true)
	for range 8 {
		actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
			for !stop.Load() { //nolint:revive // it computes
			}
			return nil
		}, actor.OnBulkhead("computes")).Tell(bg, 1)
	}
	for _, where := range []string{"", "other"} {
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error { actor.Reply(ctx, m, 1); return nil }, actor.OnBulkhead(where))
		for range 20 {
			if _, err := actor.Ask(bg, ref, balance{}); err != nil {
				t.Fatalf("on %q: %v", where, err)
			}
		}
	}
}

// Where messages take longer than a turn should, actors that share a worker get as many as their weights say.
func TestActorsWhoseMessagesTakeLongShareAWorkerByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.WithBulkhead("one", 1, 1))
		weights := []int{1, 4, 16}
		handled := make([]atomic.Int32, len(weights))
		var over atomic.Bool
		for i, weight := range weights {
			ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error {
				if !over.Load() {
					time.Sleep(300 * time.Microsecond)
					handled[i].Add(1)
				}
				return nil
			}, actor.OnBulkhead("one"), actor.Weight(weight))
			for range 2000 {
				ref.Tell(bg, 1)
			}
		}
		time.Sleep(500 * time.Millisecond)
		over.Store(true)
		synctest.Wait()
		one := float64(handled[0].Load())
		for i, weight := range weights {
			if share := float64(handled[i].Load()) / one / float64(weight); share < 0.9 || share > 1.1 {
				t.Errorf("of weight %d: %d messages, beside %d of weight 1", weight, handled[i].Load(), handled[0].Load())
			}
		}
	})
}

// Actors that have as much to do get as much done, whichever workers they began on.
func TestEqualActorsGetEqualSharesOfAllWorkers(t *testing.T) {
	for _, each := range []time.Duration{20 * time.Microsecond, 300 * time.Microsecond, 5 * time.Millisecond} {
		t.Run(fmt.Sprint(each), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.WithBulkhead("two", 2, 1))
				var handled [7]atomic.Int32
				var over atomic.Bool
				begin := make(chan struct{})
				for i := range handled {
					actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
						if <-begin; !over.Load() {
							time.Sleep(each)
							handled[i].Add(1)
							ctx.Self().Tell(ctx, 1)
						}
						return nil
					}, actor.OnBulkhead("two")).Tell(bg, 1)
				}
				synctest.Wait()
				close(begin) // when all wait, beside those that run
				time.Sleep(10_000 * each)
				over.Store(true)
				synctest.Wait()
				for i := range handled {
					if n := handled[i].Load(); n < 2500 || n > 3200 {
						t.Errorf("actor %d has handled %d of 20 000 messages", i, n)
					}
				}
			})
		})
	}
}
