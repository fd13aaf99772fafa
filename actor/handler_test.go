package actor_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

func TestStashKeepsOrderSenderAndAsker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		log := actortest.NewJournal(k)
		type open struct{}
		ref := actor.SpawnFunc(sys, "door", func(ctx *actor.Context[any], m any) error {
			closed := func(ctx *actor.Context[any], m any) error {
				if _, ok := m.(open); ok {
					ctx.Unstash()
					ctx.Unbecome()
					return nil
				}
				return ctx.Stash()
			}
			switch m := m.(type) {
			case string:
				ctx.BecomeStacked(closed)
			case int:
				log.Addf("%d from %v", m, ctx.Sender().Path())
			case get:
				log.Addf("ask")
				actor.Reply(ctx, m, 7)
			}
			return nil
		})
		ref.Tell(k.Context(), "close")
		actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[int], n int) error {
			if n < 0 {
				return nil
			}
			for i := range n {
				ref.Tell(ctx, i)
			}
			actor.AskThen(ctx, ref, get{}, func(n int, err error) int { log.Addf("answer %d %v", n, err); return -1 })
			ref.Tell(ctx, open{})
			return nil
		}).Tell(k.Context(), 3)
		log.Expect("0 from /sender", "1 from /sender", "2 from /sender", "ask", "answer 7 <nil>")
	})
}

func TestStashSurvivesARestartInOrderAndBecomesDeadLettersAtStop(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		log := actortest.NewJournal(k)
		fresh := true
		ref := actor.Spawn(sys, "", func() *stasher { s := &stasher{log: log, stashing: fresh}; fresh = false; return s })
		for i := range 3 {
			ref.Tell(k.Context(), i)
		}
		ref.Tell(k.Context(), -1) // fails
		ref.Tell(k.Context(), 3)
		k.Watch(ref)
		ref.Drain()
		actortest.ExpectDown(k, ref)
		log.Expect("0", "1", "2", "3")

		fresh = true
		ref = actor.Spawn(sys, "", func() *stasher { return &stasher{log: log, stashing: true} })
		k.Watch(ref)
		for i := range 3 {
			ref.Tell(k.Context(), i)
		}
		ref.Drain()
		actortest.ExpectDown(k, ref)
		letters := sys.DeadLetters()
		if len(letters) != 3 || letters[2].Message != 0 || letters[0].Message != 2 {
			k.T().Errorf("dead letters %v", letters)
		}
		k.ExpectFailures(1)
	})
}

type stasher struct {
	log      *actortest.Journal
	stashing bool
}

func (s *stasher) Receive(ctx *actor.Context[int], n int) error {
	switch {
	case n < 0:
		return errors.New("broken")
	case s.stashing:
		return ctx.Stash()
	}
	s.log.Addf("%d", n)
	return nil
}

func TestBecomeReplacesAndRestartGoesBack(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
			log.Addf("first %s", m)
			ctx.Become(func(ctx *actor.Context[string], m string) error {
				log.Addf("second %s", m)
				if m == "fail" {
					return errors.New("broken")
				}
				ctx.BecomeStacked(func(ctx *actor.Context[string], m string) error {
					log.Addf("third %s", m)
					ctx.Unbecome()
					return nil
				})
				return nil
			})
			return nil
		})
		for _, m := range []string{"a", "b", "c", "fail", "d"} {
			ref.Tell(k.Context(), m)
		}
		k.Watch(ref)
		ref.Drain()
		actortest.ExpectDown(k, ref)
		log.Expect("first a", "second b", "third c", "second fail", "first d")
		k.ExpectFailures(1)
	})
}

func TestUnbecomeTakesBackTheLastBecomeStacked(t *testing.T) {
	for orders, want := range map[string]string{
		"":                             "Receive",
		"unbecome":                     "Receive",
		"A":                            "A",
		"A B unbecome":                 "Receive",
		"A +B unbecome":                "A",
		"A +B C":                       "C",
		"A +B C unbecome":              "A",
		"A +B C unbecome unbecome":     "Receive",
		"+A B unbecome":                "Receive",
		"+A +B +C unbecome D unbecome": "A",
	} {
		actortest.Run(t, func(k *actortest.Kit) {
			log := actortest.NewJournal(k)
			handler := func(name string) func(*actor.Context[string], string) error {
				return func(*actor.Context[string], string) error {
					log.Addf("%s", name)
					return nil
				}
			}
			ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[string], m string) error {
				if m == "who" {
					return handler("Receive")(ctx, m)
				}
				for order := range strings.FieldsSeq(m) {
					switch name, stacked := strings.CutPrefix(order, "+"); {
					case order == "unbecome":
						ctx.Unbecome()
					case stacked:
						ctx.BecomeStacked(handler(name))
					default:
						ctx.Become(handler(name))
					}
				}
				return nil
			})
			ref.Tell(k.Context(), orders)
			ref.Tell(k.Context(), "who")
			log.Expect(want)
		})
	}
}

