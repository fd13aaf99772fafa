package actor_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// lines is a log handler that passes each line on.
type lines chan string

func (lines) Enabled(context.Context, slog.Level) bool { return true }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.Key + "=" + a.Value.String()
		return true
	})
	l <- line
	return nil
}

func (l lines) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l lines) WithGroup(string) slog.Handler      { return l }

// heard returns the lines that have come with that text.
func (l lines) heard(text string) (found []string) {
	for {
		select {
		case line := <-l:
			if strings.Contains(line, text) {
				found = append(found, line)
			}
		default:
			return found
		}
	}
}

func TestAnOverloadThatNobodyHearsIsLoggedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		opts      []actor.SystemOption
		subscribe func(sys *actor.System)
		want      int
	}{
		"nobody listens":           {nil, func(*actor.System) {}, 1},
		"somebody listens":         {nil, func(sys *actor.System) { collect[actor.Overload](sys) }, 0},
		"somebody hears all":       {nil, func(sys *actor.System) { collect[actor.Event](sys) }, 0},
		"somebody hears of others": {nil, func(sys *actor.System) { collect[actor.DeadLetter](sys) }, 1},
		"switched off":             {[]actor.SystemOption{actor.WithWarnings(false)}, func(*actor.System) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := make(lines, 100)
				sys := actortest.NewSystem(t, append(c.opts, actor.WithLogger(slog.New(log)))...)
				c.subscribe(sys)
				h := newHeld()
				ref := actor.SpawnFunc(sys, "slow", func(_ *actor.Context[any], m any) error {
					if h, ok := m.(held); ok {
						close(h.entered)
						<-h.release
					}
					return nil
				})
				ref.Tell(bg, h)
				<-h.entered
				for range 5000 { // more than three doublings
					ref.Tell(bg, nil)
				}
				close(h.release)
				synctest.Wait()
				found := log.heard("does not keep up")
				if len(found) != c.want {
					t.Errorf("%d lines: %q", len(found), found)
				}
				if c.want > 0 && (!strings.Contains(found[0], "/slow") || !strings.Contains(found[0], "messages=10")) {
					t.Errorf("the line does not say who or how much: %q", found[0])
				}
			})
		})
	}
}

func TestAStuckHandlerThatNobodyHearsOfIsLogged(t *testing.T) {
	for name, want := range map[string]int{"on": 1, "off": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := make(lines, 100)
				sys := actortest.NewSystem(t, actor.WithLogger(slog.New(log)), actor.WithWarnings(name == "on"))
				h := newHeld()
				actor.SpawnFunc(sys, "slow", func(_ *actor.Context[held], h held) error {
					close(h.entered)
					<-h.release
					return nil
				}).Tell(bg, h)
				<-h.entered
				time.Sleep(900 * time.Millisecond)
				if found := log.heard("stuck"); len(found) > 0 {
					t.Errorf("within the first second: %q", found)
				}
				time.Sleep(9 * time.Second)
				found := log.heard("stuck in a handler")
				if len(found) != want {
					t.Fatalf("%d lines: %q", len(found), found)
				}
				for _, part := range []string{"/slow", "message_type=actor_test.held", "stack="} {
					if want > 0 && !strings.Contains(found[0], part) {
						t.Errorf("no %q in %q", part, found[0])
					}
				}
				close(h.release)
			})
		})
	}
}

func TestOrdersByAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t)
		for name, c := range map[string]struct {
			order   func(actor.PID) error
			handled int
			want    actor.Reason
		}{
			"stop":  {sys.Stop, 1, actor.Stopped},
			"drain": {sys.Drain, 3, actor.Stopped},
			"kill":  {sys.Kill, 1, actor.Killed},
		} {
			h, handled := newHeld(), 0
			ref := actor.SpawnFunc(sys, name, func(_ *actor.Context[any], m any) error {
				handled++
				if h, ok := m.(held); ok {
					close(h.entered)
					<-h.release
				}
				return nil
			})
			ref.Tell(bg, h)
			<-h.entered
			ref.Tell(bg, 1)
			ref.Tell(bg, 2)
			if err := c.order(ref.PID()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			close(h.release)
			if d, err := ref.Wait(bg); err != nil || d.Reason != actor.NoActor && d.Reason != c.want || handled != c.handled {
				t.Errorf("%s: %+v, %v, %d handled", name, d, err, handled)
			}
			if err := c.order(ref.PID()); !errors.Is(err, actor.ErrStopped) {
				t.Errorf("%s of who is gone: %v", name, err)
			}
		}
		tree, err := sys.Inspect("/", 0)
		if err != nil {
			t.Fatal(err)
		}
		root, err := actor.ParsePID(tree.PID)
		if err != nil {
			t.Fatal(err)
		}
		if err := sys.Stop(root); !errors.Is(err, actor.ErrStopped) {
			t.Errorf("the root: %v", err)
		}
	})
}

