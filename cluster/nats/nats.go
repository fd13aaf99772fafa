// Package nats provides an engine for package cluster on NATS with JetStream:
//
//	nc, err := nats.Connect("nats://10.0.0.1:4222,nats://10.0.0.2:4222", nats.MaxReconnects(-1)) // or package cluster/embedded
//	engine, err := clusternats.Open(ctx, nc, clusternats.Config{Stream: "GREENROOM", Replicas: 3})
//	member, err := cluster.Join(sys, cluster.Config{Engine: engine})
//
// Its map is a stream that keeps the last message of each subject. A value is put with the sequence
// that its subject must have, and read from the stream's leader, since other replicas may be out of
// date. The stream must not be deleted while there are members: they would not see later puts.
//
// By default, NATS's client gives up an unavailable server after two minutes, for good;
// MaxReconnects(-1) makes it keep trying. The client takes four minutes to notice that the host of
// a server has lost its power or is cut off, longer than any lease lasts. So if a call has no
// answer, the engine checks whether the connection answers at all, and if not makes the client
// connect to another server.
package nats

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/streamread"
)

// watchBeat is the interval of a server's heartbeats for a watch. The watch is restarted if none
// comes for twice that long: it is kept by one server, and no other reports that server's end.
const watchBeat = 500 * time.Millisecond

// watchAgain is how long a watch waits before it restarts, doubling up to watchAgainMost until it
// has seen something. watchWithin is how long it waits for the server to accept it, and watchIdle
// how long the server keeps a watch from which it hears nothing.
const (
	watchAgain     = 200 * time.Millisecond
	watchAgainMost = time.Second
	watchWithin    = time.Second
	watchIdle      = 30 * time.Second
)

// putAgain is how long a put waits for the previous one before it retries, and putAgainWithin how
// long in total.
const (
	putAgain       = time.Millisecond
	putAgainWithin = 5 * time.Second
)

// pingWithin is the time within which a connection has to answer a ping after a call without an
// answer. A lease could not be renewed over a slower connection.
const pingWithin = 2 * time.Second

// createAgain is how long Open waits before it asks servers again to make the stream.
const createAgain = 100 * time.Millisecond

// maxMessage bounds a message of the stream, in bytes: a value with its headers.
const maxMessage = cluster.MaxValue + 4<<10

// Config says where an engine keeps its map. The zero value works with a single server, or with a
// cluster of servers without replicas.
type Config struct {
	// Stream is the name of the stream; it defaults to GREENROOM_CLUSTER. The stream is created if
	// it does not exist. All members use the same stream, and nobody else may use it.
	Stream string
	// Replicas is how many servers have the stream; it defaults to 1. With 1 the members wait while
	// that server is unavailable; with 3 one of the three may be unavailable.
	Replicas int
	// Log gets watches that fail; it defaults to slog.Default.
	Log *slog.Logger
}

// Engine is a cluster.Engine. [Open] makes one. It has nothing to close: its watches end when they are
// stopped, and the connection is the caller's.
type Engine struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	prefix  string // of subjects
	log     *slog.Logger
	pinging atomic.Bool // somebody sees whether the connection answers
}

var _ cluster.Engine = (*Engine)(nil)

// Open returns the engine on that stream, and creates the stream if it does not exist. It waits for
// the server as long as ctx lasts. It fails if the stream keeps more than the last message of a
// subject, or answers from its replicas.
func Open(ctx context.Context, nc *nats.Conn, cfg Config) (*Engine, error) {
	name := cmp.Or(cfg.Stream, "GREENROOM_CLUSTER")
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, fmt.Errorf("open the stream %q: %w", name, err)
	}
	stream, err := create(ctx, js, jetstream.StreamConfig{
		Name: name, Subjects: []string{name + ".*"}, Replicas: max(1, cfg.Replicas),
		MaxMsgsPerSubject: 1, MaxMsgSize: maxMessage, Discard: jetstream.DiscardNew, AllowDirect: false,
		Description: "the members of a cluster of Greenroom, and who has what",
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // with another configuration
		stream, err = js.Stream(ctx, name)
	}
	if err != nil {
		return nil, fmt.Errorf("open the stream %q: %w", name, err)
	}
	switch has := stream.CachedInfo().Config; {
	case has.MaxMsgsPerSubject != 1:
		return nil, fmt.Errorf("open the stream %q: it keeps %d messages of a subject, and must keep 1", name, has.MaxMsgsPerSubject)
	case has.AllowDirect:
		return nil, fmt.Errorf("open the stream %q: allow_direct must be off: a replica may answer with what is out of date", name)
	case len(has.Subjects) != 1 || has.Subjects[0] != name+".*":
		return nil, fmt.Errorf("open the stream %q: its subjects are %v, and must be %s.*", name, has.Subjects, name)
	}
	return &Engine{nc: nc, js: js, stream: stream, prefix: name + ".", log: cmp.Or(cfg.Log, slog.Default())}, nil
}

// Error codes of a cluster of servers while too few of them are available.
const (
	errCodeNoPeers     jetstream.ErrorCode = 10005
	errCodeUnavailable jetstream.ErrorCode = 10008
)

