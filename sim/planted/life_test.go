package planted

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/sim"
)

// The registry: a client looks a service up that another actor starts.

type registryMsg interface{ registry() }

type enroll struct{ service actor.Ref[get] }

type find struct{ actor.Returns[actor.Ref[get]] }

func (enroll) registry() {}
func (find) registry()   {}

func register(w *sim.World, mended bool) {
	var known actor.Ref[get]
	var waiting []*actor.Promised[actor.Ref[get]]
	names := actor.SpawnFunc(w.System(), "names", func(ctx *actor.Context[registryMsg], m registryMsg) error {
		switch m := m.(type) {
		case enroll:
			known = m.service
			for _, p := range waiting {
				p.Resolve(known)
			}
		case find:
			if known.IsZero() && mended {
				waiting = append(waiting, actor.Promise(ctx, m))
				return nil
			}
			actor.Reply(ctx, m, known)
		}
		return nil
	})
	w.Go("starter", func(ctx *actor.Context[sim.Begin]) {
		service := actor.SpawnFunc(w.System(), "service", func(ctx *actor.Context[get], m get) error {
			actor.Reply(ctx, m, 1)
			return nil
		})
		names.Tell(ctx, enroll{service})
	})
	w.Go("client", func(ctx *actor.Context[sim.Begin]) {
		if service, err := actor.Ask(ctx, names, find{}); err != nil || service.IsZero() {
			w.Fatalf("the client has found no service: %v", err)
		}
	})
	w.Settle()
}

// The workers: a dispatcher gives jobs to workers, which fail now and then.

type dispatchMsg interface{ dispatch() }

type finished struct{ job int }

type failed struct{ job int }

func (finished) dispatch() {}
func (failed) dispatch()   {}

type job struct {
	actor.Returns[int]
	number int
}

func worker(w *sim.World, mended bool) {
	const jobs = 5
	open := jobs
	var workers []actor.Ref[job]
	for range 2 {
		workers = append(workers, actor.SpawnFunc(w.System(), "worker-*", func(ctx *actor.Context[job], m job) error {
			actor.Reply(ctx, m, m.number)
			return nil
		}))
	}
	next := 0
	give := func(ctx *actor.Context[dispatchMsg], number int) {
		next++
		actor.AskThen(ctx, workers[next%2], job{number: number}, func(_ int, err error) dispatchMsg {
			if err != nil {
				return failed{number}
			}
			return finished{number}
		})
	}
	type begin struct{ dispatchMsg }
	dispatcher := actor.SpawnFunc(w.System(), "dispatcher", func(ctx *actor.Context[dispatchMsg], m dispatchMsg) error {
		switch m := m.(type) {
		case begin:
			for i := range jobs {
				give(ctx, i)
			}
		case finished:
			open--
		case failed:
			if mended {
				give(ctx, m.job)
			}
		}
		return nil
	})
	dispatcher.Tell(w.Context(), begin{})
	w.Settle()
	w.Eventually(time.Minute, "all jobs are done", func() error {
		if open > 0 {
			return fmt.Errorf("%d are not", open)
		}
		return nil
	})
}

// The writer: producers hand lines over, and then everything is shut down.

type line struct{}

func shutdown(w *sim.World, mended bool) {
	written, handed := 0, 0
	writer := actor.SpawnFunc(w.System(), "writer", func(*actor.Context[line], line) error {
		written++
		return nil
	})
	w.Go("producer", func(ctx *actor.Context[sim.Begin]) {
		for range 3 {
			writer.Tell(ctx, line{})
			handed++
		}
		if mended {
			writer.Drain()
		} else {
			writer.Stop()
		}
	})
	w.Settle()
	if written != handed {
		w.Fatalf("%d lines were handed over and %d written", handed, written)
	}
}

// The sessions: a user who comes back replaces the session of before, and each session says
// so when it ends.

type sessionsMsg interface{ sessions() }

type login struct{}

type ended struct{ session actor.PID }

func (login) sessions() {}
func (ended) sessions() {}

func session(w *sim.World, mended bool) {
	var current actor.Ref[line]
	sessions := actor.SpawnFunc(w.System(), "sessions", func(ctx *actor.Context[sessionsMsg], m sessionsMsg) error {
		switch m := m.(type) {
		case login:
			if !current.IsZero() {
				current.Stop()
			}
			current = actor.SpawnFunc(ctx, "", func(*actor.Context[line], line) error { return nil })
			ctx.Watch(current.PID(), func(d actor.Down) sessionsMsg { return ended{d.PID} })
		case ended:
			if !mended || m.session == current.PID() {
				current = actor.Ref[line]{}
			}
		}
		return nil
	})
	for range 2 {
		sessions.Tell(w.Context(), login{})
	}
	w.Settle()
	if current.IsZero() {
		w.Fatalf("the user is logged in and has no session")
	}
}

// The ledger: deposits go through an auditor, withdrawals go straight to it.

func order(w *sim.World, mended bool) {
	sum, lowest := 0, 0
	ledger := actor.SpawnFunc(w.System(), "ledger", func(_ *actor.Context[int], n int) error {
		sum += n
		lowest = min(lowest, sum)
		return nil
	})
	auditor := actor.SpawnFunc(w.System(), "auditor", func(ctx *actor.Context[int], n int) error {
		ledger.Tell(ctx, n)
		return nil
	})
	w.Go("producer", func(ctx *actor.Context[sim.Begin]) {
		auditor.Tell(ctx, 10)
		if mended {
			auditor.Tell(ctx, -10)
		} else {
			ledger.Tell(ctx, -10)
		}
	})
	w.Always("nothing is withdrawn before it is there", func() error {
		if lowest < 0 {
			return fmt.Errorf("the sum was %d", lowest)
		}
		return nil
	})
}
