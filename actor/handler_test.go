package actor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

func TestStashKeepsOrderSenderAndAsker(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
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
			log.add("%d from %v", m, ctx.Sender().Path())
		case get:
			log.add("ask")
			actor.Reply(ctx, m, 7)
		}
		return nil
	})
	ref.Tell(bg, "close")
	actor.SpawnFunc(sys, "sender", func(ctx *actor.Context[int], n int) error {
		if n < 0 {
			return nil
		}
		for i := range n {
			ref.Tell(ctx, i)
		}
		actor.AskThen(ctx, ref, get{}, func(n int, err error) int { log.add("answer %d %v", n, err); return -1 })
		ref.Tell(ctx, open{})
		return nil
	}).Tell(bg, 3)
	for len(log.all()) < 5 {
		mustAsk(t, actor.Spawn(sys, "", newCounter), get{})
	}
	log.expect(t, "0 from /sender", "1 from /sender", "2 from /sender", "ask", "answer 7 <nil>")
}

func TestStashSurvivesARestartInOrderAndBecomesDeadLettersAtStop(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	fresh := true
	ref := actor.Spawn(sys, "", func() *stasher { s := &stasher{log: log, stashing: fresh}; fresh = false; return s })
	for i := range 3 {
		ref.Tell(bg, i)
	}
	ref.Tell(bg, -1) // fails
	ref.Tell(bg, 3)
	down := ended(t, sys, ref)
	ref.Drain()
	down()
	log.expect(t, "0", "1", "2", "3")

	fresh = true
	ref = actor.Spawn(sys, "", func() *stasher { return &stasher{log: log, stashing: true} })
	down = ended(t, sys, ref)
	for i := range 3 {
		ref.Tell(bg, i)
	}
	ref.Drain()
	down()
	letters := sys.DeadLetters()
	if len(letters) != 3 || letters[2].Message != 0 || letters[0].Message != 2 {
		t.Errorf("dead letters %v", letters)
	}
}

type stasher struct {
	log      *journal
	stashing bool
}

func (s *stasher) Receive(ctx *actor.Context[int], n int) error {
	switch {
	case n < 0:
		return errors.New("broken")
	case s.stashing:
		return ctx.Stash()
	}
	s.log.add("%d", n)
	return nil
}

func TestBecomeReplacesAndRestartGoesBack(t *testing.T) {
	sys := newSystem(t)
	log := new(journal)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
		log.add("first %s", m)
		ctx.Become(func(ctx *actor.Context[string], m string) error {
			log.add("second %s", m)
			if m == "fail" {
				return errors.New("broken")
			}
			ctx.BecomeStacked(func(ctx *actor.Context[string], m string) error {
				log.add("third %s", m)
				ctx.Unbecome()
				return nil
			})
			return nil
		})
		return nil
	})
	for _, m := range []string{"a", "b", "c", "fail", "d"} {
		ref.Tell(bg, m)
	}
	down := ended(t, sys, ref)
	ref.Drain()
	down()
	log.expect(t, "first a", "second b", "third c", "second fail", "first d")
}

func TestReceiveTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		began := time.Now()
		type poll struct{ actor.Unobtrusive }
		ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
			log.add("%v at %v", m, time.Since(began))
			switch m {
			case "on":
				ctx.SetReceiveTimeout(10*time.Second, "idle")
			case "off":
				ctx.SetReceiveTimeout(0, nil)
			}
			return nil
		})
		ref.Tell(bg, "on")
		time.Sleep(6 * time.Second)
		ref.Tell(bg, "x") // breaks the silence
		time.Sleep(6 * time.Second)
		ref.Tell(bg, poll{}) // does not
		time.Sleep(16 * time.Second)
		ref.Tell(bg, "off")
		time.Sleep(time.Hour)
		log.expect(t, "on at 0s", "x at 6s", "{{}} at 12s", "idle at 16s", "idle at 26s", "off at 28s")
	})
}

func TestPipeBringsTheOutcomeAsAMessage(t *testing.T) {
	sys := newSystem(t)
	got := make(chan string)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
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
	ref.Tell(bg, 5)
	if s := <-got; s != "2 <nil>" {
		t.Errorf("got %q", s)
	}
	ref.Tell(bg, 0)
	if s := <-got; s != "0 panic: zero" {
		t.Errorf("got %q", s)
	}
}

