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
	"github.com/greenroom-go/greenroom/actortest"
)

// The cases are those of OTP's supervisor_SUITE, as far as they make sense where a
// reference survives a restart: permanent, transient and temporary children that end
// normally and abnormally; one_for_one, one_for_all and rest_for_one; escalation;
// failing starts; many restarts.

var errBroken = errors.New("broken")

// groupParent is a supervisor with named children that log what happens to them.
type groupParent struct {
	log      *actortest.Journal
	children []member
}

type member struct {
	name     string
	lifetime actor.Lifetime
	failInit func(incarnation int) bool
}

func (s *groupParent) Init(ctx *actor.Context[any]) error {
	s.log.Addf("init parent")
	for _, m := range s.children {
		n := 0
		actor.Spawn(ctx, m.name, func() *sibling { n++; return &sibling{log: s.log, member: m, incarnation: n} }, m.lifetime)
	}
	return nil
}

func (s *groupParent) Receive(ctx *actor.Context[any], m any) error {
	if r, ok := m.(kids); ok {
		var names []string
		for _, pid := range ctx.Children() {
			names = append(names, pid.Path())
		}
		actor.Reply(ctx, r, names)
	}
	return nil
}

func (s *groupParent) Terminate(*actor.Context[any], error) { s.log.Addf("end parent") }

type kids struct{ actor.Returns[[]string] }

type sibling struct {
	log *actortest.Journal
	member
	incarnation int
	played      int
}

type (
	play struct{ actor.Returns[int] }
	stop struct{}
)

func (p *sibling) Init(*actor.Context[any]) error {
	if p.failInit != nil && p.failInit(p.incarnation) {
		p.log.Addf("no init %s", p.name)
		return errBroken
	}
	p.log.Addf("init %s", p.name)
	return nil
}

func (p *sibling) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case error:
		return m
	case stop:
		return actor.ErrStop
	case play:
		p.played++
		actor.Reply(ctx, m, p.played)
	}
	return nil
}

func (p *sibling) Terminate(_ *actor.Context[any], why error) { p.log.Addf("end %s: %v", p.name, why) }

// startGroup starts a parent with children and forgets what its start wrote.
func startGroup(k *actortest.Kit, opts []actor.SpawnOption, children ...member) (log *actortest.Journal, find func(name string) actor.Ref[any]) {
	k.T().Helper()
	log = actortest.NewJournal(k)
	actor.Spawn(k.System(), "parent", func() *groupParent { return &groupParent{log, children} }, opts...)
	log.All()
	return log, func(name string) actor.Ref[any] {
		k.T().Helper()
		path := "/parent"
		if name != "" {
			path += "/" + name
		}
		ref, err := actor.LookupPath[any](k.System(), path)
		if err != nil {
			k.T().Fatal(err)
		}
		return ref
	}
}

func abc(l actor.Lifetime) []member {
	return []member{{name: "a", lifetime: l}, {name: "b", lifetime: l}, {name: "c", lifetime: l}}
}

func TestLifetimes(t *testing.T) {
	for _, c := range []struct {
		name     string
		lifetime actor.Lifetime
		how      any
		want     []string
		alive    bool
	}{
		{"permanent normal", actor.Permanent, stop{}, []string{"end b: <nil>", "init b"}, true},
		{"permanent abnormal", actor.Permanent, errBroken, []string{"end b: broken", "init b"}, true},
		{"transient normal", actor.Transient, stop{}, []string{"end b: <nil>"}, false},
		{"transient abnormal", actor.Transient, errBroken, []string{"end b: broken", "init b"}, true},
		{"temporary normal", actor.Temporary, stop{}, []string{"end b: <nil>"}, false},
		{"temporary abnormal", actor.Temporary, errBroken, []string{"end b: broken"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				log, find := startGroup(k, nil, abc(c.lifetime)...)
				b := find("b")
				b.Tell(k.Context(), c.how)
				log.Expect(c.want...)
				if c.how == any(errBroken) {
					k.ExpectFailures(1)
				}
				_, err := actor.Ask(k.Context(), b, play{})
				if alive := err == nil; alive != c.alive {
					k.T().Errorf("alive %v, want %v (%v)", alive, c.alive, err)
				}
			})
		})
	}
}