// create creates a stream. It waits for servers that are not available yet.
func create(ctx context.Context, js jetstream.JetStream, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	for {
		stream, err := js.CreateStream(ctx, cfg)
		if !refusedWith(err, errCodeNoPeers) && !refusedWith(err, errCodeUnavailable) {
			return stream, err
		}
		if pause.For(ctx, createAgain) != nil {
			return nil, err
		}
	}
}

// subject returns the subject of a key. A key may have characters that a subject may not.
func (e *Engine) subject(key string) string { return e.prefix + hex.EncodeToString([]byte(key)) }

// key is the inverse of subject.
func (e *Engine) key(subject string) (key string, ok bool) {
	text, err := hex.DecodeString(strings.TrimPrefix(subject, e.prefix))
	return string(text), err == nil
}

// Put implements cluster.Engine.
func (e *Engine) Put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	for began := time.Now(); ; {
		rev, err := e.put(ctx, key, value, was)
		// The leader of several replicas acknowledges a message before it takes the next one with that
		// subject, and refuses one that comes in between as if its sequence were wrong.
		if !refusedWith(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant) || time.Since(began) > putAgainWithin {
			return rev, err
		}
		if now, getErr := e.Get(ctx, key); getErr != nil && !errors.Is(getErr, cluster.ErrNotFound) || now.Revision != was {
			return rev, err
		}
		if pause.For(ctx, putAgain) != nil {
			return rev, err
		}
	}
}

// put is Put, except that it may report a conflict where there is none.
func (e *Engine) put(ctx context.Context, key string, value []byte, was cluster.Revision) (cluster.Revision, error) {
	if err := ctx.Err(); err != nil {
		return 0, fmt.Errorf("put %q: %w", key, err)
	}
	ack, err := e.js.PublishMsg(ctx, &nats.Msg{Subject: e.subject(key), Data: value}, jetstream.WithExpectLastSequencePerSubject(uint64(was)))
	switch {
	case err == nil:
		return cluster.Revision(ack.Sequence), nil
	case refusedWith(err, jetstream.JSErrCodeStreamWrongLastSequence), refusedWith(err, jetstream.JSErrCodeStreamWrongLastSequenceConstant):
		return 0, fmt.Errorf("put %q at %d: %w: %w", key, was, cluster.ErrConflict, err)
	default:
		e.suspect(err)
		return 0, fmt.Errorf("put %q: %w: %w", key, cluster.ErrUnsure, err)
	}
}

// refusedWith reports whether JetStream has refused something with that code.
func refusedWith(err error, code jetstream.ErrorCode) bool {
	refused, ok := errors.AsType[*jetstream.APIError](err)
	return ok && refused.ErrorCode == code
}

// Get implements cluster.Engine.
func (e *Engine) Get(ctx context.Context, key string) (cluster.Entry, error) {
	m, err := e.stream.GetLastMsgForSubject(ctx, e.subject(key))
	switch {
	case err == nil:
		return cluster.Entry{Key: key, Value: m.Data, Revision: cluster.Revision(m.Sequence)}, nil
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return cluster.Entry{}, fmt.Errorf("get %q: %w", key, cluster.ErrNotFound)
	default:
		e.suspect(err)
		return cluster.Entry{}, fmt.Errorf("get %q: %w", key, err)
	}
}

// suspect checks whether the connection is alive after a call without an answer, and gives it up if
// not. It does not wait for that.
func (e *Engine) suspect(err error) {
	if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, nats.ErrTimeout) || !e.nc.IsConnected() || !e.pinging.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer e.pinging.Store(false)
		ctx, cancel := context.WithTimeout(context.Background(), pingWithin)
		defer cancel()
		if e.nc.FlushWithContext(ctx) == nil || ctx.Err() == nil {
			return // or the client knows already
		}
		e.log.Warn("server does not answer: the client connects anew", slog.String("server", e.nc.ConnectedUrlRedacted()))
		_ = e.nc.ForceReconnect() // it fails if the user has closed it
	}()
}

// Watch implements cluster.Engine. It retries until the server accepts it, and resumes after what
// it has seen if it is interrupted, unless the connection was closed.
func (e *Engine) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	ended.Go(func() {
		last, delay := uint64(0), watchAgain
		for ctx.Err() == nil && !e.nc.IsClosed() {
			before := last
			err := e.follow(ctx, prefix, &last, see)
			if ctx.Err() != nil {
				return
			}
			if last > before {
				delay = watchAgain
			}
			e.log.Warn("watch of a cluster is tried again", slog.String("prefix", prefix), slog.String("error", err.Error()))
			_ = pause.For(ctx, delay)
			delay = min(2*delay, watchAgainMost)
		}
	})
	return func() {
		cancel()
		ended.Wait()
	}
}

// follow watches the stream after the sequence last, which it advances, until something fails.
func (e *Engine) follow(ctx context.Context, prefix string, last *uint64, see func(cluster.Entry)) error {
	return streamread.Each(ctx, e.js, e.stream, streamread.Options{
		First: *last + 1, Begin: watchWithin, Beat: watchBeat, Idle: watchIdle,
	}, func(sequence uint64, m jetstream.Msg) bool {
		*last = sequence
		if key, ok := e.key(m.Subject()); ok && strings.HasPrefix(key, prefix) && ctx.Err() == nil {
			see(cluster.Entry{Key: key, Value: m.Data(), Revision: cluster.Revision(sequence)})
		}
		return true
	})
}