func TestRestartByAddress(t *testing.T) {
	for name, opts := range map[string][]actor.SpawnOption{"plain": nil, "reentrant": {actor.Reentrant()}, "gated": {actor.Gated(openGate{})}, "permanent": {actor.Permanent}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Hour), actor.Backoff(time.Minute, time.Minute), actor.Exhausted(actor.Stop)))
				log := new(guestbook)
				ref := actor.Spawn[any](sys, "guest", func() *guest {
					log.guests++
					return &guest{log: log, number: log.guests}
				}, opts...)
				for range 3 { // more than the budget has
					ref.Tell(bg, func(ctx *actor.Context[any]) error {
						actor.SpawnFunc(ctx, "child", func(*actor.Context[int], int) error { return nil })
						_ = ctx.Sleep(time.Second)
						return nil
					})
					ref.Tell(bg, "later")
					time.Sleep(time.Millisecond)
					if err := sys.Restart(ref.PID()); err != nil {
						t.Fatal(err)
					}
					time.Sleep(2 * time.Second)
				}
				want := []string{
					"init 1", "terminate 1: <nil>", "init 2", "later, the 1. of 2", "terminate 2: <nil>", "init 3", "later, the 1. of 3",
					"terminate 3: <nil>", "init 4", "later, the 1. of 4",
				}
				if name == "reentrant" { // which has handled what came meanwhile
					want = []string{
						"init 1", "later, the 2. of 1", "terminate 1: <nil>", "init 2", "later, the 2. of 2", "terminate 2: <nil>", "init 3", "later, the 2. of 3",
						"terminate 3: <nil>", "init 4",
					}
				}
				expectLines(t, log, want...)
				if n := sys.Stats().Restarts; n != 3 {
					t.Errorf("%d restarts", n)
				}
				ref.Tell(bg, func(*actor.Context[any]) error { return errors.New("failed") })
				time.Sleep(time.Second)
				expectLines(t, log, "terminate 4: failed") // it waits for the backoff
				if err := sys.Restart(ref.PID()); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				expectLines(t, log, "init 5")
				time.Sleep(time.Hour)
				ref.Tell(bg, "hello")
				synctest.Wait()
				expectLines(t, log, "hello, the 1. of 5")
				ref.Stop()
				synctest.Wait()
				if err := sys.Restart(ref.PID()); !errors.Is(err, actor.ErrStopped) {
					t.Errorf("who is gone: %v", err)
				}
			})
		})
	}
}

// slowLog is a log handler that takes its time with lines about stuck handlers: until release is closed.
type slowLog struct {
	now, most, said atomic.Int32
	release         chan struct{}
}

func (*slowLog) Enabled(context.Context, slog.Level) bool { return true }

func (l *slowLog) Handle(_ context.Context, r slog.Record) error {
	if !strings.Contains(r.Message, "stuck") {
		return nil
	}
	l.most.Store(max(l.most.Load(), l.now.Add(1)))
	<-l.release
	l.now.Add(-1)
	l.said.Add(1)
	return nil
}

func (l *slowLog) WithAttrs([]slog.Attr) slog.Handler { return l }
func (l *slowLog) WithGroup(string) slog.Handler      { return l }

// Reports of stuck handlers are made one round after the other, beside the monitor, which goes on letting
// workers in; and those that have found no place in a round come with a later one.
func TestReportsOfStuckHandlersWaitForEachOtherAndNobodyForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &slowLog{release: make(chan struct{})}
		sys := actor.NewSystem("x", actor.WithLogger(slog.New(log)))
		free := make(chan struct{})
		block := func(n int) {
			for range n {
				actor.SpawnFunc(sys, "", func(*actor.Context[any], any) error { <-free; return nil }).Tell(bg, nil)
			}
		}
		const stuck = 100
		block(stuck)
		time.Sleep(2 * time.Second)
		block(10)
		answers := actor.SpawnFunc(sys, "", func(ctx *actor.Context[balance], m balance) error { actor.Reply(ctx, m, 1); return nil })
		if _, err := actor.Ask(bg, answers, balance{}, actor.Within(time.Second)); err != nil {
			t.Errorf("while a report is under way: %v", err)
		}
		time.Sleep(500 * time.Millisecond)
		if n := log.most.Load(); n != 1 {
			t.Errorf("%d reports at once", n)
		}
		close(log.release)
		time.Sleep(time.Second) // before the next time at which they would be reported
		if n := log.said.Load(); n < stuck {
			t.Errorf("%d of %d stuck handlers are reported", n, stuck)
		}
		close(free)
		if _, err := sys.Shutdown(bg); err != nil {
			t.Error(err)
		}
	})
}
