package persist

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"strings"
	"unicode/utf8"
)

// The errors of journals that callers can tell apart with [errors.Is].
var (
	// ErrFenced says that somebody else owns the id by now: its shard was claimed with a
	// higher epoch, or the id has another number than expected. Nothing of the append was
	// written, and trying it again is of no use.
	ErrFenced = errors.New("somebody else writes to this id by now")

	// ErrConflict is the ErrFenced of an id that has another number than expected.
	ErrConflict = fmt.Errorf("%w: it has another number than expected", ErrFenced)

	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal closed")
)

// Limits of what a journal takes.
const (
	// Parts is how many partitions a journal has. [PartOf] says which one an id is in.
	Parts = 64
	// MaxIDBytes is the length of the longest id, shard or name of a projection.
	MaxIDBytes = 512
	// PageRecords and PageBytes bound the records that one answer of a journal has for one
	// id or one partition. A first record that is larger than PageBytes comes alone.
	PageRecords = 1024
	PageBytes   = 1 << 20
	// KeepSnapshots is how many snapshots of an id a journal keeps: the newest may be broken.
	KeepSnapshots = 2
)

// Journal keeps what actors have recorded: for each id its events, its state, its
// snapshots, the messages that it has to send, those that it has seen, and its reminders.
//
// All methods are safe for concurrent use, except that [Journal.Commit] is called by one
// goroutine at a time. All that read find what was committed before the call. Nothing is
// kept of an argument after the call, and what is returned is the caller's. An error
// that is not [ErrFenced] or [ErrClosed] may go away: the call may be tried again.
//
// The conformance suite is package journaltest; an implementation must pass it.
type Journal interface {
	// Info says what the journal is. It does no input or output.
	Info() Info

	// Claim says that from now on appends for the shard with a lower epoch are refused,
	// whoever makes them. It is durable when it returns nil. With a lower epoch than that
	// of an earlier Claim it fails with [ErrFenced]; with the same it does nothing. Who
	// takes over a shard claims it before reading anything of it.
	Claim(ctx context.Context, shard string, epoch uint64) error

	// Load returns what there is of each id, in the order of ids: for one that was never
	// written a Loaded with nothing but the ID. Each of them is of one moment. It may
	// fail because of one of the ids: then the others can be loaded one by one.
	Load(ctx context.Context, ids []string) ([]Loaded, error)

	// Events returns the events of an id with numbers greater than after, in order, at
	// least one if there is one, and at most limit, [PageRecords] and [PageBytes] of them.
	// What was erased is not among them, nor is the Erase itself.
	Events(ctx context.Context, id string, after uint64, limit int) ([]Record, error)

	// Snapshot returns the newest snapshot of an id whose number is lower than below, the
	// zero Snapshot if there is none.
	Snapshot(ctx context.Context, id string, below uint64) (Snapshot, error)

	// Commit makes a batch durable: all of it, or nothing, but for the appends that it
	// refuses, in which it sets Err, and of which nothing is written. Refused are those
	// with an epoch that is too low ([ErrFenced]), those with a number that is not the
	// next ([ErrConflict]), and those that come after a refused one of the same id, with
	// the same error. When it returns nil, the batch survives the loss of power.
	//
	// After an error it is unknown whether the batch was written. The same batch, with the
	// same Session and Number, can be committed again: it is written once, and Err is set as
	// it would have been the first time.
	Commit(ctx context.Context, b *Batch) error

	// Feed returns the events of a partition with positions greater than after, in the
	// order of their positions, at least one if there is one, and at most limit,
	// [PageRecords] and [PageBytes] of them. An event that becomes visible later has a
	// greater position than all that were visible before.
	Feed(ctx context.Context, part int, after uint64, limit int) ([]Record, error)

	// Ends returns for each partition a position after which it has no event yet: Parts
	// numbers. All that is committed later has greater positions.
	Ends(ctx context.Context) ([]uint64, error)

	// Outbox returns the messages of a partition's ids that were not delivered, with
	// positions greater than after, as Feed returns events.
	Outbox(ctx context.Context, part int, after uint64, limit int) ([]Outgoing, error)

	// Due returns the reminders of a partition's ids whose time is not after now, which is
	// in milliseconds since 1970, by time, id and key, and of those the ones that come after
	// the one given, whose At, ID and Key say where that is; the zero Reminder is before all.
	// It returns at least one if there is one, and at most limit, [PageRecords] and
	// [PageBytes] of them.
	Due(ctx context.Context, part int, now int64, after Reminder, limit int) ([]Reminder, error)

	// Cursors returns the cursors of a projection by partition: Parts numbers, 0 where
	// none was committed.
	Cursors(ctx context.Context, projection string) ([]uint64, error)

	// IDs returns ids that were written to, in the order of their bytes, after the one
	// given, and at most limit of them.
	IDs(ctx context.Context, after string, limit int) ([]string, error)

	// Close gives back what the journal holds. What was committed is durable without it.
	// Calls that come later fail with [ErrClosed].
	Close() error
}

