package actor_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// gated starts a probe that has the message "held" in its hand, and a gate before it, so
// that its mailbox fills up behind that.
func gated(k *actortest.Kit, opts ...actor.SpawnOption) (*actortest.Gate, *actortest.Probe[string]) {
	gate := actortest.NewGate(k)
	gate.Close()
	p := actortest.NewProbe[string](k, append(opts, gate.Around())...)
	p.Ref().Tell(k.Context(), "held")
	k.Settle()
	return gate, p
}

func TestBoundedMailboxes(t *testing.T) {
	for _, c := range []struct {
		overflow actor.Overflow
		handled  []string
		dead     []any
		err      error
	}{
		{actor.Reject, []string{"1", "2", "3"}, []any{"4"}, actor.ErrMailboxFull},
		{actor.DropNewest, []string{"1", "2", "3"}, []any{"5", "4"}, nil},
		{actor.DropOldest, []string{"3", "4", "5"}, []any{"2", "1"}, nil},
	} {
		t.Run(fmt.Sprint(c.overflow), func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				sys := k.System()
				gate, p := gated(k, actor.Bounded(3, c.overflow))
				for _, m := range []string{"1", "2", "3", "4"} {
					p.Ref().Tell(k.Context(), m)
				}
				if err := p.Ref().TryTell(k.Context(), "5"); !errors.Is(err, c.err) {
					k.T().Errorf("TryTell returned %v, want %v", err, c.err)
				}
				gate.Open()
				p.ExpectAll(append([]string{"held"}, c.handled...)...)
				var dead []any
				for _, d := range sys.DeadLetters() {
					dead = append(dead, d.Message)
					if d.Reason != actor.Overflowed {
						k.T().Errorf("reason %v", d.Reason)
					}
				}
				if !slices.Equal(dead, c.dead) {
					k.T().Errorf("dead letters %v, want %v", dead, c.dead)
				}
			})
		})
	}
}

func TestBlockingMailboxLetsTryTellAndAskWaitForRoom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "1")
		p.Ref().Tell(k.Context(), "lost")
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		if err := p.Ref().TryTell(ctx, "never"); !errors.Is(err, context.DeadlineExceeded) {
			k.T().Errorf("got %v", err)
		}
		told := make(chan error)
		go func() { told <- p.Ref().TryTell(k.Context(), "2") }()
		k.Settle() // it waits
		gate.Open()
		if err := <-told; err != nil {
			k.T().Errorf("got %v", err)
		}
		k.Settle()
		p.ExpectAll("held", "1", "2")
		if s := k.System().Stats().DeadLettersByReason; s["overflowed"] != 1 || len(s) != 1 {
			k.T().Errorf("dead letters %v", s)
		}
	})
}

func TestSenderThatWaitsForRoomLearnsThatTheActorHasStopped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "1")
		told := make(chan error)
		go func() { told <- p.Ref().TryTell(k.Context(), "2") }()
		k.Settle()
		p.Ref().Stop()
		gate.Open()
		if err := <-told; !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestTimersAndDownsFindRoomInAFullMailbox(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		other := actor.Spawn(k.System(), "other", newCounter)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s", m)
			if m == "go" {
				ctx.Watch(other.PID(), func(d actor.Down) string { return "down " + d.Reason.String() })
				ctx.After("t", time.Second, "timer")
				return ctx.Sleep(5 * time.Second)
			}
			return nil
		}, actor.Bounded(1, actor.Reject))
		ref.Tell(k.Context(), "go")
		k.Settle()
		ref.Tell(k.Context(), "fills it")
		other.Stop()
		k.Advance(time.Minute)
		log.Expect("go", "fills it", "down stopped", "timer")
	})
}

func TestARankMayLookUpTheActorItIsFor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var pid actor.PID
		handled := 0
		ref := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error { handled++; return nil },
			actor.Priority(func(m int) int {
				_, _ = actor.Lookup[int](k.System(), pid)
				return m
			}))
		pid = ref.PID()
		ref.Tell(k.Context(), 1)
		k.Settle()
		if handled != 1 {
			k.T().Errorf("%d messages handled", handled)
		}
	})
}

