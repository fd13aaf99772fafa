package runtimes

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"time"

	proto "github.com/asynkron/protoactor-go/actor"

	"github.com/greenroom-go/greenroom/bench/workload"
)

// protoTimeout is far beyond any answer's time.
const protoTimeout = time.Minute

func protoActor() Runtime {
	return Runtime{
		Name: "protoactor", Kind: Peer, Module: "github.com/asynkron/protoactor-go",
		About: "its default mailbox and dispatcher, in flood and fanin on one processor its bounded mailbox, which is faster there; props made once for actors that are alike, spawned at the root as in its own benchmark; deep stacks are parked beside it, so that Go gives its goroutines stacks that need not grow",
		Lacks: map[string]string{"idle": "the bar is about Greenroom alone"},
		Fewer: map[string]int{"spawn": 300_000, "skynet": 100_000},
		Run:   between("protoactor", workload.Suite(openProto)),
	}
}

// silent has a system log nothing.
func silent() proto.ConfigOption {
	return proto.WithLoggerFactory(func(*proto.ActorSystem) *slog.Logger { return slog.New(slog.DiscardHandler) })
}

// parkDeepStacks leaves some goroutines behind that use a few kilobytes of stack.
// Proto.Actor begins a goroutine for each activation, and handling a message
// takes just more than the two kilobytes that Go gives it at first: growing the
// stack would be most of the cost, 2 µs of 2.5 in a ring written by hand. In a
// program with deeper stacks at work, whose average Go takes as the size to
// begin with at each collection, that is not so. It is given the benefit.
func parkDeepStacks() {
	const goroutines, frames = 32, 10
	var parked sync.WaitGroup
	for range goroutines {
		parked.Add(1)
		go useStack(frames, &parked)
	}
	parked.Wait()
	runtime.GC()
}

// useStack parks its goroutine for good, under that many frames.
//
//go:noinline
func useStack(frames int, parked *sync.WaitGroup) byte {
	var frame [256]byte
	if frames == 0 {
		parked.Done()
		select {}
	}
	return useStack(frames-1, parked) + frame[frames%len(frame)]
}

// protoHandler is an actor that is a workload's handler.
type protoHandler struct {
	handle workload.Handler[proto.Context]
}

// Receive leaves the lifecycle's messages alone.
func (p *protoHandler) Receive(ctx proto.Context) {
	if m, ok := ctx.Message().(workload.Msg); ok {
		p.handle(ctx, m)
	}
}

type protoSystem struct {
	sys     *proto.ActorSystem
	root    *proto.RootContext
	options []proto.PropsOption
}

func openProto(name string) (*protoSystem, error) {
	parkDeepStacks()
	sys := proto.NewActorSystem(silent())
	p := &protoSystem{sys: sys, root: sys.Root}
	if runtime.GOMAXPROCS(0) == 1 && (name == "flood" || name == "fanin") {
		p.options = []proto.PropsOption{proto.WithMailbox(proto.Bounded(mailboxSize))}
	}
	return p, nil
}

// Role makes the props once.
func (p *protoSystem) Role(newHandler func() workload.Handler[proto.Context]) func(proto.Context) *proto.PID {
	props := proto.PropsFromProducer(func() proto.Actor { return &protoHandler{newHandler()} }, p.options...)
	return func(proto.Context) *proto.PID { return p.root.Spawn(props) }
}

// Self is the actor's PID.
func (p *protoSystem) Self(ctx proto.Context) *proto.PID { return ctx.Self() }

// Tell boxes the message.
func (p *protoSystem) Tell(ctx proto.Context, to *proto.PID, m workload.Msg) {
	if ctx == nil {
		p.root.Send(to, m)
		return
	}
	ctx.Send(to, m)
}

// Server spawns an actor that responds.
func (p *protoSystem) Server(answer func(workload.Msg) workload.Msg) *proto.PID {
	return p.root.Spawn(proto.PropsFromFunc(func(ctx proto.Context) {
		if m, ok := ctx.Message().(workload.Msg); ok {
			ctx.Respond(answer(m))
		}
	}))
}

// Ask waits for a future.
func (p *protoSystem) Ask(ctx proto.Context, to *proto.PID, m workload.Msg) (workload.Msg, error) {
	var future *proto.Future
	if ctx == nil {
		future = p.root.RequestFuture(to, m, protoTimeout)
	} else {
		future = ctx.RequestFuture(to, m, protoTimeout)
	}
	result, err := future.Result()
	if err != nil {
		return workload.Msg{}, err
	}
	answer, ok := result.(workload.Msg)
	if !ok {
		return workload.Msg{}, fmt.Errorf("the answer is a %T", result)
	}
	return answer, nil
}

// End stops the actor. Its own benchmark stops none; it is no faster for that.
func (p *protoSystem) End(ctx proto.Context) { ctx.Stop(ctx.Self()) }

// Close ends the system.
func (p *protoSystem) Close() error {
	p.sys.Shutdown()
	return nil
}
