package runtimes

import (
	"context"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/bench/workload"
)

func greenroom() Runtime {
	return Runtime{
		Name: "greenroom", Kind: Subject,
		About: "a concrete struct as the message type; in handlers the handler's ctx goes along",
		Run:   between("greenroom", workload.Suite(func(string) (*typed, error) { return &typed{newSystem()}, nil })),
	}
}

func newSystem() *actor.System { return actor.NewSystem("bench") }

// question is the request of the ask workloads: its own message type, so that
// it lies in the mailbox as it is.
type question struct {
	actor.Returns[int64]
	n int64
}

// performer is an actor that is a workload's handler.
type performer func(*actor.Context[workload.Msg], workload.Msg)

func (p performer) Receive(ctx *actor.Context[workload.Msg], m workload.Msg) error {
	p(ctx, m)
	return nil
}

// answerer is an actor that answers.
type answerer func(workload.Msg) workload.Msg

func (a answerer) Receive(ctx *actor.Context[question], q question) error {
	actor.Reply(ctx, q, a(workload.Msg{N: q.n}).N)
	return nil
}

// typed is Greenroom with a message type for each kind of actor.
type typed struct{ sys *actor.System }

type (
	typedContext = *actor.Context[workload.Msg]
	typedRef     = actor.Ref[workload.Msg]
)

// orBackground is the context of the outside for a nil one of a handler.
func orBackground[M any](ctx *actor.Context[M]) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// Role spawns children of the actor that spawns.
func (t *typed) Role(newHandler func() workload.Handler[typedContext]) func(typedContext) typedRef {
	newActor := func() performer { return performer(newHandler()) }
	return func(ctx typedContext) typedRef {
		if ctx == nil {
			return actor.Spawn(t.sys, "", newActor)
		}
		return actor.Spawn(ctx, "", newActor)
	}
}

// Self is the reference of the actor that acts.
func (t *typed) Self(ctx typedContext) typedRef { return ctx.Self() }

// Tell never waits: the mailbox is unbounded.
func (t *typed) Tell(ctx typedContext, to typedRef, m workload.Msg) { to.Tell(orBackground(ctx), m) }

// Server spawns an actor for questions.
func (t *typed) Server(answer func(workload.Msg) workload.Msg) actor.Ref[question] {
	return actor.Spawn(t.sys, "", func() answerer { return answer })
}

// Ask blocks a goroutine outside and detaches an actor.
func (t *typed) Ask(ctx typedContext, to actor.Ref[question], m workload.Msg) (workload.Msg, error) {
	n, err := actor.Ask(orBackground(ctx), to, question{n: m.N})
	return workload.Msg{N: n}, err
}

// End stops the actor: an idle one has no goroutine, but its memory.
func (t *typed) End(ctx typedContext) { ctx.Stop() }

// After sets a timer of the actor.
func (t *typed) After(ctx typedContext, d time.Duration, m workload.Msg) { ctx.After("bench", d, m) }

// Workers counts the goroutines that run handlers.
func (t *typed) Workers() int { return t.sys.Stats().Workers }

// Close leaves the actors to the end of the process: how long they take to stop
// is nobody's question here.
func (t *typed) Close() error { return nil }