func TestPermanentActorEndsByStopAndDrainFromOutside(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, find := startGroup(k, nil, abc(actor.Permanent)...)
		find("a").Stop()
		find("b").Drain()
		k.Settle()
		if names := actortest.Ask(k, find(""), kids{}).Answer(); !slices.Equal(names, []string{"/parent/c"}) {
			k.T().Errorf("left: %v", names)
		}
	})
}

func TestAllForOneRestartsAllInOrder(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, abc(actor.Transient)...)
		a, b := find("a"), find("b")
		actortest.Ask(k, a, play{}).Answer()
		b.Tell(k.Context(), errBroken)
		log.Expect("end c: <nil>", "end b: broken", "end a: <nil>", "init a", "init b", "init c")
		if n := actortest.Ask(k, a, play{}).Answer(); n != 1 {
			k.T().Errorf("the sibling kept its state: %d", n)
		}
		k.ExpectFailures(1)
	})
}

// A handler may wait for a sibling that has failed and goes on only when the handler has returned.
func TestARestartOfAllEndsTheWaitsOfTheSiblings(t *testing.T) {
	waits := map[string]func(ctx *actor.Context[any], broken actor.Ref[any]) error{
		"Ask": func(ctx *actor.Context[any], broken actor.Ref[any]) error {
			_, err := actor.Ask(ctx, broken, play{})
			return err
		},
		"Sleep": func(ctx *actor.Context[any], _ actor.Ref[any]) error { return ctx.Sleep(time.Hour) },
		"Done": func(ctx *actor.Context[any], _ actor.Ref[any]) error {
			<-ctx.Done()
			return ctx.Err()
		},
	}
	siblings := map[string]actor.SpawnOption{"transient": actor.Transient, "temporary": actor.Temporary, "reentrant": actor.Reentrant()}
	for sibling, option := range siblings {
		for name, wait := range waits {
			t.Run(sibling+" "+name, func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					var broken, waiter actor.Ref[any]
					ends := make(chan struct{})
					var waited, again error
					parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[any], _ any) error {
						broken = actor.SpawnFunc(ctx, "broken", func(_ *actor.Context[any], m any) error {
							if m != 1 {
								return nil
							}
							<-ends
							return errBroken
						})
						waiter = actor.SpawnFunc(ctx, "waiter", func(ctx *actor.Context[any], m any) error {
							if m == 2 {
								again = ctx.Sleep(time.Second)
								return nil
							}
							waited = wait(ctx, broken)
							return waited
						}, option)
						return nil
					}, actor.Supervise(actor.AllForOne))
					parent.Tell(k.Context(), 1)
					k.Settle()
					broken.Tell(k.Context(), 1)
					waiter.Tell(k.Context(), 1)
					time.Sleep(time.Second) // until a worker is added beside the one that waits for ends
					k.Settle()
					close(ends)
					k.Settle()
					waiter.Tell(k.Context(), 2) // if it is not temporary
					if !errors.Is(waited, context.Canceled) {
						t.Errorf("the wait ended with %v", waited)
					}
					time.Sleep(2 * time.Second)
					k.Settle()
					if again != nil {
						t.Errorf("a wait of the next incarnation ended with %v", again)
					}
					k.ExpectFailures(1)
				})
			})
		}
	}
}

func TestRestForOneRestartsThoseStartedAfter(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, abc(actor.Transient)...)
		a := find("a")
		actortest.Ask(k, a, play{}).Answer()
		find("b").Tell(k.Context(), errBroken)
		log.Expect("end c: <nil>", "end b: broken", "init b", "init c")
		if n := actortest.Ask(k, a, play{}).Answer(); n != 2 {
			k.T().Errorf("the elder sibling lost its state: %d", n)
		}
		k.ExpectFailures(1)
	})
}

func TestTemporarySiblingIsStoppedWithTheGroupAndStaysAway(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		children[2].lifetime = actor.Temporary
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, children...)
		find("a").Tell(k.Context(), errBroken)
		log.Expect("end c: <nil>", "end b: <nil>", "end a: broken", "init a", "init b")
		if names := actortest.Ask(k, find(""), kids{}).Answer(); len(names) != 2 {
			k.T().Errorf("children %v", names)
		}
		k.ExpectFailures(1)
	})
}

