package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
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
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		ref := actor.Spawn(sys, "shelf", func() *shelf { return &shelf{} })
		watcher := actor.SpawnFunc(sys, "watcher", func(ctx *actor.Context[actor.PID], pid actor.PID) error {
			ctx.Watch(pid, func(d actor.Down) actor.PID { return d.PID })
			return nil
		})
		watcher.Tell(bg, ref.PID())
		ref.Tell(bg, spoil{})
		ref.Tell(bg, putItem{"a"})
		synctest.Wait()

		d, err := sys.Detail(bg, ref.PID())
		if err != nil || d.Busy {
			t.Fatalf("Detail: busy %v, %v", d.Busy, err)
		}
		if len(d.Timers) != 2 || d.Timers[0].Key != "audit" || d.Timers[0].In != time.Minute || d.Timers[1].Every != time.Hour {
			t.Errorf("timers %+v", d.Timers)
		}
		if d.Watchers != 1 || d.Parent.Path() != "/" || d.Restarts != 1 || d.State != "running" {
			t.Errorf("watchers %d, parent %s, restarts %d, %s", d.Watchers, d.Parent, d.Restarts, d.State)
		}
		if len(d.Failures) != 1 || d.Failures[0].Err.Error() != "spoiled" || d.Failures[0].MessageType != "actor_test.spoil" {
			t.Errorf("failures %+v", d.Failures)
		}
		if view, ok := d.View.(map[string]int); !ok || view["items"] != 1 {
			t.Errorf("view %v", d.View)
		}
		w, err := sys.Detail(bg, watcher.PID())
		if err != nil || len(w.Watches) != 1 || w.Watches[0] != ref.PID() {
			t.Errorf("watches %v, %v", w.Watches, err)
		}
	})
}

func TestDetailOfABusyActorShowsItsMailboxByType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := newSystem(t)
		ref := actor.Spawn(sys, "shelf", func() *shelf { return &shelf{} })
		until := make(chan struct{})
		ref.Tell(bg, waitFor{until})
		synctest.Wait()
		for range 3 {
			ref.Tell(bg, putItem{"x"})
		}
		ref.Tell(bg, spoil{})
		time.Sleep(time.Second)

		d, err := sys.Detail(bg, ref.PID())
		if err != nil || !d.Busy || d.View != nil {
			t.Fatalf("busy %v, view %v, %v", d.Busy, d.View, err)
		}
		if d.Current != "actor_test.waitFor" || d.Mailbox != 4 {
			t.Errorf("current %q, mailbox %d", d.Current, d.Mailbox)
		}
		if len(d.Mail) != 2 || d.Mail[0] != (actor.Mail{Type: "actor_test.putItem", Count: 3}) || d.Mail[1].Type != "actor_test.spoil" {
			t.Errorf("mail %+v", d.Mail)
		}
		if d.Oldest < 900*time.Millisecond || d.Oldest > 2*time.Second {
			t.Errorf("oldest %v", d.Oldest)
		}
		close(until)
		synctest.Wait()
	})
}

func TestDetailOfNobodyIsAnError(t *testing.T) {
	sys := newSystem(t)
	ref := actor.Spawn(sys, "shelf", func() *shelf { return &shelf{} })
	ref.Stop()
	for {
		if _, err := sys.Detail(context.Background(), ref.PID()); err != nil {
			if !errors.Is(err, actor.ErrStopped) {
				t.Error(err)
			}
			return
		}
	}
}