func TestPipedWorkEndsWithItsIncarnationAndItsOutcomeIsDropped(t *testing.T) {
	sys := newSystem(t)
	canceled := make(chan error, 1)
	outcomes := 0
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[any], m any) error {
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
	ref.Tell(bg, "work")
	ref.Tell(bg, errors.New("broken"))
	if err := <-canceled; !errors.Is(err, context.Canceled) {
		t.Errorf("the work's context ended with %v", err)
	}
	if n := mustAsk(t, ref, get{}); n != 0 {
		t.Errorf("%d outcomes reached the next incarnation", n)
	}
}

func TestAskThenDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		log := new(journal)
		silent := actor.SpawnFunc(sys, "silent", func(ctx *actor.Context[get], m get) error {
			actor.Promise(ctx, m)
			return nil
		})
		counter := actor.Spawn(sys, "counter", newCounter)
		began := time.Now()
		actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
			log.add("%s at %v", m, time.Since(began))
			if m == "go" {
				wrap := func(n int, err error) string { return fmt.Sprint(n, " ", err) }
				actor.AskThen(ctx, counter, get{}, wrap)
				actor.AskThen(ctx, silent, get{}, wrap)
			}
			return nil
		}).Tell(bg, "go")
		time.Sleep(time.Minute)
		lines := log.all()
		if len(lines) != 3 || lines[1] != "0 <nil> at 0s" || !strings.HasPrefix(lines[2], "0 ask /silent with actor_test.get: no answer within") || !strings.HasSuffix(lines[2], "at 5s") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestGatherYieldsAnswersAsTheyComeAndTheRestAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		var refs []actor.Ref[get]
		for _, d := range []time.Duration{3, 1, 2, 60} {
			refs = append(refs, actor.SpawnFunc(sys, fmt.Sprintf("after-%d", d), func(ctx *actor.Context[get], m get) error {
				p := actor.Promise(ctx, m)
				time.AfterFunc(d*time.Second, func() { p.Resolve(int(d)) })
				return nil
			}))
		}
		gone := actor.SpawnFunc(sys, "gone", func(*actor.Context[get], get) error { return nil })
		gone.Stop()
		synctest.Wait()
		refs = append(refs, gone)
		var got []string
		for from, a := range actor.Gather(bg, refs, get{}) {
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
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

func TestForwardKeepsSenderAndAsker(t *testing.T) {
	sys := newSystem(t)
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
	if n := mustAsk(t, asker, get{}); n != len("/asker") {
		t.Errorf("the target saw a sender of %d letters, want /asker", n)
	}
	picky := actor.SpawnFunc(sys, "picky", func(*actor.Context[int], int) error { return nil })
	refuser := actor.SpawnFunc(sys, "", func(ctx *actor.Context[get], m get) error { return actor.Forward(ctx, picky) })
	if _, err := actor.Ask(bg, refuser, get{}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("got %v", err)
	}
}

// generated stands for a message type that cannot be changed.
type generated struct{ Name string }

func TestAskForATypeThatCannotEmbedReturns(t *testing.T) {
	sys := newSystem(t)
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[*generated], m *generated) error {
		actor.ReplyFor(ctx, "hello "+m.Name)
		return nil
	})
	if s, err := actor.AskFor[string](bg, ref, &generated{"Ann"}); s != "hello Ann" || err != nil {
		t.Errorf("got %q, %v", s, err)
	}
	if _, err := actor.AskFor[int](bg, ref, &generated{"Ann"}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("an answer of the wrong type: %v", err)
	}
	if _, err := actor.AskFor[int](bg, ref, generated{}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("a request of the wrong type: %v", err)
	}
}

func TestBlockingAndSleepHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		began := time.Now()
		for range 100 {
			actor.SpawnFunc(sys, "", func(ctx *actor.Context[int], _ int) error {
				return errors.Join(ctx.Sleep(time.Second), actor.Blocking(ctx, func() error { time.Sleep(time.Second); return nil }))
			}).Tell(bg, 1)
		}
		synctest.Wait()
		if n := sys.Stats().Queued; n != 0 {
			t.Errorf("%d actors wait for a worker", n)
		}
		if _, err := sys.Shutdown(bg); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("all were done after %v, want 2s (%v)", time.Since(began), err)
		}
		if n := sys.Stats().Failures; n != 0 {
			t.Errorf("%d failures", n)
		}
	})
}
