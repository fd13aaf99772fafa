// Package workload contains the workloads: each is written once, against [Adapter], and validates
// its own counts. To add a runtime, add an adapter, a file in package runtimes; nothing here
// distinguishes runtimes.
//
// A run that lost, doubled or invented a message, or that answered wrongly,
// is an error and never a figure.
package workload

import "time"

// Msg is the message of every workload: small, without pointers, and larger
// than what Go boxes for nothing, so that a runtime that boxes shows it.
type Msg struct{ N int64 }

// Handler handles a message of an actor. It is called for one message of an actor at a time, and
// its C is valid only during the call.
type Handler[C any] func(ctx C, m Msg)

// Adapter is a runtime as the workloads see it. C is what a handler is given to act with, R a
// reference to an actor that is told things, S a reference to an actor that answers. The zero C
// stands for the outside: its holder is not an actor but a plain goroutine.
//
// An adapter uses its runtime in the fastest way that the runtime documents, and passes each
// message on unchanged. The workloads call all methods from several goroutines at once, those with
// a non-zero C in the handler it was given to.
//
// The type parameters let a call reach the runtime without boxing anything;
// what is left is one indirect call for each method, about a nanosecond, and
// the same for all runtimes, the control included.
type Adapter[C, R, S any] interface {
	// Role prepares the spawning of actors that are alike, and returns what
	// spawns one: a child of the actor ctx where the runtime documents that as
	// the way, an actor without a parent where ctx is zero. newHandler is called
	// once for each actor before the spawning function returns.
	Role(newHandler func() Handler[C]) func(ctx C) R

	// Self returns the reference of the actor whose handler was given ctx.
	Self(ctx C) R

	// Tell sends without waiting for an answer. It may wait for room in a
	// bounded mailbox. Messages from one sender to one actor keep their order.
	Tell(ctx C, to R, m Msg)

	// Server spawns an actor that answers each request with answer's result.
	Server(answer func(m Msg) Msg) S

	// Ask sends a request and waits for the answer: with a zero ctx it blocks
	// the goroutine, in a handler it is the runtime's own way of awaiting.
	Ask(ctx C, to S, m Msg) (Msg, error)

	// End says that the actor with ctx has told its last message and will be
	// told nothing more. Whatever an actor occupies for as long as it lives, a
	// goroutine or memory for example, is let go of, unless the runtime is
	// faster without.
	End(ctx C)

	// Close ends the runtime. The process ends soon after.
	Close() error
}

// Timers is an adapter whose actors can have timers: After tells the actor with
// ctx m after d. The workload idle needs it.
type Timers[C any] interface {
	After(ctx C, d time.Duration, m Msg)
}

// WorkerCounter is an adapter that can say how many goroutines its runtime occupies with
// running handlers at the moment. The workload askinside reports the largest
// number it saw.
type WorkerCounter interface {
	Workers() int
}
