package actor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
)

// department has children that end when they are told anything: with it, if it is an error, and by themselves otherwise.
type department struct{}

func (d *department) Init(ctx *actor.Context[any]) error {
	for i, name := range []string{"one", "two", "other"} {
		opts := []actor.SpawnOption{actor.Temporary, actor.Significant()}
		if i == 2 {
			opts = opts[:1]
		}
		actor.SpawnFunc(ctx, name, func(_ *actor.Context[any], m any) error {
			if err, ok := m.(error); ok {
				return err
			}
			return actor.ErrStop
		}, opts...)
	}
	return nil
}

func (d *department) Receive(_ *actor.Context[any], m any) error {
	err, _ := m.(error)
	return err
}

func TestAnActorStopsWithItsSignificantChildren(t *testing.T) {
	for name, test := range map[string]struct {
		opts []actor.SupervisionOption
		end  []string // whom is told to end, one after the other
		with any
		ends bool // the parent does, with the last of them and not before
	}{
		"never":                   {nil, []string{"one", "two", "other"}, 1, false},
		"any":                     {[]actor.SupervisionOption{actor.AutoStop(actor.AnySignificant)}, []string{"two"}, 1, true},
		"any, by a failure":       {[]actor.SupervisionOption{actor.AutoStop(actor.AnySignificant)}, []string{"one"}, errBroken, true},
		"not without another one": {[]actor.SupervisionOption{actor.AutoStop(actor.AnySignificant)}, []string{"other"}, 1, false},
		"all":                     {[]actor.SupervisionOption{actor.AutoStop(actor.AllSignificant)}, []string{"one", "two"}, 1, true},
		"not without one of two":  {[]actor.SupervisionOption{actor.AutoStop(actor.AllSignificant)}, []string{"two", "other"}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				k.AllowFailures()
				ref := actor.Spawn[any](k.System(), "d", func() *department { return &department{} }, actor.Supervise(actor.OneForOne, test.opts...))
				k.Watch(ref)
				for _, child := range test.end {
					if _, err := k.System().Inspect("/d", 0); err != nil {
						k.T().Errorf("ended before %s: %v", child, err)
					}
					to, err := actor.LookupPath[any](k.System(), "/d/"+child)
					if err != nil {
						k.T().Fatal(err)
					}
					to.Tell(k.Context(), test.with)
					k.Settle()
				}
				_, err := k.System().Inspect("/d", 0)
				if ended := err != nil; ended != test.ends {
					k.T().Errorf("ended: %v", ended)
				} else if ended {
					if d := actortest.ExpectDown(k, ref); d.Reason != actor.Stopped {
						k.T().Errorf("ended as %v", d.Reason)
					}
				}
			})
		})
	}
}

func TestAPermanentActorThatStopsWithItsChildrenIsRestarted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		actor.Spawn[any](k.System(), "d", func() *department { return &department{} }, actor.Permanent,
			actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AnySignificant)))
		for n := range 2 {
			to, err := actor.LookupPath[any](k.System(), "/d/one")
			if err != nil {
				k.T().Fatal(err)
			}
			to.Tell(k.Context(), 1)
			k.Settle()
			if tree, err := k.System().Inspect("/d", 9); err != nil || tree.Restarts != uint64(n+1) || len(tree.Children) != 3 {
				k.T().Errorf("after %d ends: %+v, %v", n+1, tree, err)
			}
		}
	})
}