func TestPriorityMailboxHandlesTheMostUrgentFirstAndEqualsInOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Priority(func(m string) int { return int(m[0] - '0') }))
		for _, m := range []string{"1a", "5a", "3a", "5b", "1b", "3b"} {
			p.Ref().Tell(k.Context(), m)
		}
		gate.Open()
		p.ExpectAll("held", "5a", "5b", "3a", "3b", "1a", "1b")
	})
}

func TestBoundedPriorityMailboxDropsTheLeastUrgent(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Priority(func(m string) int { return int(m[0] - '0') }), actor.Bounded(2, actor.DropOldest))
		for _, m := range []string{"1a", "5a", "1b", "3a"} {
			p.Ref().Tell(k.Context(), m)
		}
		gate.Open()
		p.ExpectAll("held", "5a", "3a")
	})
}

func TestConflatingMailboxKeepsTheNewestOfEachKeyInTheOldestsPlace(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		gate, p := gated(k, actor.Conflate(func(m string) byte { return m[0] }))
		for _, m := range []string{"a1", "b1", "a2", "c1", "a3", "b2"} {
			p.Ref().Tell(k.Context(), m)
		}
		gate.Open()
		p.ExpectAll("held", "a3", "b2", "c1")
		if s := sys.Stats().DeadLettersByReason; s["conflated"] != 3 {
			k.T().Errorf("dead letters %v", s)
		}
	})
}

// A model of the bounded conflating mailbox: whatever is told, what is handled and what
// is dead add up, and no key is handled out of order.
func TestConflatingBoundedMailboxAddsUp(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		r := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			before := sys.Stats().DeadLetters
			gate, p := gated(k, actor.Conflate(func(m string) byte { return m[0] }), actor.Bounded(3, actor.DropOldest))
			const n = 40
			for i := range n {
				p.Ref().Tell(k.Context(), fmt.Sprintf("%c%02d", 'a'+r.IntN(6), i))
			}
			gate.Open()
			p.Expect("held")
			handled := p.All()
			if dead := sys.Stats().DeadLetters - before; int(dead)+len(handled) != n {
				k.T().Fatalf("%d dead + %d handled, want %d", dead, len(handled), n)
			}
			seen := map[byte]bool{}
			for _, m := range handled {
				if seen[m[0]] {
					k.T().Fatalf("key %c twice in %v", m[0], handled)
				}
				seen[m[0]] = true
			}
		}
	})
}

func TestMailboxOptionForAnotherMessageTypeIsRefused(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, err := actor.TrySpawn(k.System(), "", newCounter, actor.Priority(func(int) int { return 0 }))
		if !errors.Is(err, actor.ErrNotAccepted) {
			k.T().Errorf("got %v", err)
		}
	})
}

func TestPinnedActorKeepsItsThreadAndSurvivesPanicAndGoexit(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		ref := actor.SpawnFunc(sys, "pin", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				if m == "exit" {
					runtime.Goexit()
				}
				panic(m)
			case get:
				actor.Reply(ctx, m, 1)
			}
			return nil
		}, actor.Pinned())
		actortest.Ask(k, ref, get{}).Answer()
		ref.Tell(k.Context(), "panic")
		ref.Tell(k.Context(), "exit")
		actortest.Ask(k, ref, get{}).Answer()
		if n := sys.Stats().Restarts; n != 2 {
			k.T().Errorf("%d restarts, want 2", n)
		}
		_, err := actor.TrySpawn(sys, "", func() *initFails { return &initFails{err: errBroken, fail: true} }, actor.Pinned())
		if !errors.Is(err, errBroken) {
			k.T().Errorf("got %v", err)
		}
		k.ExpectFailures(2)
	})
}

func TestInlineActorHandlesOnTheSendersGoroutine(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		n := 0
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], m int) error {
			n += m
			if m == 1 {
				ctx.Self().Tell(ctx, 10) // handled after this message, not within it
				if n != 1 {
					k.T().Error("reentered")
				}
			}
			return nil
		}, actor.Inline())
		ref.Tell(k.Context(), 1)
		if n != 11 {
			k.T().Errorf("after Tell n is %d, want 11", n)
		}
	})
}