func TestReceiveTimeout(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		type poll struct{ actor.Unobtrusive }
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], m any) error {
			log.Addf("%v at %v", m, k.Elapsed())
			switch m {
			case "on":
				ctx.SetReceiveTimeout(10*time.Second, "idle")
			case "off":
				ctx.SetReceiveTimeout(0, nil)
			}
			return nil
		})
		ref.Tell(k.Context(), "on")
		k.Advance(6 * time.Second)
		ref.Tell(k.Context(), "x") // breaks the silence
		k.Advance(6 * time.Second)
		ref.Tell(k.Context(), poll{}) // does not
		k.Advance(16 * time.Second)
		ref.Tell(k.Context(), "off")
		k.Advance(time.Hour)
		log.Expect("on at 0s", "x at 6s", "{{}} at 12s", "idle at 16s", "idle at 26s", "off at 28s")
	})
}

// The silence begins when a handler ends, however it does.
func TestReceiveTimeoutIsNotEarlyAfterAHandlerThatPanics(t *testing.T) {
	recovers := actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error {
		defer func() { _ = recover() }()
		return next()
	})
	for name, c := range map[string]struct {
		crash  func()
		around []actor.SpawnOption
	}{
		"panics":              {crash: func() { panic("loudly") }},
		"ends its goroutine":  {crash: runtime.Goexit},
		"middleware recovers": {func() { panic("loudly") }, []actor.SpawnOption{recovers}},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log := actortest.NewJournal(k)
				sys := actortest.NewSystem(k.T(), actor.WithLogger(slog.New(slog.DiscardHandler)),
					actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
				ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
					switch m {
					case "on":
						ctx.SetReceiveTimeout(10*time.Second, "idle")
					case "crash":
						<-time.After(9 * time.Second)
						c.crash()
					case "idle":
						log.Addf("idle at %v", k.Elapsed())
						ctx.SetReceiveTimeout(0, "")
					}
					return nil
				}, c.around...)
				ref.Tell(k.Context(), "on")
				ref.Tell(k.Context(), "crash")
				k.Advance(time.Minute)
				log.Expect("idle at 19s")
			})
		})
	}
}

// faulty is due each second until it fails.
type faulty struct{ left int }

func (f *faulty) Next(after time.Time) time.Time {
	if f.left--; f.left < 0 {
		panic("no more dates")
	}
	return after.Add(time.Second)
}

func TestAScheduleThatPanicsEndsItsTimerOnly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log := actortest.NewJournal(k)
		sys := actortest.NewSystem(k.T(), actor.WithLogger(slog.New(slog.DiscardHandler)),
			actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		ref := actor.SpawnFunc(sys, "a", func(ctx *actor.Context[string], m string) error {
			if m == "on" {
				ctx.On("plan", &faulty{2}, "due")
				ctx.Every("other", 4*time.Second, "other")
			}
			log.Addf("%s at %v", m, k.Elapsed())
			return nil
		})
		ref.Tell(k.Context(), "on")
		k.Advance(5 * time.Second)
		log.Expect("on at 0s", "due at 1s", "other at 4s")
		if d, err := sys.Detail(k.Context(), ref.PID()); len(d.Timers) != 1 || len(d.Failures) != 1 || err != nil {
			k.T().Errorf("timers %+v, failures %+v, %v", d.Timers, d.Failures, err)
		}
	})
}

func TestPipeBringsTheOutcomeAsAMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		got := make(chan string)
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], m any) error {
			wrap := func(n int, err error) any { return fmt.Sprintf("%d %v", n, err) }
			switch m := m.(type) {
			case int:
				actor.Pipe(ctx, func(context.Context) (int, error) {
					if m == 0 {
						panic("zero")
					}
					return 10 / m, nil
				}, wrap)
			case string:
				got <- m
			}
			return nil
		})
		ref.Tell(k.Context(), 5)
		if s := <-got; s != "2 <nil>" {
			k.T().Errorf("got %q", s)
		}
		ref.Tell(k.Context(), 0)
		if s := <-got; s != "0 panic: zero" {
			k.T().Errorf("got %q", s)
		}
	})
}