func TestGroupRestartBeginsAnewWhenAMembersInitFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		children[1].failInit = func(n int) bool { return n == 2 }
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, children...)
		find("a").Tell(k.Context(), errBroken)
		log.Expect(
			"end c: <nil>", "end b: <nil>", "end a: broken", "init a", "no init b",
			"end a: <nil>", "init a", "init b", "init c")
		for _, name := range []string{"a", "b", "c"} {
			actortest.Ask(k, find(name), play{}).Answer()
		}
		k.ExpectFailures(2)
	})
}

// OTP's rest_for_one_other_child_fails_restart.
func TestRestForOneGoesOnFromTheMemberWhoseInitFails(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		children[2].failInit = func(n int) bool { return n == 2 }
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, children...)
		find("b").Tell(k.Context(), errBroken)
		log.Expect("end c: <nil>", "end b: broken", "init b", "no init c", "init c")
		k.ExpectFailures(2)
	})
}

func TestGroupRestartWaitsForItsBackoffAndKeepsMail(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		find("c").Tell(k.Context(), errBroken)
		log.Expect("end c: broken", "end b: <nil>", "end a: <nil>")
		if n := actortest.Ask(k, find("b"), play{}).Await().Answer(); n != 1 {
			k.T().Errorf("got %d", n)
		}
		if d := k.Elapsed(); d < 800*time.Millisecond || d > 1200*time.Millisecond {
			k.T().Errorf("started again after %v", d)
		}
		k.ExpectFailures(1)
	})
}

func TestMemberThatStopsDuringAGroupRestartDoesNotHoldItUp(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		find("b").Tell(k.Context(), errBroken)
		k.Settle()
		find("a").Stop() // it is halted and waits for its start
		k.Advance(2 * time.Second)
		log.Expect("end c: <nil>", "end b: broken", "end a: <nil>", "init b", "init c")
		actortest.Ask(k, find("c"), play{}).Answer()
		k.ExpectFailures(1)
	})
}

func TestSupervisorStopsInTheMiddleOfAGroupRestart(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.RestForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		top := find("")
		k.Watch(top)
		find("b").Tell(k.Context(), errBroken)
		k.Settle()
		top.Stop()
		actortest.ExpectDown(k, top)
		log.Expect("end c: <nil>", "end b: broken", "end a: <nil>", "end parent")
		k.ExpectFailures(1)
	})
}

func TestBudgetOfAGroupIsSharedAndItsExhaustionEscalates(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.MaxRestarts(1, time.Minute))}, abc(actor.Transient)...)
		find("a").Tell(k.Context(), errBroken)
		log.All()
		find("b").Tell(k.Context(), errBroken)
		log.Expect("end c: <nil>", "end b: broken", "end a: <nil>", "end parent",
			"init parent", "init a", "init b", "init c")
		k.ExpectFailures(3)
	})
}

func TestEscalationReachesTheRootAndStopsTheTopmostActorOnly(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate }))}, abc(actor.Transient)...)
		bystander := actor.Spawn(k.System(), "bystander", newCounter)
		top := find("")
		k.Watch(top)
		for range 11 { // the root restarts ten times in a minute
			if ref, err := actor.LookupPath[any](k.System(), "/parent/a"); err == nil {
				ref.Tell(k.Context(), errBroken)
			}
			k.Settle()
		}
		if d := actortest.ExpectDown(k, top); d.Reason != actor.Failed || !errors.Is(d.Err, errBroken) || !errors.Is(d.Err, actor.ErrRestartBudget) {
			k.T().Errorf("got %+v", d)
		}
		actortest.Ask(k, bystander, get{}).Answer()
		k.ExpectFailures(22)
	})
}

