// Package remote connects actor systems of different processes. An actor on another node is an
// [actor.Ref] like any other: it is told, asked, watched, linked and stopped, and what cannot be
// delivered is reported with its reason.
//
//	sys := actor.NewSystem("b")
//	node, err := remote.Listen(sys, remote.Config{
//		Addr: "10.0.0.2:7400", Secret: os.Getenv("SECRET"), Types: counter.Types,
//		Peers: map[string]string{"a": "10.0.0.1:7400"},
//	})
//	ref, err := remote.Find[counter.Msg](ctx, node, "a", "/counter")
//	ref.Tell(ctx, counter.Add{3})
//	n, err := actor.Ask(ctx, ref, counter.Get{})
//
// The name of a system is that of its node. Messages are of types that both nodes have registered,
// see package codec; the answers to asks need not be registered if CBOR can give them back.
//
// # What is promised
//
// A message takes effect at most once, and messages of one actor to another keep their order,
// together with asks, answers, Downs and exits. A connection that breaks is made again: within
// [Config.ResumeWithin] nothing is lost. After that the node is lost: each open ask ends with
// [actor.ErrUnreachable], each watch with a Down for the reason [actor.NoConnection], links exit, and
// messages that were not confirmed are dead letters. An incarnation of a node that is lost is never
// spoken to again; its process has to be started anew.
//
// That a message arrives is not promised: ask, where that matters. Nor is an order between several
// senders, and that a cycle of asks over nodes is found: it ends with the asks' limits.
package remote