func TestASignificantChildThatEndsInARestartOfItsGroupIsMissedByNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		ref := actor.Spawn[any](k.System(), "d", func() *beginner {
			return &beginner{begin: func(ctx *actor.Context[any]) error {
				actor.SpawnFunc(ctx, "brief", func(*actor.Context[any], any) error { return nil }, actor.Temporary, actor.Significant())
				actor.SpawnFunc(ctx, "fails", func(*actor.Context[any], any) error { return errBroken })
				return nil
			}}
		}, actor.Supervise(actor.AllForOne, actor.AutoStop(actor.AnySignificant)))
		fails, err := actor.LookupPath[any](k.System(), "/d/fails")
		if err != nil {
			k.T().Fatal(err)
		}
		fails.Tell(k.Context(), 1)
		k.Settle()
		k.ExpectFailures(1)
		if tree, err := k.System().Inspect("/d", 9); err != nil || len(tree.Children) != 1 || tree.PID != ref.PID().String() {
			k.T().Errorf("%+v, %v", tree, err)
		}
	})
}

func TestAGuardianDecidesAboutOneChild(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		never := actor.Guardian(actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute), actor.Exhausted(actor.Stop)))
		resumes := actor.Guardian(actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		up := actor.Guardian(actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
		fail := func(_ *actor.Context[any], m any) error { err, _ := m.(error); return err }
		var parents int
		actor.Spawn[any](k.System(), "parent", func() *beginner {
			return &beginner{begin: func(ctx *actor.Context[any]) error {
				parents++
				actor.SpawnFunc(ctx, "plain", fail)
				actor.SpawnFunc(ctx, "never", fail, never)
				actor.SpawnFunc(ctx, "resumes", fail, resumes)
				actor.SpawnFunc(ctx, "up", fail, up)
				return nil
			}}
		}, actor.Supervise(actor.AllForOne))
		restarts := func(name string) uint64 {
			tree, err := k.System().Inspect("/parent/"+name, 0)
			if err != nil {
				return 99
			}
			return tree.Restarts
		}
		tell := func(name string) {
			to, err := actor.LookupPath[any](k.System(), "/parent/"+name)
			if err != nil {
				k.T().Fatal(err)
			}
			to.Tell(k.Context(), errBroken)
			k.Settle()
		}
		tell("never")
		tell("resumes")
		if restarts("never") != 99 || restarts("resumes") != 0 || restarts("plain") != 0 || parents != 1 {
			k.T().Errorf("never %d, resumes %d, plain %d restarts, the parent begins the %d. time", restarts("never"), restarts("resumes"), restarts("plain"), parents)
		}
		tell("plain") // with which its siblings are restarted, as the parent's strategy says
		if restarts("resumes") != 1 || restarts("plain") != 1 {
			k.T().Errorf("resumes %d, plain %d restarts", restarts("resumes"), restarts("plain"))
		}
		tell("up")
		if parents != 2 {
			k.T().Errorf("the parent begins the %d. time", parents)
		}
		k.ExpectFailures(5)
	})
}

