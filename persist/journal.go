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

// The errors of journals that callers can distinguish with [errors.Is].
var (
	// ErrFenced says that somebody else now owns the id: its shard was claimed with a higher epoch,
	// or the id has another number than expected. Nothing of the append was written, and retrying
	// it is useless.
	ErrFenced = errors.New("somebody else now writes to this id")

	// ErrConflict is the ErrFenced for an id that has another number than expected.
	ErrConflict = fmt.Errorf("%w: it has another number than expected", ErrFenced)

	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal closed")
)

// Limits of a journal.
const (
	// Parts is the number of partitions of a journal. [PartOf] returns the partition of an id.
	Parts = 64
	// MaxIDBytes is the length of the longest id, shard or name of a projection.
	MaxIDBytes = 512
	// PageRecords and PageBytes bound the records that a journal returns at once for one id or one
	// partition. A first record that is larger than PageBytes is returned alone.
	PageRecords = 1024
	PageBytes   = 1 << 20
	// KeepSnapshots is how many snapshots of an id a journal keeps, since the newest may be broken.
	KeepSnapshots = 2
)

// Journal keeps what actors have recorded: for each id its events, its state, its snapshots, the
// messages that it has to send, those that it has seen, and its reminders.
//
// All methods are safe for concurrent use, except [Journal.Commit], which is called by one
// goroutine at a time. Reads see everything that was committed before the call. A journal keeps no
// argument after the call, and what it returns belongs to the caller. An error that is not
// [ErrFenced] or [ErrClosed] may be temporary: the call may be retried.
//
// The conformance suite is package journaltest; an implementation must pass it.
type Journal interface {
	// Info describes the journal. It does no I/O.
	Info() Info

	// Claim makes the journal refuse, from now on, appends for the shard with a lower epoch,
	// whoever makes them. It is durable when it returns nil. If an earlier Claim had a higher epoch
	// it fails with [ErrFenced]; with the same epoch it does nothing. Whoever takes over a shard
	// claims it before reading anything of it.
	Claim(ctx context.Context, shard string, epoch uint64) error

	// Load returns what the journal has for each id, in the order of ids; for an id that was never
	// written, a Loaded with nothing but the ID. Each Loaded is a consistent snapshot. If Load
	// fails because of one id, the others can be loaded one by one.
	Load(ctx context.Context, ids []string) ([]Loaded, error)

	// Events returns the events of an id with numbers greater than after, in order: at least one if
	// there is one, and at most limit, [PageRecords] and [PageBytes] of them. Erased events, and
	// the Erase itself, are not among them.
	Events(ctx context.Context, id string, after uint64, limit int) ([]Record, error)

	// Snapshot returns the newest snapshot of an id whose number is lower than below, or the zero
	// Snapshot if there is none.
	Snapshot(ctx context.Context, id string, below uint64) (Snapshot, error)

	// Commit makes a batch durable, all of it or nothing, except for the appends that it refuses:
	// it sets their Err, and writes nothing of them. It refuses appends with an epoch that is too
	// low ([ErrFenced]), appends with a number that is not the next ([ErrConflict]), and those that
	// follow a refused one of the same id, with the same error. When it returns nil, the batch
	// survives a loss of power.
	//
	// After an error it is unknown whether the batch was written. The same batch, with the same
	// Session and Number, can be committed again: it is written once, and Err is set as it would
	// have been the first time.
	Commit(ctx context.Context, b *Batch) error

	// Feed returns the events of a partition with positions greater than after, in the
	// order of their positions, at least one if there is one, and at most limit,
	// [PageRecords] and [PageBytes] of them. An event that becomes visible later has a
	// greater position than all that were visible before.
	Feed(ctx context.Context, part int, after uint64, limit int) ([]Record, error)

	// Ends returns, for each of the Parts partitions, a position after which it has no event yet.
	// Everything committed later has greater positions.
	Ends(ctx context.Context) ([]uint64, error)

	// Outbox returns the undelivered messages of a partition's ids with positions greater than
	// after, as Feed returns events.
	Outbox(ctx context.Context, part int, after uint64, limit int) ([]Outgoing, error)

	// Due returns the reminders of a partition's ids whose time is not after now (in milliseconds
	// since 1970), ordered by time, id and key. It begins after the given reminder, of which only
	// At, ID and Key matter; the zero Reminder comes before all. It returns at least one if there
	// is one, and at most limit, [PageRecords] and [PageBytes] of them.
	Due(ctx context.Context, part int, now int64, after Reminder, limit int) ([]Reminder, error)

	// Cursors returns the cursors of a projection by partition: Parts numbers, 0 if none was
	// committed.
	Cursors(ctx context.Context, projection string) ([]uint64, error)

	// IDs returns at most limit ids that were written to, in the order of their bytes, after the
	// given one.
	IDs(ctx context.Context, after string, limit int) ([]string, error)

	// Close releases what the journal holds. What was committed is durable without it. Later calls
	// fail with [ErrClosed].
	Close() error
}