func TestLinkedActorFailsWithTheOther(t *testing.T) {
	for _, c := range []struct {
		name     string
		end      func(actor.Ref[counterMsg])
		failures int
	}{
		{"killed", actor.Ref[counterMsg].Kill, 1},
		{"stopped", actor.Ref[counterMsg].Stop, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				sys := k.System()
				failures := actortest.Events[actor.ActorFailed](k)
				target := actor.Spawn(sys, "target", newCounter)
				linked := actor.SpawnFunc(sys, "linked", func(ctx *actor.Context[string], m string) error {
					if m == "link" {
						ctx.Link(target.PID())
					} else {
						ctx.Unlink(target.PID())
					}
					return nil
				})
				linked.Tell(k.Context(), "link")
				linked.Tell(k.Context(), "unlink")
				linked.Tell(k.Context(), "link")
				k.Settle()
				c.end(target)
				k.ExpectFailures(c.failures)
				for range c.failures {
					if f := failures.Next(); f.PID != linked.PID() || !errors.Is(f.Err, actor.ErrLinked) {
						k.T().Errorf("got %+v", f)
					}
				}
			})
		})
	}
}

// The failure of a linked actor says who has ended, and with what the chain of ends began: not all that lies between, which
// would be quadratic.
func TestAFailureGoesThroughAChainOfLinksWithItsCause(t *testing.T) {
	broken := errors.New("broken")
	actortest.Run(t, func(k *actortest.Kit) {
		const n = 200
		failures := actortest.Events[actor.ActorFailed](k)
		var refs []actor.Ref[error]
		for i := range n {
			var before actor.PID
			if i > 0 {
				before = refs[i-1].PID()
			}
			refs = append(refs, actor.SpawnFunc(k.System(), fmt.Sprint(i), func(ctx *actor.Context[error], m error) error {
				if m == nil && i > 0 {
					ctx.Link(before)
				}
				return m
			}))
			refs[i].Tell(k.Context(), nil)
		}
		k.Settle()
		refs[0].Tell(k.Context(), broken)
		k.ExpectFailures(n)
		for i := range n {
			f := failures.Next()
			want := "broken"
			switch {
			case i == 1:
				want = fmt.Sprintf("linked actor ended: %s: failed: restart budget exhausted: 1 failures within 1m0s, the last: broken", refs[0].PID())
			case i > 1:
				want = fmt.Sprintf("linked actor ended: %s: failed, after %s: failed: restart budget exhausted: 1 failures within 1m0s, the last: broken", refs[i-1].PID(), refs[0].PID())
			}
			if f.PID != refs[i].PID() || f.Err.Error() != want || !errors.Is(f.Err, broken) || errors.Is(f.Err, actor.ErrLinked) != (i > 0) {
				k.T().Errorf("%s failed with %v, want %s", f.PID, f.Err, want)
			}
		}
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)))
}

// What an actor makes of the failure of a linked one is its own failure, and goes on as a whole.
func TestAFailureOfItsOwnBeginsAChainOfLinks(t *testing.T) {
	broken, own := errors.New("broken"), errors.New("its own")
	actortest.Run(t, func(k *actortest.Kit) {
		failures := actortest.Events[actor.ActorFailed](k)
		first := actor.SpawnFunc(k.System(), "first", func(_ *actor.Context[error], m error) error { return m })
		linkedTo := func(to actor.PID) actor.PID {
			ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], _ any) error { ctx.Link(to); return nil })
			ref.Tell(k.Context(), nil)
			return ref.PID()
		}
		second := linkedTo(first.PID())
		watches := actor.SpawnFunc(k.System(), "watches", func(ctx *actor.Context[error], m error) error {
			if m == nil {
				ctx.Watch(second, func(d actor.Down) error { return d.Err })
				return nil
			}
			return fmt.Errorf("%w: %w", own, m)
		})
		watches.Tell(k.Context(), nil)
		last := linkedTo(watches.PID())
		k.Settle()
		first.Tell(k.Context(), broken)
		k.ExpectFailures(4)
		for range 3 {
			failures.Next()
		}
		if f := failures.Next(); f.PID != last || !errors.Is(f.Err, own) || !errors.Is(f.Err, broken) || !strings.Contains(f.Err.Error(), own.Error()) {
			k.T().Errorf("got %+v", f)
		}
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)))
}

