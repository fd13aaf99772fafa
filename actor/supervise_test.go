package actor_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// The cases are those of OTP's supervisor_SUITE, as far as they make sense where a
// reference survives a restart: permanent, transient and temporary children that end
// normally and abnormally; one_for_one, one_for_all and rest_for_one; escalation;
// failing starts; many restarts.

var errBroken = errors.New("broken")

// troupe is a supervisor with named children that log what happens to them.
type troupe struct {
	log      *journal
	children []member
}

type member struct {
	name     string
	lifetime actor.Lifetime
	failInit func(incarnation int) bool
}

func (s *troupe) Init(ctx *actor.Context[any]) error {
	s.log.add("init troupe")
	for _, m := range s.children {
		n := 0
		actor.Spawn(ctx, m.name, func() *player { n++; return &player{log: s.log, member: m, incarnation: n} }, m.lifetime)
	}
	return nil
}

func (s *troupe) Receive(ctx *actor.Context[any], m any) error {
	if r, ok := m.(kids); ok {
		var names []string
		for _, pid := range ctx.Children() {
			names = append(names, pid.Path())
		}
		actor.Reply(ctx, r, names)
	}
	return nil
}

func (s *troupe) Terminate(*actor.Context[any], error) { s.log.add("end troupe") }

type kids struct{ actor.Returns[[]string] }

type player struct {
	log *journal
	member
	incarnation int
	played      int
}

type (
	play struct{ actor.Returns[int] }
	stop struct{}
)

func (p *player) Init(*actor.Context[any]) error {
	if p.failInit != nil && p.failInit(p.incarnation) {
		p.log.add("no init %s", p.name)
		return errBroken
	}
	p.log.add("init %s", p.name)
	return nil
}

func (p *player) Receive(ctx *actor.Context[any], m any) error {
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

func (p *player) Terminate(_ *actor.Context[any], why error) { p.log.add("end %s: %v", p.name, why) }

// stageTroupe starts a troupe and forgets what its start logged.
func stageTroupe(t *testing.T, opts []actor.SpawnOption, children ...member) (*actor.System, *journal, func(name string) actor.Ref[any]) {
	t.Helper()
	sys := newSystem(t)
	log := new(journal)
	actor.Spawn(sys, "troupe", func() *troupe { return &troupe{log, children} }, opts...)
	log.mu.Lock()
	log.lines = nil
	log.mu.Unlock()
	find := func(name string) actor.Ref[any] {
		t.Helper()
		path := "/troupe"
		if name != "" {
			path += "/" + name
		}
		ref, err := actor.LookupPath[any](sys, path)
		if err != nil {
			t.Fatal(err)
		}
		return ref
	}
	return sys, log, find
}

func abc(l actor.Lifetime) []member {
	return []member{{name: "a", lifetime: l}, {name: "b", lifetime: l}, {name: "c", lifetime: l}}
}

// settled waits until the bubble has nothing more to do.
func settled(log *journal) []string {
	synctest.Wait()
	return log.all()
}

func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
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
			synctest.Test(t, func(t *testing.T) {
				_, log, find := stageTroupe(t, nil, abc(c.lifetime)...)
				b := find("b")
				b.Tell(bg, c.how)
				expectLines(t, settled(log), c.want...)
				_, err := actor.Ask(bg, b, play{})
				if alive := err == nil; alive != c.alive {
					t.Errorf("alive %v, want %v (%v)", alive, c.alive, err)
				}
			})
		})
	}
}

func TestPermanentActorEndsByStopAndDrainFromOutside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, nil, abc(actor.Permanent)...)
		find("a").Stop()
		find("b").Drain()
		settled(log)
		if names := mustAsk(t, find(""), kids{}); !slices.Equal(names, []string{"/troupe/c"}) {
			t.Errorf("left: %v", names)
		}
	})
}

func TestAllForOneRestartsAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, abc(actor.Transient)...)
		a, b := find("a"), find("b")
		mustAsk(t, a, play{})
		b.Tell(bg, errBroken)
		expectLines(t, settled(log), "end c: <nil>", "end b: broken", "end a: <nil>", "init a", "init b", "init c")
		if n := mustAsk(t, a, play{}); n != 1 {
			t.Errorf("the sibling kept its state: %d", n)
		}
	})
}

func TestRestForOneRestartsThoseStartedAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, abc(actor.Transient)...)
		a := find("a")
		mustAsk(t, a, play{})
		find("b").Tell(bg, errBroken)
		expectLines(t, settled(log), "end c: <nil>", "end b: broken", "init b", "init c")
		if n := mustAsk(t, a, play{}); n != 2 {
			t.Errorf("the elder sibling lost its state: %d", n)
		}
	})
}

func TestTemporarySiblingIsStoppedWithTheGroupAndStaysAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := abc(actor.Transient)
		children[2].lifetime = actor.Temporary
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, children...)
		find("a").Tell(bg, errBroken)
		expectLines(t, settled(log), "end c: <nil>", "end b: <nil>", "end a: broken", "init a", "init b")
		if names := mustAsk(t, find(""), kids{}); len(names) != 2 {
			t.Errorf("children %v", names)
		}
	})
}

func TestGroupRestartBeginsAnewWhenAMembersInitFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := abc(actor.Transient)
		children[1].failInit = func(n int) bool { return n == 2 }
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne)}, children...)
		find("a").Tell(bg, errBroken)
		expectLines(t, settled(log),
			"end c: <nil>", "end b: <nil>", "end a: broken", "init a", "no init b",
			"end a: <nil>", "init a", "init b", "init c")
		for _, name := range []string{"a", "b", "c"} {
			mustAsk(t, find(name), play{})
		}
	})
}

func TestGroupRestartWaitsForItsBackoffAndKeepsMail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		began := time.Now()
		find("c").Tell(bg, errBroken)
		expectLines(t, settled(log), "end c: broken", "end b: <nil>", "end a: <nil>")
		if n := mustAsk(t, find("b"), play{}); n != 1 {
			t.Errorf("got %d", n)
		}
		if d := time.Since(began); d < 800*time.Millisecond || d > 1200*time.Millisecond {
			t.Errorf("started again after %v", d)
		}
	})
}

func TestMemberThatStopsDuringAGroupRestartDoesNotHoldItUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		find("b").Tell(bg, errBroken)
		settled(log)
		find("a").Stop() // it is halted and waits for its start
		time.Sleep(2 * time.Second)
		expectLines(t, settled(log), "end c: <nil>", "end b: broken", "end a: <nil>", "init b", "init c")
		mustAsk(t, find("c"), play{})
	})
}

func TestSupervisorStopsInTheMiddleOfAGroupRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.RestForOne, actor.Backoff(time.Second, time.Second))}, abc(actor.Transient)...)
		down := ended(t, sys, find(""))
		find("b").Tell(bg, errBroken)
		settled(log)
		find("").Stop()
		down()
		expectLines(t, settled(log), "end c: <nil>", "end b: broken", "end a: <nil>", "end troupe")
	})
}

func TestBudgetOfAGroupIsSharedAndItsExhaustionEscalates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.AllForOne, actor.MaxRestarts(1, time.Minute))}, abc(actor.Transient)...)
		find("a").Tell(bg, errBroken)
		settled(log)
		log.lines = nil
		find("b").Tell(bg, errBroken)
		expectLines(t, settled(log), "end c: <nil>", "end b: broken", "end a: <nil>", "end troupe",
			"init troupe", "init a", "init b", "init c")
	})
}