func TestPipedWorkEndsWithItsIncarnationAndItsOutcomeIsDropped(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		canceled := make(chan error, 1)
		outcomes := 0
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case string:
				actor.Pipe(ctx, func(ctx context.Context) (int, error) {
					<-ctx.Done()
					canceled <- ctx.Err()
					return 1, nil
				}, func(int, error) any { outcomes++; return 1 })
			case error:
				return m
			case get:
				actor.Reply(ctx, m, outcomes)
			}
			return nil
		})
		ref.Tell(k.Context(), "work")
		ref.Tell(k.Context(), errors.New("broken"))
		if err := <-canceled; !errors.Is(err, context.Canceled) {
			k.T().Errorf("the work's context ended with %v", err)
		}
		if n := actortest.Ask(k, ref, get{}).Answer(); n != 0 {
			k.T().Errorf("%d outcomes reached the next incarnation", n)
		}
		k.ExpectFailures(1)
	})
}

func TestAskThenDoesNotWait(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		log := actortest.NewJournal(k)
		silent := actor.SpawnFunc(sys, "silent", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m)
			return nil
		})
		counter := actor.Spawn(sys, "counter", newCounter)
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.Addf("%s at %v", m, k.Elapsed())
			if m == "go" {
				wrap := func(n int, err error) string { return fmt.Sprint(n, " ", err) }
				actor.AskThen(ctx, counter, get{}, wrap)
				actor.AskThen(ctx, silent, get{}, wrap)
			}
			return nil
		}).Tell(k.Context(), "go")
		k.Advance(time.Minute)
		lines := log.All()
		if len(lines) != 3 || lines[1] != "0 <nil> at 0s" || !strings.HasPrefix(lines[2], "0 ask /silent with actor_test.get: no answer within") || !strings.HasSuffix(lines[2], "at 5s") {
			k.T().Errorf("got %q", lines)
		}
	})
}

func TestGatherYieldsAnswersAsTheyComeAndTheRestAtTheDeadline(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		var refs []actor.Ref[get]
		for _, d := range []time.Duration{3, 1, 2, 60} {
			refs = append(refs, actor.SpawnFunc(k.System(), fmt.Sprintf("after-%d", d), func(ctx *actor.Context[get], m get) error {
				p := actor.Promise(ctx, m)
				time.AfterFunc(d*time.Second, func() { p.Resolve(int(d)) })
				return nil
			}))
		}
		gone := actor.SpawnFunc(k.System(), "gone", func(*actor.Context[get], get) error { return nil })
		gone.Stop()
		k.Settle()
		refs = append(refs, gone)
		var got []string
		for from, a := range actor.Gather(k.Context(), refs, get{}) {
			kind := "ok"
			switch {
			case errors.Is(a.Err, actor.ErrStopped):
				kind = "stopped"
			case errors.Is(a.Err, context.DeadlineExceeded):
				kind = "late"
			}
			got = append(got, fmt.Sprintf("%s %d %s", from.PID().Path(), a.Value, kind))
		}
		want := []string{"/gone 0 stopped", "/after-1 1 ok", "/after-2 2 ok", "/after-3 3 ok", "/after-60 0 late"}
		if !slices.Equal(got, want) {
			k.T().Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// A Gather, like an Ask, does not outlive the system.
func TestShutdownEndsAGatherFromOutside(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := actor.NewSystem("short")
		keeper := actor.SpawnFunc(sys, "keeper", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m)
			return nil
		})
		began, ends := time.Now(), make(chan error)
		go func() {
			_, err := actor.Ask(k.Context(), keeper, get{}, actor.Within(time.Minute))
			ends <- err
		}()
		late := actor.SpawnFunc(k.System(), "late", func(ctx *actor.Context[get], m get) error {
			p := actor.Promise(ctx, m)
			time.AfterFunc(10*time.Second, func() { p.Resolve(10) })
			return nil
		})
		go func() { // of another system, which goes on
			for ref, a := range actor.Gather(k.Context(), []actor.Ref[get]{late, keeper}, get{}, actor.Within(time.Minute)) {
				if took := time.Since(began).Truncate(time.Second); ref == late && (a.Value != 10 || took != 10*time.Second) {
					k.T().Errorf("%s after %v: %+v", ref, took, a)
				} else if ref == keeper {
					ends <- a.Err
				}
			}
		}()
		for _, refs := range [][]actor.Ref[get]{{keeper}, {keeper, keeper}} {
			go func() {
				for _, a := range actor.Gather(k.Context(), refs, get{}, actor.Within(time.Minute)) {
					ends <- a.Err
				}
			}()
		}
		k.Settle()
		if _, err := sys.Shutdown(k.Context()); err != nil {
			k.T().Error(err)
		}
		for range 5 {
			if err := <-ends; !errors.Is(err, actor.ErrStopped) {
				k.T().Errorf("got %v", err)
			}
		}
		if took := time.Since(began); took > time.Second {
			k.T().Errorf("took %v", took)
		}
		again := time.Now()
		for ref, a := range actor.Gather(k.Context(), []actor.Ref[get]{late, keeper}, get{}, actor.Within(time.Minute)) {
			took := time.Since(again).Truncate(time.Second)
			if ref == keeper && (!errors.Is(a.Err, actor.ErrStopped) || took > 0) || ref == late && (a.Value != 10 || took != 10*time.Second) {
				k.T().Errorf("%s after Shutdown, after %v: %+v", ref, took, a)
			}
		}
	})
}