func TestLinkWithNobodyIsAFailureAtOnce(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		target := actor.Spawn(k.System(), "", newCounter)
		k.Watch(target)
		target.Stop()
		actortest.ExpectDown(k, target)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error { ctx.Link(target.PID()); return nil })
		k.Watch(ref)
		ref.Tell(k.Context(), 1)
		if d := actortest.ExpectDown(k, ref); !errors.Is(d.Err, actor.ErrLinked) {
			k.T().Errorf("got %+v", d)
		}
		k.ExpectFailures(1)
	}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute)))
}

func TestSubscriberSeesWhatHappens(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		events := actortest.Events[actor.Event](k)
		actor.Subscribe(k.System(), events.Ref()) // once is enough
		letters := actortest.Events[actor.DeadLetter](k)
		c := actor.Spawn(k.System(), "c", newCounter)
		c.Tell(k.Context(), boom{"ouch"})
		k.ExpectFailures(1)
		c.Stop()
		k.Settle()
		c.Tell(k.Context(), add{1})

		events.Expect(actor.ActorStarted{PID: letters.Ref().PID()})
		events.Expect(actor.ActorStarted{PID: c.PID()})
		if e := actortest.ExpectMsg[actor.ActorFailed](events); e.PID != c.PID() || e.Err.Error() != "panic: ouch" || e.MessageType != "actor_test.boom" {
			k.T().Errorf("got %+v", e)
		}
		if e := actortest.ExpectMsg[actor.ActorRestarted](events); e.PID != c.PID() || e.Restarts != 1 {
			k.T().Errorf("got %+v", e)
		}
		if e := actortest.ExpectMsg[actor.ActorStopped](events); e.PID != c.PID() || e.Reason != actor.Stopped {
			k.T().Errorf("got %+v", e)
		}
		if e := actortest.ExpectMsg[actor.DeadLetter](events); e.Message != (add{1}) {
			k.T().Errorf("got %+v", e)
		}
		events.ExpectNone()
		if d := letters.Next(); d.Message != (add{1}) {
			k.T().Errorf("got %+v", d)
		}
		letters.ExpectNone()
	})
}

func TestSubscriberThatHasStoppedCausesNoDeadLetters(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[actor.DeadLetter], _ actor.DeadLetter) error {
			_ = ctx.Sleep(time.Hour)
			return nil
		})
		actor.Subscribe(sys, ref)
		c := actor.Spawn(sys, "c", newCounter)
		c.Stop()
		k.Settle()
		for range 10 {
			c.Tell(k.Context(), add{1})
		}
		k.Settle()
		ref.Stop()
		k.Settle()
		c.Tell(k.Context(), add{1})
		k.Settle()
		if n := sys.Stats().DeadLetters; n != 11 {
			k.T().Errorf("%d dead letters, want the 11 that were sent", n)
		}
	})
}

// A handler may wait for room as well, and holds up nobody meanwhile.
func TestAHandlerWaitsForRoomAndOthersGoOn(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, p := gated(k, actor.Bounded(1, actor.Block))
		p.Ref().Tell(k.Context(), "fills it")
		log := actortest.NewJournal(k)
		for i := range 2 * runtime.GOMAXPROCS(0) {
			actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], _ int) error {
				log.Addf("%v", p.Ref().TryTell(ctx, fmt.Sprint("late ", i)))
				return nil
			}).Tell(k.Context(), 1)
		}
		if n := actortest.Ask(k, actor.Spawn(k.System(), "", newCounter), get{}).Answer(); n != 0 {
			k.T().Errorf("got %d", n)
		}
		log.Expect()
		gate.Open()
		if lines := log.All(); len(lines) != 2*runtime.GOMAXPROCS(0) || slices.ContainsFunc(lines, func(l string) bool { return l != "<nil>" }) {
			k.T().Errorf("got %q", lines)
		}
		if n := len(p.All()); n != 2+2*runtime.GOMAXPROCS(0) {
			k.T().Errorf("%d messages came", n)
		}
	})
}

