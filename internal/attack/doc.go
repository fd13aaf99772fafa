// Package attack has a test that looks for a stall, a loss, a wrong deadlock or a wrong count in package
// actor, with random programs on the real scheduler. It has nothing else.
//
//	go test ./internal/attack                                          # some rounds of each mode
//	go test ./internal/attack -attack.time 10m -v                      # rounds with new seeds, mode after mode
//	go test ./internal/attack -attack.mode waits -attack.seed 0x2f -v  # 100 rounds of one seed
//
// Longer than 10 minutes also needs the -timeout of go test. GOMAXPROCS counts where it is set in the
// environment; otherwise rounds have 1 and 2 in turn. The tag invariants and the race detector find more.
//
// A round spawns actors whose options are drawn from its seed, and sends them letters from outside. A letter has
// a seed as well, which says what its handler does: send, ask, wait, spawn, stop, fail. The programs are the same
// for a seed, the interleaving is not. What must hold of all of them:
//
//   - every wait ends in time, counted by the ticks of a goroutine beside the system, which a busy machine slows down
//     as well; in a mode that is strict without the help of a timeout, since a cycle of waits is reported;
//   - an ask fails with ErrDeadlock only where a cycle can have been: who waits for whom is written down before a wait
//     begins and until it has ended, so that no cycle of the engine's is missing; every second program has none;
//   - an answer is that of its own request;
//   - a message is handled once or a dead letter once, and all add up to what Stats says;
//   - the messages of one sender come in order; one handler of an actor runs at a time; Terminate runs once, unless its
//     actor is killed; a watch has one Down and an AskThen one outcome;
//   - an actor that is killed, or has [actor.StopWithin] and is told to stop, ends although its handler clings, and what
//     such a handler does then has no effect; each actor has one ActorStopped, and is Killed only if it was;
//   - the Report of Shutdown counts the dead letters, and names the handlers that the program knows to run, once;
//   - every future ends, for all who wait for it alike; a Gather has an answer of each, a PipeTo sends once, the work of a
//     Pipe is done once, and of a Later the first outcome counts;
//   - who is linked fails once with the other, and nobody else; a watch or a link that was taken back brings nothing; a
//     message comes to the handler of the last Become; a gate changes the time at which a message leaves, and nothing else;
//   - a timer is not early, comes to its own incarnation, once or each period, and not after it was canceled; Cancel says
//     whether there was one; none is left;
//   - in a bulkhead no more handlers compute than it has workers, but for those of actors that have waited in a way that
//     [actor.WithBulkhead] excepts; Priority and Conflate keep the order of one sender's messages of a rank or key;
//   - middleware, observers, an Ordered mailbox that is a plain line, and tools that look at the system while it runs
//     change nothing of all that;
//   - once nobody sends, all mailboxes become empty; Shutdown ends in time and leaves no goroutine.
//
// The same promises are checked by package sim under seeded schedules, and by its game on the real scheduler:
// that one has few actors and short timeouts, which hide a wait that would never end. Virtual and far actors have
// attacks of their own, in virtual and far.
package attack
