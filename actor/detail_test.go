package actor_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

type shelf struct{ items []string }

type shelfMsg interface{ shelfMsg() }

type (
	putItem struct{ name string }
	waitFor struct{ until chan struct{} }
	spoil   struct{}
)

func (putItem) shelfMsg() {}
func (waitFor) shelfMsg() {}
func (spoil) shelfMsg()   {}

func (s *shelf) Init(ctx *actor.Context[shelfMsg]) error {
	ctx.Every("inventory", time.Hour, putItem{"stock"})
	ctx.After("audit", time.Minute, putItem{"audit"})
	return nil
}

func (s *shelf) Receive(_ *actor.Context[shelfMsg], msg shelfMsg) error {
	switch m := msg.(type) {
	case putItem:
		s.items = append(s.items, m.name)
	case waitFor:
		<-m.until
	case spoil:
		return errors.New("spoiled")
	}
	return nil
}

func (s *shelf) Inspect() any { return map[string]int{"items": len(s.items)} }

func TestDetailShowsWhatAnActorHasAndWaitsFor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		sys := k.System()
		ref := actor.Spawn(sys, "shelf", func() *shelf { return &shelf{} })
		watcher := actor.SpawnFunc(sys, "watcher", func(ctx *actor.Context[actor.PID], pid actor.PID) error {
			ctx.Watch(pid, func(d actor.Down) actor.PID { return d.PID })
			return nil
		})
		watcher.Tell(k.Context(), ref.PID())
		ref.Tell(k.Context(), spoil{})
		ref.Tell(k.Context(), putItem{"a"})
		k.Settle()

		d, err := sys.Detail(k.Context(), ref.PID())
		if err != nil || d.Busy {
			k.T().Fatalf("Detail: busy %v, %v", d.Busy, err)
		}
		if len(d.Timers) != 2 || d.Timers[0].Key != "audit" || d.Timers[0].In != time.Minute || d.Timers[1].Every != time.Hour {
			k.T().Errorf("timers %+v", d.Timers)
		}
		if d.Watchers != 1 || d.Parent.Path() != "/" || d.Restarts != 1 || d.State != "running" {
			k.T().Errorf("watchers %d, parent %s, restarts %d, %s", d.Watchers, d.Parent, d.Restarts, d.State)
		}
		if len(d.Failures) != 1 || d.Failures[0].Err.Error() != "spoiled" || d.Failures[0].MessageType != "actor_test.spoil" {
			k.T().Errorf("failures %+v", d.Failures)
		}
		if view, ok := d.View.(map[string]int); !ok || view["items"] != 1 {
			k.T().Errorf("view %v", d.View)
		}
		w, err := sys.Detail(k.Context(), watcher.PID())
		if err != nil || len(w.Watches) != 1 || w.Watches[0] != ref.PID() {
			k.T().Errorf("watches %v, %v", w.Watches, err)
		}
		k.ExpectFailures(1)
	})
}

func TestDetailOfABusyActorShowsItsMailboxByType(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "shelf", func() *shelf { return &shelf{} })
		until := make(chan struct{})
		ref.Tell(k.Context(), waitFor{until})
		k.Settle()
		for range 3 {
			ref.Tell(k.Context(), putItem{"x"})
		}
		ref.Tell(k.Context(), spoil{})
		k.Advance(time.Second)

		d, err := k.System().Detail(k.Context(), ref.PID())
		if err != nil || !d.Busy || d.View != nil {
			k.T().Fatalf("busy %v, view %v, %v", d.Busy, d.View, err)
		}
		if d.Current != "actor_test.waitFor" || d.Mailbox != 4 {
			k.T().Errorf("current %q, mailbox %d", d.Current, d.Mailbox)
		}
		if len(d.Mail) != 2 || d.Mail[0] != (actor.Mail{Type: "actor_test.putItem", Count: 3}) || d.Mail[1].Type != "actor_test.spoil" {
			k.T().Errorf("mail %+v", d.Mail)
		}
		if d.Oldest < 900*time.Millisecond || d.Oldest > 2*time.Second {
			k.T().Errorf("oldest %v", d.Oldest)
		}
		close(until)
		k.Settle()
		k.ExpectFailures(1)
	})
}

// What is being handled is shown also when the handler has put back what was stashed.
func TestDetailShowsTheMessageThatHasUnstashedOthers(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		until := make(chan struct{})
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[any], m any) error {
			switch m := m.(type) {
			case int:
				return ctx.Stash()
			case waitFor:
				ctx.Unstash()
				<-m.until
			}
			return nil
		})
		ref.Tell(k.Context(), 1)
		ref.Tell(k.Context(), waitFor{until})
		ref.Tell(k.Context(), "x")
		k.Advance(time.Second)
		d, err := k.System().Detail(k.Context(), ref.PID())
		if d.Current != "actor_test.waitFor" || d.Mailbox != 2 || err != nil {
			k.T().Errorf("current %q, mailbox %d, %v", d.Current, d.Mailbox, err)
		}
		if n, _ := ref.Backlog(); n != 3 {
			k.T().Errorf("the backlog is %d, want 3", n)
		}
		close(until)
	})
}

