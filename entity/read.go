package entity

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unsafe"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/pause"
)

const (
	defaultPageLimit    = 50
	defaultHistoryLimit = 1000
)

// Entity returns the committed state of an entity: from its actor, which is started if necessary,
// or from the store while the actor is ahead of it. It returns ErrNotFound for an entity that does
// not exist.
func (r *Runtime) Entity(ctx context.Context, id string) (Snapshot, error) {
	if err := CheckID(id); err != nil {
		return Snapshot{}, err
	}
	snap, ticket, err := r.accepted(ctx, id)
	if (err == nil || errors.Is(err, ErrNotFound)) && !r.committer.Committed(ticket) {
		pid := snap.Actor
		if snap, err = r.stored(ctx, id); err == nil {
			snap.Actor = pid
		}
	}
	if err != nil {
		return Snapshot{}, err
	}
	snap.Presence = r.presences.live(id, snap.Presence)
	return snap, nil
}

// accepted returns the state that the actor of an entity has accepted, which may not be committed
// yet, and the committer's number for it.
func (r *Runtime) accepted(ctx context.Context, id string) (snap Snapshot, ticket uint64, err error) {
	err = askEntity(ctx, r, id, func(ref actor.Ref[message]) error {
		answer, err := actor.Ask(ctx, ref, snapshotRequest{})
		if err != nil {
			return err
		}
		snap, ticket = answer.snapshot, answer.ticket
		snap.Actor = ref.PID().String()
		return answer.err
	})
	return snap, ticket, err
}

// load reads an entity from the store.
func (r *Runtime) load(ctx context.Context, id string) (Stored, error) {
	return query(ctx, r, func(ctx context.Context) (Stored, error) { return r.store.Load(ctx, id) })
}

// stored returns the state of an entity in the store.
func (r *Runtime) stored(ctx context.Context, id string) (Snapshot, error) {
	e, err := r.load(ctx, id)
	if err != nil {
		return Snapshot{}, err
	}
	return e.snapshot(), nil
}

func (e *Stored) snapshot() Snapshot {
	return Snapshot{
		ID: e.ID, Type: e.Type, ETag: etag(e.Created, e.Revision), Created: e.Created, Updated: e.Updated,
		Latest: e.Latest, Attributes: e.Attributes, Presence: e.Presence,
	}
}

// askEntity calls ask with the entity's actor, and again with the next actor if that one has ended
// meanwhile.
func askEntity(ctx context.Context, r *Runtime, id string, ask func(actor.Ref[message]) error) error {
	for {
		ref, err := r.reach(ctx, id)
		if err != nil {
			return err
		}
		err = ask(ref)
		if errors.Is(err, actor.ErrStopped) {
			// Callers know ErrClosed and the error of ctx; the actor is an internal matter.
			switch {
			case r.ctx.Err() != nil:
				err = ErrClosed
			case ctx.Err() != nil:
				err = context.Cause(ctx)
			default:
				if h := r.handles.find(id); h != nil && h.actor() == ref {
					r.abandon(h, ErrStopped)
				}
				continue
			}
		}
		if err != nil {
			return fmt.Errorf("entity %q: %w", id, err)
		}
		return nil
	}
}

// reach returns the actor of an entity. An entity that does not exist has an actor for as long as
// it takes to report that.
func (r *Runtime) reach(ctx context.Context, id string) (ref actor.Ref[message], err error) {
	h := r.handles.find(id)
	for {
		if h != nil {
			if ref = h.actor(); !ref.IsZero() {
				return ref, nil
			}
		}
		if h == nil || !h.waits() {
			h, _ = r.handles.replace(id, h)
		}
		ref, err = actor.Ask(ctx, r.manager, reach{h: h})
		if err != nil {
			if errors.Is(err, actor.ErrStopped) {
				err = ErrClosed
				r.abandon(h, err) // nobody else would settle what others have listed
			}
			return ref, fmt.Errorf("entity %q: %w", id, err)
		}
		if !ref.IsZero() {
			return ref, nil
		}
		if err := pause.For(ctx, nameTakenMin); err != nil { // the previous actor is still stopping
			return ref, fmt.Errorf("entity %q: %w", id, err)
		}
		h = r.handles.find(id)
	}
}

// exists asks the store whether there is such an entity.
func (r *Runtime) exists(ctx context.Context, id string) error {
	_, err := r.load(ctx, id)
	return err
}

