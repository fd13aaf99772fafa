package jetstream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

// serve starts a server that syncs each message.
func serve(dir string, port int, change ...func(*server.Options)) (*server.Server, error) {
	opts := &server.Options{
		Host: "127.0.0.1", Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: dir, SyncAlways: true,
	}
	for _, f := range change {
		f(opts)
	}
	s, err := server.NewServer(opts)
	if err != nil {
		return nil, err
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		return nil, errors.New("the server does not start")
	}
	return s, nil
}

func startServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	s, err := serve(t.TempDir(), server.RANDOM_PORT, change...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func connect(t testing.TB, s *server.Server) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func open(t testing.TB, conn *nats.Conn, stream string) *Journal {
	t.Helper()
	j, err := Open(t.Context(), conn, Options{Stream: stream})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var mu sync.Mutex
	streams := map[string]string{} // of the directories that the suite names
	conns := map[persist.Journal]*nats.Conn{}
	journaltest.Run(t, journaltest.Store{
		Open: func(t *testing.T, dir string) persist.Journal {
			mu.Lock()
			defer mu.Unlock()
			if streams[dir] == "" {
				streams[dir] = fmt.Sprint("journal", len(streams))
			}
			conn := connect(t, s)
			j := open(t, conn, streams[dir])
			conns[j] = conn
			return j
		},
		Crash: func(_ *testing.T, j persist.Journal, _ string) {
			mu.Lock()
			defer mu.Unlock()
			conns[j].Close()
		},
		Shared: true,
	})
}

// owned is a journal with a server of its own, which ends with it.
type owned struct {
	*Journal
	conn *nats.Conn
	s    *server.Server
}

func openOwned(ctx context.Context, dir string) (*owned, error) {
	s, err := serve(dir, server.RANDOM_PORT)
	if err != nil {
		return nil, err
	}
	conn, err := nats.Connect(s.ClientURL())
	if err != nil {
		return nil, err
	}
	j, err := Open(ctx, conn, Options{})
	return &owned{j, conn, s}, err
}

func (j *owned) Close() error {
	j.conn.Close()
	j.s.Shutdown()
	j.s.WaitForShutdown()
	return j.Journal.Close()
}

func TestMain(m *testing.M) {
	journaltest.Child(func(ctx context.Context, address string) (persist.Journal, error) {
		if !strings.HasPrefix(address, "nats:") {
			return openOwned(ctx, address)
		}
		conn, err := nats.Connect(address)
		if err != nil {
			return nil, err
		}
		return Open(ctx, conn, Options{})
	})
	os.Exit(m.Run())
}

func TestKilledProcessLosesNothingThatWasDurable(t *testing.T) {
	t.Parallel() // it waits for another process
	s := startServer(t)
	conn := connect(t, s)
	journaltest.Kill(t, s.ClientURL(), soaktest.Rounds(t, 1, 50), func(t *testing.T) persist.Journal { return open(t, conn, "") })
}

func TestKilledServerLosesNothingThatWasDurable(t *testing.T) {
	t.Parallel() // it waits for another process
	dir := t.TempDir()
	journaltest.Kill(t, dir, soaktest.Rounds(t, 1, 50), func(t *testing.T) persist.Journal {
		j, err := openOwned(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return j
	})
}

// unheard is an acknowledgement that is lost.
func unheard(uint64, place, []byte) error { return nil }

func batch(number uint64, id string, after uint64, texts ...string) *persist.Batch {
	a := persist.Append{ID: id, After: after}
	for _, text := range texts {
		a.Events = append(a.Events, persist.Payload{Type: "e", Data: []byte(text)})
	}
	return &persist.Batch{Number: number, Appends: []persist.Append{a}}
}

func expectEvents(t *testing.T, j *Journal, id string, want ...string) {
	t.Helper()
	page, err := j.Events(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range page {
		got = append(got, string(r.Data))
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s has %q, want %q", id, got, want)
	}
}

// A message arrives and its acknowledgement does not: the same batch again is there once, with the
// same refusals.
func TestCommitWhoseAnswerIsLostIsThereOnce(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j, other := open(t, connect(t, s), ""), open(t, connect(t, s), "")
	b := batch(1, "a", 0, "1")
	b.Appends = append(b.Appends, batch(1, "b", 7, "wrong").Appends...)
	if err := j.publish(t.Context(), &frame{Batch: b}, unheard); err != nil {
		t.Fatal(err)
	}
	j.unsure = true // as after an error
	if err := other.Commit(t.Context(), batch(1, "a", 1, "2")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil || !errors.Is(b.Appends[1].Err, persist.ErrConflict) {
			t.Fatalf("%v, %v, %v", err, b.Appends[0].Err, b.Appends[1].Err)
		}
	}
	if err := j.publish(t.Context(), &frame{Batch: b}, unheard); err != nil { // it was on its way all the time
		t.Fatal(err)
	}
	expectEvents(t, j, "a", "1", "2")
	expectEvents(t, open(t, connect(t, s), ""), "a", "1", "2")
	if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
		t.Errorf("%v, %v", err, b.Appends[0].Err)
	}
}

// A stream takes no more than 1000 consumers at a time: then no journal could be opened.
func TestReadersLeaveNoConsumers(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) { o.SyncAlways = false })
	writer, reader := open(t, connect(t, s), ""), open(t, connect(t, s), "")
	const reads = 10
	for n := range uint64(reads * (fewMessages + 1)) {
		if err := writer.Commit(t.Context(), batch(n+1, "a", n, "x")); err != nil {
			t.Fatal(err)
		}
		if n%(fewMessages+1) == fewMessages {
			if _, err := reader.Ends(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	open(t, connect(t, s), "")
	ctx, cancel := context.WithTimeout(t.Context(), patience/2) // their deletion is not waited for
	defer cancel()
	for {
		info, err := reader.stream.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Consumers == 0 {
			return
		}
		if pause.For(ctx, time.Millisecond) != nil {
			t.Fatalf("the stream has %d consumers after %d reads, want none", info.State.Consumers, reads+1)
		}
	}
}

// An owner that was stopped in the middle of a commit wakes up after its shard was claimed.
func TestOwnerThatWakesAfterAMoveIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	old, owner := open(t, connect(t, s), ""), open(t, connect(t, s), "")
	b := batch(1, "a", 0, "of the old one")
	b.Appends[0].Shard, b.Appends[0].Epoch = "s", 1
	end, err := old.begin(t.Context()) // it has read the log, and stops here
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Claim(t.Context(), "s", 2); err != nil {
		t.Fatal(err)
	}
	if err := old.send(t.Context(), &frame{Batch: b}); err != nil {
		t.Fatal(err)
	}
	end()
	if err := old.Commit(t.Context(), b); err != nil || !errors.Is(b.Appends[0].Err, persist.ErrFenced) {
		t.Errorf("%v, %v", err, b.Appends[0].Err)
	}
	expectEvents(t, owner, "a")
}

// A reader of the same process can be the first to read what a commit has published, and what others
// have published after it.
func TestCommitsBesideReadersAndOtherWritersAreHeard(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	var writers, readers sync.WaitGroup
	written := make(chan struct{})
	for w := range 2 {
		j, id := open(t, connect(t, s), ""), fmt.Sprint("w", w)
		writers.Go(func() {
			for n := range uint64(100) {
				b := batch(n+1, id, n, "x")
				if err := j.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
					t.Errorf("%s, commit %d: %v, %v", id, n+1, err, b.Appends[0].Err)
					return
				}
			}
		})
		readers.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
				}
				if _, err := j.Ends(t.Context()); err != nil {
					t.Errorf("%s, ends: %v", id, err)
					return
				}
			}
		})
	}
	writers.Wait()
	close(written)
	readers.Wait()
}

