package server

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// maxFeedState bounds the state of a stream: the values sent last by entity and key, the
	// entities that wait for the next period, and those for which the filter's result is known.
	maxFeedState = 100_000
	// Limits and default of the parameter every.
	minFeedPeriod     = 100 * time.Millisecond
	maxFeedPeriod     = time.Hour
	defaultFeedPeriod = time.Second
)

// feedMode says which readings a stream sends.
type feedMode uint8

const (
	feedRealtime feedMode = iota // all
	feedOnChange                 // those that differ enough from the previous ones
	feedPeriodic                 // the newest ones, at an interval
)

// feedRequest contains the parameters of both kinds of streams.
type feedRequest struct {
	// Only these entities; may be repeated.
	Entities []string `query:"entity" collectionFormat:"multi" example:"[\"room-1\"]"`
	// Only entities of this type or one that extends it.
	Type string `query:"type" example:"Room"`
	// Only these keys; may be repeated.
	Keys []string `query:"key" collectionFormat:"multi" example:"[\"temperature\"]"`
	// A filter; docs/filter.md has the language.
	Filter string `query:"q"`
	// readings, edits, commands, presence, or several of them separated by commas.
	Kinds string `query:"kinds" default:"readings"`
	// All readings, those that differ enough from the one before, or the newest at an interval.
	Mode string `query:"mode" enum:"realtime,onchange,periodic" default:"realtime"`
	// With onchange: by how much a number must differ; 2% is relative to the previous one.
	Deadband string `query:"deadband" example:"0.5"`
	// With periodic: 100ms to 1h; by default 1s.
	Every string `query:"every" example:"5s"`
	// Where to resume: the id of an event.
	Cursor string `query:"cursor"`
}

// feedQuery says what a stream sends.
type feedQuery struct {
	cursor          string
	entities, keys  []string
	typ             string
	filterText      string
	filter          *filter.Filter // of filterText; nil for all
	readings, edits bool
	commands        bool
	presence        bool
	mode            feedMode
	deadband        float64 // absolute or, with relative, a fraction of the previous value
	relative        bool
	every           time.Duration
	who             *access.Principal // the reader, who sees only entities that it may read
	scope           string            // the filter for those, if filterText has further conditions; "" otherwise
}

// query returns the query for the caller of ctx.
func (in *feedRequest) query(ctx context.Context) (f feedQuery, err error) {
	f = feedQuery{who: callerOf(ctx).who, cursor: in.Cursor, entities: in.Entities, keys: in.Keys, typ: in.Type, filterText: in.Filter}
	f.mode = map[string]feedMode{"onchange": feedOnChange, "periodic": feedPeriodic}[in.Mode] // realtime is the zero value
	if err := f.parseKinds(in.Kinds); err != nil {
		return f, err
	}
	if in.Filter != "" || !f.who.MayAll(access.Read) {
		if f.filter, f.filterText, err = visible(ctx, in.Filter); err != nil {
			return f, err
		}
		if in.Filter != "" {
			f.scope = f.who.Filter(access.Read)
		}
	}
	if err := f.parseDeadband(in.Deadband); err != nil {
		return f, err
	}
	return f, f.parseEvery(in.Every)
}

func (f *feedQuery) parseKinds(text string) error {
	for kind := range strings.SplitSeq(text, ",") {
		switch kind {
		case "readings":
			f.readings = true
		case "edits":
			f.edits = true
		case "commands":
			f.commands = true
		case "presence":
			f.presence = true
		default:
			return problemf(http.StatusBadRequest, "kinds must be readings, edits, commands, presence or several of them with commas, not %q", shorten(text, 64))
		}
	}
	return nil
}

func (f *feedQuery) parseDeadband(text string) (err error) {
	if text == "" {
		return nil
	}
	if f.mode != feedOnChange {
		return problemf(http.StatusBadRequest, "deadband needs mode=onchange")
	}
	number, relative := strings.CutSuffix(text, "%")
	f.deadband, err = strconv.ParseFloat(number, 64)
	if err != nil || !(f.deadband >= 0) || math.IsInf(f.deadband, 0) {
		return problemf(http.StatusBadRequest, "deadband must be a number that is not negative, such as 0.5, or a part of the value before, such as 2%%, not %q", shorten(text, 32))
	}
	if f.relative = relative; relative {
		f.deadband /= 100
	}
	return nil
}

