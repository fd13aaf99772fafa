package jetstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/streamread"
	"github.com/greenroom-go/greenroom/persist"
)

// frame is an entry of the log: a claim, or a batch with all its appends, including those that are
// refused.
type frame struct {
	Claim   *claim
	Session uint64 // of the batch
	Batch   *persist.Batch
}

type claim struct {
	Shard string
	Epoch uint64
}

var frames = codec.NewTypes(codec.Of[frame]("frame"))

// header is the header of each message. It says which piece of which frame of which opening the
// message is, and how much of the log its writer had read.
const header = "Greenroom-Frame"

// headerBytes bounds the headers of a message, including what nats adds.
const headerBytes = 1 << 10

// leastMessage is the least limit of the size of a message: half of it is data.
const leastMessage = 2 * headerBytes

// chunkOf returns the most bytes of a frame in a message. maxMsgSize is the stream's limit, none if
// not positive; the server counts the headers for both limits.
func chunkOf(maxPayload int64, maxMsgSize int32) int {
	limit := min(maxPayload, 1<<20)
	if maxMsgSize > 0 {
		limit = min(limit, int64(maxMsgSize))
	}
	return int(limit) - headerBytes
}

// place is the content of the header. A frame whose writer had read a different log has no effect:
// a server has lost what the writer knew, and others have written in its place.
type place struct {
	opening, frame uint64
	piece, of      int
	read, sum      uint64 // the last message that the writer had read, and its chain
}

func (p place) String() string {
	return fmt.Sprintf("%x %x %d %d %d %x", p.opening, p.frame, p.piece, p.of, p.read, p.sum)
}

func parsePlace(text string) (p place, err error) {
	n, err := fmt.Sscanf(text, "%x %x %d %d %d %x", &p.opening, &p.frame, &p.piece, &p.of, &p.read, &p.sum)
	switch {
	case err == nil && p.piece >= 0 && p.piece < p.of:
		return p, nil
	case n == 4 && len(strings.Fields(text)) == 4:
		err = errors.New("an earlier version of Greenroom has written it, whose messages do not say what their writer had read, and " +
			"which this version does not read: use the program that wrote it, or name another stream in Options.Stream")
	default:
		err = fmt.Errorf("its header %s is %q and not that of a journal", header, text)
	}
	return place{}, err
}

// chain returns the sum of a message with that header that follows one with the sum before. It
// identifies the whole log up to the message.
func chain(before uint64, at string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, before)) // never fails, as the next one
	h.Write([]byte(at))
	return h.Sum64()
}

// pieces is a frame of which some pieces were read. An opening publishes one frame at a time: a
// frame that is incomplete when the next one begins stays so.
type pieces struct {
	frame uint64
	next  int
	data  []byte
}

// send publishes a frame, and reads the log up to it. REQUIRES: the turn to publish.
func (j *Journal) send(ctx context.Context, f *frame) error {
	j.mu.Lock()
	clear(j.own)
	j.mu.Unlock()
	j.unsure = true
	err := j.publish(ctx, f, func(sequence uint64, p place, data []byte) error { return j.heard(ctx, sequence, p, data) })
	j.unsure = err != nil
	return err
}

// heard reads the log up to a message that the server has acknowledged. A reader may already have
// read it, and later messages of others.
func (j *Journal) heard(ctx context.Context, sequence uint64, p place, data []byte) error {
	if err := take(ctx, j.reading); err != nil {
		return err
	}
	defer func() { <-j.reading }()
	known, err := j.known()
	switch {
	case err != nil:
		return err
	case sequence == known+1: // nobody has written meanwhile
		if err := j.verify(ctx, known); err != nil {
			return err
		}
		return j.take(ctx, sequence, p.String(), data)
	case sequence > known:
		return j.readTo(ctx, sequence)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.own[sequence] != p {
		return j.lose("message %d does not match what was read", sequence)
	}
	return nil
}

// publish publishes a frame, and calls did with each message that is in the stream.
func (j *Journal) publish(ctx context.Context, f *frame, did func(sequence uint64, p place, data []byte) error) error {
	_, data, err := frames.Append(nil, *f)
	if err != nil {
		return err
	}
	p := place{opening: j.opening, frame: rand.Uint64(), of: max(1, (len(data)+j.chunk-1)/j.chunk)}
	for ; p.piece < p.of; p.piece++ {
		j.mu.Lock()
		p.read = uint64(len(j.sums))
		p.sum = j.sumOf(p.read)
		j.mu.Unlock()
		piece := data[:min(len(data), j.chunk)]
		data = data[len(piece):]
		sequence, err := j.publishPiece(ctx, p, piece)
		if err == nil {
			err = did(sequence, p, piece)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) publishPiece(ctx context.Context, p place, data []byte) (sequence uint64, err error) {
	m := nats.NewMsg(j.subject)
	m.Header.Set(header, p.String())
	m.Data = data
	ack, err := j.js.PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, fmt.Errorf("publish to the stream: %w", err)
	}
	return ack.Sequence, nil
}

// catchUp reads everything in the stream at the time of the call. One caller reads for all that
// wait.
func (j *Journal) catchUp(ctx context.Context) error {
	j.mu.Lock()
	j.asked++
	ticket := j.asked
	j.mu.Unlock()
	if err := take(ctx, j.reading); err != nil {
		return err
	}
	defer func() { <-j.reading }()
	j.mu.Lock()
	served, upTo, err := j.served, j.asked, j.fit()
	j.mu.Unlock()
	if err != nil || served >= ticket {
		return err
	}
	if err := j.readAll(ctx); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.served = upTo
	return nil
}

// readAll reads everything in the stream. REQUIRES: j.reading held.
func (j *Journal) readAll(ctx context.Context) error {
	info, err := j.stream.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return j.lost("it is not there any more")
	}
	if err != nil {
		return fmt.Errorf("ask what the stream has: %w", err)
	}
	if subjects := info.Config.Subjects; len(subjects) != 1 || subjects[0] != j.subject {
		return j.lost("its subject is %q, and was %q", subjects, j.subject)
	}
	return j.readTo(ctx, info.State.LastSeq)
}

func (j *Journal) fitNow() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fit()
}