// A process dies between two messages of a batch, and another one between two of its own.
func TestBatchThatIsNotWholeIsNotThere(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := open(t, connect(t, s), "")
	half := open(t, connect(t, s), "")
	long := strings.Repeat("x", 3*half.chunk)
	for piece := range 2 {
		if _, err := half.publishPiece(t.Context(), place{opening: half.opening, frame: 1, piece: piece, of: 3}, []byte(long[:half.chunk])); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Commit(t.Context(), batch(1, "a", 0, "1")); err != nil {
		t.Fatal(err)
	}
	expectEvents(t, j, "a", "1")
	b := batch(1, "b", 0, long) // the number is free still
	if err := half.Commit(t.Context(), b); err != nil || b.Appends[0].Err != nil {
		t.Fatal(err, b.Appends[0].Err)
	}
	expectEvents(t, j, "b", long)
	expectEvents(t, open(t, connect(t, s), ""), "a", "1")
}

// startStreams starts a server for tests that make its streams.
func startStreams(t *testing.T) (*nats.Conn, jetstream.JetStream) {
	t.Helper()
	conn := connect(t, startServer(t))
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	return conn, js
}

func TestStreamsThatForgetAreRefused(t *testing.T) {
	t.Parallel()
	conn, js := startStreams(t)
	for want, cfg := range map[string]jetstream.StreamConfig{
		"in memory":           {Storage: jetstream.MemoryStorage},
		"retention":           {Retention: jetstream.WorkQueuePolicy},
		"by age":              {MaxAge: time.Hour},
		"discard must be new": {MaxMsgs: 10},
		"2048 bytes, not 512": {MaxMsgSize: 512},
		"may lag behind":      {AllowDirect: true},
		"one subject":         {Subjects: []string{"other"}},
	} {
		cfg.Name = strings.NewReplacer(" ", "_", ",", "").Replace(want)
		if cfg.Subjects == nil {
			cfg.Subjects = []string{cfg.Name + ".x"}
		}
		if _, err := js.CreateStream(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), conn, Options{Stream: cfg.Name}); !errors.Is(err, ErrStream) || !strings.Contains(err.Error(), want) {
			t.Errorf("want ErrStream with %q, got %v", want, err)
		}
	}
	for name, c := range map[string]struct{ header, want string }{
		"foreign": {"", "its header Greenroom-Frame is \"\" and not that of a journal"},
		"earlier": {"1f 2e 0 1", "an earlier version of Greenroom has written it"},
	} {
		if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".x"}}); err != nil {
			t.Fatal(err)
		}
		m := nats.NewMsg(name + ".x")
		if c.header != "" {
			m.Header.Set(header, c.header)
		}
		if _, err := js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), conn, Options{Stream: name}); !errors.Is(err, ErrStream) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: want ErrStream with %q, got %v", name, c.want, err)
		}
	}
}

