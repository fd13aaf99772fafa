package jetstream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/persist"
)

// frame is an entry of the log: a claim, or a batch with all of its appends, also those that are
// refused at its place.
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

// header is in each message: which piece of which frame of which opening it is.
const header = "Greenroom-Frame"

// headerBytes is what the headers of a message take at most, and what nats adds.
const headerBytes = 1 << 10

// leastMessage is how large a message must be allowed to be: half of it is data.
const leastMessage = 2 * headerBytes

// chunkOf returns how many bytes of a frame a message has at most. maxMsgSize is the stream's, not
// positive for none; the server counts the headers for both limits.
func chunkOf(maxPayload int64, maxMsgSize int32) int {
	limit := min(maxPayload, 1<<20)
	if maxMsgSize > 0 {
		limit = min(limit, int64(maxMsgSize))
	}
	return int(limit) - headerBytes
}

// place is what the header says.
type place struct {
	opening, frame uint64
	piece, of      int
}

func (p place) String() string { return fmt.Sprintf("%x %x %d %d", p.opening, p.frame, p.piece, p.of) }

func parsePlace(text string) (p place, err error) {
	_, err = fmt.Sscanf(text, "%x %x %d %d", &p.opening, &p.frame, &p.piece, &p.of)
	if err == nil && (p.piece < 0 || p.piece >= p.of) {
		err = fmt.Errorf("piece %d of %d", p.piece, p.of)
	}
	return p, err
}

// pieces is a frame of which some pieces were read. An opening publishes one frame at a time: what is
// not whole when the next one begins never will be.
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

// heard reads the log up to a message that the server has acknowledged. A reader may have read it
// already, and what others have published after it.
func (j *Journal) heard(ctx context.Context, sequence uint64, p place, data []byte) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.fit(); err != nil {
		return err
	}
	switch {
	case sequence == j.known+1: // nobody has written meanwhile
		return j.take(ctx, sequence, p.String(), data)
	case sequence > j.known:
		return j.readTo(ctx, sequence)
	case j.own[sequence] != p:
		j.broken = fmt.Errorf("%w: message %d is another one than was read", ErrLost, sequence)
		return j.broken
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
		return 0, err
	}
	return ack.Sequence, nil
}

// catchUp reads what the stream has had at the time of the call.
func (j *Journal) catchUp(ctx context.Context) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.fit(); err != nil {
		return err
	}
	info, err := j.stream.Info(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		j.broken = fmt.Errorf("%w: it is not there any more", ErrLost)
		return j.broken
	}
	if err != nil {
		return err
	}
	if subjects := info.Config.Subjects; len(subjects) != 1 || subjects[0] != j.subject {
		j.broken = fmt.Errorf("%w: its subject is %q, and was %q", ErrLost, subjects, j.subject)
		return j.broken
	}
	return j.readTo(ctx, info.State.LastSeq)
}

func (j *Journal) fitNow() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.fit()
}

// fit says why nothing can be done. REQUIRES: j.mu held.
func (j *Journal) fit() error {
	if j.closed {
		return persist.ErrClosed
	}
	return j.broken
}

// fewMessages are read one by one.
const fewMessages = 4

// readTo reads the log up to a message. REQUIRES: j.mu held.
func (j *Journal) readTo(ctx context.Context, last uint64) error {
	if err := j.fit(); err != nil {
		return err
	}
	switch {
	case last < j.known:
		j.broken = fmt.Errorf("%w: it has %d, and had %d", ErrLost, last, j.known)
		return j.broken
	case last-j.known > fewMessages:
		return j.readMany(ctx, last)
	}
	for j.known < last {
		m, err := j.stream.GetMsg(ctx, j.known+1)
		if err != nil {
			return fmt.Errorf("message %d: %w", j.known+1, err)
		}
		if err := j.take(ctx, m.Sequence, m.Header.Get(header), m.Data); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) readMany(ctx context.Context, last uint64) error {
	c, err := j.stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: j.known + 1})
	if err != nil {
		return err
	}
	all, err := c.Messages()
	if err != nil {
		return err
	}
	defer all.Stop()
	for j.known < last {
		m, err := next(ctx, all)
		if err != nil {
			return err
		}
		at, err := m.Metadata()
		if err != nil {
			return err
		}
		if err := j.take(ctx, at.Sequence.Stream, m.Headers().Get(header), m.Data()); err != nil {
			return err
		}
	}
	return nil
}

// patience is how long an answer of the server, and the next message of those that are there, are
// waited for.
const patience = 30 * time.Second

func next(ctx context.Context, all jetstream.MessagesContext) (jetstream.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return all.Next(jetstream.NextContext(ctx))
}

// take takes the next message. What cannot be read ends the journal: what comes after it would have
// another meaning. REQUIRES: j.mu held.
func (j *Journal) take(ctx context.Context, sequence uint64, at string, data []byte) error {
	switch {
	case sequence <= j.known:
		return nil // an ordered consumer that has begun anew
	case sequence != j.known+1:
		j.broken = fmt.Errorf("%w: message %d is missing", ErrLost, j.known+1)
		return j.broken
	}
	p, err := parsePlace(at)
	if p.opening == j.opening {
		j.own[sequence] = p
	}
	if err == nil {
		err = j.piece(ctx, p, data)
	}
	if err != nil {
		j.broken = fmt.Errorf("%w: message %d: %w", ErrStream, sequence, err)
		return j.broken
	}
	j.known = sequence
	return nil
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

// apply does what a frame says. All that read the log do the same.
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

// applyBatch commits a batch that is not there yet: one whose acknowledgement was lost was
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
