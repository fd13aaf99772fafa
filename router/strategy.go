package router

import (
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// Strategy decides which routees get a message. It is called for each new set of
// routees, never with an empty one, and returns a function that chooses among them by
// calling to for each routee that gets the message.
//
// That function runs on the senders' goroutines, concurrently: it must be safe for
// concurrent use and quick, and must not block. If it panics, the message goes to the
// routees chosen so far, usually none, and the first panic is logged. The strategy may
// keep the slice, but must not change it.
type Strategy[M any] func(sys *actor.System, routees []actor.Ref[M]) actor.Route[M]

// RoundRobin is the [Strategy] that takes the routees in turn, beginning with the first
// whenever their set changes. Senders share the turn: each continues where the one
// before has left off.
func RoundRobin[M any](_ *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	var turn atomic.Uint64
	n := uint64(len(routees))
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[(turn.Add(1)-1)%n])
	}
}

// Random is the [Strategy] that takes a random routee, each with the same probability.
// Unlike RoundRobin it shares nothing among senders.
func Random[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	random := sys.Rand()
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[random.IntN(len(routees))])
	}
}

// Broadcast is the [Strategy] that sends every message to all routees. They get the same
// value, so none of them may change what it points to. An ask ends with the first
// answer, as with [ScatterGather]; to get all answers use [actor.Gather] with the
// Routees of the router.
func Broadcast[M any](_ *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	return func(_ M, to func(actor.Ref[M])) {
		for _, r := range routees {
			to(r)
		}
	}
}

// ScatterGather is the [Strategy] that sends a request to all routees and takes the
// first answer; the others are dropped. A routee that fails or has ended matters only if
// all do: the ask then ends with the last error. It trades work for latency.
//
// It is the same as [Broadcast]; the name says what it is for.
func ScatterGather[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	return Broadcast(sys, routees)
}
