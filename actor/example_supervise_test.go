package actor_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// dancer says when it begins and ends, and fails when it is told to fall.
type dancer struct {
	name string
	life func(format string, args ...any)
}

func (d *dancer) Init(*actor.Context[string]) error {
	d.life("%s begins", d.name)
	return nil
}

func (d *dancer) Receive(_ *actor.Context[string], m string) error {
	switch m {
	case "fall":
		return errors.New("fallen")
	case "bow":
		return actor.ErrStop
	}
	return nil
}

func (d *dancer) Terminate(_ *actor.Context[string], why error) { d.life("%s ends: %v", d.name, why) }

// stage is a system in which ann, bob and cid dance.
type stage struct {
	sys   *actor.System
	lines chan string
	refs  map[string]actor.Ref[string]
}

func newStage(supervision actor.SuperviseOption, opts ...actor.SpawnOption) *stage {
	s := &stage{sys: actor.NewSystem("stage", quiet, supervision), lines: make(chan string, 100), refs: map[string]actor.Ref[string]{}}
	for _, name := range []string{"ann", "bob", "cid"} {
		s.refs[name] = actor.Spawn(s.sys, name, func() *dancer {
			return &dancer{name, func(format string, args ...any) { s.lines <- fmt.Sprintf(format, args...) }}
		}, opts...)
	}
	s.print(3)
	return s
}

func (s *stage) tell(name, what string) { s.refs[name].Tell(context.Background(), what) }

// print prints the next n lines.
func (s *stage) print(n int) {
	for range n {
		fmt.Println(<-s.lines)
	}
}

func (s *stage) close() { _, _ = s.sys.Shutdown(context.Background()) }

func ExampleSupervise_allForOne() {
	s := newStage(actor.Supervise(actor.AllForOne))
	s.tell("bob", "fall")
	s.print(6) // those that stand are stopped, then all begin anew, in the order of their start
	s.close()
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// cid ends: <nil>
	// bob ends: fallen
	// ann ends: <nil>
	// ann begins
	// bob begins
	// cid begins
}

func ExampleSupervise_restForOne() {
	s := newStage(actor.Supervise(actor.RestForOne))
	s.tell("bob", "fall")
	s.print(4) // ann was started before bob
	s.close()
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// cid ends: <nil>
	// bob ends: fallen
	// bob begins
	// cid begins
}

func ExampleBackoff() {
	s := newStage(actor.Supervise(actor.OneForOne, actor.Backoff(time.Millisecond, time.Second)))
	for range 3 { // restarted after about 1, 2 and 4 milliseconds
		s.tell("bob", "fall")
		s.print(2)
	}
	s.close()
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// bob ends: fallen
	// bob begins
	// bob ends: fallen
	// bob begins
	// bob ends: fallen
	// bob begins
}

func ExampleExhausted() {
	s := newStage(actor.Supervise(actor.OneForOne, actor.MaxRestarts(1, time.Minute), actor.Exhausted(actor.Stop)))
	ended := endOf(s.sys, s.refs["bob"].PID())
	s.tell("bob", "fall")
	s.print(2)
	s.tell("bob", "fall") // one too many
	s.print(1)
	fmt.Println("bob:", <-ended)
	fmt.Println("ann:", s.refs["ann"].TryTell(context.Background(), "dance"))
	s.close()
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// bob ends: fallen
	// bob begins
	// bob ends: restart budget exhausted: 2 failures within 1m0s, the last: fallen
	// bob: failed
	// ann: <nil>
}

// A failure that is escalated is the supervisor's own: here the manager is restarted, and
// its child is a new one.
func ExampleDecide_escalate() {
	lines := make(chan string, 10)
	sys := actor.NewSystem("theater", quiet)
	manager := actor.Spawn(sys, "manager", func() *manager { return &manager{lines: lines} },
		actor.Supervise(actor.OneForOne, actor.Decide(func(error) actor.Directive { return actor.Escalate })))
	fmt.Println(<-lines)
	manager.Tell(context.Background(), "fall")
	fmt.Println(<-lines)
	fmt.Println(<-lines)
	_, _ = sys.Shutdown(context.Background())
	// Output:
	// manager hires
	// manager ends: child /manager/ann: fallen
	// manager hires
}

type manager struct {
	lines chan<- string
	child actor.Ref[string]
}

func (m *manager) Init(ctx *actor.Context[string]) error {
	m.lines <- "manager hires"
	m.child = actor.Spawn(ctx, "ann", func() *dancer { return &dancer{"ann", func(string, ...any) {}} })
	return nil
}

func (m *manager) Receive(ctx *actor.Context[string], what string) error {
	m.child.Tell(ctx, what)
	return nil
}

func (m *manager) Terminate(_ *actor.Context[string], why error) {
	if why != nil {
		m.lines <- fmt.Sprintf("manager ends: %v", why)
	}
}

// A permanent actor comes back also when it has stopped of its own accord.
func ExampleLifetime_permanent() {
	s := newStage(actor.Supervise(actor.OneForOne), actor.Permanent)
	s.tell("bob", "bow")
	s.print(2)
	s.close()
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// bob ends: <nil>
	// bob begins
}

// A transient actor, which is what an actor is without an option, comes back when it
// has failed, and a temporary one never.
func ExampleLifetime_temporary() {
	for _, lifetime := range []actor.Lifetime{actor.Transient, actor.Temporary} {
		s := newStage(actor.Supervise(actor.OneForOne), lifetime)
		ended := endOf(s.sys, s.refs["bob"].PID())
		s.tell("bob", "fall")
		s.print(1)
		if lifetime == actor.Temporary {
			fmt.Println("bob:", <-ended)
		} else {
			s.print(1)
		}
		s.close()
	}
	// Output:
	// ann begins
	// bob begins
	// cid begins
	// bob ends: fallen
	// bob begins
	// ann begins
	// bob begins
	// cid begins
	// bob ends: fallen
	// bob: failed
}

var errOutOfRange = errors.New("out of range")

// A panic is a failure like an error. What was passed to panic is in it, and the stack.
func ExamplePanicError() {
	sys := actor.NewSystem("panic", quiet)
	defer sys.Shutdown(context.Background())

	ref := actor.SpawnFunc(sys, "index", func(*actor.Context[balance], balance) error {
		panic(fmt.Errorf("page 7: %w", errOutOfRange))
	})
	_, err := actor.Ask(context.Background(), ref, balance{})
	fmt.Println(err)
	if p, ok := errors.AsType[*actor.PanicError](err); ok {
		fmt.Println(p.Value, len(p.Stack) > 0)
		fmt.Println(errors.Is(p.Unwrap(), errOutOfRange), errors.Is(err, errOutOfRange))
	}
	// Output:
	// ask /index with actor_test.balance: panic: page 7: out of range
	// page 7: out of range true
	// true true
}