func TestEscalationReachesTheRootAndStopsTheTopmostActorOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sys, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate }))}, abc(actor.Transient)...)
		bystander := actor.Spawn(sys, "bystander", newCounter)
		down := ended(t, sys, find(""))
		for range 11 { // the root restarts ten times in a minute
			if ref, err := actor.LookupPath[any](sys, "/troupe/a"); err == nil {
				ref.Tell(bg, errBroken)
			}
			settled(log)
		}
		if d := down(); d.Reason != actor.Failed || !errors.Is(d.Err, errBroken) || !errors.Is(d.Err, actor.ErrRestartBudget) {
			t.Errorf("got %+v", d)
		}
		mustAsk(t, bystander, get{})
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
	synctest.Test(t, func(t *testing.T) {
		sys, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.OneForOne, decide)}, abc(actor.Transient)...)
		a := find("a")
		mustAsk(t, a, play{})
		a.Tell(bg, errResume)
		if n := mustAsk(t, a, play{}); n != 2 {
			t.Errorf("after Resume the state is gone: %d", n)
		}
		a.Tell(bg, errBroken)
		if n := mustAsk(t, a, play{}); n != 1 {
			t.Errorf("after Restart the state is still there: %d", n)
		}
		down := ended(t, sys, a)
		a.Tell(bg, fmt.Errorf("wrapped: %w", errStop))
		if d := down(); d.Reason != actor.Failed || !errors.Is(d.Err, errStop) {
			t.Errorf("got %+v", d)
		}
		expectLines(t, settled(log), "end a: broken", "init a", "end a: wrapped: stop")
	})
}

func TestExhaustedStopSparesTheSupervisor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.MaxRestarts(0, time.Minute), actor.Exhausted(actor.Stop))}, abc(actor.Transient)...)
		find("b").Tell(bg, errBroken)
		settled(log)
		if names := mustAsk(t, find(""), kids{}); !slices.Equal(names, []string{"/troupe/a", "/troupe/c"}) {
			t.Errorf("left: %v", names)
		}
	})
}

// OTP's hanging_restart_loop and multiple_restarts: an Init that goes on failing ends
// with the budget, and never holds up the supervisor.
func TestInitThatGoesOnFailingExhaustsTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := abc(actor.Transient)
		children[0].failInit = func(n int) bool { return n > 1 }
		sys, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.OneForOne, actor.MaxRestarts(3, time.Minute), actor.Exhausted(actor.Stop))}, children...)
		down := ended(t, sys, find("a"))
		find("a").Tell(bg, errBroken)
		if d := down(); !errors.Is(d.Err, actor.ErrRestartBudget) {
			t.Errorf("got %+v", d)
		}
		expectLines(t, settled(log), "end a: broken", "no init a", "no init a", "no init a")
		mustAsk(t, find("b"), play{})
	})
}

func TestTemporaryBystandersAreNotTouched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		children := abc(actor.Transient)
		children[0].lifetime = actor.Temporary
		_, log, find := stageTroupe(t, []actor.SpawnOption{actor.Supervise(actor.RestForOne)}, children...)
		find("b").Tell(bg, errBroken)
		settled(log)
		if n := mustAsk(t, find("a"), play{}); n != 1 {
			t.Errorf("got %d", n)
		}
		expectLines(t, log.all(), "end c: <nil>", "end b: broken", "init b", "init c")
	})
}

// Found by package sim, seed 0xe91ec3fbae0517bf of its supervision test.
func TestARestartedSupervisorBeginsWithAFreshBudget(t *testing.T) {
	sys := newSystem(t)
	begun := make(chan int, 64)
	children := make(chan actor.Ref[int], 8)
	incarnation := 0
	actor.Spawn[int](sys, "sup", func() *freshSupervisor { incarnation++; return &freshSupervisor{incarnation, begun, children} },
		actor.Supervise(actor.AllForOne, actor.MaxRestarts(1, time.Hour)))
	child := <-children
	<-begun
	child.Tell(bg, 1) // restarted
	if n := <-begun; n != 1 {
		t.Fatalf("incarnation %d", n)
	}
	child.Tell(bg, 1) // too often: the supervisor is restarted
	child = <-children
	if n := <-begun; n != 2 {
		t.Fatalf("incarnation %d", n)
	}
	child.Tell(bg, 1) // restarted again
	if n := <-begun; n != 2 {
		t.Errorf("the first failure under the new supervisor led to incarnation %d", n)
	}
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