// fit returns an error if the journal no longer works. REQUIRES: j.mu held.
func (j *Journal) fit() error {
	if j.closed {
		return persist.ErrClosed
	}
	return j.broken
}

// known returns how many messages were read, and an error if the journal no longer works.
func (j *Journal) known() (uint64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return uint64(len(j.sums)), j.fit()
}

// sumOf returns the chain of a message that was read, 0 for message 0. REQUIRES: j.mu held.
func (j *Journal) sumOf(sequence uint64) uint64 {
	if sequence == 0 {
		return 0
	}
	return j.sums[sequence-1]
}

// lost is lose for a caller that does not hold j.mu.
func (j *Journal) lost(format string, args ...any) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lose(format, args...)
}

// lose ends the journal, because the stream has lost messages. REQUIRES: j.mu held.
func (j *Journal) lose(format string, args ...any) error {
	j.broken = fmt.Errorf("%w: %s", ErrLost, fmt.Sprintf(format, args...))
	return j.broken
}

// verify checks after a reconnect whether the stream still has what was read of it: its server may
// have come back without messages that it had acknowledged, and others may have written in their
// place. REQUIRES: j.reading held.
func (j *Journal) verify(ctx context.Context, known uint64) error {
	made := j.conn.Stats().Reconnects
	if made == j.verified {
		return nil
	}
	if err := j.compareLast(ctx, known); err != nil {
		return err
	}
	j.verified = made
	return nil
}