func TestDirectives(t *testing.T) {
	var (
		errResume = errors.New("resume")
		errStop   = errors.New("stop")
	)
	decide := actor.Decide(func(err error) actor.Directive {
		switch {
		case errors.Is(err, errResume):
			return actor.Resume
		case errors.Is(err, errStop):
			return actor.Stop
		}
		return actor.Restart
	})
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.OneForOne, decide)}, abc(actor.Transient)...)
		a := find("a")
		actortest.Ask(k, a, play{}).Answer()
		a.Tell(k.Context(), errResume)
		if n := actortest.Ask(k, a, play{}).Answer(); n != 2 {
			k.T().Errorf("after Resume the state is gone: %d", n)
		}
		a.Tell(k.Context(), errBroken)
		if n := actortest.Ask(k, a, play{}).Answer(); n != 1 {
			k.T().Errorf("after Restart the state is still there: %d", n)
		}
		k.Watch(a)
		a.Tell(k.Context(), fmt.Errorf("wrapped: %w", errStop))
		if d := actortest.ExpectDown(k, a); d.Reason != actor.Failed || !errors.Is(d.Err, errStop) {
			k.T().Errorf("got %+v", d)
		}
		log.Expect("end a: broken", "init a", "end a: wrapped: stop")
		k.ExpectFailures(3)
	})
}

func TestExhaustedStopSparesTheSupervisor(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		_, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute), actor.Exhausted(actor.Stop))}, abc(actor.Transient)...)
		find("b").Tell(k.Context(), errBroken)
		k.Settle()
		if names := actortest.Ask(k, find(""), kids{}).Answer(); !slices.Equal(names, []string{"/parent/a", "/parent/c"}) {
			k.T().Errorf("left: %v", names)
		}
		k.ExpectFailures(1)
	})
}

// OTP's hanging_restart_loop and multiple_restarts: an Init that goes on failing ends
// with the budget, and never holds up the supervisor.
func TestInitThatGoesOnFailingExhaustsTheBudget(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		children[0].failInit = func(n int) bool { return n > 1 }
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Exhausted(actor.Stop))}, children...)
		a := find("a")
		k.Watch(a)
		a.Tell(k.Context(), errBroken)
		if d := actortest.ExpectDown(k, a); !errors.Is(d.Err, actor.ErrRestartBudget) {
			k.T().Errorf("got %+v", d)
		}
		log.Expect("end a: broken", "no init a", "no init a", "no init a")
		actortest.Ask(k, find("b"), play{}).Answer()
		k.ExpectFailures(4)
	})
}

func TestTemporaryBystandersAreNotTouched(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		children := abc(actor.Transient)
		children[0].lifetime = actor.Temporary
		log, find := startGroup(k, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, children...)
		find("b").Tell(k.Context(), errBroken)
		k.Settle()
		if n := actortest.Ask(k, find("a"), play{}).Answer(); n != 1 {
			k.T().Errorf("got %d", n)
		}
		log.Expect("end c: <nil>", "end b: broken", "init b", "init c")
		k.ExpectFailures(1)
	})
}

// Found by package sim, seed 0xe91ec3fbae0517bf of its supervision test.
func TestARestartedSupervisorBeginsWithAFreshBudget(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		begun := make(chan int, 64)
		children := make(chan actor.Ref[int], 8)
		incarnation := 0
		actor.Spawn[int](k.System(), "sup", func() *freshSupervisor { incarnation++; return &freshSupervisor{incarnation, begun, children} },
			actor.Supervise(actor.AllForOne, actor.MaxRestarts(1, time.Hour)))
		child := <-children
		<-begun
		child.Tell(k.Context(), 1) // restarted
		if n := <-begun; n != 1 {
			k.T().Fatalf("incarnation %d", n)
		}
		child.Tell(k.Context(), 1) // too often: the supervisor is restarted
		child = <-children
		if n := <-begun; n != 2 {
			k.T().Fatalf("incarnation %d", n)
		}
		child.Tell(k.Context(), 1) // restarted again
		if n := <-begun; n != 2 {
			k.T().Errorf("the first failure under the new supervisor led to incarnation %d", n)
		}
		k.ExpectFailures(4)
	})
}

type freshSupervisor struct {
	incarnation int
	begun       chan int
	children    chan actor.Ref[int]
}

func (s *freshSupervisor) Init(ctx *actor.Context[int]) error {
	s.children <- actor.Spawn[int](ctx, "", func() *freshChild { return &freshChild{s} })
	return nil
}

func (*freshSupervisor) Receive(*actor.Context[int], int) error { return nil }

type freshChild struct{ of *freshSupervisor }

func (c *freshChild) Init(*actor.Context[int]) error {
	c.of.begun <- c.of.incarnation
	return nil
}