func (f *feedQuery) parseEvery(text string) (err error) {
	f.every = defaultFeedPeriod
	if text == "" {
		return nil
	}
	if f.mode != feedPeriodic {
		return problemf(http.StatusBadRequest, "every needs mode=periodic")
	}
	f.every, err = parseDuration(text)
	if err != nil || f.every < minFeedPeriod || f.every > maxFeedPeriod {
		return problemf(http.StatusBadRequest, "every must be a duration from %v to %v, such as 5s, not %q", minFeedPeriod, maxFeedPeriod, shorten(text, 32))
	}
	return nil
}

// outlet writes events to a reader. An event without a cursor does not change where the reader
// resumes. Data of more than streamFlushBytes is not copied, and must not be changed afterwards.
// buffered returns about how many bytes the events since the last flush have.
type outlet interface {
	event(name, cursor string, data []byte)
	alive(cursor string)
	buffered() int
	flush() error
}

// feed follows the committed changes for one stream.
type feed struct {
	api   *streamAPI
	query feedQuery
	out   outlet
	match *search.Matcher // nil without a filter
	needs map[string]bool // the keys that the filter refers to

	changes *entity.Follower
	missed  error  // why changes before the first event are missing, or nil
	cursor  string // the last one sent to the reader
	buf     []byte // for the data of small events
	known   map[string]bool
	hidden  map[string]bool // entities that are outside of the scope, until an edit
	sent    map[feedKey]sentValue
	pending map[string]*conflated
	order   []string // of pending
	due     time.Time
}

type feedKey struct{ entity, key string }

// sentValue is the last value of a key that was sent to the reader.
type sentValue struct {
	ts    int64
	value value.Value
}

// conflated holds the values of an entity for the next period.
type conflated struct {
	values    map[string]sentValue
	keys      []string
	committed int64
}

func (a *streamAPI) newFeed(q feedQuery, out outlet) *feed {
	f := &feed{api: a, query: q, out: out, known: make(map[string]bool), hidden: make(map[string]bool), sent: make(map[feedKey]sentValue), pending: make(map[string]*conflated)}
	if q.filter != nil {
		f.match = search.NewMatcher(a.runtime, q.filter)
		f.needs = make(map[string]bool)
		for _, p := range q.filter.Paths() {
			if p.Root == filter.RootLatest {
				f.needs[p.Name] = true
			}
		}
	}
	return f
}

// open starts following the changes from a cursor. If the changes after it are gone, it follows
// from now on, and records that for the reader.
func (f *feed) open(ctx context.Context, cursor string) (err error) {
	query := entity.ChangesQuery{
		Cursor: cursor, Entities: f.query.entities, Edits: f.query.edits || f.filters(),
		Commands: f.query.commands, Presence: f.query.presence || f.looksAtPresence(),
		EditsOnly: !f.query.readings && f.match == nil, // a reading may change the result of a filter
	}
	f.changes, err = f.api.runtime.Follow(ctx, query)
	if errors.Is(err, entity.ErrCursorExpired) {
		query.Cursor, f.missed = "", err
		f.changes, err = f.api.runtime.Follow(ctx, query)
	}
	return err
}

// filters reports whether entities are filtered, so that edits may change the result.
func (f *feed) filters() bool { return f.match != nil || f.query.typ != "" }

// looksAtPresence reports whether the filter refers to presence.
func (f *feed) looksAtPresence() bool {
	return f.query.filter != nil && (f.query.filter.Depends() != filter.Depends{} ||
		slices.ContainsFunc(f.query.filter.Paths(), func(p *filter.Path) bool { return p.Root == filter.RootPresence }))
}

// run sends changes until the reader leaves or the server shuts down. A reader that is too slow for
// the runtime's buffer is sent the event lagged, and continues from the log.
func (f *feed) run(ctx context.Context) {
	defer f.changes.Close()
	if f.missed != nil {
		f.reset(f.missed)
	} else {
		f.cursor = f.changes.Cursor()
		f.out.alive(f.cursor)
	}
	for f.out.flush() == nil {
		switch err := f.follow(ctx); {
		case errors.Is(err, entity.ErrLagged):
			f.count(eventLagged)
			f.out.event(eventLagged, "", []byte(`{"reason":"the reader is slower than the changes; nothing is lost, it is carried on from the log"}`))
		case errors.Is(err, entity.ErrCursorExpired):
			f.reset(err)
		default:
			return // the reader has left or was too slow, or the server is shutting down
		}
	}
}