// Info says what a journal is.
type Info struct {
	// Kind is the kind of store, "sqlite" for example.
	Kind string
	// Identity is random, made when the journal was, and never changes: a cursor of
	// another journal can be told by it.
	Identity string
}

// Payload is a value as package codec has encoded it. The journal keeps it as it is.
type Payload struct {
	Type string // its name, 0 to 128 bytes of visible ASCII
	Data []byte
	Sum  uint32 // see [Payload.Seal]
}

// Seal sets Sum to the checksum of the payload and of where it belongs.
func (p *Payload) Seal(id string, number uint64) { p.Sum = p.sum(id, number) }

// Intact reports whether the payload is what was sealed, for that id and number.
func (p *Payload) Intact(id string, number uint64) bool { return p.Sum == p.sum(id, number) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sum is CRC-32C of the number, the lengths of id and type, the id, the type and the data.
func (p *Payload) sum(id string, number uint64) uint32 {
	head := make([]byte, 0, 8+4+4+len(id)+len(p.Type)) // on the heap, as package crc32 has it there
	head = binary.LittleEndian.AppendUint64(head, number)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(id)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(p.Type)))
	head = append(append(head, id...), p.Type...)
	return crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, p.Data)
}

// Record is an event in a journal.
type Record struct {
	ID     string
	Number uint64 // of the id, from 1 on, without a gap
	// Position is the place in the partition: greater for what is committed later.
	Position uint64
	Time     int64 // of the commit, in milliseconds since 1970
	// Erased says that the record stands for an [Append.Erase] and has no payload.
	Erased bool
	// Payload is the event. Without a Type it is none, but a number that was taken.
	Payload
}

// Snapshot is the state of an id after its event Number: what its events would come to,
// kept to save the time. The zero Snapshot is none.
type Snapshot struct {
	Number uint64
	Payload
}

// Loaded is what there is of an id.
type Loaded struct {
	ID   string
	Last uint64 // its number: that of what was appended last, 0 if nothing ever was
	// Erased is the number of its last [Append.Erase], 0 if there was none: what was
	// appended up to then is gone.
	Erased uint64
	// State is the state that was appended last, with its number; nil if there is none.
	State *Snapshot
	// Snapshot is the newest snapshot, nil if there is none. Events are the first ones
	// after it, as [Journal.Events] returns them.
	Snapshot *Snapshot
	Events   []Record
	// Sent is the number of the last message that it has sent, delivered or not.
	Sent uint64
	// Seen are the last messages that it has seen, one for each sender, by sender.
	Seen []Seen
	// Reminders are all that it has set, by key.
	Reminders []Reminder
}

// Batch is what one commit makes durable.
type Batch struct {
	// Session is a random number of whoever makes the batches: an open journal may have
	// several one after another, or in turn. 0 is one as well. It is not kept.
	Session uint64 `cbor:"-"`
	// Number is 1 for the first batch of a session, and one more for each further one. The
	// same number, as of the batch that was committed last, says that it is the same batch,
	// tried again. Of a batch that is tried again after one of another session has been
	// committed, it is not known any more that it was written: its appends are refused then.
	Number uint64
	// Time is when, in milliseconds since 1970.
	Time int64
	// Appends are in the order in which they were made. There may be several of one id,
	// each expecting what the one before has left.
	Appends []Append
	// Delivered are messages that need not be delivered any more. What is not in the outbox
	// is passed over.
	Delivered []Delivery
	// Cursors are places that projections have come to. A later one replaces an earlier
	// one, also if it is lower.
	Cursors []Cursor
}

// Append is what one handler has recorded: all of it is written, or nothing.
type Append struct {
	ID string
	// Shard and Epoch are those in whose name the id is written to. Without a Shard the
	// append is refused by its number only.
	Shard string
	Epoch uint64
	// After is the number that the id must have.
	After uint64
	// Events are numbered After+1 and so on.
	Events []Payload
	// State replaces the state that the id had. Of several in a batch only the last one
	// need be written. It takes a number if there are no events.
	State *Payload
	// Snapshot is the state after the append: its number is [Append.Last]. The journal keeps
	// the newest [KeepSnapshots] of an id.
	Snapshot *Payload
	// Erase takes a number and removes what was appended before: events, states, snapshots,
	// reminders and messages that were not delivered. What the id has sent and seen stays
	// known. It comes alone.
	Erase bool
	// Send are messages to be delivered. Their numbers are greater than those of all that
	// the id has sent before.
	Send []Message
	// Seen are messages that have had their effect. Of each sender the greatest number is
	// kept.
	Seen []Seen
	// Reminders are set, or with At 0 removed, in this order.
	Reminders []ReminderEdit

	// Err is set by [Journal.Commit] if the append was refused, and to nil if it was not.
	Err error `cbor:"-"`
}

// Takes returns how many numbers the append takes.
func (a *Append) Takes() uint64 {
	if a.State != nil || a.Erase {
		return max(1, uint64(len(a.Events)))
	}
	return uint64(len(a.Events))
}