// bounded reads entities, up to a limit and until they occupy pageBytes; more says that
// there are others.
func (r *Runtime) bounded(ctx context.Context, q ListQuery, limit int) (list []Stored, more bool, err error) {
	p, bytes := newPager(limit+1), int64(0)
	for {
		q.Limit = min(p.limit(), limit+1-len(list))
		page, err := r.page(ctx, q)
		if err != nil {
			return nil, false, err
		}
		whole := len(page) < q.Limit
		bytes += p.took(page)
		list = append(list, page...)
		switch {
		case len(list) > limit:
			return list[:limit], true, nil
		case whole:
			return list, false, nil
		case bytes >= pageBytes:
			return list, true, nil
		}
		q.After = list[len(list)-1].ID
	}
}

// Entities returns a page of entities in the order of their ids, as committed,
// and the cursor of the next page, "" at the end.
func (r *Runtime) Entities(ctx context.Context, p Page) (entities []Snapshot, next string, err error) {
	limit, err := checkLimit(p.Limit, defaultPageLimit, MaxPageLimit)
	if err != nil {
		return nil, "", err
	}
	if len(p.Search) > MaxSearchBytes {
		return nil, "", fmt.Errorf("search: %w: %d bytes; at most %d are allowed", ErrInvalid, len(p.Search), MaxSearchBytes)
	}
	after, err := base64.RawURLEncoding.DecodeString(p.After)
	if err != nil {
		return nil, "", fmt.Errorf("page after %q: %w", brief(p.After), ErrCursorInvalid)
	}
	list, more, err := r.bounded(ctx, ListQuery{After: string(after), Search: p.Search, Types: r.typesOf(p.Type)}, limit)
	if err != nil {
		return nil, "", err
	}
	if more {
		next = base64.RawURLEncoding.EncodeToString([]byte(list[len(list)-1].ID))
	}
	entities = make([]Snapshot, len(list))
	for i := range list {
		e := &list[i]
		entities[i] = e.snapshot()
		entities[i].Presence = r.presences.live(e.ID, e.Presence)
		if h := r.handles.find(e.ID); h != nil {
			if ref := h.actor(); !ref.IsZero() {
				entities[i].Actor = ref.PID().String()
			}
		}
	}
	return entities, next, nil
}

func checkLimit(limit, def, most int) (int, error) {
	switch {
	case limit == 0:
		return def, nil
	case limit < 0 || limit > most:
		return 0, fmt.Errorf("limit: %w: must be from 1 to %d, not %d", ErrInvalid, most, limit)
	}
	return limit, nil
}

// checkSeries checks the id, the key and the range, and returns the range clipped to valid times.
func checkSeries(id, key string, from, to int64) (first, end int64, err error) {
	if err := CheckID(id); err != nil {
		return 0, 0, err
	}
	if err := CheckKey(key); err != nil {
		return 0, 0, err
	}
	if to == 0 {
		to = MaxTS + 1
	}
	if from > to {
		return 0, 0, fmt.Errorf("range from %d to %d: %w: it ends before it begins", from, to, ErrInvalid)
	}
	return max(from, MinTS), min(to, MaxTS+1), nil
}

// History returns a page of the values of a key over a range of time, and the cursor of the next
// page, "" at the end. A page ends before its limit when its values take MaxHistoryBytes. A key
// without values has no points; for an entity that does not exist, History returns ErrNotFound.
func (r *Runtime) History(ctx context.Context, q HistoryQuery) (points []Point, next string, err error) {
	from, to, err := checkSeries(q.ID, q.Key, q.From, q.To)
	if err != nil {
		return nil, "", err
	}
	limit, err := checkLimit(q.Limit, defaultHistoryLimit, MaxHistoryLimit)
	if err != nil {
		return nil, "", err
	}
	first, end := AllOf(from, to)
	if q.Cursor != "" {
		last, err := parsePlace(q.Cursor)
		if err != nil {
			return nil, "", fmt.Errorf("history after %q: %w", brief(q.Cursor), err)
		}
		first, end = within(first, end, last, q.Descending)
	}
	var more bool
	err = r.read(ctx, func(ctx context.Context) (err error) {
		points, more, err = r.historyPage(ctx, q, first, end, limit)
		return err
	})
	if err == nil && len(points) == 0 {
		err = r.exists(ctx, q.ID)
	}
	if err != nil {
		return nil, "", err
	}
	if more {
		next = points[len(points)-1].Place().cursor()
	}
	return points, next, nil
}

// within returns the rest of a range after everything up to last has been read.
func within(from, to, last Place, descending bool) (Place, Place) {
	if descending {
		if last.Compare(to) < 0 {
			to = last
		}
		return from, to
	}
	if last.Compare(from) >= 0 {
		from = Place{last.TS, last.Seq + 1}
	}
	return from, to
}

// cursor returns the printed form of a place, without the sequence if it is 0.
func (p Place) cursor() string {
	text := strconv.AppendInt(nil, p.TS, 36)
	if p.Seq != 0 {
		text = strconv.AppendUint(append(text, '-'), p.Seq, 36)
	}
	return string(text)
}

