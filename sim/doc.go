// Package sim finds the order of events in which a system of actors goes wrong, and
// replays it. It runs ordinary actors, on the engine that production uses, one step at a
// time: a turn of one message, a handler that goes on after an ask, the work of a Pipe, a
// frame on a link. Which of the steps that are ready comes next is a matter of a seed.
//
//	func TestTransferKeepsTheSum(t *testing.T) {
//		sim.Check(t, sim.Options{Runs: 1000}, func(w *sim.World) {
//			a := actor.Spawn(w.System(), "a", newAccount)
//			...
//			w.Always("the sum is 100", func() error { ... })
//		})
//	}
//
// A failure names the seed and the command that replays it, and the few choices that it
// needs: the schedule is shrunk. The guide is docs/guides/simulation.md.
//
// # What a run is
//
// Check calls the function once for each run, in a bubble of [testing/synctest]: the time,
// that of package time as well, stands still while there is something to do, and then
// jumps to the next timer. The function is the script: what it tells, asks and spawns is
// done there and then, and while it waits ([actor.Ask], [World.Advance], [World.Settle])
// steps are run. When it returns the world comes to rest and shuts its systems down, which
// must succeed and leave nothing behind.
//
// # What can be simulated
//
// Whatever actors do by way of package actor: messages, asks, timers, Sleep, Pipe, watches,
// supervision, and contexts. A handler must not start a goroutine, wait for a channel or a
// lock that another step has to free, or talk to the world outside: a goroutine and a socket
// are refused where they are seen, and whatever else differs from one run to the next with
// the same seed (a global random number, the order of a map) is found by running some of the
// seeds twice. The guide has the list of what is seen and how.
// time.Sleep in a handler or a Pipe lets all of the world's time pass at once: use
// [actor.Context.Sleep].
//
// Data races and the memory model are not simulated: run the same test with the ordinary
// scheduler and the race detector for these.
package sim
