package router

import (
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// Strategy decides who gets a message. It is called for each new set of routees,
// never with an empty one, and returns the function that chooses among them, which
// calls to for each routee that shall have the message.
//
// The function it returns runs on the goroutines of the senders, at the same time:
// it must be safe for concurrent use, quick, and must not block. A message for which it
// panics goes to those it had chosen before, to nobody as a rule, and the first panic is
// logged. The slice is the strategy's to keep and must not be changed.
type Strategy[M any] func(sys *actor.System, routees []actor.Ref[M]) actor.Route[M]

// RoundRobin is the [Strategy] that takes the routees in turn, beginning with the
// first whenever their set changes. The turn is that of the router and not of a
// sender: with several of them each finds the turn where the others left it.
func RoundRobin[M any](_ *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	var turn atomic.Uint64
	n := uint64(len(routees))
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[(turn.Add(1)-1)%n])
	}
}

// Random is the [Strategy] that takes any routee, each equally often in the long run.
// Unlike RoundRobin it shares nothing among the senders.
func Random[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	random := sys.Rand()
	return func(_ M, to func(actor.Ref[M])) {
		to(routees[random.IntN(len(routees))])
	}
}

// Broadcast is the [Strategy] that gives every message to all routees. They get the
// same value: what it points to must not be changed by any of them. An ask ends with
// the first answer, as with [ScatterGather]; for all the answers use [actor.Gather]
// with the Routees of the router.
func Broadcast[M any](_ *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	return func(_ M, to func(actor.Ref[M])) {
		for _, r := range routees {
			to(r)
		}
	}
}

// ScatterGather is the [Strategy] that gives a request to all routees, and the first
// answer wins; the others are dropped. A routee that fails, or has ended, only counts
// when all do: then the ask ends with the last error. It trades work for latency.
//
// It chooses as [Broadcast] does; the name says what it is for.
func ScatterGather[M any](sys *actor.System, routees []actor.Ref[M]) actor.Route[M] {
	return Broadcast(sys, routees)
}