// Info describes a journal.
type Info struct {
	// Kind is the kind of store, such as "sqlite".
	Kind string
	// Identity is a random text that is made with the journal and never changes, so that a cursor
	// of another journal can be recognized.
	Identity string
}

// Payload is a value as package codec has encoded it. The journal stores it unchanged.
type Payload struct {
	Type string // its name, 0 to 128 bytes of visible ASCII
	Data []byte
	Sum  uint32 // see [Payload.Seal]
}

// Seal sets Sum to the checksum of the payload, its id and its number.
func (p *Payload) Seal(id string, number uint64) { p.Sum = p.sum(id, number) }

// Intact reports whether the payload is what was sealed for that id and number.
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
	// Position is the place in the partition; later commits have greater positions.
	Position uint64
	Time     int64 // of the commit, in milliseconds since 1970
	// Erased says that the record stands for an [Append.Erase] and has no payload.
	Erased bool
	// Payload is the event. Without a Type there is no event, only a number that was used.
	Payload
}

// Snapshot is the state of an id after its event Number: what its events lead to, kept to save
// time. The zero Snapshot is none.
type Snapshot struct {
	Number uint64
	Payload
}

// Loaded is what a journal has for an id.
type Loaded struct {
	ID   string
	Last uint64 // the number of the last append, 0 if there was none
	// Erased is the number of its last [Append.Erase], 0 if there was none: everything appended up
	// to then is gone.
	Erased uint64
	// State is the last appended state, with its number; nil if there is none.
	State *Snapshot
	// Snapshot is the newest snapshot, nil if there is none. Events are the first ones
	// after it, as [Journal.Events] returns them.
	Snapshot *Snapshot
	Events   []Record
	// Sent is the number of the last message that the id has sent, delivered or not.
	Sent uint64
	// Seen has, for each sender, the last message that the id has seen, ordered by sender.
	Seen []Seen
	// Reminders are all reminders of the id, by key.
	Reminders []Reminder
}

// Batch is what one commit makes durable.
type Batch struct {
	// Session is a random number of whoever makes the batches: an open journal may see several
	// sessions one after another, or in turn. 0 is a valid session. It is not stored.
	Session uint64 `cbor:"-"`
	// Number is 1 for the first batch of a session, and increases by one. The number of the batch
	// that was committed last means that the same batch is tried again. If a batch of another
	// session was committed in between, the journal no longer knows that this one was written, and
	// refuses its appends.
	Number uint64
	// Time is the time of the batch, in milliseconds since 1970.
	Time int64
	// Appends are in the order in which they were made. There may be several of one id, each
	// expecting what the one before it has left.
	Appends []Append
	// Delivered are messages that need no further delivery. Those that are not in the outbox are
	// ignored.
	Delivered []Delivery
	// Cursors are the places that projections have reached. A later one replaces an earlier one,
	// even if it is lower.
	Cursors []Cursor
}

// Append is what one handler has recorded. It is written as a whole or not at all.
type Append struct {
	ID string
	// Shard and Epoch say in whose name the id is written. Without a Shard the append can only be
	// refused because of its number.
	Shard string
	Epoch uint64
	// After is the number that the id must have.
	After uint64
	// Events are numbered After+1 and so on.
	Events []Payload
	// State replaces the previous state of the id. If a batch has several, only the last need be
	// written. It takes a number if there are no events.
	State *Payload
	// Snapshot is the state after the append: its number is [Append.Last]. The journal keeps
	// the newest [KeepSnapshots] of an id.
	Snapshot *Payload
	// Erase takes a number and removes what was appended before: events, states, snapshots,
	// reminders and undelivered messages. What the id has sent and seen stays known. An append with
	// Erase has nothing else.
	Erase bool
	// Send are messages to be delivered. Their numbers are greater than those of all that
	// the id has sent before.
	Send []Message
	// Seen are messages that have taken effect. The greatest number of each sender is kept.
	Seen []Seen
	// Reminders are set, or with At 0 removed, in this order.
	Reminders []ReminderEdit

	// Err is set by [Journal.Commit]: to the reason if the append was refused, otherwise to nil.
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

// Seen says that an id has seen a message, and everything that the sender had sent to it before.
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

// Reminder is a message that an id is to get at a given time.
type Reminder struct {
	ID string
	ReminderEdit
}

// Cursor is the place that a projection has reached in a partition.
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

// CheckID returns an error if id is not valid: it must be 1 to [MaxIDBytes] bytes of UTF-8 without
// a zero byte.
func CheckID(id string) error { return checkText("id", id, 1) }

// checkText returns an error if text is not valid or has fewer than least bytes.
func checkText(what, text string, least int) error {
	switch {
	case len(text) < least || len(text) > MaxIDBytes:
		return fmt.Errorf("%s must have %d to %d bytes, not %d", what, least, MaxIDBytes, len(text))
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return fmt.Errorf("%s must be UTF-8 without a zero byte, not %q", what, text)
	}
	return nil
}

// Check returns an error if the batch is not valid. Journals write nothing of such a batch.
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