// A long queue that is never empty gives back the room of those that were handled, and
// keeps the order.
func TestAQueueThatIsNeverEmptyKeepsItsOrder(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"bounded":    {actor.Bounded(1000, actor.DropOldest)},
		"priority":   {actor.Priority(func(int) int { return 0 })},
		"conflating": {actor.Conflate(func(n int) int { return n })},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate, log := actortest.NewGate(k), actortest.NewJournal(k)
				ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[int], n int) error {
					if n%200 == 0 {
						gate.Close()
					}
					gate.Pass(ctx)
					log.Addf("%d", n)
					return nil
				}, opts...)
				var want []string
				for n := range 1000 {
					ref.Tell(k.Context(), n)
					want = append(want, fmt.Sprint(n))
					if n%300 == 299 {
						gate.Open()
					}
				}
				for gate.Waiting() > 0 {
					gate.Open()
				}
				log.Expect(want...)
				k.ExpectNoDeadLetter()
			})
		})
	}
}

func TestDetailListsTheMailOfEachKindOfMailbox(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{
		"plain":      nil,
		"bounded":    {actor.Bounded(10, actor.Reject)},
		"priority":   {actor.Priority(func(any) int { return 0 })},
		"conflating": {actor.Conflate(func(m any) string { return fmt.Sprintf("%T %v", m, m) })},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				gate := actortest.NewGate(k)
				p := actortest.NewProbe[any](k, append(opts, gate.Around())...)
				other := actortest.NewProbe[any](k)
				actortest.Do(p, func(ctx *actor.Context[any]) error {
					ctx.After("tea", time.Second, "tea")
					ctx.Link(other.Ref().PID())
					return nil
				})
				gate.Close()
				p.Ref().Tell(k.Context(), "held")
				k.Settle()
				p.Ref().Tell(k.Context(), 1)
				p.Ref().Tell(k.Context(), 2)
				k.Advance(time.Second)
				p.Ref().Drain()
				d, err := k.System().Detail(k.Context(), p.Ref().PID())
				if err != nil || !d.Busy || d.Current != "string" {
					k.T().Fatalf("got %+v, %v", d, err)
				}
				counts := map[string]int{}
				for _, m := range d.Mail {
					counts[m.Type] = m.Count
				}
				if counts["int"] != 2 || counts["(timer tea)"] != 1 || counts["(drain)"] != 1 {
					k.T().Errorf("mail %+v", d.Mail)
				}
				if len(d.Links) != 1 || d.Links[0] != other.Ref().PID() {
					k.T().Errorf("links %v", d.Links)
				}
				gate.Open()
				p.ExpectAll("held", 1, 2, "tea")
			}, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error { s.Header = actor.Header{"trace": "abc"}; return nil }))
		})
	}
}

func TestARankMayAskForTheBacklogOfItsOwnActor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var ref actor.Ref[int]
		ranked := 0
		ref = actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error { return nil },
			actor.Priority(func(n int) int {
				ref.Backlog()
				ranked++
				return n
			}))
		ref.Tell(bg, 1)
		ref.Tell(bg, 2)
		if ranked != 2 {
			t.Errorf("ranked %d times", ranked)
		}
	})
}

func TestAKeyIsAskedForOnceAlsoWhenTheMailboxIsFull(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		asked := 0
		release := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "", func(*actor.Context[int], int) error { <-release; return nil },
			actor.Conflate(func(n int) int { asked++; return n }), actor.Bounded(1, actor.DropOldest))
		ref.Tell(bg, 0)
		k.Settle()
		for n := range 3 {
			ref.Tell(bg, n+1)
		}
		close(release)
		if asked != 4 {
			t.Errorf("the key of 4 messages was asked for %d times", asked)
		}
		actortest.ExpectDeadLetter[int](k)
		actortest.ExpectDeadLetter[int](k)
	})
}