// Names of events.
const (
	eventChange   = "change"
	eventEdit     = "edit"
	eventCommand  = "command"
	eventPresence = "presence"
	eventLagged   = "lagged"
	eventReset    = "reset"
)

var eventNames = [...]string{eventChange, eventEdit, eventCommand, eventPresence, eventLagged, eventReset}

func (f *feed) count(name string) { f.api.events[slices.Index(eventNames[:], name)].Add(1) }

// reset sends the event reset, with the reason why changes were missed.
func (f *feed) reset(why error) {
	f.cursor = f.changes.Cursor()
	f.count(eventReset)
	reason := `{"reason":"the changes after the cursor are no longer kept; read the present state"}`
	if errors.Is(why, entity.ErrCursorForeign) {
		reason = `{"reason":"the cursor is of another store, or of changes made after the backup that this one was restored from; read the present state"}`
	}
	f.out.event(eventReset, f.cursor, []byte(reason))
	clear(f.known)
	clear(f.hidden)
	clear(f.sent)
	clear(f.pending)
	f.order = f.order[:0]
}

// follow sends changes until an error ends the stream.
func (f *feed) follow(ctx context.Context) error {
	beat := time.Now().Add(heartbeatEvery)
	f.due = time.Now().Add(f.query.every)
	for {
		if ctx.Err() != nil { // while there is always a change in memory, Next does not check ctx
			return context.Cause(ctx)
		}
		until := beat
		if f.query.mode == feedPeriodic && f.due.Before(until) {
			until = f.due
		}
		waiting, stop := context.WithDeadline(ctx, until)
		c, err := f.changes.Next(waiting)
		stop()
		switch {
		case err == nil:
			if err = f.take(ctx, &c); err == nil {
				err = f.gather(ctx, until)
			}
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			err = nil
		}
		if f.query.mode == feedPeriodic && !time.Now().Before(f.due) {
			f.sendPending(f.changes.Cursor())
			f.due = time.Now().Add(f.query.every)
		}
		if !time.Now().Before(beat) {
			if len(f.pending) == 0 {
				f.cursor = f.changes.Cursor()
			}
			f.out.alive(f.cursor)
			beat = time.Now().Add(heartbeatEvery)
		}
		if ferr := f.out.flush(); ferr != nil {
			return ferr
		}
		if err != nil {
			return err
		}
	}
}

// gather handles the changes that are ready, until a time at most, so that a burst becomes one
// write.
func (f *feed) gather(ctx context.Context, until time.Time) error {
	for ctx.Err() == nil && f.out.buffered() < streamFlushBytes && time.Now().Before(until) {
		c, ok := f.changes.Ready()
		if !ok {
			return nil
		}
		if err := f.take(ctx, &c); err != nil {
			return err
		}
	}
	return nil
}

// take sends a change or the requested part of it, or keeps it for the next period.
func (f *feed) take(ctx context.Context, c *entity.Change) error {
	wanted, err := f.wants(ctx, c)
	if err != nil || !wanted {
		return err
	}
	if c.Edit != nil {
		if !f.query.edits {
			return nil
		}
		f.sendPending("") // keeps the order
		event := newEditEvent(c)
		f.hideEnds(ctx, event)
		data, err := encodeJSON(event)
		if err != nil {
			return err
		}
		f.send(eventEdit, c.Cursor, data)
		return nil
	}
	if c.Command != nil {
		f.sendPending("")
		data, err := encodeJSON(commandEventJSON{c.Entity, c.TS, newCommandJSON(c.Command), c.Committed})
		if err != nil {
			return err
		}
		f.send(eventCommand, c.Cursor, data)
		return nil
	}
	if c.Presence != nil {
		f.takePresence(c)
		return nil
	}
	if !f.query.readings {
		return nil
	}
	some := *c
	if len(f.query.keys) > 0 {
		some.Values = keepSamples(c.Values, func(s *entity.Sample) bool { return slices.Contains(f.query.keys, s.Key) })
	}
	switch f.query.mode {
	case feedOnChange:
		some.Values = keepSamples(some.Values, func(s *entity.Sample) bool { return f.moved(&some, s) })
	case feedPeriodic:
		f.conflate(&some)
		return nil
	default:
	}
	if len(some.Values) > 0 {
		f.send(eventChange, c.Cursor, f.encode(&some))
	}
	return nil
}

