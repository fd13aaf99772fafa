package actor_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// Neither somebody who goes on telling an actor that has ended, nor a handler that goes on spawning, keeps a shutdown
// whose time is up from returning.
func TestShutdownReturnsBesideThoseWhoGoOn(t *testing.T) {
	for name, goOn := range map[string]func(ctx *actor.Context[int], ended actor.Ref[int]){
		"telling": func(_ *actor.Context[int], ended actor.Ref[int]) { ended.Tell(bg, 1) },
		"spawning": func(ctx *actor.Context[int], _ actor.Ref[int]) {
			actor.SpawnFunc(ctx, "", func(*actor.Context[int], int) error { return nil })
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actor.NewSystem("test", quiet)
				h := newHeld()
				ended := actor.SpawnFunc(sys, "ended", func(*actor.Context[int], int) error { return nil })
				actor.SpawnFunc(sys, "stuck", func(ctx *actor.Context[int], _ int) error {
					close(h.entered)
					for {
						select {
						case <-h.release:
							return nil
						case <-time.After(20 * time.Millisecond):
							goOn(ctx, ended)
						}
					}
				}, actor.Pinned()).Tell(bg, 1)
				<-h.entered
				time.AfterFunc(10*time.Second, func() { close(h.release) })
				ctx, cancel := context.WithTimeout(bg, 100*time.Millisecond)
				defer cancel()
				report, err := sys.Shutdown(ctx)
				if !errors.Is(err, context.DeadlineExceeded) || len(report.Unfinished) == 0 || report.Took > 2*time.Second {
					t.Errorf("after %v %d actors are left, and the error is %v", report.Took, len(report.Unfinished), err)
				}
				<-h.release
				synctest.Wait()
			})
		})
	}
}

// A handler that was left behind and whose actor still waits for a child is one unfinished actor, not two.
func TestTheReportOfShutdownNamesEachActorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actor.NewSystem("test", quiet)
		parent, child := newHeld(), newHeld()
		actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[int], _ int) error {
			actor.SpawnFunc(ctx, "child", func(*actor.Context[int], int) error {
				close(child.entered)
				<-child.release
				return nil
			}, actor.Pinned()).Tell(ctx, 1)
			close(parent.entered)
			<-parent.release
			return nil
		}).Tell(bg, 1)
		<-parent.entered
		<-child.entered
		ctx, cancel := context.WithTimeout(bg, 50*time.Millisecond)
		defer cancel()
		report, err := sys.Shutdown(ctx)
		if len(report.Unfinished) != 2 || report.Unfinished[0].Path != "/parent/child" || report.Unfinished[1].Path != "/parent" {
			t.Errorf("unfinished are %+v, and the error is %v", report.Unfinished, err)
		}
		close(parent.release)
		close(child.release)
		synctest.Wait()
	})
}

// A killed actor has its time to finish its message from the Kill on, however long its handler has run before.
func TestAKilledActorMayFinishWhatItHasBegunLongAgo(t *testing.T) {
	for name, work := range map[string]func(ctx *actor.Context[int], f func() error) error{
		"at work":     func(_ *actor.Context[int], f func() error) error { return f() },
		"in Blocking": actor.Blocking[int],
	} {
		for _, ran := range []time.Duration{5 * time.Millisecond, 90 * time.Millisecond, 300 * time.Millisecond, time.Minute} {
			t.Run(name+" for "+ran.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t)
					got := 0
					sink := actor.SpawnFunc(sys, "sink", func(*actor.Context[int], int) error {
						got++
						return nil
					})
					h := newHeld()
					finishes := func(ctx *actor.Context[int], _ int) error {
						err := work(ctx, func() error {
							close(h.entered)
							<-ctx.Done()
							time.Sleep(90 * time.Millisecond)
							return nil
						})
						sink.Tell(ctx, 1)
						return err
					}
					ref := actor.SpawnFunc(sys, "x", finishes)
					ref.Tell(bg, 1)
					<-h.entered
					time.Sleep(ran)
					ref.Kill()
					if _, err := ref.Wait(bg); err != nil {
						t.Error(err)
					}
					synctest.Wait()
					if got != 1 {
						t.Error("the handler was abandoned before its time was up")
					}
				})
			})
		}
	}
}

// One that does not finish is taken away soon after its time is up, also while the monitor looks rarely.
func TestAKilledActorThatDoesNotFinishEndsAfterItsTime(t *testing.T) {
	for _, ran := range []time.Duration{0, 50 * time.Millisecond, 300 * time.Millisecond, 333 * time.Millisecond, time.Minute} {
		t.Run(ran.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHeld()
				ref := actor.SpawnFunc(actortest.NewSystem(t), "x", func(*actor.Context[int], int) error {
					close(h.entered)
					<-h.release
					return nil
				})
				ref.Tell(bg, 1)
				<-h.entered
				time.Sleep(ran)
				began := time.Now()
				ref.Kill()
				if _, err := ref.Wait(bg); err != nil {
					t.Error(err)
				}
				if took := time.Since(began); took < 100*time.Millisecond || took > 110*time.Millisecond {
					t.Errorf("it has ended %v after the Kill", took)
				}
				close(h.release)
			})
		})
	}
}

// In a bulkhead whose workers are all in handlers that hang, nobody gets a turn to kill its children.
func TestKillReachesAChildThatHoldsTheLastWorkerOfABulkhead(t *testing.T) {
	for name, order := range map[string]func(parent actor.Ref[int]){
		"Kill":  func(parent actor.Ref[int]) { parent.Kill() },
		"Stop":  func(parent actor.Ref[int]) { parent.Stop() },
		"Drain": func(parent actor.Ref[int]) { parent.Drain() },
	} {
		for where, hang := range map[string]func(ctx *actor.Context[int], f func() error) error{
			"at work":     func(_ *actor.Context[int], f func() error) error { return f() },
			"in Blocking": actor.Blocking[int],
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					sys := actortest.NewSystem(t, actor.WithBulkhead("b", 1, 1))
					h := newHeld()
					parent := actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[int], _ int) error {
						actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[int], _ int) error {
							return hang(ctx, func() error {
								close(h.entered)
								<-h.release
								return nil
							})
						}).Tell(ctx, 1)
						return nil
					}, actor.OnBulkhead("b"), actor.StopWithin(200*time.Millisecond))
					parent.Tell(bg, 1)
					<-h.entered
					began := time.Now()
					time.AfterFunc(time.Minute, func() { close(h.release) })
					order(parent)
					if _, err := parent.Wait(bg, actor.Within(time.Hour)); err != nil {
						t.Error(err)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("it has ended after %v", took)
					}
					<-h.release
				})
			})
		}
	}
}