func (*freshChild) Receive(*actor.Context[int], int) error { return errors.New("planned") }

// An actor whose linked one ends while its own failure is being decided fails once more
// when it is resumed.
func TestALinkThatBreaksBeforeADecisionIsNotForgotten(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		gate, child := actortest.NewGate(k), actor.Ref[any]{}
		var failures []string
		decide := actor.Decide(func(err error) actor.Directive {
			failures = append(failures, err.Error())
			return actor.Resume
		})
		parent := actor.SpawnFunc(k.System(), "parent", func(ctx *actor.Context[string], m string) error {
			if m == "spawn" {
				child = actor.SpawnFunc(ctx, "child", func(ctx *actor.Context[any], m any) error {
					switch m := m.(type) {
					case actor.PID:
						ctx.Link(m)
					case error:
						return m
					case get:
						actor.Reply(ctx, m, 7)
					}
					return nil
				})
			}
			gate.Pass(ctx)
			return nil
		}, actor.Supervise(actor.OneForOne, decide))
		parent.Tell(k.Context(), "spawn")
		k.Settle()
		other := actor.Spawn(k.System(), "other", newCounter)
		child.Tell(k.Context(), other.PID())
		k.Settle()
		gate.Close()
		parent.Tell(k.Context(), "be busy")
		k.Settle()
		child.Tell(k.Context(), errBroken) // nobody decides for now
		k.Settle()
		other.Kill()
		k.Settle()
		gate.Open()
		if n := actortest.Ask(k, child, get{}).Answer(); n != 7 {
			k.T().Errorf("got %d", n)
		}
		if len(failures) != 2 || failures[0] != "broken" || !strings.Contains(failures[1], actor.ErrLinked.Error()) {
			k.T().Errorf("decided about %q", failures)
		}
		k.ExpectFailures(2)
	})
}

// A permanent actor that goes on stopping by itself uses up the budget, too.
func TestAPermanentActorThatGoesOnStoppingExhaustsTheBudget(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		log, find := startGroup(k, []actor.SpawnOption{
			actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Minute), actor.Exhausted(actor.Stop)),
		}, abc(actor.Permanent)...)
		a := find("a")
		k.Watch(a)
		a.Tell(k.Context(), stop{})
		a.Tell(k.Context(), stop{})
		if d := actortest.ExpectDown(k, a); !errors.Is(d.Err, actor.ErrRestartBudget) {
			k.T().Errorf("got %+v", d)
		}
		log.Expect("end a: <nil>", "init a", "end a: restart budget exhausted: 2 failures within 1m0s, the last: stop requested by the handler")
		actortest.Ask(k, find("b"), play{}).Answer()
	})
}

// lookout watches a sibling, in Init as well if it is eager, and notes the Downs that come.
type lookout struct {
	eager bool
	other actor.PID
	downs *[]actor.Down
}

func (l *lookout) Init(ctx *actor.Context[any]) error {
	if l.eager && !l.other.IsZero() {
		ctx.Watch(l.other, func(d actor.Down) any { return d })
	}
	return nil
}

func (l *lookout) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case actor.PID:
		ctx.Watch(m, func(d actor.Down) any { return d })
	case actor.Down:
		*l.downs = append(*l.downs, m)
	case error:
		return m
	}
	return nil
}

func TestAWatcherHearsOfASiblingThatEndsInTheirRestart(t *testing.T) {
	for name, strategy := range map[string]actor.Strategy{"all": actor.AllForOne, "rest": actor.RestForOne} {
		for _, eager := range []bool{false, true} {
			t.Run(fmt.Sprint(name, eager), func(t *testing.T) {
				actortest.Run(t, func(k *actortest.Kit) {
					var downs []actor.Down
					var gone actor.PID
					var watcher actor.Ref[any]
					actor.Spawn[any](k.System(), "group", func() *beginner {
						return &beginner{begin: func(ctx *actor.Context[any]) error {
							watcher = actor.Spawn[any](ctx, "watcher", func() *lookout { return &lookout{eager, gone, &downs} })
							for _, lifetime := range []actor.Lifetime{actor.Temporary, actor.Permanent} {
								ref := actor.SpawnFunc(ctx, "", func(*actor.Context[any], any) error { return nil }, lifetime)
								watcher.Tell(k.Context(), ref.PID())
								if lifetime == actor.Temporary {
									gone = ref.PID()
								}
							}
							return nil
						}}
					}, actor.Supervise(strategy))
					k.Settle()
					for range 2 { // the second time there is nobody left who could end
						watcher.Tell(k.Context(), errBroken)
						k.Settle()
					}
					k.ExpectFailures(2)
					want := 1
					if eager {
						want = 2 // the third incarnation looks for somebody who is gone
					}
					if len(downs) != want || downs[0].PID != gone || downs[0].Reason != actor.Stopped {
						k.T().Errorf("got %+v, want one of %v, who was stopped", downs, gone)
					}
				})
			})
		}
	}
}

