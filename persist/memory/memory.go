// Package memory is a journal in memory, for tests and for data that need not survive: see
// [persist.Journal].
//
// [Open] also keeps the journal in a file, from which the next Open restores it. The file may be
// one that loses what was not synced: with that of a sim.Disk a simulated node crashes, and the
// node that is started after it finds what was durable.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/internal/plan"
)

// Journal is a [persist.Journal] in memory. Use [New] or [Open].
type Journal struct {
	identity string

	mu     sync.Mutex
	log    *log // nil for one that has no file; guarded by mu, as is all that follows
	ids    map[string]*entry
	sorted []string // the ids, in order, unless there are new ones
	parts  [persist.Parts]partition
	shards map[string]uint64 // epochs
	places map[string]*[persist.Parts]uint64
	by     uint64        // the session of the batch that was committed last
	last   uint64        // its number
	err    map[int]error // what was refused of it
	closed bool
}

// entry is all that is stored for an id.
type entry struct {
	last, erased, sent uint64
	state              *persist.Snapshot
	snapshots          []persist.Snapshot // oldest first
	events             []persist.Record
	seen               map[string]uint64
	reminders          map[string]persist.ReminderEdit
}

type partition struct {
	position uint64 // the last one
	feed     []persist.Record
	outbox   outbox
	due      []place // of the reminders, by time
}

var _ persist.Journal = (*Journal)(nil)

// New returns an empty journal that ends with the process.
func New() *Journal {
	return &Journal{
		identity: strconv.FormatUint(rand.Uint64(), 36),
		ids:      make(map[string]*entry), shards: make(map[string]uint64), places: make(map[string]*[persist.Parts]uint64),
	}
}

// Info implements [persist.Journal].
func (j *Journal) Info() persist.Info { return persist.Info{Kind: "memory", Identity: j.identity} }

// begin locks the journal. After an error it is not locked.
func (j *Journal) begin(ctx context.Context, what string) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	j.mu.Lock()
	if j.closed {
		j.mu.Unlock()
		return fmt.Errorf("%s: %w", what, persist.ErrClosed)
	}
	return nil
}

// Claim implements [persist.Journal].
func (j *Journal) Claim(ctx context.Context, shard string, epoch uint64) error {
	if err := j.begin(ctx, "claim"); err != nil {
		return err
	}
	defer j.mu.Unlock()
	switch has := j.shards[shard]; {
	case epoch < has:
		return fmt.Errorf("claim shard %q with epoch %d: epoch %d has it: %w", shard, epoch, has, persist.ErrFenced)
	case epoch == has:
		return nil
	}
	if err := j.log.append(ctx, frame{Claim: &claim{shard, epoch}}); err != nil {
		return fmt.Errorf("claim: %w", err)
	}
	j.shards[shard] = epoch
	return nil
}

// Commit implements [persist.Journal].
func (j *Journal) Commit(ctx context.Context, b *persist.Batch) error {
	if err := b.Check(); err != nil {
		return err
	}
	if err := j.begin(ctx, "commit"); err != nil {
		return err
	}
	defer j.mu.Unlock()
	switch {
	case b.Session != j.by:
	case b.Number == j.last:
		tell(b, j.err)
		return nil
	case b.Number < j.last:
		return fmt.Errorf("commit: batch %d comes after batch %d", b.Number, j.last)
	}
	refused, accepted := j.judge(b)
	if err := j.log.append(ctx, frame{Batch: accepted}); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	j.apply(accepted)
	j.by, j.last, j.err = b.Session, b.Number, refused
	tell(b, refused)
	return nil
}

// tell records in a batch which of its appends were refused.
func tell(b *persist.Batch, refused map[int]error) {
	for i := range b.Appends {
		b.Appends[i].Err = refused[i]
	}
}

// judge decides which appends are refused, and returns the rest of the batch.
func (j *Journal) judge(b *persist.Batch) (refused map[int]error, accepted *persist.Batch) {
	next := make(map[string]uint64) // of the ids that the batch has extended so far
	last := func(id string) uint64 {
		if last, ok := next[id]; ok {
			return last
		}
		if e := j.ids[id]; e != nil {
			return e.last
		}
		return 0
	}
	rest := *b
	rest.Appends = nil
	refused = plan.Judge(b, last, func(shard string) uint64 { return j.shards[shard] }, func(a *persist.Append) {
		next[a.ID] = a.Last()
		rest.Appends = append(rest.Appends, *a)
	})
	return refused, &rest
}

