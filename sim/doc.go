// Package sim finds the order of events in which a system of actors goes wrong, and
// replays it. It runs ordinary actors on the production engine, one step at a time: a
// turn of one message, a handler that resumes after an ask, the work of a Pipe, a frame on
// a link. A seed determines which of the steps that are ready runs next.
//
//	func TestTransferKeepsTheSum(t *testing.T) {
//		sim.Check(t, sim.Options{Runs: 1000}, func(w *sim.World) {
//			a := actor.Spawn(w.System(), "a", newAccount)
//			...
//			w.Always("the sum is 100", func() error { ... })
//		})
//	}
//
// A failure report has the seed, the command that replays it, and the shrunk schedule: the
// few choices that the failure needs. See docs/guides/simulation.md for a guide.
//
// # What a run is
//
// Check calls the function once for each run, in a [testing/synctest] bubble: time, also
// that of package time, stands still while there is something to do, and then jumps to the
// next timer. The function is the script: it tells, asks and spawns, and while it waits
// ([actor.Ask], [World.Advance], [World.Settle]) steps run. When it returns, the remaining
// steps run and the systems are shut down, which must succeed and leave nothing behind.
//
// # What can be simulated
//
// Everything that actors do through package actor: messages, asks, timers, Sleep, Pipe,
// watches, supervision and contexts. A handler must not start a goroutine, wait for a
// channel or a lock that another step has to release, or talk to the outside world.
// Goroutines and sockets fail the run when they are detected, and whatever else differs
// between two runs with the same seed (a global random number, the order of a map) is
// found by running some seeds twice. The guide lists what is detected, and how. time.Sleep
// in a handler or a Pipe blocks the whole world: use [actor.Context.Sleep].
//
// Data races and the memory model are not simulated: also run your actors with the
// ordinary scheduler and the race detector.
package sim