// beginner does something in Init, and nothing else.
type beginner struct {
	begin func(ctx *actor.Context[any]) error
}

func (b *beginner) Init(ctx *actor.Context[any]) error   { return b.begin(ctx) }
func (*beginner) Receive(*actor.Context[any], any) error { return nil }

// A supervisor that fails and is resumed while a restart of its children waits for the backoff does not
// shorten that.
func TestAResumedSupervisorKeepsTheBackoffOfItsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		began := make(chan time.Time, 2)
		var child actor.Ref[any]
		supervisor := actor.SpawnFunc(sys, "supervisor", func(ctx *actor.Context[any], m any) error {
			if m == "fail" {
				return errBroken
			}
			child = actor.Spawn(ctx, "child", func() failsOnDemand {
				began <- time.Now()
				return failsOnDemand{}
			})
			return nil
		}, actor.Supervise(actor.AllForOne, actor.Backoff(time.Minute, time.Minute)))
		supervisor.Tell(bg, "spawn")
		<-began
		synctest.Wait()
		failed := time.Now()
		child.Tell(bg, "fail")
		synctest.Wait()
		supervisor.Tell(bg, "fail")
		if after := (<-began).Sub(failed); after < 50*time.Second {
			t.Errorf("the child was started again after %v, and not after about a minute", after)
		}
	})
}

type failsOnDemand struct{}

func (failsOnDemand) Receive(_ *actor.Context[any], m any) error {
	if m == "fail" {
		return errors.New("on demand")
	}
	return nil
}

// startsAgain fails in its second Init, after it has spawned a child that takes its time to end.
type startsAgain struct {
	n     int
	inits chan error // what the spawn of the child has returned
}

func (a *startsAgain) Init(ctx *actor.Context[any]) error {
	_, err := actor.TrySpawn[any](ctx, "child", func() endsLate { return endsLate{} })
	a.inits <- err
	if a.n == 2 {
		return errBroken
	}
	return nil
}

func (*startsAgain) Receive(*actor.Context[any], any) error { return errBroken }

type endsLate struct{}

func (endsLate) Receive(*actor.Context[any], any) error { return nil }

func (endsLate) Terminate(ctx *actor.Context[any], _ error) {
	_ = actor.Blocking(ctx, func() error { <-time.After(time.Second); return nil })
}

// The failure of a member's new Init is escalated, and the supervisor is resumed: the member begins once more when
// what the failed Init has left has ended.
func TestTheChildrenOfAFailedInitEndBeforeTheNextInit(t *testing.T) {
	for name, strategy := range map[string]actor.Strategy{"one": actor.OneForOne, "all": actor.AllForOne, "rest": actor.RestForOne} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
				n, failures, inits, member := 0, 0, make(chan error, 3), make(chan actor.Ref[any], 1)
				super := actor.SpawnFunc(sys, "super", func(ctx *actor.Context[any], _ any) error {
					member <- actor.Spawn[any](ctx, "member", func() *startsAgain { n++; return &startsAgain{n, inits} })
					return nil
				}, actor.Supervise(strategy, actor.Decide(func(error) actor.Directive {
					if failures++; failures == 1 {
						return actor.Restart
					}
					return actor.Escalate
				})))
				super.Tell(bg, "spawn")
				ref := <-member
				ref.Tell(bg, "fail")
				for i := range 3 {
					if err := <-inits; err != nil {
						t.Errorf("Init %d finds a child of the one before: %v", i+1, err)
					}
				}
			})
		})
	}
}

