// Package streamread reads the messages of a JetStream stream in order, and leaves nothing behind on the server.
package streamread

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Options say how a stream is read.
type Options struct {
	First       uint64        // the sequence of the first message, at least 1
	HeadersOnly bool          // leave out the data of the messages
	Begin       time.Duration // how long the server has to begin
	Beat        time.Duration // how often it says that it is there while it has no message; at least 500 ms
	Next        time.Duration // how long the next message is waited for, 0 for as long as it takes
	Idle        time.Duration // how long the server keeps what it needs for the reader after it has heard nothing of it
}

// ErrGap says that a message is missing: it was lost on the way. ErrReconnected says that the connection is made anew:
// what the server has written to the former one counts as delivered, and does not come again.
var (
	ErrGap         = errors.New("a message is missing")
	ErrReconnected = errors.New("the connection to the server is made anew")
)

// Each calls see with each message of a stream, from the first one on and also with those that are still to come, until
// see returns false: then it returns nil. It fails when ctx ends, and with the first thing that goes wrong; whoever
// wants to go on begins after the last message that see has got.
//
// Each consumer has a name of its own, unlike those that an ordered consumer of the client makes when it begins anew:
// one whose server was killed at that moment stays with that server, and all that is asked of that name waits for it.
// And it is deleted, which an ordered consumer that is stopped is not: a stream takes no more than 1000 at a time, and
// has each of those for five minutes.
func Each(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, o Options, see func(sequence uint64, m jetstream.Msg) bool) error {
	ctx, cancel := untilReconnected(ctx, js.Conn())
	defer cancel()
	err := each(ctx, js, stream, o, see)
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// untilReconnected returns a context that ends with [ErrReconnected] when the connection is made anew.
func untilReconnected(ctx context.Context, nc *nats.Conn) (until context.Context, cancel func()) {
	until, end := context.WithCancelCause(ctx)
	broken := nc.StatusChanged(nats.RECONNECTING)
	go func() {
		select {
		case <-broken: // or it is closed
			end(ErrReconnected)
		case <-until.Done():
		}
	}()
	return until, func() {
		end(nil)
		nc.RemoveStatusListener(broken)
	}
}

func each(ctx context.Context, js jetstream.JetStream, stream jetstream.Stream, o Options, see func(sequence uint64, m jetstream.Msg) bool) error {
	name := rand.Text()
	defer forget(js, stream.CachedInfo().Config.Name, name)
	soon, cancel := context.WithTimeout(ctx, o.Begin)
	defer cancel()
	consumer, err := stream.CreateConsumer(soon, jetstream.ConsumerConfig{
		Name: name, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: o.First, AckPolicy: jetstream.AckNonePolicy,
		HeadersOnly: o.HeadersOnly, Replicas: 1, MemoryStorage: true, InactiveThreshold: o.Idle,
	})
	if err != nil {
		return fmt.Errorf("make a consumer of the stream: %w", err)
	}
	messages, err := consumer.Messages(jetstream.PullHeartbeat(o.Beat), jetstream.WithMessagesErrOnMissingHeartbeat(true))
	if err != nil {
		return fmt.Errorf("ask for the messages of the stream: %w", err)
	}
	defer messages.Stop()
	for n := uint64(1); ; n++ {
		m, err := next(ctx, messages, o.Next)
		if err != nil {
			return fmt.Errorf("wait for a message of the stream: %w", err)
		}
		at, err := m.Metadata()
		switch {
		case err != nil:
			return err
		case at.Sequence.Consumer != n:
			return ErrGap
		case !see(at.Sequence.Stream, m):
			return nil
		}
	}
}

func next(ctx context.Context, messages jetstream.MessagesContext, within time.Duration) (jetstream.Msg, error) {
	if within > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, within)
		defer cancel()
	}
	return messages.Next(jetstream.NextContext(ctx))
}

// forget has the server delete a consumer, also one of which it is not known whether it was made. It does not wait for
// the answer: who stops to read may do so because there is none. A server that does not get this deletes the consumer
// when it was idle for long enough.
func forget(js jetstream.JetStream, stream, name string) {
	_ = js.Conn().Publish(jetstream.DefaultAPIPrefix+"CONSUMER.DELETE."+stream+"."+name, nil)
}
