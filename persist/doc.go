// Package persist makes ordinary actors durable: their state survives a crash.
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
// handler sends or answers leaves once the handler has returned and everything that the actor has
// recorded up to then is durable, so nobody outside sees an effect that a crash takes back. See
// [Spawn] for more. Many actors share one commit.
//
// An actor with a long history also has the methods Snapshot and Restore, see [Events]. In tests,
// [Verify] replays what the journal has of an actor, and codectest.Golden shows that today's types
// can read what each release has written.
//
// A message that an actor sends with [Events.Send] is part of what it records: it arrives, and
// takes effect once, whatever crashes. [Events.Remind] sends the actor a message at a given time.
// [Persistence.Project] builds a view of the events of many actors, [Persistence.Changes] yields
// events as they are committed, and [Persistence.Erase] forgets an id.
//
// A [Journal] stores all of this: package memory has one for tests, and package sqlite one in a
// directory. Package postgres has one in a database and package jetstream one in a stream, to which
// several processes can write. Package journaltest is the conformance suite.
package persist