// encode returns the data of a reading, which is valid until the next event and must not be
// changed: other streams may send the same bytes.
func (f *feed) encode(c *entity.Change) []byte {
	switch size := c.Bytes(); {
	case size <= streamFlushBytes/8: // also where each byte is escaped
		f.buf = appendChange(f.buf[:0], c)
		return f.buf
	case f.query.mode == feedRealtime && len(f.query.keys) == 0: // the same for all readers
		return f.api.large.encode(c, size)
	default:
		return appendChange(make([]byte, 0, size), c)
	}
}

// takePresence sends a change of presence.
func (f *feed) takePresence(c *entity.Change) {
	if !f.query.presence {
		return
	}
	f.sendPending("")
	f.buf = append(f.buf[:0], `{"entity":`...)
	f.buf = value.String(c.Entity).AppendJSON(f.buf)
	f.buf = strconv.AppendInt(append(f.buf, `,"ts":`...), c.TS, 10)
	f.buf = c.Presence.AppendJSON(append(f.buf, `,"presence":`...))
	f.buf = strconv.AppendInt(append(f.buf, `,"committed_ms":`...), c.Committed, 10)
	f.buf = append(f.buf, '}')
	f.send(eventPresence, c.Cursor, f.buf)
}

// hideEnds removes relations to entities that the reader may not see from an event.
func (f *feed) hideEnds(ctx context.Context, event *editEventJSON) {
	if f.query.who.MayAll(access.Read) {
		return
	}
	event.Relations = slices.DeleteFunc(event.Relations, func(rel relationEditJSON) bool {
		for _, end := range []string{rel.From, rel.To} {
			if end != event.Entity && f.query.who.May(ctx, f.api.runtime, access.Read, end) != nil {
				return true
			}
		}
		return false
	})
}

// send sends data as an event. With a cursor, the reader resumes after it.
func (f *feed) send(name, cursor string, data []byte) {
	f.count(name)
	if cursor != "" {
		f.cursor = cursor
	}
	f.out.event(name, cursor, data)
	if cap(f.buf) > streamFlushBytes { // the outlet may still have it
		f.buf = nil
	}
}

// largeEvent is the last large reading as it is sent to all readers: encoded for each of them it
// would take a megabyte of each.
type largeEvent struct {
	mu   sync.Mutex
	seq  uint64 // guarded by mu
	data []byte // guarded by mu; the bytes are immutable
}

// encode returns the data of a reading of about so many bytes.
func (l *largeEvent) encode(c *entity.Change, size int) []byte {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.seq != c.Seq {
		l.seq, l.data = c.Seq, appendChange(make([]byte, 0, size), c)
	}
	return l.data
}

// keepSamples returns the samples for which wanted returns true. It copies them, because all
// readers share a change.
func keepSamples(list []entity.Sample, wanted func(*entity.Sample) bool) []entity.Sample {
	var kept []entity.Sample
	for i := range list {
		if wanted(&list[i]) {
			kept = append(kept, list[i])
		}
	}
	return kept
}

// moved reports whether a value differs from the last one that was sent by more than the deadband,
// and if so records it as sent.
func (f *feed) moved(c *entity.Change, s *entity.Sample) bool {
	k := feedKey{c.Entity, s.Key}
	last, ok := f.sent[k]
	if ok && (c.TS < last.ts || f.near(last.value, s.Value)) {
		return false
	}
	f.noteSent(k, sentValue{c.TS, s.Value})
	return true
}

func (f *feed) noteSent(k feedKey, v sentValue) {
	if _, ok := f.sent[k]; !ok && len(f.sent) >= maxFeedState {
		clear(f.sent)
	}
	f.sent[k] = v
}

