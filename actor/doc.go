// Package actor runs many small stateful things at once: each is an actor, a
// state and a mailbox with an address, handled by one goroutine at a time and
// supervised when it fails. It uses the standard library only.
//
//	type Greet struct{ Who string }
//
//	sys := actor.NewSystem("hello")
//	defer sys.Shutdown(context.Background())
//
//	greeter := actor.SpawnFunc(sys, "greeter", func(ctx *actor.Context[Greet], m Greet) error {
//		fmt.Println("hello", m.Who)
//		return nil
//	})
//	greeter.Tell(context.Background(), Greet{"Roger"})
//
// An actor has no goroutine of its own. While its mailbox is empty it waits in the
// green room: a small struct and nothing else. A message puts it into a run queue, a
// worker of the system's pool takes it, gives it a turn to handle messages, and
// releases it.
//
// # What it promises
//
//   - A tell never blocks and is delivered at most once. What is not handled,
//     because its target stopped, was killed or never existed, becomes a
//     [DeadLetter] with its [Reason].
//   - Messages from one sender to one receiver arrive in the order of sending,
//     [Down] notes included.
//   - One handler of an actor runs at a time, and what it wrote is visible to the
//     next one. Init and Terminate run under the same rule.
//   - An error or a panic in a handler is a failure of that actor alone: its
//     supervisor decides. The reference and the mailbox survive a restart, the
//     state does not, and the failed message is not delivered again.
//   - An ask ends exactly once: with the answer, the handler's error, or an error
//     that says why there will be no answer.
//   - A timer is never early, and one that was canceled is not delivered.
//
// # When not to use an actor
//
// A value that one goroutine owns needs none. A cache that many read and few
// write is a map with a mutex. A stateless piece of work is a goroutine.
//
// Messages are passed as they are, without a copy: after sending a pointer, a slice or a
// map, a sender must not change what it refers to.
package actor
