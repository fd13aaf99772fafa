package runtimes

import (
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/bench/workload"
)

func greenroomAny() Runtime {
	return Runtime{
		Name: "greenroom-any", Kind: Variant,
		About: "`any` as the message type and a type switch, the dynamic actor of the older frameworks",
		Lacks: map[string]string{"idle": "idle actors are those of greenroom", "remote": "it is that of greenroom", "remoteask": "it is that of greenroom"},
		Run:   workload.Suite(func(string) (*dynamic, error) { return &dynamic{newSystem()}, nil }),
	}
}

type (
	dynamicContext = *actor.Context[any]
	dynamicRef     = actor.Ref[any]
)

// dynamicActor is either a workload's handler or one that answers.
type dynamicActor struct {
	handle workload.Handler[dynamicContext]
	answer func(workload.Msg) workload.Msg
}

// Receive tells the messages apart by their types.
func (d *dynamicActor) Receive(ctx dynamicContext, msg any) error {
	switch m := msg.(type) {
	case workload.Msg:
		d.handle(ctx, m)
	case question:
		actor.Reply(ctx, m, d.answer(workload.Msg{N: m.n}).N)
	default:
		return fmt.Errorf("message %T: %w", msg, actor.ErrUnhandled)
	}
	return nil
}

// dynamic is Greenroom with actors that take any message.
type dynamic struct{ sys *actor.System }

// Role spawns children of the actor that spawns.
func (d *dynamic) Role(newHandler func() workload.Handler[dynamicContext]) func(dynamicContext) dynamicRef {
	newActor := func() *dynamicActor { return &dynamicActor{handle: newHandler()} }
	return func(ctx dynamicContext) dynamicRef {
		if ctx == nil {
			return actor.Spawn(d.sys, "", newActor)
		}
		return actor.Spawn(ctx, "", newActor)
	}
}

// Self is the reference of the actor that acts.
func (d *dynamic) Self(ctx dynamicContext) dynamicRef { return ctx.Self() }

// Tell boxes the message.
func (d *dynamic) Tell(ctx dynamicContext, to dynamicRef, m workload.Msg) {
	to.Tell(orBackground(ctx), m)
}

// Server spawns an actor that answers.
func (d *dynamic) Server(answer func(workload.Msg) workload.Msg) dynamicRef {
	return actor.Spawn(d.sys, "", func() *dynamicActor { return &dynamicActor{answer: answer} })
}

// Ask blocks a goroutine outside and detaches an actor.
func (d *dynamic) Ask(ctx dynamicContext, to dynamicRef, m workload.Msg) (workload.Msg, error) {
	n, err := actor.Ask(orBackground(ctx), to, question{n: m.N})
	return workload.Msg{N: n}, err
}

// End stops the actor: an idle one has no goroutine, but its memory.
func (d *dynamic) End(ctx dynamicContext) { ctx.Stop() }

// Workers counts the goroutines that run handlers.
func (d *dynamic) Workers() int { return d.sys.Stats().Workers }

// Close leaves the actors to the end of the process.
func (d *dynamic) Close() error { return nil }