// near reports whether two values are equal within the deadband.
func (f *feed) near(a, b value.Value) bool {
	x, ok1 := a.Number()
	y, ok2 := b.Number()
	if !ok1 || !ok2 || f.query.deadband == 0 {
		return a == b || value.Compare(a, b) == value.Equal
	}
	if f.query.relative {
		return math.Abs(x-y) <= f.query.deadband*math.Abs(x)
	}
	return math.Abs(x-y) <= f.query.deadband
}

// conflate keeps the newest value of each key for the next period. It ignores values older than
// those that were sent.
func (f *feed) conflate(c *entity.Change) {
	values := keepSamples(c.Values, func(s *entity.Sample) bool { return c.TS >= f.sent[feedKey{c.Entity, s.Key}].ts })
	if len(values) == 0 {
		return
	}
	p := f.pending[c.Entity]
	if p == nil {
		if len(f.pending) >= maxFeedState {
			f.sendPending("")
		}
		p = &conflated{values: make(map[string]sentValue)}
		f.pending[c.Entity] = p
		f.order = append(f.order, c.Entity)
	}
	p.committed = c.Committed
	for i := range values {
		s := &values[i]
		old, ok := p.values[s.Key]
		if !ok {
			p.keys = append(p.keys, s.Key)
		}
		if !ok || c.TS >= old.ts {
			p.values[s.Key] = sentValue{c.TS, s.Value}
		}
	}
}

// sendPending sends the values that wait for the period, in the order in which the entities first
// changed. Only the last event has the cursor: a reader that is interrupted in between receives all
// of them again.
func (f *feed) sendPending(cursor string) {
	for i, id := range f.order {
		at := ""
		if i == len(f.order)-1 {
			at = cursor
		}
		f.sendConflated(id, f.pending[id], at)
	}
	clear(f.pending)
	f.order = f.order[:0]
}

// sendConflated sends the values of an entity, in one event for each time.
func (f *feed) sendConflated(id string, p *conflated, cursor string) {
	byTime := make(map[int64][]entity.Sample)
	var times []int64
	for _, key := range p.keys {
		v := p.values[key]
		if byTime[v.ts] == nil {
			times = append(times, v.ts)
		}
		byTime[v.ts] = append(byTime[v.ts], entity.Sample{Key: key, Value: v.value})
		f.noteSent(feedKey{id, key}, v)
	}
	slices.Sort(times)
	for i, ts := range times {
		data := f.encode(&entity.Change{Entity: id, TS: ts, Values: byTime[ts], Committed: p.committed})
		at := ""
		if i == len(times)-1 {
			at = cursor
		}
		f.send(eventChange, at, data)
	}
}

// wants reports whether the stream includes the entity of a change. It includes the deletion of an
// entity unless the entity is known not to match.
func (f *feed) wants(ctx context.Context, c *entity.Change) (bool, error) {
	if !f.filters() {
		return true, nil
	}
	answer, known := f.known[c.Entity]
	if c.Edit != nil && c.Edit.Deleted {
		delete(f.known, c.Entity)
		delete(f.hidden, c.Entity)
		return answer || !known && f.query.who.CoversID(access.Read, c.Entity), nil
	}
	if c.Edit == nil && f.hidden[c.Entity] || known && !f.touches(c) {
		return answer, nil
	}
	matched, err := f.covers(ctx, c)
	if err == nil && matched {
		matched, err = f.ask(ctx, c, f.query.typ, f.query.filterText, func(v entity.View) bool { return f.judge(ctx, v) })
	}
	if errors.Is(err, entity.ErrNotFound) {
		return answer, nil // deleted since; the edit that says so follows
	}
	if err != nil {
		return false, err
	}
	if !known && len(f.known) >= maxFeedState {
		clear(f.known)
	}
	f.known[c.Entity] = matched
	return matched, nil
}

// covers reports whether the entity of a change is in the scope. The scope is evaluated by itself,
// once until the next edit, so that a reader's filter costs nothing for entities that the reader
// may not see.
func (f *feed) covers(ctx context.Context, c *entity.Change) (bool, error) {
	if f.query.scope == "" {
		return true, nil
	}
	covered, err := f.ask(ctx, c, "", f.query.scope, func(v entity.View) bool { return f.query.who.Covers(access.Read, v) })
	delete(f.hidden, c.Entity)
	if err == nil && !covered {
		if len(f.hidden) >= maxFeedState {
			clear(f.hidden)
		}
		f.hidden[c.Entity] = true
	}
	return covered, err
}