func TestBacklogCountsAHandlerThatHasWaited(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.SpawnFunc(k.System(), "a", func(ctx *actor.Context[int], _ int) error {
			for range 2 {
				if n, _ := ctx.Self().Backlog(); n != 1 {
					k.T().Errorf("the backlog is %d, want 1", n)
				}
				_ = ctx.Sleep(time.Second)
			}
			return nil
		}, actor.Reentrant())
		ref.Tell(k.Context(), 1)
		k.Advance(time.Minute)
	})
}

// fresh takes its time in Terminate, and in each Init but the first.
type fresh struct {
	born *int
	wait func()
}

func (f *fresh) Init(*actor.Context[int]) error {
	if *f.born++; *f.born > 1 {
		f.wait()
	}
	return nil
}

func (f *fresh) Receive(*actor.Context[int], int) error {
	<-time.After(time.Second)
	return nil
}

func (f *fresh) Terminate(*actor.Context[int], error) { f.wait() }

// No message is handled in Init and in Terminate.
func TestDetailShowsNoMessageWhereNoneIsHandled(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		born, at := 0, make(chan chan struct{})
		wait := func() { until := make(chan struct{}); at <- until; <-until }
		ref := actor.Spawn(k.System(), "a", func() *fresh { return &fresh{&born, wait} })
		ref.Tell(k.Context(), 1)
		ref.Tell(k.Context(), 2)
		k.Settle() // the first is being handled
		if err := k.System().Restart(ref.PID()); err != nil {
			k.T().Fatal(err)
		}
		for _, where := range []string{"Terminate", "Init"} {
			until := <-at
			k.Advance(time.Second)
			if d, err := k.System().Detail(k.Context(), ref.PID()); d.Current != "" || err != nil {
				k.T().Errorf("in %s: current %q, %v", where, d.Current, err)
			}
			if n, _ := ref.Backlog(); n != 1 {
				k.T().Errorf("in %s: the backlog is %d, want 1", where, n)
			}
			close(until)
		}
		ref.Stop()
		close(<-at)
	})
}

func TestDetailOfNobodyIsAnError(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn(k.System(), "shelf", func() *shelf { return &shelf{} })
		ref.Stop()
		for {
			if _, err := k.System().Detail(context.Background(), ref.PID()); err != nil {
				if !errors.Is(err, actor.ErrStopped) {
					k.T().Error(err)
				}
				return
			}
		}
	})
}

// sulky does something else when it is looked at.
type sulky struct{ inspect func() }

func (s sulky) Receive(*actor.Context[int], int) error { return nil }
func (s sulky) Inspect() any                           { s.inspect(); return nil }

func TestAnActorThatCannotBeLookedAtIsShownAllTheSame(t *testing.T) {
	for want, inspect := range map[string]func(){
		"Inspect failed: panic: do not look":          func() { panic("do not look") },
		"Inspect failed: handler ended its goroutine": runtime.Goexit,
	} {
		actortest.Run(t, func(k *actortest.Kit) {
			ref := actor.Spawn(k.System(), "sulky", func() sulky { return sulky{inspect} })
			for range 2 {
				d, err := k.System().Detail(k.Context(), ref.PID())
				if view := fmt.Sprint(d.View); err != nil || d.Busy || d.Path != "/sulky" || !strings.Contains(view, want) {
					k.T().Errorf("got %+v, %v; want %q", d, err, want)
				}
			}
			ref.Tell(k.Context(), 1)
			k.Settle()
			if d, err := k.System().Detail(k.Context(), ref.PID()); d.Handled != 1 || d.Restarts != 0 || err != nil {
				k.T().Errorf("afterwards: %+v, %v", d, err)
			}
		})
	}
}

func TestInspectWithoutChildrenSaysThatThereAreSome(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		actor.Spawn(k.System(), "f", func() *family { return &family{nil, 1} })
		tree, err := k.System().Inspect("/f", 0)
		if err != nil || !tree.More || len(tree.Children) != 0 || tree.Info.Children != 2 {
			k.T().Errorf("got %+v, %v", tree, err)
		}
		if leaf, err := k.System().Inspect("/f/a", 0); err != nil || leaf.More {
			k.T().Errorf("got %+v, %v", leaf, err)
		}
	})
}
