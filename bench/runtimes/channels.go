package runtimes

import "github.com/greenroom-go/greenroom/bench/workload"

// mailboxSize is the buffer of a goroutine's channel.
const mailboxSize = 1024

func channels() Runtime {
	return Runtime{
		Name: "channels", Kind: Control,
		About: "a goroutine with a channel of 1024 for each actor, of 1 in pingpong, the rings, skynet and spawn; a new channel of 1 for each answer; between processes TCP by hand, with a length before each message",
		Fewer: map[string]int{"spawn": 200_000},
		Lacks: map[string]string{"idle": "a goroutine has no timers of its own, and the bar is about Greenroom alone"},
		Run: between("channels", workload.Suite(func(name string) (routines, error) {
			switch name {
			case "pingpong", "ring100", "ring100k", "skynet", "spawn":
				return routines{1}, nil
			}
			return routines{mailboxSize}, nil
		})),
	}
}

// routine is a goroutine that acts like an actor.
type routine struct {
	mail  chan workload.Msg
	ended bool
}

// inquiry is a request with the way back.
type inquiry struct {
	m    workload.Msg
	back chan workload.Msg
}

// routines has actors that are goroutines with a channel of that size.
type routines struct{ size int }

// Role starts a goroutine; it has no parent.
func (r routines) Role(newHandler func() workload.Handler[*routine]) func(*routine) chan workload.Msg {
	return func(*routine) chan workload.Msg {
		self := &routine{mail: make(chan workload.Msg, r.size)}
		handle := newHandler()
		go func() {
			for m := range self.mail {
				handle(self, m)
				if self.ended {
					return
				}
			}
		}()
		return self.mail
	}
}

// Self is the goroutine's channel.
func (r routines) Self(ctx *routine) chan workload.Msg { return ctx.mail }

// Tell waits while the channel is full.
func (r routines) Tell(_ *routine, to chan workload.Msg, m workload.Msg) { to <- m }

// Server starts a goroutine that answers.
func (r routines) Server(answer func(workload.Msg) workload.Msg) chan inquiry {
	mail := make(chan inquiry, mailboxSize)
	go func() {
		for q := range mail {
			q.back <- answer(q.m)
		}
	}()
	return mail
}

// Ask makes a channel for the answer.
func (r routines) Ask(_ *routine, to chan inquiry, m workload.Msg) (workload.Msg, error) {
	back := make(chan workload.Msg, 1)
	to <- inquiry{m, back}
	return <-back, nil
}

// End ends the goroutine.
func (r routines) End(ctx *routine) { ctx.ended = true }

// Close leaves the goroutines to the end of the process.
func (r routines) Close() error { return nil }
