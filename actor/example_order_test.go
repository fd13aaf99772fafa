package actor_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// job is some work that is of no use any more after a time.
type job struct {
	name string
	due  time.Time
}

// byDeadline is a queue that hands out the most urgent job, and drops what is too late.
type byDeadline struct{ jobs []actor.Envelope[job] }

func (q *byDeadline) Put(m actor.Envelope[job]) { q.jobs = append(q.jobs, m) }

func (q *byDeadline) Take() (next actor.Envelope[job], ok bool) {
	for len(q.jobs) > 0 {
		at := 0
		for i, m := range q.jobs {
			if m.Message().due.Before(q.jobs[at].Message().due) {
				at = i
			}
		}
		next = q.jobs[at]
		q.jobs = slices.Delete(q.jobs, at, at+1)
		if next.Message().due.After(time.Now()) {
			return next, true
		}
		fmt.Println(next.Message().name, "comes too late, from outside:", next.Sender().IsZero())
		next.Drop()
	}
	return next, false
}

func ExampleOrdered() {
	sys := actor.NewSystem("example")
	begun, opened := make(chan struct{}, 4), make(chan struct{})
	desk := actor.SpawnFunc(sys, "desk", func(_ *actor.Context[job], m job) error {
		begun <- struct{}{}
		<-opened
		fmt.Println("does", m.name)
		return nil
	}, actor.Ordered(func() actor.Queue[job] { return new(byDeadline) }))

	now := time.Now()
	desk.Tell(context.Background(), job{"what is there first", now.Add(time.Minute)})
	<-begun
	desk.Tell(context.Background(), job{"what can wait", now.Add(time.Hour)})
	desk.Tell(context.Background(), job{"what is urgent", now.Add(time.Minute)})
	desk.Tell(context.Background(), job{"yesterday's", now.Add(-time.Hour)})
	close(opened)
	if _, err := sys.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output:
	// does what is there first
	// yesterday's comes too late, from outside: true
	// does what is urgent
	// does what can wait
}

// gauges are what a program counts of its mailboxes.
type gauges struct{ posted, received, emptied atomic.Int64 }

func (g *gauges) Posted(actor.PID, int) { g.posted.Add(1) }
func (g *gauges) Received(actor.PID)    { g.received.Add(1) }
func (g *gauges) Emptied(actor.PID)     { g.emptied.Add(1) }

func ExampleObserveMailbox() {
	sys := actor.NewSystem("example")
	g := new(gauges)
	ref := actor.SpawnFunc(sys, "", func(*actor.Context[int], int) error { return nil }, actor.ObserveMailbox(g))
	for n := range 3 {
		ref.Tell(context.Background(), n)
	}
	if _, err := sys.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(g.posted.Load(), "posted,", g.received.Load(), "received, emptied:", g.emptied.Load() > 0)
	// Output: 3 posted, 3 received, emptied: true
}

// A session is there for its connection: when that ends, so does the session. Its cache may fail more
// often than other children.
func ExampleSignificant() {
	sys := actor.NewSystem("example")
	nop := func(*actor.Context[string], string) error { return actor.ErrStop }
	session := actor.SpawnFunc(sys, "session", func(ctx *actor.Context[string], _ string) error {
		actor.SpawnFunc(ctx, "connection", nop, actor.Temporary, actor.Significant())
		actor.SpawnFunc(ctx, "cache", nop, actor.Guardian(actor.Supervise(actor.OneForOne, actor.MaxRestarts(100, time.Minute))))
		return nil
	}, actor.Supervise(actor.OneForOne, actor.AutoStop(actor.AnySignificant)))
	session.Tell(context.Background(), "begin")

	connection, err := actor.LookupPath[string](sys, "/session/connection")
	for err != nil {
		connection, err = actor.LookupPath[string](sys, "/session/connection")
	}
	spec, _ := sys.Spec(connection.PID())
	fmt.Println("the connection is", spec.Lifetime, "and significant:", spec.Significant)
	spec, _ = sys.Spec(session.PID())
	fmt.Println("the session supervises", spec.Supervises.Strategy, "and stops with", spec.Supervises.AutoStop)

	ended := make(chan actor.Down, 1)
	sys.AfterEnd(session.PID(), func(d actor.Down) { ended <- d })
	connection.Tell(context.Background(), "end")
	fmt.Println("the session has", (<-ended).Reason)
	// Output:
	// the connection is temporary and significant: true
	// the session supervises one for one and stops with any
	// the session has stopped
}

// What an actor begins in a message may last longer than the message.
func ExampleContext_Incarnation() {
	sys := actor.NewSystem("example")
	ended := make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], _ string) error {
		life := ctx.Incarnation()
		go func() {
			<-life.Done()
			fmt.Println("the actor has ended")
			close(ended)
		}()
		return nil
	})
	ref.Tell(context.Background(), "begin")
	ref.Drain()
	<-ended
	if _, err := sys.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: the actor has ended
}

// lookUp is a library that calls back.
func lookUp(name string, found func(int, error)) {
	go func() { found(len(name), nil) }()
}

func ExampleLater() {
	sys := actor.NewSystem("example")
	done := make(chan struct{})
	ref := actor.SpawnFunc(sys, "", func(ctx *actor.Context[string], m string) error {
		if m == "go" {
			lookUp("greenroom", actor.Later(ctx, func(n int, err error) string { return fmt.Sprint("found ", n, ", ", err) }))
			return nil
		}
		fmt.Println(m)
		close(done)
		return nil
	})
	ref.Tell(context.Background(), "go")
	<-done
	if _, err := sys.Shutdown(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: found 9, <nil>
}
