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
// The name of a system is the name of its node. Both nodes must have registered the types of
// messages, see package codec; answers to asks need not be registered if CBOR can reproduce them.
//
// # What is promised
//
// A message takes effect at most once. Messages, asks, answers, Downs and exits from one actor to
// another keep their order. A broken connection is made again: within [Config.ResumeWithin] nothing
// is lost. After that the node is lost: each open ask ends with [actor.ErrUnreachable], each watch
// gets a Down with the reason [actor.NoConnection], links exit, and unconfirmed messages become
// dead letters. Nothing is ever sent to a lost incarnation of a node again; its process has to be
// restarted.
//
// It is not promised that a message arrives: where that matters, ask. Nor is there an order between
// several senders. A cycle of asks across nodes is not detected: it ends when the asks time out.
package remote