func TestForwardKeepsSenderAndAsker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		target := actor.SpawnFunc(sys, "target", func(ctx *actor.Context[any], m any) error {
			if r, ok := m.(get); ok {
				actor.Reply(ctx, r, len(ctx.Sender().Path()))
			}
			return nil
		})
		proxy := actor.SpawnFunc(sys, "proxy", func(ctx *actor.Context[get], m get) error { return actor.Forward(ctx, target) })
		asker := actor.SpawnFunc(sys, "asker", func(ctx *actor.Context[get], m get) error {
			n, err := actor.Ask(ctx, proxy, get{})
			actor.Reply(ctx, m, n)
			return err
		})
		if n := actortest.Ask(k, asker, get{}).Answer(); n != len("/asker") {
			k.T().Errorf("the target saw a sender of %d letters, want /asker", n)
		}
		picky := actor.SpawnFunc(sys, "picky", func(*actor.Context[int], int) error { return nil })
		refuser := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error { return actor.Forward(ctx, picky) })
		if _, err := actor.Ask(k.Context(), refuser, get{}); !errors.Is(err, actor.ErrNotAccepted) {
			k.T().Errorf("got %v", err)
		}
		k.ExpectFailures(1)
	})
}

// generated stands for a message type that cannot be changed.
type generated struct{ Name string }

func TestAskForATypeThatCannotEmbedReturns(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "", func(ctx *actor.Context[*generated], m *generated) error {
			actor.ReplyFor(ctx, "hello "+m.Name)
			return nil
		})
		if s, err := actor.AskFor[string](k.Context(), ref, &generated{"Ann"}); s != "hello Ann" || err != nil {
			k.T().Errorf("got %q, %v", s, err)
		}
		if _, err := actor.AskFor[int](k.Context(), ref, &generated{"Ann"}); !errors.Is(err, actor.ErrNotAccepted) {
			k.T().Errorf("an answer of the wrong type: %v", err)
		}
		if _, err := actor.AskFor[int](k.Context(), ref, generated{}); !errors.Is(err, actor.ErrNotAccepted) {
			k.T().Errorf("a request of the wrong type: %v", err)
		}
	})
}

func TestBlockingAndSleepHoldUpNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		for range 100 {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				return errors.Join(ctx.Sleep(time.Second), actor.Blocking(ctx, func() error { time.Sleep(time.Second); return nil }))
			}).Tell(k.Context(), 1)
		}
		k.Settle()
		if n := sys.Stats().Queued; n != 0 {
			k.T().Errorf("%d actors wait for a worker", n)
		}
		if _, err := sys.Shutdown(k.Context()); err != nil || k.Elapsed() != 2*time.Second {
			k.T().Errorf("all were done after %v, want 2s (%v)", k.Elapsed(), err)
		}
		if n := sys.Stats().Failures; n != 0 {
			k.T().Errorf("%d failures", n)
		}
	})
}