// Last returns the number that the id has after the append.
func (a *Append) Last() uint64 { return a.After + a.Takes() }

// Message is a message to be delivered.
type Message struct {
	Number uint64 // of the sender, ascending
	To     string // where to, as package persist understands it; up to MaxIDBytes
	Payload
}

// Outgoing is a message in the outbox of a journal.
type Outgoing struct {
	From     string
	Position uint64 // the place in the partition, greater for what is committed later
	Time     int64  // of the commit, in milliseconds since 1970
	Message
}

// Delivery names a message that has been delivered.
type Delivery struct {
	From   string
	Number uint64
}

// Seen says that an id has seen a message, and all that its sender had sent to it before.
type Seen struct {
	From   string
	Number uint64
}

// ReminderEdit sets or removes the reminder of that key.
type ReminderEdit struct {
	Key string // 1 to MaxIDBytes
	At  int64  // when, in milliseconds since 1970; 0 removes it
	Payload
}

// Reminder is a message that an id is to get at some time.
type Reminder struct {
	ID string
	ReminderEdit
}

// Cursor is the place that a projection has come to in a partition.
type Cursor struct {
	Projection string
	Part       int
	Position   uint64
}

// PartOf returns the partition of an id: a number below [Parts] that never changes.
func PartOf(id string) int {
	h := fnv.New64a()
	h.Write([]byte(id)) // never fails
	sum := h.Sum64()
	sum = (sum ^ sum>>33) * 0xff51afd7ed558ccd // the finalizer of MurmurHash3: ids that differ in a digit go to different parts
	return int((sum ^ sum>>33) % Parts)
}

// CheckID returns an error that says what is wrong with an id, nil if nothing is: it must
// be 1 to [MaxIDBytes] bytes of UTF-8 without a zero byte.
func CheckID(id string) error { return checkText("id", id, 1) }

// checkText says what is wrong with a text of at least that many bytes.
func checkText(what, text string, least int) error {
	switch {
	case len(text) < least || len(text) > MaxIDBytes:
		return fmt.Errorf("%s must have %d to %d bytes, not %d", what, least, MaxIDBytes, len(text))
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("%s must be UTF-8 without a zero byte, not %q", what, text)
	}
	return nil
}

// Check returns an error that says what is wrong with a batch, nil if nothing is: for
// journals, which write nothing of such a batch.
func (b *Batch) Check() error {
	if b.Number == 0 {
		return errors.New("batch: number must be greater than 0")
	}
	for i := range b.Appends {
		if err := b.Appends[i].check(); err != nil {
			return fmt.Errorf("append %d to %q: %w", i, b.Appends[i].ID, err)
		}
	}
	for _, d := range b.Delivered {
		if err := d.check(); err != nil {
			return err
		}
	}
	for _, c := range b.Cursors {
		if err := c.check(); err != nil {
			return err
		}
	}
	return nil
}

func (d Delivery) check() error {
	if err := CheckID(d.From); err != nil {
		return fmt.Errorf("delivered: %w", err)
	}
	return nil
}

func (c Cursor) check() error {
	if err := checkText("projection", c.Projection, 1); err != nil {
		return fmt.Errorf("cursor: %w", err)
	}
	if c.Part < 0 || c.Part >= Parts {
		return fmt.Errorf("cursor of %q: part must be 0 to %d, not %d", c.Projection, Parts-1, c.Part)
	}
	return nil
}

func (a *Append) check() error {
	if err := cmp.Or(CheckID(a.ID), checkText("shard", a.Shard, 0)); err != nil {
		return err
	}
	if last := max(a.Last(), a.Epoch); a.After > math.MaxInt64 || last > math.MaxInt64 {
		return fmt.Errorf("numbers and epochs must be at most %d, not %d", math.MaxInt64, max(last, a.After))
	}
	if a.Erase && (len(a.Events) > 0 || a.State != nil || a.Snapshot != nil || len(a.Send) > 0 || len(a.Seen) > 0 || len(a.Reminders) > 0) {
		return errors.New("an Erase comes alone")
	}
	if a.Takes() == 0 && (len(a.Send) > 0 || len(a.Seen) > 0 || len(a.Reminders) > 0) {
		return errors.New("messages, what was seen and reminders need an event, if only one without a type, or a state: they take a number")
	}
	last := uint64(0) // numbers begin with 1
	for _, m := range a.Send {
		if err := checkText("receiver", m.To, 1); err != nil {
			return fmt.Errorf("message %d: %w", m.Number, err)
		}
		if m.Number <= last {
			return fmt.Errorf("message %d comes after message %d", m.Number, last)
		}
		last = m.Number
	}
	for _, s := range a.Seen {
		if err := checkText("sender", s.From, 1); err != nil {
			return err
		}
	}
	for _, r := range a.Reminders {
		if err := checkText("key of a reminder", r.Key, 1); err != nil {
			return err
		}
	}
	return nil
}