// apply makes what was accepted visible.
func (j *Journal) apply(b *persist.Batch) {
	for i := range b.Appends {
		j.append(&b.Appends[i], b.Time)
	}
	for _, d := range b.Delivered {
		j.parts[persist.PartOf(d.From)].outbox.remove(d)
	}
	for _, c := range b.Cursors {
		if j.places[c.Projection] == nil {
			j.places[c.Projection] = new([persist.Parts]uint64)
		}
		j.places[c.Projection][c.Part] = c.Position
	}
}

func (j *Journal) append(a *persist.Append, now int64) {
	e, p := j.ids[a.ID], &j.parts[persist.PartOf(a.ID)]
	if e == nil {
		e = &entry{seen: make(map[string]uint64), reminders: make(map[string]persist.ReminderEdit)}
		j.ids[a.ID] = e
	}
	if a.Erase {
		j.erase(a, e, p, now)
		return
	}
	for i, event := range a.Events {
		p.position++
		r := persist.Record{ID: a.ID, Number: a.After + 1 + uint64(i), Position: p.position, Time: now, Payload: own(event)}
		e.events, p.feed = append(e.events, r), append(p.feed, r)
	}
	e.last = a.Last()
	if a.State != nil {
		e.state = &persist.Snapshot{Number: e.last, Payload: own(*a.State)}
	}
	if a.Snapshot != nil {
		e.snapshots = append(e.snapshots, persist.Snapshot{Number: e.last, Payload: own(*a.Snapshot)})
		if n := len(e.snapshots); n > 1 && e.snapshots[n-2].Number == e.last { // it was taken once more
			e.snapshots = slices.Delete(e.snapshots, n-2, n-1)
		}
		e.snapshots = slices.Delete(e.snapshots, 0, max(0, len(e.snapshots)-persist.KeepSnapshots))
	}
	for _, m := range a.Send {
		p.position++
		e.sent = max(e.sent, m.Number)
		m.Payload = own(m.Payload)
		p.outbox.add(persist.Outgoing{From: a.ID, Position: p.position, Time: now, Message: m})
	}
	for _, s := range a.Seen {
		e.seen[s.From] = max(e.seen[s.From], s.Number)
	}
	for _, r := range a.Reminders {
		if before, ok := e.reminders[r.Key]; ok {
			p.forget(a.ID, before)
			delete(e.reminders, r.Key)
		}
		if r.At > 0 {
			r.Payload = own(r.Payload)
			e.reminders[r.Key] = r
			p.remind(a.ID, r)
		}
	}
}

// erase forgets an id, except for what it has sent and seen.
func (j *Journal) erase(a *persist.Append, e *entry, p *partition, now int64) {
	for _, r := range e.reminders {
		p.forget(a.ID, r)
	}
	*e = entry{last: a.Last(), erased: a.Last(), sent: e.sent, seen: e.seen, reminders: make(map[string]persist.ReminderEdit)}
	p.feed = slices.DeleteFunc(p.feed, func(r persist.Record) bool { return r.ID == a.ID })
	p.outbox.removeOf(a.ID)
	p.position++
	p.feed = append(p.feed, persist.Record{ID: a.ID, Number: e.last, Position: p.position, Time: now, Erased: true})
}

// own returns a deep copy of a payload.
func own(p persist.Payload) persist.Payload {
	p.Data = slices.Clone(p.Data)
	return p
}

