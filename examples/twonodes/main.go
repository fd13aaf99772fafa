// Twonodes is one program that runs as two nodes. The first has a counter:
//
//	twonodes -listen 127.0.0.1:7400
//
// The second one finds it, adds to it, asks for its sum, and watches it:
//
//	twonodes -peer 127.0.0.1:7400
//
// Kill the first one with kill -9: the second one is told, once the first has been away for longer
// than -resume. Stop it with ^C and start it anew within that time, and the second one is told at
// once: it is another incarnation.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

// msg is the protocol of the counter, which both nodes know.
type msg interface{ msg() }

type (
	add struct{ N int }
	sum struct{ actor.Returns[int] }
)

func (add) msg() {}
func (sum) msg() {}

// types are the names of the messages on the wire.
var types = codec.NewTypes(codec.Of[add]("counter.add"), codec.Of[sum]("counter.sum"))

type counter struct{ n int }

func newCounter() *counter { return &counter{} }

func (c *counter) Receive(ctx *actor.Context[msg], m msg) error {
	switch m := m.(type) {
	case add:
		c.n += m.N
	case sum:
		actor.Reply(ctx, m, c.n)
	}
	return nil
}

func main() {
	listen := flag.String("listen", "", "be the node with the counter, at this address")
	peer := flag.String("peer", "", "be the other node; the address of the first")
	resume := flag.Duration("resume", 10*time.Second, "how long the other node may be away")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	var err error
	if *listen != "" {
		err = serve(ctx, os.Stdout, remote.Config{Addr: *listen, Types: types, ResumeWithin: *resume})
	} else {
		err = use(ctx, os.Stdout, remote.Config{Peers: map[string]string{"a": *peer}, Types: types, ResumeWithin: *resume})
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve is the node with the counter. It ends with ctx.
func serve(ctx context.Context, out io.Writer, c remote.Config) error {
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	actor.Spawn[msg](sys, "counter", newCounter)
	node, err := remote.Listen(sys, c)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "node a listens at", node.Addr())
	<-ctx.Done()
	_, err = sys.Shutdown(context.Background())
	return err
}

// use is the other node. It ends when the counter has ended.
func use(ctx context.Context, out io.Writer, c remote.Config) error {
	sys := actor.NewSystem("b", actor.WithLogger(slog.New(slog.DiscardHandler)))
	defer func() { _, _ = sys.Shutdown(context.Background()) }()
	node, err := remote.Listen(sys, c)
	if err != nil {
		return err
	}
	ref, err := remote.Find[msg](ctx, node, "a", "/counter")
	if err != nil {
		return err
	}
	ended := make(chan actor.Down, 1)
	defer sys.AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })()
	ref.Tell(ctx, add{3})
	ref.Tell(ctx, add{4})
	n, err := actor.Ask(ctx, ref, sum{}) // its answer comes after all of this, the watch too, has arrived
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s of node %s has %d\n", ref.PID().Path(), ref.PID().Node(), n)
	select {
	case end := <-ended:
		fmt.Fprintln(out, "it has ended:", end.Reason)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	_, err = actor.Ask(ctx, ref, sum{})
	fmt.Fprintln(out, "asked again:", err)
	return nil
}