// compareLast checks whether the stream still has the last message that was read. A server loses
// the end of a stream, and no two messages have the same header, so a stream with this one in its
// place has everything before it. REQUIRES: j.reading held; the stream has as many messages.
func (j *Journal) compareLast(ctx context.Context, known uint64) error {
	if known == 0 {
		return nil
	}
	m, err := j.stream.GetMsg(ctx, known)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return fmt.Errorf("message %d: %w", known, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil || m.Header.Get(header) != j.last {
		return j.lose("message %d does not match what was read", known)
	}
	return nil
}

// compare compares, by the headers, what was read up to a message with what the stream has now, and
// ends the journal if they differ. REQUIRES: j.reading held; the stream has the message.
func (j *Journal) compare(ctx context.Context, last uint64) error {
	var compared, sum uint64
	if err := j.each(ctx, 1, last, true, func(sequence uint64, at string, _ []byte) error {
		switch {
		case sequence == compared+1:
			compared, sum = sequence, chain(sum, at)
		case sequence > compared:
			return j.lost("message %d is missing", compared+1)
		}
		return nil
	}); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if sum != j.sumOf(last) {
		return j.lose("the messages up to %d are others than were read", last)
	}
	return nil
}

// fewMessages are read one by one.
const fewMessages = 4

// readTo reads the log up to a message. REQUIRES: j.reading held.
func (j *Journal) readTo(ctx context.Context, last uint64) error {
	known, err := j.known()
	switch {
	case err != nil:
		return err
	case last < known:
		return j.lost("it has %d, and had %d", last, known)
	}
	if err := j.verify(ctx, known); err != nil {
		return err
	}
	if last-known > fewMessages {
		return j.each(ctx, known+1, last, false, func(sequence uint64, at string, data []byte) error { return j.take(ctx, sequence, at, data) })
	}
	for ; known < last; known++ {
		m, err := j.stream.GetMsg(ctx, known+1)
		if err != nil {
			return fmt.Errorf("message %d: %w", known+1, err)
		}
		if err := j.take(ctx, m.Sequence, m.Header.Get(header), m.Data); err != nil {
			return err
		}
	}
	return nil
}

// each calls f with the messages of the stream from first to last, in order, with their data unless
// without is set. If reading is interrupted, it resumes where it was, as long as it makes progress.
// REQUIRES: j.reading held.
func (j *Journal) each(ctx context.Context, first, last uint64, withoutData bool, f func(sequence uint64, at string, data []byte) error) error {
	for first <= last {
		began := first
		var refused error
		err := streamread.Each(ctx, j.js, j.stream, streamread.Options{
			First: first, HeadersOnly: withoutData, Begin: patience, Beat: beat, Next: patience, Idle: patience,
		}, func(sequence uint64, m jetstream.Msg) bool {
			first = sequence + 1
			refused = f(sequence, m.Headers().Get(header), m.Data())
			return refused == nil && first <= last
		})
		if refused != nil {
			return refused
		}
		if err != nil && (first == began && !errors.Is(err, streamread.ErrReconnected) || ctx.Err() != nil) {
			return fmt.Errorf("from message %d on: %w", first, err)
		}
	}
	return nil
}

// patience is how long to wait for an answer of the server, and for the next existing message. beat
// is how often a server without further messages sends a heartbeat.
const (
	patience = 30 * time.Second
	beat     = 5 * time.Second
)

// take processes the next message. A message that cannot be read ends the journal, because those
// after it would have a different meaning. REQUIRES: j.reading held.
func (j *Journal) take(ctx context.Context, sequence uint64, at string, data []byte) error {
	p, err := parsePlace(at)
	void := err == nil && p.read >= sequence
	if err == nil && !void {
		if void, err = j.isOfAnother(ctx, p); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	known := uint64(len(j.sums))
	if sequence != known+1 {
		return j.lose("message %d is missing", known+1)
	}
	if p.opening == j.opening {
		j.own[sequence] = p
	}
	if err == nil && !void {
		err = j.piece(ctx, p, data)
	}
	if err != nil {
		j.broken = fmt.Errorf("%w: message %d: %w", ErrStream, sequence, err)
		return j.broken
	}
	j.sums, j.last = append(j.sums, chain(j.sumOf(known), at)), at
	return nil
}

// isOfAnother reports whether the writer of a message had read a different log, and checks once for
// each opening which of the two logs the stream has: if it is not that of this process, the journal
// ends. REQUIRES: j.reading held.
func (j *Journal) isOfAnother(ctx context.Context, p place) (bool, error) {
	j.mu.Lock()
	same, astray := p.read > uint64(len(j.sums)) || j.sumOf(p.read) == p.sum, j.astray[p.opening]
	j.mu.Unlock()
	if same {
		return false, nil
	}
	if !astray {
		if err := j.compare(ctx, p.read); err != nil {
			return false, err
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		j.astray[p.opening] = true
	}
	return true, nil
}

// piece applies the frame that a message completes.
func (j *Journal) piece(ctx context.Context, p place, data []byte) error {
	if p.piece == 0 {
		j.pieces[p.opening] = &pieces{frame: p.frame}
	}
	f := j.pieces[p.opening]
	if f == nil || f.frame != p.frame || f.next != p.piece {
		return nil // of one that is never whole
	}
	f.next++
	f.data = append(f.data, data...)
	if f.next < p.of {
		return nil
	}
	delete(j.pieces, p.opening)
	v, err := frames.Decode("frame", f.data)
	if err != nil {
		return err
	}
	whole := v.(frame)
	return j.apply(ctx, p.opening, &whole)
}

// apply applies a frame. All readers of the log do the same.
func (j *Journal) apply(ctx context.Context, opening uint64, f *frame) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case f.Claim != nil:
		err := j.model.Claim(ctx, f.Claim.Shard, f.Claim.Epoch)
		if opening == j.opening {
			j.claims[f.Claim.Shard] = err
		}
	case f.Batch != nil:
		return j.applyBatch(ctx, opening, f)
	default:
		return errors.New("it has nothing that this version knows")
	}
	return nil
}

// applyBatch commits a batch unless it was committed before: one whose acknowledgement was lost is
// published again.
func (j *Journal) applyBatch(ctx context.Context, opening uint64, f *frame) error {
	of, b := session{opening, f.Session}, f.Batch
	number := b.Number
	if number <= j.sessions[of] {
		return nil
	}
	b.Session, b.Number = rand.Uint64(), 1 // the model tells no batch from another
	if err := j.model.Commit(ctx, b); err != nil {
		return err
	}
	j.sessions[of] = number
	if opening != j.opening {
		return nil
	}
	refused := make(map[int]error)
	for i := range b.Appends {
		if err := b.Appends[i].Err; err != nil {
			refused[i] = err
		}
	}
	j.outcomes[f.Session] = &outcome{number, refused}
	return nil
}