func parsePlace(cursor string) (p Place, err error) {
	ts, seq, more := strings.Cut(cursor, "-")
	if p.TS, err = strconv.ParseInt(ts, 36, 64); err == nil && more {
		p.Seq, err = strconv.ParseUint(seq, 36, 63)
	}
	if err != nil || p.TS < MinTS || p.TS > MaxTS {
		return p, ErrCursorInvalid
	}
	return p, nil
}

// historyChunk is how many values are read from the store at once.
const historyChunk = 4096

// historyPage reads at most limit values and, since a value may be long, stops when they
// have MaxHistoryBytes. It reports whether there are more.
func (r *Runtime) historyPage(ctx context.Context, q HistoryQuery, from, to Place, limit int) (points []Point, more bool, err error) {
	size := 0
	for {
		want := min(limit+1-len(points), historyChunk)
		chunk, err := r.store.History(ctx, q.ID, q.Key, from, to, want, q.Descending)
		if err != nil {
			return nil, false, err
		}
		for i := range chunk {
			if len(points) == limit || size >= MaxHistoryBytes {
				return points, true, nil
			}
			points = append(points, chunk[i])
			size += len(chunk[i].Value.Text()) + int(unsafe.Sizeof(chunk[i]))
		}
		if len(chunk) < want {
			return points, false, nil
		}
		from, to = within(from, to, points[len(points)-1].Place(), q.Descending)
	}
}

// Origins returns who computed the values of a key over a range of time, in the order of time: one
// page from q.From on, of at most q.Limit. The fields Descending and Cursor are ignored: the next
// page begins after the last TS. Values of devices are not included; if a device has overwritten a
// computed value of the same time, that value is still reported as computed.
func (r *Runtime) Origins(ctx context.Context, q HistoryQuery) ([]PointOrigin, error) {
	from, to, err := checkSeries(q.ID, q.Key, q.From, q.To)
	if err != nil {
		return nil, err
	}
	limit, err := checkLimit(q.Limit, defaultHistoryLimit, MaxHistoryLimit)
	if err != nil {
		return nil, err
	}
	list, err := query(ctx, r, func(ctx context.Context) ([]PointOrigin, error) {
		return r.store.Origins(ctx, q.ID, q.Key, from, to, limit)
	})
	if err == nil && len(list) == 0 {
		err = r.exists(ctx, q.ID)
	}
	return list, err
}

// Trim removes the values of a key older than before from the history, in pieces small enough not
// to delay commits, and returns how many it removed. The latest value stays.
func (r *Runtime) Trim(ctx context.Context, id, key string, before int64) (n int, err error) {
	if _, _, err := checkSeries(id, key, 0, 0); err != nil {
		return 0, err
	}
	for {
		some, err := query(ctx, r, func(ctx context.Context) (int, error) {
			return r.store.Trim(ctx, id, key, min(before, MaxTS+1), trimPage)
		})
		n += some
		if err != nil || some < trimPage {
			return n, err
		}
	}
}

// Compact makes the history as small as the store can, in pieces small enough not to delay commits,
// until ctx ends. The contents stay the same.
func (r *Runtime) Compact(ctx context.Context) error { return r.read(ctx, r.store.Compact) }

// trimPage is how many values Trim removes at once.
const trimPage = 5000

// CountNumbers returns how many values of a key are numbers, in a range [from, to) of
// milliseconds since the epoch; a to of 0 means no end. It returns ErrNotFound for an
// entity that does not exist.
func (r *Runtime) CountNumbers(ctx context.Context, id, key string, from, to int64) (n int, err error) {
	if from, to, err = checkSeries(id, key, from, to); err != nil {
		return 0, err
	}
	n, err = query(ctx, r, func(ctx context.Context) (int, error) { return r.store.CountNumbers(ctx, id, key, from, to) })
	if err == nil && n == 0 {
		err = r.exists(ctx, id)
	}
	return n, err
}

// ScanHistory calls f with all points of a key of an entity with q.From <= TS < q.To, in the order
// of their places, in chunks. The other fields of q are ignored. It reads column by column, which
// takes a fraction of the time that History takes for as many values, and holds one chunk at a
// time. It ends with the first error of f, which it returns wrapped. f must not call the runtime.
// An entity that does not exist has no points.
func (r *Runtime) ScanHistory(ctx context.Context, q HistoryQuery, f func(*Chunk) error) error {
	from, to, err := checkSeries(q.ID, q.Key, q.From, q.To)
	if err != nil {
		return err
	}
	return r.read(ctx, func(ctx context.Context) error { return r.store.Scan(ctx, q.ID, q.Key, from, to, f) })
}