// Whoever gives up gives up for those who are asked on its behalf, too.
func TestAnAskInsideOfARequestEndsWithItsAsker(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		silent := actortest.NewProbe[any](k)
		var inner error
		middle := actor.SpawnFunc(k.System(), "middle", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m) // to return unanswered is not its answer
			_, inner = actor.Ask(ctx, silent.Ref(), get{})
			return nil
		})
		ctx, cancel := context.WithCancel(k.Context())
		call := actortest.AskContext(ctx, k, middle, get{})
		if !call.Pending() {
			k.T().Error("the ask has ended")
		}
		cancel()
		if err := call.Err(); !errors.Is(err, context.Canceled) || !errors.Is(inner, context.Canceled) || k.Elapsed() != 0 {
			k.T().Errorf("the asks ended with %v and %v after %v", err, inner, k.Elapsed())
		}
	})
}

func TestAskThenOfOneWhoCannotAnswerBringsTheError(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gone := actortest.NewProbe[any](k)
		gone.Ref().Stop()
		picky := actor.SpawnFunc(k.System(), "picky", func(*actor.Context[int], int) error { return nil })
		p := actortest.NewProbe[any](k)
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			wrap := func(_ int, err error) any { return err }
			actor.AskThen(ctx, gone.Ref(), get{}, wrap)
			actor.AskThen(ctx, picky, get{}, wrap)
			return nil
		})
		errs := []error{actortest.ExpectMsg[error](p), actortest.ExpectMsg[error](p)} // of two targets, in any order
		for _, want := range []error{actor.ErrStopped, actor.ErrNotAccepted} {
			if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, want) }) {
				k.T().Errorf("got %v, want %v among them", errs, want)
			}
		}
		p.ExpectNone()
	})
}

func TestForwardToOneWhoIsGoneEndsTheAsk(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gone := actortest.NewProbe[get](k)
		gone.Ref().Stop()
		proxy := actor.SpawnFunc(k.System(), "proxy", func(ctx *actor.Context[get], _ get) error { return actor.Forward(ctx, gone.Ref()) })
		if err := actortest.Ask(k, proxy, get{}).Err(); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
		if d := actortest.ExpectDeadLetter[get](k); d.To != gone.Ref().PID() {
			k.T().Errorf("got %+v", d)
		}
	})
}

func TestALoopOverAnswersMayBeLeftAtAnyTime(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		answers := actor.Spawn(k.System(), "answers", newCounter)
		silent := actor.SpawnFunc(k.System(), "silent", func(ctx *actor.Context[counterMsg], m counterMsg) error {
			actor.Promise(ctx, m.(get))
			return nil
		})
		for from, a := range actor.Gather(k.Context(), []actor.Ref[counterMsg]{silent, answers, silent}, get{}) {
			if from != answers || a.Err != nil {
				k.T().Errorf("%s answered first: %+v", from, a)
			}
			break
		}
		ctx, cancel := context.WithTimeout(k.Context(), time.Second)
		defer cancel()
		late := 0
		for _, a := range actor.Gather(ctx, []actor.Ref[counterMsg]{silent, silent}, get{}) {
			if late++; !errors.Is(a.Err, context.DeadlineExceeded) {
				k.T().Errorf("got %+v", a)
			}
			break
		}
		if late != 1 || k.Elapsed() != time.Second {
			k.T().Errorf("%d answers, after %v", late, k.Elapsed())
		}
	})
}

// An inline actor is run by whoever sends, but nobody sends a timer's message.
func TestInlineActorHasTimersAndSurvivesGoexit(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p := actortest.NewProbe[any](k, actor.Inline())
		actortest.Do(p, func(ctx *actor.Context[any]) error {
			ctx.After("tea", time.Hour, "tea")
			return nil
		})
		k.Advance(time.Hour)
		p.ExpectAll("tea")
		p.Handle(func(*actor.Context[any], any) error { runtime.Goexit(); return nil })
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.Ref().Tell(k.Context(), "exit")
			k.T().Error("the sender's goroutine went on")
		}()
		<-done
		p.Handle(nil)
		k.ExpectFailures(1)
		p.Ref().Tell(k.Context(), "again")
		p.ExpectAll("exit", "again")
	})
}

func TestASecondStashOfAMessageChangesNothing(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		journal, open := actortest.NewProbe[string](k), false
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[string], m string) error {
			switch {
			case m == "open":
				open = true
				ctx.Unstash()
			case !open:
				if err := ctx.Stash(); err != nil {
					return err
				}
				return ctx.Stash()
			default:
				journal.Ref().Tell(ctx, m)
			}
			return nil
		})
		for _, m := range []string{"1", "2", "open", "3"} {
			ref.Tell(k.Context(), m)
		}
		journal.ExpectAll("1", "2", "3")
		if n := k.System().Stats().Handled; n < 4 {
			k.T().Errorf("%d handled", n)
		}
	})
}