type failsSlowly struct {
	n       int
	inits   chan error // what the spawn of the child has returned
	entered chan struct{}
	release chan struct{}
}

func (a *failsSlowly) Init(ctx *actor.Context[any]) error {
	_, err := actor.TrySpawn[any](ctx, "child", func() endsLate { return endsLate{} })
	a.inits <- err
	if a.n == 2 {
		close(a.entered)
		_ = actor.Blocking(ctx, func() error { <-a.release; return nil })
		return errBroken
	}
	return nil
}

func (*failsSlowly) Receive(*actor.Context[any], any) error { return errBroken }

// The supervisor fails itself while a member is in its new Init, and is resumed: the member is told to start once
// more. Then its Init fails.
func TestASecondStartEndsTheChildrenOfAFailedInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		h, n, inits, member := newHeld(), 0, make(chan error, 9), make(chan actor.Ref[any], 1)
		super := actor.SpawnFunc(sys, "super", func(ctx *actor.Context[any], m any) error {
			if m == "fail" {
				return errBroken
			}
			member <- actor.Spawn[any](ctx, "member", func() *failsSlowly { n++; return &failsSlowly{n, inits, h.entered, h.release} })
			return nil
		}, actor.Supervise(actor.AllForOne))
		super.Tell(bg, "spawn")
		ref := <-member
		ref.Tell(bg, "fail")
		<-h.entered
		super.Tell(bg, "fail")
		synctest.Wait() // it was resumed
		close(h.release)
		for i := range 3 {
			select {
			case err := <-inits:
				if err != nil {
					t.Errorf("Init %d finds a child of the one before: %v", i+1, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("no Init %d", i+1)
			}
		}
	})
}

// still does nothing.
type still struct{}

func (still) Receive(*actor.Context[int], int) error { return nil }

func TestARestartThatWasNotIsNotCounted(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		broken := func(*actor.Context[int], int) error { return errors.New("broken") }
		var late, idle, other actor.Ref[int]
		actor.SpawnFunc(k.System(), "waits", func(ctx *actor.Context[int], _ int) error {
			late = actor.SpawnFunc(ctx, "late", broken)
			return nil
		}, actor.Supervise(actor.OneForOne, actor.Backoff(time.Hour, time.Hour))).Tell(k.Context(), 1)
		actor.SpawnFunc(k.System(), "group", func(ctx *actor.Context[int], _ int) error {
			idle = actor.Spawn(ctx, "idle", func() still { return still{} }, actor.Passivate(time.Minute))
			other = actor.SpawnFunc(ctx, "other", broken)
			return nil
		}, actor.Supervise(actor.AllForOne)).Tell(k.Context(), 1)
		k.Settle()
		late.Tell(k.Context(), 1)
		k.Settle()
		late.Stop()
		k.Advance(10 * time.Minute) // until idle is passive
		other.Tell(k.Context(), 1)
		k.Settle()
		if n := k.System().Stats().Restarts; n != 1 {
			t.Errorf("%d restarts, want that of %s", n, other.PID())
		}
		if d, err := k.System().Detail(k.Context(), idle.PID()); err != nil || d.Restarts != 0 {
			t.Errorf("%d restarts, %v", d.Restarts, err)
		}
		k.ExpectFailures(2)
	})
}

// leaver counts how often it begins, and stops with each message.
type leaver struct{ begun *int }

func (l *leaver) Init(*actor.Context[any]) error       { *l.begun++; return nil }
func (*leaver) Receive(*actor.Context[any], any) error { return actor.ErrStop }

// What its supervisor escalates since the budget is spent may be answered with Resume.
func TestAPermanentActorThatHasStoppedIsNotResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys := actortest.NewSystem(t, actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Resume })))
		begun := 0
		var child actor.Ref[any]
		actor.SpawnFunc(sys, "parent", func(ctx *actor.Context[int], _ int) error {
			child = actor.Spawn[any](ctx, "child", func() *leaver { return &leaver{&begun} }, actor.Permanent)
			return nil
		}, actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute))).Tell(bg, 1)
		synctest.Wait()
		child.Tell(bg, "stop")
		synctest.Wait()
		if begun != 2 {
			t.Errorf("it has begun %d times, want 2", begun)
		}
	})
}