// ask evaluates a filter on the entity of a change, in its turn, unless another stream has the
// result.
func (f *feed) ask(ctx context.Context, c *entity.Change, typ, filterText string, matches func(entity.View) bool) (bool, error) {
	return f.api.judge.once(ctx, judged{typ, filterText, c.Entity}, c.Seq, func() (matched bool, err error) {
		err = f.api.runtime.View(ctx, c.Entity, func(v entity.View) error {
			matched = matches(v)
			return nil
		})
		return matched, err
	})
}

func (f *feed) judge(ctx context.Context, v entity.View) bool {
	if f.query.typ != "" && !v.IsA(f.query.typ) {
		return false
	}
	if f.match == nil {
		return true
	}
	f.match.Reset()
	return f.match.Match(ctx, v)
}

// touches reports whether a change may change the result of the filter.
func (f *feed) touches(c *entity.Change) bool {
	if c.Edit != nil || c.Command != nil || f.match == nil {
		return c.Edit != nil
	}
	if f.query.filter.Depends() != (filter.Depends{}) {
		return true
	}
	if c.Presence != nil {
		return f.looksAtPresence()
	}
	for _, p := range f.query.filter.Paths() {
		if p.Root == filter.RootUpdated {
			return true
		}
	}
	return slices.ContainsFunc(c.Values, func(s entity.Sample) bool { return f.needs[s.Key] })
}

// editEventJSON is the data of an edit event: what a write has changed.
type editEventJSON struct {
	Entity string `json:"entity" example:"room-1"`
	TS     int64  `json:"ts" example:"1451649600512"`
	// The entity's number for the edit.
	Revision uint64 `json:"revision" example:"4"`
	// The entity is new.
	Created bool `json:"created,omitempty"`
	// The entity is deleted.
	Deleted bool `json:"deleted,omitempty"`
	// The new type; empty for none.
	Type       *string             `json:"type,omitempty"`
	Attributes []attributeEditJSON `json:"attributes,omitempty"`
	Relations  []relationEditJSON  `json:"relations,omitempty"`
	// When it was committed.
	Committed int64 `json:"committed_ms" example:"1451649600700"`
}

// commandEventJSON is the data of a command event: a step of a command.
type commandEventJSON struct {
	Entity string `json:"entity" example:"room-1"`
	TS     int64  `json:"ts" example:"1451649600512"`
	// The command, as it is since the step.
	Command commandJSON `json:"command"`
	// When it was committed.
	Committed int64 `json:"committed_ms" example:"1451649600700"`
}

// presenceEventJSON is the data of a presence event: a change of the state, or of being connected.
type presenceEventJSON struct {
	Entity string `json:"entity" example:"room-1"`
	TS     int64  `json:"ts" example:"1451649600512"`
	// The presence, as it is since the change.
	Presence presenceJSON `json:"presence"`
	// When it was committed.
	Committed int64 `json:"committed_ms" example:"1451649600700"`
}

// attributeEditJSON is an attribute that was set or removed.
type attributeEditJSON struct {
	Section string `json:"section" enum:"attributes,desired,reported" example:"desired"`
	// A JSON pointer.
	Path string `json:"path" example:"/setpoint"`
	// Absent if it was removed.
	Value   value.Value `json:"value,omitzero"`
	Removed bool        `json:"removed,omitempty"`
}

// relationEditJSON is a relation that was put or removed.
type relationEditJSON struct {
	relationJSON
	Removed bool `json:"removed,omitempty"`
}

func newEditEvent(c *entity.Change) *editEventJSON {
	e := c.Edit
	event := &editEventJSON{Entity: c.Entity, TS: c.TS, Revision: e.Revision, Created: e.Created, Deleted: e.Deleted, Committed: c.Committed}
	if e.Typed {
		event.Type = &e.Type
	}
	for i := range e.Attributes {
		a := &e.Attributes[i]
		event.Attributes = append(event.Attributes, attributeEditJSON{a.Section.String(), a.Path, a.Value, a.Removed()})
	}
	for i := range e.Relations {
		event.Relations = append(event.Relations, relationEditJSON{newRelationJSON(&e.Relations[i].Relation), e.Relations[i].Removed})
	}
	return event
}
