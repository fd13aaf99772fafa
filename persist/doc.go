// Package persist makes ordinary actors durable: an actor is still itself after a crash.
//
//	type Cart struct {
//		persist.Events[CartEvent]
//		items map[string]int
//	}
//
//	func (c *Cart) Apply(e CartEvent) { ... } // changes the state, and does nothing else
//
//	func (c *Cart) Receive(ctx *actor.Context[CartMsg], m CartMsg) error {
//		...
//		c.Record(Added{m.SKU, m.N})          // applied now, durable before the answer leaves
//		actor.Reply(ctx, m, c.items[m.SKU])
//		return nil
//	}
//
//	p, err := persist.Open(ctx, sys, journal, persist.Config{Types: types})
//	cart := persist.Spawn(p, sys, "cart-42", NewCart)
//
// An actor embeds [Events] and records events, or embeds [Durable] and saves its state. What a
// handler sends or answers leaves when the handler has returned and all that the actor has
// recorded up to then is durable: nobody outside sees an effect that a crash takes back.
// [Spawn] says more. Many actors share one commit.
//
// An actor with a long history has the methods Snapshot and Restore as well, see [Events]. What
// the journal has of an actor is replayed by [Verify], for tests; codectest.Golden shows that
// today's types read what each release has written.
//
// What an actor sends to another one with [Events.Send] is part of what it records: it arrives,
// once in effect, whatever crashes. [Events.Remind] has it get a message at a time. A view of the
// events of many actors is made with [Persistence.Project]; [Persistence.Changes] yields them as they
// are committed, and [Persistence.Erase] forgets an id.
//
// A [Journal] is where it is kept: package memory has one for tests, package sqlite one in a
// directory, package postgres one in a database and package jetstream one in a stream, which several
// processes can write to; package journaltest is the conformance suite.
package persist
