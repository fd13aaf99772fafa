package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
)

// DefaultStream is the name of the stream if [Options] name none.
const DefaultStream = "greenroom_journal"

// Options configures a journal. The zero value has sensible defaults.
type Options struct {
	// Stream is the name of the stream, which is created if it does not exist: letters, digits, '_'
	// and '-'. Its subject begins with that name; the rest is the identity of the journal. It
	// defaults to DefaultStream.
	Stream string

	// Replicas is how many servers have the stream if Open creates it. It defaults to 1.
	Replicas int
}

var (
	// ErrStream says that the stream cannot be used for a journal: it discards messages, has
	// messages that are not a journal's, was written by a newer version, or it or its server
	// accepts only messages that are too small. Nothing was changed.
	ErrStream = errors.New("stream not usable for a journal")

	// ErrLost says that the stream has lost messages: a server has lost ones that it had
	// acknowledged, or somebody has recreated the stream. What the process knows may be gone. It
	// must open the journal again.
	ErrLost = errors.New("stream has lost messages")
)

// Journal is a [persist.Journal] in a stream. Use [Open]. Its methods are safe for concurrent use.
type Journal struct {
	conn    *nats.Conn
	js      jetstream.JetStream
	stream  jetstream.Stream
	subject string // has the identity: nobody publishes to a stream that was made anew
	opening uint64 // of this Open, identifies its frames
	chunk   int    // the most bytes of a frame in a message

	writing chan struct{} // held by the publisher; a channel, so that a context can end the wait
	unsure  bool          // the last publish may be in the stream; guarded by writing

	reading  chan struct{} // held by the reader of the log, or of a message of its own
	verified uint64        // how often the connection had been reestablished when the log was last verified; guarded by reading

	mu       sync.Mutex // guards the fields below, which change only while reading is held
	model    *memory.Journal
	sums     []uint64            // of the messages that were read, see chain
	last     string              // the header of the last one
	astray   map[uint64]bool     // openings that have read another log
	asked    uint64              // how many calls have wanted to know what the log has
	served   uint64              // those up to which do
	sessions map[session]uint64  // the number of the last batch of each
	pieces   map[uint64]*pieces  // of each opening, a frame of which some were read
	own      map[uint64]place    // by sequence, what was read of this opening since it last began to send
	outcomes map[uint64]*outcome // of the sessions of this opening, by session
	claims   map[string]error    // what the last claim of a shard has come to, of this opening
	broken   error               // why the journal no longer works
	closed   bool
}

// session is that of a batch: each opening numbers its own.
type session struct{ opening, session uint64 }

// outcome is the result of the last batch of a session.
type outcome struct {
	number  uint64
	refused map[int]error
}

var _ persist.Journal = (*Journal)(nil)

// Open opens the journal in a stream, and reads it. The connection belongs to the caller, who
// closes it after the journal. Open fails with [ErrStream].
func Open(ctx context.Context, conn *nats.Conn, opts Options) (*Journal, error) {
	if opts.Stream == "" {
		opts.Stream = DefaultStream
	}
	j := &Journal{
		conn: conn, opening: rand.Uint64(), writing: make(chan struct{}, 1), reading: make(chan struct{}, 1), own: make(map[uint64]place), astray: make(map[uint64]bool),
		model: memory.New(), sessions: make(map[session]uint64), pieces: make(map[uint64]*pieces), outcomes: make(map[uint64]*outcome), claims: make(map[string]error),
	}
	if err := j.open(ctx, conn, opts); err != nil {
		return nil, fmt.Errorf("open journal %s: %w", opts.Stream, err)
	}
	return j, nil
}