func TestServerThatTakesOnlySmallMessagesIsRefused(t *testing.T) {
	t.Parallel()
	s := startServer(t, func(o *server.Options) { o.MaxPayload = 512 })
	want := "max_payload of the server must be at least 2048 bytes, not 512"
	if _, err := Open(t.Context(), connect(t, s), Options{}); !errors.Is(err, ErrStream) || !strings.Contains(err.Error(), want) {
		t.Errorf("want ErrStream with %q, got %v", want, err)
	}
}

// A frame is cut so that its messages fit into the limit of the stream, with their headers.
func TestBatchFitsIntoTheMessagesOfItsStream(t *testing.T) {
	t.Parallel()
	conn, js := startStreams(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "small", Subjects: []string{"small.x"}, MaxMsgSize: leastMessage}); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 3*leastMessage)
	if err := open(t, conn, "small").Commit(t.Context(), batch(1, "a", 0, long)); err != nil {
		t.Fatal(err)
	}
	expectEvents(t, open(t, conn, "small"), "a", long)
}

// What is read at the place of a message that the server acknowledges must be that message.
func TestAcknowledgementOfAnotherMessageIsALoss(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := open(t, connect(t, s), "")
	if err := j.Commit(t.Context(), batch(1, "a", 0, "1")); err != nil {
		t.Fatal(err)
	}
	if err := j.heard(t.Context(), 1, place{opening: j.opening, frame: 1, of: 1}, nil); !errors.Is(err, ErrLost) {
		t.Errorf("heard: %v", err)
	}
	if _, err := j.Ends(t.Context()); !errors.Is(err, ErrLost) {
		t.Errorf("ends: %v", err)
	}
}

// makeAnew opens a journal whose stream was just deleted. The server answers a deletion before it has let go of the
// stream's directory, and refuses to create the store of a new one meanwhile.
func makeAnew(t testing.TB, conn *nats.Conn) {
	t.Helper()
	var err error
	for range 1000 {
		if _, err = Open(t.Context(), conn, Options{}); err == nil {
			return
		}
		if !strings.Contains(err.Error(), "error creating store for stream") {
			break
		}
	}
	t.Fatal(err)
}

func TestStreamThatHasLostMessagesIsNotWrittenToAnyMore(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	conn := connect(t, s)
	j := open(t, conn, "")
	if err := j.Commit(t.Context(), batch(1, "a", 0, "1")); err != nil {
		t.Fatal(err)
	}
	if err := j.js.DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	makeAnew(t, conn)
	for _, want := range []error{jetstream.ErrNoStreamResponse, ErrLost} {
		if err := j.Commit(t.Context(), batch(2, "a", 1, "2")); !errors.Is(err, want) {
			t.Errorf("commit: %v", err)
		}
	}
	if _, err := j.Load(t.Context(), []string{"a"}); !errors.Is(err, ErrLost) {
		t.Errorf("load: %v", err)
	}
}

func TestServerThatComesBackIsGoneOnWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := serve(dir, server.RANDOM_PORT)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := nats.Connect(s.ClientURL(), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	j := open(t, conn, "")
	if err := j.Commit(t.Context(), batch(1, "a", 0, "1")); err != nil {
		t.Fatal(err)
	}
	port := s.Addr().(*net.TCPAddr).Port
	s.Shutdown()
	s.WaitForShutdown()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	b := batch(2, "a", 1, "2")
	if err := j.Commit(ctx, b); err == nil {
		t.Error("a commit without a server has succeeded")
	}
	if s, err = serve(dir, port); err != nil {
		t.Fatal(err)
	}
	defer s.Shutdown()
	ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err = j.Commit(ctx, b); err != nil && ctx.Err() == nil; err = j.Commit(ctx, b) {
		t.Log(err)
	}
	if err != nil || b.Appends[0].Err != nil {
		t.Fatal(err, b.Appends[0].Err)
	}
	expectEvents(t, j, "a", "1", "2")
}
