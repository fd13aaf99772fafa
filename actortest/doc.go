// Package actortest runs a real actor system inside a bubble of [testing/synctest]:
// time is virtual, nothing sleeps, and that no message comes is a fact and not a
// timeout. It is for the tests of actors, and uses the standard library only.
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
// A [Probe] is an actor that writes down what it is sent. Its expectations first let
// the system come to rest, and then look: [Probe.Expect] compares the next message
// and shows what differs, [ExpectMsg] takes the next message if it is of a type,
// [Probe.ExpectNone] says that there is none. A request stays unanswered until the
// test calls [Reply] or [Reject]; [Probe.Handle] answers at once.
//
// [Probe.ExpectAll] says what came, no more and no less, and [Probe.At] when. With [Do] a
// probe does what only an actor can: it watches, subscribes, sets a timer. [Events] makes
// a probe of what happens in the system. A [Gate] makes an actor busy, so that its mailbox
// fills. A [Journal] is for what is not a message.
//
// [Ask] asks without holding up the test, so that the test can answer what the asked
// actor asks in its turn. [ExpectDown], [ExpectDeadLetter] and [Kit.ExpectFailures] are
// for the ends of actors, for messages that nobody handled, and for failures.
//
// # What a test fails for at its end
//
// When the function given to [Run] returns, the system is shut down. The test fails,
// and says who and why, when an actor has failed and the test has not said that it
// may, when an actor does not stop, and when a goroutine or a timer of the system is
// left. A test that fails prints the system's log, with virtual times.
//
// # What a bubble cannot do
//
// Virtual time stands still while anything in the bubble runs or waits for something
// outside of it: a socket, a file, a mutex or a channel made before Run. Do not use
// these in an actor under test. For benchmarks, and for what needs the machine's own
// clock, there is [NewSystem]. A kit is for the goroutine of its test: only that one
// calls its functions and methods, except Context, Elapsed, Log, System, Ref, Addf and Pass.
package actortest