// Load implements [persist.Journal].
func (j *Journal) Load(ctx context.Context, ids []string) ([]persist.Loaded, error) {
	if err := j.begin(ctx, "load"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	list := make([]persist.Loaded, len(ids))
	for i, id := range ids {
		list[i] = j.load(id)
	}
	return list, nil
}

func (j *Journal) load(id string) persist.Loaded {
	l := persist.Loaded{ID: id}
	e := j.ids[id]
	if e == nil {
		return l
	}
	l.Last, l.Erased, l.Sent = e.last, e.erased, e.sent
	if e.state != nil {
		l.State = &persist.Snapshot{Number: e.state.Number, Payload: own(e.state.Payload)}
	}
	after := uint64(0)
	if s := e.snapshot(e.last + 1); s.Number > 0 {
		l.Snapshot, after = &s, s.Number
	}
	l.Events = page(eventsAfter(e.events, after), persist.PageRecords)
	for _, from := range slices.Sorted(maps.Keys(e.seen)) {
		l.Seen = append(l.Seen, persist.Seen{From: from, Number: e.seen[from]})
	}
	for _, key := range slices.Sorted(maps.Keys(e.reminders)) {
		l.Reminders = append(l.Reminders, e.reminder(id, key))
	}
	return l
}

func (e *entry) reminder(id, key string) persist.Reminder {
	r := e.reminders[key]
	r.Payload = own(r.Payload)
	return persist.Reminder{ID: id, ReminderEdit: r}
}

// snapshot returns the newest snapshot with a lower number, the zero one if there is none.
func (e *entry) snapshot(below uint64) persist.Snapshot {
	for _, s := range slices.Backward(e.snapshots) {
		if s.Number < below {
			return persist.Snapshot{Number: s.Number, Payload: own(s.Payload)}
		}
	}
	return persist.Snapshot{}
}

// eventsAfter returns the events with greater numbers.
func eventsAfter(events []persist.Record, after uint64) []persist.Record {
	i, _ := slices.BinarySearchFunc(events, after, func(r persist.Record, n uint64) int {
		if r.Number <= n {
			return -1
		}
		return 1
	})
	return events[i:]
}

// page returns as many of the first records as fit into an answer.
func page(records []persist.Record, limit int) []persist.Record {
	var list []persist.Record
	bytes := 0
	for _, r := range records[:min(len(records), max(limit, 0), persist.PageRecords)] {
		if bytes += len(r.Data); bytes > persist.PageBytes && len(list) > 0 {
			break
		}
		r.Payload = own(r.Payload)
		list = append(list, r)
	}
	return list
}

// Events implements [persist.Journal].
func (j *Journal) Events(ctx context.Context, id string, after uint64, limit int) ([]persist.Record, error) {
	if err := j.begin(ctx, "read events"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	if e := j.ids[id]; e != nil {
		return page(eventsAfter(e.events, after), limit), nil
	}
	return nil, nil
}

// Snapshot implements [persist.Journal].
func (j *Journal) Snapshot(ctx context.Context, id string, below uint64) (persist.Snapshot, error) {
	if err := j.begin(ctx, "read a snapshot"); err != nil {
		return persist.Snapshot{}, err
	}
	defer j.mu.Unlock()
	if e := j.ids[id]; e != nil {
		return e.snapshot(below), nil
	}
	return persist.Snapshot{}, nil
}

// Feed implements [persist.Journal].
func (j *Journal) Feed(ctx context.Context, part int, after uint64, limit int) ([]persist.Record, error) {
	if err := j.begin(ctx, "read a feed"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	feed := j.parts[part].feed
	i, _ := slices.BinarySearchFunc(feed, after+1, func(r persist.Record, n uint64) int { return cmp.Compare(r.Position, n) })
	return page(feed[i:], limit), nil
}

// Ends implements [persist.Journal].
func (j *Journal) Ends(ctx context.Context) ([]uint64, error) {
	if err := j.begin(ctx, "read the ends"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	ends := make([]uint64, persist.Parts)
	for i := range ends {
		ends[i] = j.parts[i].position
	}
	return ends, nil
}

// Outbox implements [persist.Journal].
func (j *Journal) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	if err := j.begin(ctx, "read an outbox"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	return j.parts[part].outbox.page(after, limit), nil
}

// Due implements [persist.Journal].
func (j *Journal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) ([]persist.Reminder, error) {
	if err := j.begin(ctx, "read reminders"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	var list []persist.Reminder
	bytes := 0
	due := j.parts[part].due
	first, found := slices.BinarySearchFunc(due, placeOf(after.ID, after.ReminderEdit), place.compare)
	if found {
		first++
	}
	for _, r := range due[first:] {
		if r.at > now || len(list) >= min(limit, persist.PageRecords) {
			break
		}
		m := j.ids[r.id].reminder(r.id, r.key)
		if bytes += len(m.Data); bytes > persist.PageBytes && len(list) > 0 {
			break
		}
		list = append(list, m)
	}
	return list, nil
}

// Cursors implements [persist.Journal].
func (j *Journal) Cursors(ctx context.Context, projection string) ([]uint64, error) {
	if err := j.begin(ctx, "read cursors"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	places := make([]uint64, persist.Parts)
	if p := j.places[projection]; p != nil {
		copy(places, p[:])
	}
	return places, nil
}

// IDs implements [persist.Journal].
func (j *Journal) IDs(ctx context.Context, after string, limit int) ([]string, error) {
	if err := j.begin(ctx, "list ids"); err != nil {
		return nil, err
	}
	defer j.mu.Unlock()
	if len(j.sorted) < len(j.ids) { // none goes
		j.sorted = slices.Sorted(maps.Keys(j.ids))
	}
	i, found := slices.BinarySearch(j.sorted, after)
	if found {
		i++
	}
	ids := j.sorted[i:]
	return slices.Clone(ids[:min(len(ids), max(limit, 0))]), nil
}

// Close implements [persist.Journal].
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	return nil
}