func (j *Journal) open(ctx context.Context, conn *nats.Conn, opts Options) (err error) {
	if j.js, err = jetstream.New(conn, jetstream.WithDefaultTimeout(patience)); err != nil {
		return err
	}
	j.stream, err = j.js.Stream(ctx, opts.Stream)
	missing := errors.Is(err, jetstream.ErrStreamNotFound)
	if err != nil && !missing {
		return fmt.Errorf("look for the stream: %w", err)
	}
	payload := conn.MaxPayload() // known, as the server has answered
	if payload < leastMessage {
		return fmt.Errorf("%w: max_payload of the server must be at least %d bytes, not %d", ErrStream, leastMessage, payload)
	}
	if missing {
		j.stream, err = j.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: opts.Stream, Subjects: []string{opts.Stream + "." + strconv.FormatUint(rand.Uint64(), 36)}, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy,
			Discard: jetstream.DiscardNew, Replicas: max(opts.Replicas, 1), DenyDelete: true, DenyPurge: true,
		})
	}
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has come first
		j.stream, err = j.js.Stream(ctx, opts.Stream)
	}
	if err != nil {
		return fmt.Errorf("make the stream: %w", err)
	}
	info := j.stream.CachedInfo()
	if err := usable(info); err != nil {
		return err
	}
	j.subject, j.chunk = info.Config.Subjects[0], chunkOf(payload, info.Config.MaxMsgSize)
	return j.catchUp(ctx)
}

// usable returns an error if a stream cannot be used.
func usable(info *jetstream.StreamInfo) error {
	cfg, wrong := info.Config, ""
	switch {
	case cfg.Storage != jetstream.FileStorage:
		wrong = "it is in memory"
	case cfg.Retention != jetstream.LimitsPolicy:
		wrong = "its messages are removed when they were read: its retention must be limits"
	case cfg.MaxAge > 0 || cfg.MaxMsgsPerSubject > 0:
		wrong = "it forgets messages by age or by subject"
	case (cfg.MaxMsgs > 0 || cfg.MaxBytes > 0) && cfg.Discard != jetstream.DiscardNew:
		wrong = "it forgets old messages when it is full: its discard must be new"
	case cfg.AllowDirect:
		wrong = "its messages are read from servers that may lag behind: its allow_direct must be false"
	case cfg.MaxMsgSize > 0 && cfg.MaxMsgSize < leastMessage:
		wrong = fmt.Sprintf("its max_msg_size must be at least %d bytes, not %d", leastMessage, cfg.MaxMsgSize)
	case len(cfg.Subjects) != 1 || !strings.HasPrefix(cfg.Subjects[0], cfg.Name+".") || strings.ContainsAny(cfg.Subjects[0], "*>"):
		wrong = fmt.Sprintf("its one subject must be %q and the identity of the journal, and not %q", cfg.Name+".", cfg.Subjects)
	case info.State.FirstSeq > 1:
		wrong = fmt.Sprintf("it begins with message %d", info.State.FirstSeq)
	default:
		return nil
	}
	return fmt.Errorf("%w: %s", ErrStream, wrong)
}

// Info implements [persist.Journal].
func (j *Journal) Info() persist.Info {
	return persist.Info{Kind: "jetstream", Identity: j.subject[strings.LastIndexByte(j.subject, '.')+1:]}
}

