package runtimes

import (
	"github.com/Arceliar/phony"

	"github.com/greenroom-go/greenroom/bench/workload"
)

func phonyInbox() Runtime {
	const module = "github.com/Arceliar/phony"
	return Runtime{
		Name: "phony", Kind: Peer, Module: module,
		About: "a struct with an Inbox; in floodinside the sender is named, which gives backpressure, elsewhere nothing can pile up and it is nil, as documented",
		Lacks: map[string]string{
			"askinside": "an actor must not block, so it cannot await",
			"idle":      "it has no timers, and the bar is about Greenroom alone",
			"remote":    "it has one process", "remoteask": "it has one process",
		},
		Run: workload.Suite(func(name string) (*phonies, error) {
			return &phonies{pressure: name == "floodinside"}, nil
		}),
	}
}

// phonyActor is an actor of Phony's kind: a struct with an inbox.
type phonyActor struct {
	phony.Inbox
	handle workload.Handler[*phonyActor]
}

// phonyServer is one that answers.
type phonyServer struct {
	phony.Inbox
	answer func(workload.Msg) workload.Msg
}

// phonies is the runtime, which has nothing to start or stop.
type phonies struct{ pressure bool }

// Role makes a struct; it has no parent.
func (p *phonies) Role(newHandler func() workload.Handler[*phonyActor]) func(*phonyActor) *phonyActor {
	return func(*phonyActor) *phonyActor { return &phonyActor{handle: newHandler()} }
}

// Self is the actor.
func (p *phonies) Self(ctx *phonyActor) *phonyActor { return ctx }

// Tell sends a closure. A sender that is named is slowed down when the
// receiver is flooded; one that tells itself is never named.
func (p *phonies) Tell(ctx, to *phonyActor, m workload.Msg) {
	var from phony.Actor
	if p.pressure && ctx != nil && ctx != to {
		from = ctx
	}
	to.Act(from, func() { to.handle(to, m) })
}

// Server makes an actor that answers.
func (p *phonies) Server(answer func(workload.Msg) workload.Msg) *phonyServer {
	return &phonyServer{answer: answer}
}

// Ask is Phony's way for goroutines that are no actors.
func (p *phonies) Ask(ctx *phonyActor, to *phonyServer, m workload.Msg) (answer workload.Msg, err error) {
	if ctx != nil {
		return answer, workload.ErrUnsupported
	}
	phony.Block(to, func() { answer = to.answer(m) })
	return answer, nil
}

// End does nothing: an idle actor is memory.
func (p *phonies) End(*phonyActor) {}

// Close does nothing.
func (p *phonies) Close() error { return nil }