func TestASpecShowsHowAnActorWasSpawned(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		guard := actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Second), actor.Exhausted(actor.Stop))
		actor.Spawn[any](k.System(), "parent", func() *beginner {
			return &beginner{begin: func(ctx *actor.Context[any]) error {
				actor.SpawnFunc(ctx, "child", func(*actor.Context[any], any) error { return nil }, actor.Temporary, actor.Significant(), actor.Guardian(guard),
					actor.Weight(4), actor.Bounded(7, actor.DropOldest), actor.Priority(func(any) int { return 0 }), actor.StopWithin(time.Second), actor.StopLast(), actor.Reentrant())
				return nil
			}}
		}, actor.Supervise(actor.RestForOne, actor.Backoff(time.Second, time.Minute), actor.AutoStop(actor.AllSignificant)), actor.Passivate(time.Hour))
		specOf := func(path string) actor.Spec {
			ref, err := actor.LookupPath[any](k.System(), path)
			if err != nil {
				k.T().Fatal(err)
			}
			spec, err := k.System().Spec(ref.PID())
			if err != nil {
				k.T().Fatal(err)
			}
			return spec
		}
		usual := actor.SupervisionSpec{Strategy: actor.OneForOne, MaxRestarts: 10, Within: time.Minute, Exhausted: actor.Escalate}
		child := specOf("/parent/child")
		if g := child.Guardian; g == nil || *g != (actor.SupervisionSpec{MaxRestarts: 3, Within: time.Second, Exhausted: actor.Stop}) {
			k.T().Errorf("the guardian is %+v", g)
		}
		child.Guardian = nil
		if want := (actor.Spec{
			Lifetime: actor.Temporary, Significant: true, Weight: 4, RunsOn: "workers", Order: "priority", Bound: 7, Overflow: actor.DropOldest,
			Reentrant: true, Function: true, StopWithin: time.Second, StopLast: true, Supervises: usual,
		}); child != want {
			k.T().Errorf("the child is\n%+v, want\n%+v", child, want)
		}
		if parent, want := specOf("/parent"), (actor.Spec{
			Weight: 1, RunsOn: "workers", Order: "plain", Passivate: time.Hour,
			Supervises: actor.SupervisionSpec{Strategy: actor.RestForOne, MaxRestarts: 10, Within: time.Minute, Exhausted: actor.Escalate, BackoffMin: time.Second, BackoffMax: time.Minute, AutoStop: actor.AllSignificant},
		}); parent != want {
			k.T().Errorf("the parent is\n%+v, want\n%+v", parent, want)
		}
		if _, err := k.System().Spec(actor.PID{}); !errors.Is(err, actor.ErrStopped) {
			k.T().Errorf("got %v", err)
		}
		if text := strings.Join([]string{actor.RestForOne.String(), actor.Escalate.String(), actor.Permanent.String(), actor.DropNewest.String(), actor.AllSignificant.String(), actor.Strategy(9).String()}, ", "); text != "rest for one, escalate, permanent, drop newest, all, unknown (9)" {
			k.T().Error(text)
		}
	})
}

func TestWhatCannotBeSpawnedWithTheseOptionsSaysWhy(t *testing.T) {
	sys := actortest.NewSystem(t)
	nop := func(*actor.Context[int], int) error { return nil }
	for want, opts := range map[string][]actor.SpawnOption{
		"cannot be Significant": {actor.Permanent, actor.Significant()},
		"combined with Bounded": {actor.Bounded(1, actor.Reject), actor.Ordered(func() actor.Queue[int] { return &lifo{} })},
		"message type":          {actor.Ordered(func() actor.Queue[string] { return nil })},
	} {
		if _, err := actor.TrySpawnFunc(sys, "", nop, opts...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	lifo := actor.Ordered(func() actor.Queue[int] { return &lifo{} })
	rank := actor.Priority(func(n int) int { return n })
	for want, opts := range map[string][]actor.SpawnOption{
		"priority": {lifo, rank, actor.Bounded(1, actor.Reject)},
		"own":      {rank, lifo},
	} {
		ref, err := actor.TrySpawnFunc(sys, "", nop, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if spec, err := sys.Spec(ref.PID()); err != nil || spec.Order != want {
			t.Errorf("the order is %q, %v, want that of the last option, %q", spec.Order, err, want)
		}
	}
	observed := actor.SpawnFunc(sys, "", nop, actor.ObserveMailbox(new(tally)))
	if spec, err := sys.Spec(observed.PID()); err != nil || spec.Middleware != 0 {
		t.Errorf("an actor that is observed has %d AroundReceive, %v", spec.Middleware, err)
	}
	for want, misuse := range map[string]func(){
		"OneForOne": func() { actor.Guardian(actor.Supervise(actor.AllForOne)) },
		"children":  func() { actor.Guardian(actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AnySignificant))) },
		"root":      func() { actor.NewSystem("x", actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AnySignificant))) },
		"takes":     func() { actor.AutoStop(0) },
		"Ordered":   func() { actor.Ordered[int](nil) },
		"Observe":   func() { actor.ObserveMailbox(nil) },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("got %q, want %q", text, want)
				}
			}()
			misuse()
		}()
	}
}
