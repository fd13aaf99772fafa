// Package plan decides which appends of a batch are refused, and turns the others into rows, for
// journals that keep them in tables.
package plan

import (
	"slices"

	"github.com/greenroom-go/greenroom/persist"
)

// Journal is what a plan needs from a journal. The journal takes back the numbers that it has given
// out if the batch is not committed.
type Journal interface {
	// Find returns an id, as the journal has it or as the batch has left it so far.
	Find(id string) *ID
	// Epoch returns the epoch of a shard, 0 if it was never claimed.
	Epoch(shard string) uint64
	// Actor returns the number of a new id of a partition.
	Actor(part int) int64
	// Position returns the next position in a partition.
	Position(part int) int64
	// Type returns the number of the name of a payload.
	Type(name string) int64
}

// ID is an id as the journal has it, or as the batch that is planned will have left it.
type ID struct {
	ID                 string
	Part               int
	Num                int64 // 0 for one that was never written to
	Last, Erased, Sent int64

	Fresh   bool // it is new
	Dirty   bool // the batch changes it by more than events
	touched bool
}

// NewID returns an id that was never written to.
func NewID(id string) *ID { return &ID{ID: id, Part: persist.PartOf(id)} }

// Plan is what a batch writes. The zero value is ready for use.
type Plan struct {
	Batch     *persist.Batch
	Touched   []*ID
	Erased    []*ID // everything of them is deleted before anything is written
	Events    []Event
	Messages  []Message
	States    []Payload // one for each id
	Snapshots []Payload // one for each id and number
	Seen      []Seen
	Reminders []Reminder // one for each id and key

	j          Journal
	stateAt    map[int64]int // places, by actor
	snapshotAt map[snapshotKey]int
	reminderAt map[reminderKey]int
}

// Event is an event, or an erasure.
type Event struct {
	Actor, Number, Position int64
	Part                    int
	Type                    int64 // 0 for an erasure
	*persist.Payload
}

// Message is a message for the outbox.
type Message struct {
	Actor, Position int64
	Part            int
	Type            int64
	*persist.Message
}

// Payload is a state or a snapshot.
type Payload struct {
	Actor, Number, Type int64
	*persist.Payload
}

// Seen is a message that an id has seen.
type Seen struct {
	Actor int64
	*persist.Seen
}

// Reminder is a reminder that is set, or with At 0 removed.
type Reminder struct {
	Actor int64
	Part  int
	Type  int64
	*persist.ReminderEdit
}

type snapshotKey struct{ actor, number int64 }

type reminderKey struct {
	actor int64
	key   string
}

// Make plans a batch, and returns the errors of the refused appends, by index.
func (p *Plan) Make(j Journal, b *persist.Batch) (refused map[int]error) {
	p.Forget()
	p.j, p.Batch = j, b
	p.stateAt, p.snapshotAt, p.reminderAt = make(map[int64]int), make(map[snapshotKey]int), make(map[reminderKey]int)
	var k *ID
	find := func(id string) uint64 {
		k = j.Find(id)
		return uint64(k.Last)
	}
	return Judge(b, find, j.Epoch, func(a *persist.Append) { p.add(k, a) })
}

// Forget forgets the batch and keeps the memory of the rows.
func (p *Plan) Forget() {
	for _, k := range p.Touched {
		k.Fresh, k.touched, k.Dirty = false, false, false
	}
	empty(&p.Touched)
	empty(&p.Erased)
	empty(&p.Events)
	empty(&p.Messages)
	empty(&p.States)
	empty(&p.Snapshots)
	empty(&p.Seen)
	empty(&p.Reminders)
	p.Batch, p.j, p.stateAt, p.snapshotAt, p.reminderAt = nil, nil, nil, nil, nil
}

func empty[T any](list *[]T) {
	clear(*list)
	*list = (*list)[:0]
}

// erasure stands for the missing payload of an erasure.
var erasure = &persist.Payload{Data: []byte{}}

// add adds an append that is not refused.
func (p *Plan) add(k *ID, a *persist.Append) {
	if a.Takes() == 0 && a.Snapshot == nil {
		return
	}
	if k.Num == 0 {
		k.Num, k.Fresh = p.j.Actor(k.Part), true
	}
	if !k.touched {
		k.touched = true
		p.Touched = append(p.Touched, k)
	}
	k.Last = int64(a.Last())
	k.Dirty = k.Dirty || a.Erase || len(a.Events) == 0 || len(a.Send) > 0
	if a.Erase {
		p.erase(k)
		p.Events = append(p.Events, Event{k.Num, k.Last, p.j.Position(k.Part), k.Part, 0, erasure})
		return
	}
	for i := range a.Events {
		e := &a.Events[i]
		p.Events = append(p.Events, Event{k.Num, int64(a.After) + 1 + int64(i), p.j.Position(k.Part), k.Part, p.j.Type(e.Type), e})
	}
	for i := range a.Send {
		m := &a.Send[i]
		k.Sent = max(k.Sent, int64(m.Number))
		p.Messages = append(p.Messages, Message{k.Num, p.j.Position(k.Part), k.Part, p.j.Type(m.Type), m})
	}
	if a.State != nil {
		place(&p.States, p.stateAt, k.Num, Payload{k.Num, k.Last, p.j.Type(a.State.Type), a.State})
	}
	if a.Snapshot != nil && k.Last > 0 {
		place(&p.Snapshots, p.snapshotAt, snapshotKey{k.Num, k.Last}, Payload{k.Num, k.Last, p.j.Type(a.Snapshot.Type), a.Snapshot})
	}
	for i := range a.Seen {
		p.Seen = append(p.Seen, Seen{k.Num, &a.Seen[i]})
	}
	for i := range a.Reminders {
		r := &a.Reminders[i]
		place(&p.Reminders, p.reminderAt, reminderKey{k.Num, r.Key}, Reminder{k.Num, k.Part, p.j.Type(r.Type), r})
	}
}

// place appends a row, or replaces an earlier one with the same key.
func place[K comparable, R any](rows *[]R, at map[K]int, key K, row R) {
	if i, ok := at[key]; ok {
		(*rows)[i] = row
		return
	}
	at[key] = len(*rows)
	*rows = append(*rows, row)
}

// erase forgets what there was of an id, in the batch too.
func (p *Plan) erase(k *ID) {
	k.Erased = k.Last
	p.Erased = append(p.Erased, k)
	p.Events = slices.DeleteFunc(p.Events, func(r Event) bool { return r.Actor == k.Num })
	p.Messages = slices.DeleteFunc(p.Messages, func(r Message) bool { return r.Actor == k.Num })
	p.States = slices.DeleteFunc(p.States, func(r Payload) bool { return r.Actor == k.Num })
	p.Snapshots = slices.DeleteFunc(p.Snapshots, func(r Payload) bool { return r.Actor == k.Num })
	p.Reminders = slices.DeleteFunc(p.Reminders, func(r Reminder) bool { return r.Actor == k.Num })
	clear(p.stateAt)
	for i, r := range p.States {
		p.stateAt[r.Actor] = i
	}
	clear(p.snapshotAt)
	for i, r := range p.Snapshots {
		p.snapshotAt[snapshotKey{r.Actor, r.Number}] = i
	}
	clear(p.reminderAt)
	for i, r := range p.Reminders {
		p.reminderAt[reminderKey{r.Actor, r.Key}] = i
	}
}

// Bytes returns the data of a payload, which is never nil.
func Bytes(p *persist.Payload) []byte {
	if p.Data == nil {
		return []byte{}
	}
	return p.Data
}
