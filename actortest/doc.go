// Package actortest runs a real actor system inside a [testing/synctest] bubble: time is
// virtual, nothing sleeps, and "no message arrives" is a fact, not a timeout. It is for
// testing actors, and uses only the standard library.
//
//	func TestAReminderComesAfterAnHour(t *testing.T) {
//		actortest.Run(t, func(k *actortest.Kit) {
//			inbox := actortest.NewProbe[Reminder](k)
//			clerk := actor.Spawn(k.System(), "clerk", NewClerk(inbox.Ref()))
//
//			clerk.Tell(k.Context(), RemindMe{After: time.Hour, Text: "tea"})
//			k.Advance(59 * time.Minute)
//			inbox.ExpectNone()
//			k.Advance(time.Minute)
//			inbox.Expect(Reminder{Text: "tea"})
//		})
//	}
//
// # Probes
//
// A [Probe] is an actor that records the messages it gets. Its expectations first wait
// until every actor is idle: [Probe.Expect] compares the next message and shows the
// difference, [ExpectMsg] takes the next message and checks its type, and
// [Probe.ExpectNone] checks that there is none. A request stays unanswered until the test
// calls [Reply] or [Reject]; [Probe.Handle] answers at once.
//
// [Probe.ExpectAll] compares all messages, and [Probe.At] returns when the last one came. With [Do]
// a probe does what only an actor can do: watch, subscribe, set a timer. [Events] returns a probe
// that gets the system's events. A [Gate] keeps an actor busy, so that its mailbox fills. A
// [Journal] records what is not a message.
//
// [Ask] does not block the test, so that the test can answer what the asked actor asks in
// turn. [ExpectDown], [ExpectDeadLetter] and [Kit.ExpectFailures] are for the end of
// actors, for messages that nobody handled, and for failures.
//
// # What fails a test at its end
//
// When the function given to [Run] returns, the system is shut down. The test fails if an
// actor has failed unexpectedly, if an actor does not stop, or if a goroutine or a timer of
// the system is left. A failing test prints the system's log, with virtual times.
//
// # What a bubble cannot do
//
// Virtual time stands still while anything in the bubble runs or waits for something
// outside of it: a socket, a file, a mutex or a channel made before Run. Do not use
// these in an actor under test. For benchmarks, and for tests that need the real clock, use
// [NewSystem]. A kit belongs to the goroutine of its test: only that goroutine may call its
// functions and methods, except Context, Elapsed, Log, System, Ref, Addf and Pass.
package actortest