// read returns the journal with everything that was committed before the call.
func (j *Journal) read(ctx context.Context, what string) (*memory.Journal, error) {
	err := context.Cause(ctx)
	if err == nil {
		err = j.catchUp(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return j.model, nil
}

// begin waits for the turn to publish, and determines the outcome of the last publish. end ends the
// turn.
func (j *Journal) begin(ctx context.Context) (end func(), err error) {
	if err := take(ctx, j.writing); err != nil {
		return nil, err
	}
	if j.unsure {
		err = j.catchUp(ctx)
	} else {
		err = j.fitNow()
	}
	if err != nil {
		<-j.writing
		return nil, err
	}
	return func() { <-j.writing }, nil
}

// take waits for a turn, which a receive gives back.
func take(ctx context.Context, turn chan struct{}) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Claim implements [persist.Journal].
func (j *Journal) Claim(ctx context.Context, shard string, epoch uint64) error {
	if err := j.claim(ctx, shard, epoch); err != nil {
		return fmt.Errorf("claim shard %q with epoch %d: %w", shard, epoch, err)
	}
	return nil
}

func (j *Journal) claim(ctx context.Context, shard string, epoch uint64) error {
	end, err := j.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	j.mu.Lock()
	delete(j.claims, shard)
	j.mu.Unlock()
	f := &frame{Claim: &claim{shard, epoch}}
	if err := j.send(ctx, f); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	err, ok := j.claims[shard]
	if !ok {
		return errNotTaken
	}
	return err
}

// Commit implements [persist.Journal]. After an error, the batch may arrive later; if it is
// committed again it takes effect once.
func (j *Journal) Commit(ctx context.Context, b *persist.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if err := j.commit(ctx, b); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// errNotTaken says that the stream does not have the whole frame.
var errNotTaken = errors.New("the stream does not have all of it")

func (j *Journal) commit(ctx context.Context, b *persist.Batch) error {
	end, err := j.begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	if done, err := j.isDone(b); done || err != nil {
		return err
	}
	if err := j.send(ctx, &frame{Session: b.Session, Batch: b}); err != nil {
		return err
	}
	done, err := j.isDone(b)
	if err == nil && !done {
		err = errNotTaken
	}
	return err
}

// isDone reports whether a batch was committed, and sets the errors of its refused appends.
func (j *Journal) isDone(b *persist.Batch) (bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last := j.outcomes[b.Session]
	switch {
	case last == nil || b.Number > last.number:
		return false, nil
	case b.Number < last.number:
		return false, fmt.Errorf("batch %d comes after batch %d", b.Number, last.number)
	}
	for i := range b.Appends {
		b.Appends[i].Err = last.refused[i]
	}
	return true, nil
}

// Load implements [persist.Journal].
func (j *Journal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	m, err := j.read(ctx, "load")
	if err != nil {
		return nil, err
	}
	return m.Load(ctx, ids)
}

// Events implements [persist.Journal].
func (j *Journal) Events(ctx context.Context, id string, after uint64, limit int) ([]persist.Record, error) {
	m, err := j.read(ctx, "read events")
	if err != nil {
		return nil, err
	}
	return m.Events(ctx, id, after, limit)
}

// Snapshot implements [persist.Journal].
func (j *Journal) Snapshot(ctx context.Context, id string, below uint64) (persist.Snapshot, error) {
	m, err := j.read(ctx, "read a snapshot")
	if err != nil {
		return persist.Snapshot{}, err
	}
	return m.Snapshot(ctx, id, below)
}

// Feed implements [persist.Journal].
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) ([]persist.Record, error) {
	m, err := j.read(ctx, "read a feed")
	if err != nil {
		return nil, err
	}
	return m.Feed(ctx, part, after, limit)
}

// Ends implements [persist.Journal].
func (j *Journal) Ends(ctx context.Context) ([]uint64, error) {
	m, err := j.read(ctx, "read the ends")
	if err != nil {
		return nil, err
	}
	return m.Ends(ctx)
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	m, err := j.read(ctx, "read an outbox")
	if err != nil {
		return nil, err
	}
	return m.Outbox(ctx, part, after, limit)
}

// Due implements [persist.Journal].
func (j *Journal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) ([]persist.Reminder, error) {
	m, err := j.read(ctx, "read reminders")
	if err != nil {
		return nil, err
	}
	return m.Due(ctx, part, now, after, limit)
}

// Cursors implements [persist.Journal].
func (j *Journal) Cursors(ctx context.Context, projection string) ([]uint64, error) {
	m, err := j.read(ctx, "read cursors")
	if err != nil {
		return nil, err
	}
	return m.Cursors(ctx, projection)
}

// IDs implements [persist.Journal].
func (j *Journal) IDs(ctx context.Context, after string, limit int) ([]string, error) {
	m, err := j.read(ctx, "list ids")
	if err != nil {
		return nil, err
	}
	return m.IDs(ctx, after, limit)
}

// Close implements [persist.Journal]. The connection stays open.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return nil
}
