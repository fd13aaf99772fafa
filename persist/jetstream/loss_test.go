package jetstream

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/persist"
)

// loseAfter has the stream keep its first messages only, as a server that has lost what it had
// acknowledged.
func loseAfter(t *testing.T, j *Journal, kept uint64) {
	t.Helper()
	info, err := j.stream.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var list []*nats.Msg
	for n := range kept {
		m, err := j.stream.GetMsg(t.Context(), n+1)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, &nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data})
	}
	if err := j.js.DeleteStream(t.Context(), DefaultStream); err != nil {
		t.Fatal(err)
	}
	_, err = j.js.CreateStream(t.Context(), info.Config)
	for tries := 0; err != nil && tries < 100; tries++ { // the server removes the files of the deleted one beside
		_ = pause.For(t.Context(), 20*time.Millisecond)
		_, err = j.js.CreateStream(t.Context(), info.Config)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if _, err := j.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
}

// lossy returns a journal that has read two messages of which the second was lost, and another one
// that was opened after that and has written one in its place.
func lossy(t *testing.T) (old, other *Journal) {
	t.Helper()
	s := startServer(t)
	old = open(t, connect(t, s), "")
	for n := range uint64(2) {
		if err := old.Commit(t.Context(), batch(n+1, "a", n, "of the old one")); err != nil {
			t.Fatal(err)
		}
	}
	loseAfter(t, old, 1)
	other = open(t, connect(t, s), "")
	if err := other.Commit(t.Context(), batch(1, "a", 1, "of the other one")); err != nil {
		t.Fatal(err)
	}
	return old, other
}

func expectLost(t *testing.T, j *Journal) {
	t.Helper()
	if _, err := j.Load(t.Context(), []string{"a"}); !errors.Is(err, ErrLost) {
		t.Errorf("load: %v, want ErrLost", err)
	}
	if err := j.Commit(t.Context(), batch(9, "a", 2, "late")); !errors.Is(err, ErrLost) {
		t.Errorf("commit: %v, want ErrLost", err)
	}
}

// What a process writes that knows what is lost has no effect for the others, and that process finds
// out when it reads what they have written.
func TestWhatWasLostAndFilledIsNotBuiltUpon(t *testing.T) {
	t.Parallel()
	old, other := lossy(t)
	if err := old.Commit(t.Context(), batch(3, "a", 2, "on what was lost")); err != nil {
		t.Fatal(err) // it cannot know yet
	}
	expectEvents(t, other, "a", "of the old one", "of the other one")
	if err := other.Commit(t.Context(), batch(2, "a", 2, "on what is there")); err != nil {
		t.Fatal(err)
	}
	expectEvents(t, other, "a", "of the old one", "of the other one", "on what is there")
	expectEvents(t, open(t, other.conn, ""), "a", "of the old one", "of the other one", "on what is there")
	expectLost(t, old)
}

// A server that was away may have lost something: what was read is compared with what it has.
func TestAConnectionThatWasMadeAnewIsVerified(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(j *Journal) error{
		"by a commit": func(j *Journal) error { return j.Commit(t.Context(), batch(3, "b", 0, "x")) },
		"by a read": func(j *Journal) error {
			_, err := j.Ends(t.Context())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			old, _ := lossy(t)
			old.verified-- // as if the connection had been made anew
			if err := find(old); !errors.Is(err, ErrLost) {
				t.Errorf("%v, want ErrLost", err)
			}
			expectLost(t, old)
		})
	}
}

// To look whether something is lost one message is enough, however long the stream is.
func TestAConnectionThatWasMadeAnewReadsNoMoreThanTheLastMessage(t *testing.T) {
	t.Parallel()
	j := open(t, connect(t, startServer(t)), "")
	for n := range uint64(2 * fewMessages) {
		if err := j.Commit(t.Context(), batch(n+1, "a", n, "x")); err != nil {
			t.Fatal(err)
		}
	}
	s := &countingStream{Stream: j.stream}
	j.stream = s
	j.verified--
	if _, err := j.Ends(t.Context()); err != nil || s.messages != 1 || s.consumers != 0 {
		t.Errorf("it has read %d messages, and %d times all of them; %v", s.messages, s.consumers, err)
	}
}

// What waits for the server holds up nobody who does not wait for it, nor longer than it wants to.
func TestWhoReadsWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	j := open(t, connect(t, startServer(t)), "")
	j.reading <- struct{}{} // somebody waits for an answer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := j.Ends(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ends: %v", err)
	}
	ends := make(chan error)
	for range 3 {
		go func() {
			_, err := j.Ends(t.Context())
			ends <- err
		}()
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	<-j.reading
	for range 3 {
		if err := <-ends; !errors.Is(err, persist.ErrClosed) {
			t.Errorf("ends: %v", err)
		}
	}
}

// countingStream counts the questions.
type countingStream struct {
	jetstream.Stream
	infos, messages, consumers int
}

func (s *countingStream) GetMsg(ctx context.Context, seq uint64, opts ...jetstream.GetMsgOpt) (*jetstream.RawStreamMsg, error) {
	s.messages++
	return s.Stream.GetMsg(ctx, seq, opts...)
}

func (s *countingStream) CreateConsumer(ctx context.Context, c jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	s.consumers++
	return s.Stream.CreateConsumer(ctx, c)
}

func (s *countingStream) Info(ctx context.Context, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	s.infos++
	return s.Stream.Info(ctx, opts...)
}

func TestOneReadsForAllThatWait(t *testing.T) {
	t.Parallel()
	j := open(t, connect(t, startServer(t)), "")
	s := &countingStream{Stream: j.stream}
	j.stream = s
	j.reading <- struct{}{}
	const readers = 20
	ends := make(chan error)
	for range readers {
		go func() {
			_, err := j.Ends(t.Context())
			ends <- err
		}()
	}
	for asked := uint64(0); asked < readers+1; { // with that of Open
		j.mu.Lock()
		asked = j.asked
		j.mu.Unlock()
	}
	<-j.reading
	for range readers {
		if err := <-ends; err != nil {
			t.Error(err)
		}
	}
	if s.infos != 1 {
		t.Errorf("the server was asked %d times", s.infos)
	}
}
