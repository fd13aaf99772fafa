package actor_test

import (
	"context"
	"fmt"

	"github.com/greenroom-go/greenroom/actor"
)

// What several examples need, to show something else.

// busy prints the numbers that it is told. The first one, 0, keeps it busy until it is
// released.
type busy struct{ entered, release chan struct{} }

func newBusy() *busy { return &busy{make(chan struct{}), make(chan struct{})} }

func (b *busy) Receive(ctx *actor.Context[int], n int) error {
	fmt.Println("handles", n)
	if n == 0 {
		close(b.entered)
		return actor.Blocking(ctx, func() error { <-b.release; return nil })
	}
	return nil
}

// busyReader starts an actor with such a mailbox, and returns when it is busy.
func busyReader(sys *actor.System, mailbox ...actor.SpawnOption) (ref actor.Ref[int], release func()) {
	b := newBusy()
	ref = actor.Spawn(sys, "reader", func() *busy { return b }, mailbox...)
	ref.Tell(context.Background(), 0)
	<-b.entered
	return ref, func() { close(b.release) }
}

// tellAll tells an actor one message after the other, from outside.
func tellAll[M any](ref actor.Ref[M], msgs ...M) {
	for _, m := range msgs {
		ref.Tell(context.Background(), m)
	}
}
