package entity

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Streams of committed changes.
//
// A subscription is live or catching up. While it is live, the hub puts changes into its bounded
// buffer. While it is catching up, it reads the change log page by page and nothing is buffered, so
// that a subscription cannot fall behind because it starts far back. Near the end of the log it
// goes live at a sequence that the hub determines under its lock. The buffer has everything after
// that sequence, and the subscription reads the log exactly up to it: no gap, no duplicate.

// changePage is how many changes are read from the log at once.
const changePage = 512

// hub passes committed changes to the live subscriptions.
type hub struct {
	generations []Generation // the store's
	buffer      int
	count       *counters

	mu        sync.Mutex
	published uint64                     // the sequence of the last change, guarded by mu
	all       map[*Subscription]struct{} // live ones without a filter, guarded by mu
	byEntity  map[string][]*Subscription // live ones with one, guarded by mu
	open      map[*Subscription]struct{} // all of them, guarded by mu
	closed    bool                       // guarded by mu
}

func newHub(info StoreInfo, buffer int, count *counters) *hub {
	return &hub{
		generations: info.Generations, buffer: buffer, count: count, published: info.LastChange,
		all: make(map[*Subscription]struct{}), byEntity: make(map[string][]*Subscription), open: make(map[*Subscription]struct{}),
	}
}

// cursor is the printed form of a place in the order of changes.
func (h *hub) cursor(seq uint64) string {
	var buffer [64]byte // each change has one
	return string(strconv.AppendUint(append(append(buffer[:0], generationOf(h.generations, seq)...), '-'), seq, 36))
}

// parse parses a cursor, and returns an error unless the store has its change and still keeps those
// after it.
func (h *hub) parse(cursor string, info StoreInfo) (uint64, error) {
	cut := strings.LastIndexByte(cursor, '-')
	seq, err := strconv.ParseUint(cursor[cut+1:], 36, 63)
	switch {
	case cut < 1 || err != nil:
		err = ErrCursorInvalid
	case seq+1 < info.FirstChange:
		err = ErrCursorExpired
	case seq > info.LastChange || cursor[:cut] != generationOf(h.generations, seq):
		err = ErrCursorForeign
	}
	if err != nil {
		return 0, fmt.Errorf("cursor %q: %w", brief(cursor), err)
	}
	return seq, nil
}

func (h *hub) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}

// publish passes a committed batch on. It never waits for a reader.
func (h *hub) publish(done committed) {
	h.mu.Lock()
	defer h.mu.Unlock()
	seq := done.first
	quiet := len(h.all) == 0 && len(h.byEntity) == 0
	for _, d := range done.deliveries {
		if quiet {
			seq += uint64(d.records())
			continue
		}
		some := h.byEntity[d.h.id]
		if d.edit != nil {
			h.push(some, LoggedChange{Seq: seq, Entity: d.h.id, TS: d.ts, Origin: d.origin, Edit: d.edit, Committed: done.ms})
			seq++
			continue
		}
		if d.presence != nil {
			h.push(some, LoggedChange{Seq: seq, Entity: d.h.id, TS: d.ts, Presence: d.presence, Committed: done.ms})
			seq++
		}
		for _, command := range d.commands {
			h.push(some, LoggedChange{Seq: seq, Entity: d.h.id, TS: d.ts, Command: command, Committed: done.ms})
			seq++
		}
		for i := range d.readings {
			r := &d.readings[i]
			h.push(some, LoggedChange{Seq: seq, Entity: d.h.id, TS: r.TS, Values: r.Values, Origin: d.origin, Committed: done.ms, Arrived: r.Arrived, Created: d.made && i == 0})
			seq++
		}
	}
	h.published = seq - 1
}

// push passes a change to the subscriptions without a filter and to those in some. REQUIRES: h.mu
// held.
func (h *hub) push(some []*Subscription, c LoggedChange) {
	if len(h.all)+len(some) == 0 {
		return
	}
	bytes := c.Bytes()
	for s := range h.all {
		s.push(c, bytes)
	}
	for _, s := range some {
		s.push(c, bytes)
	}
}

// join makes a subscription live if it is near enough to the end, and returns the sequence up to
// which it has to read the log. The log has a batch a moment before the batch is published. A
// reader must not read past what is published, or its cursor would be ahead of that of a
// subscription that starts now (a ChangesQuery without a cursor).
func (h *hub) join(s *Subscription) (upTo uint64, live bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.open[s]; !ok {
		return 0, true // it has been closed, and will find the reason in err
	}
	if h.published > s.seq+uint64(s.most)/2 {
		return h.published, false
	}
	if s.filter == nil {
		h.all[s] = struct{}{}
	}
	for id := range s.filter {
		h.byEntity[id] = append(h.byEntity[id], s)
	}
	return max(h.published, s.seq), true
}

// leave removes a subscription that has ended.
func (h *hub) leave(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(s)
	delete(h.open, s)
}

// drop removes a subscription from the live ones. REQUIRES: h.mu held.
func (h *hub) drop(s *Subscription) {
	delete(h.all, s)
	for id := range s.filter {
		list := slices.DeleteFunc(h.byEntity[id], func(o *Subscription) bool { return o == s })
		if h.byEntity[id] = list; len(list) == 0 {
			delete(h.byEntity, id)
		}
	}
}

// close ends all subscriptions.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for s := range h.open {
		s.end(ErrClosed)
	}
	clear(h.all)
	clear(h.byEntity)
	clear(h.open)
}

// Subscription is a stream of committed changes, made by Runtime.Changes. One
// goroutine at a time may call Next and Cursor; Close may be called by any.
type Subscription struct {
	rt       *Runtime
	filter   map[string]struct{} // nil for all entities
	edits    bool                // wanted
	ends     bool                // deletions are wanted even if other edits are not
	commands bool                // wanted
	presence bool                // wanted
	computed bool                // only readings that a source has computed are wanted
	values   bool                // readings are wanted
	most     int                 // of changes in buffer

	// Owned by the reader.
	seq  uint64         // the last change that was returned or passed over
	page []LoggedChange // from the log
	live bool
	upTo uint64 // the log is read up to here; live, the buffer has the rest

	mu     sync.Mutex
	buffer []LoggedChange // guarded by mu
	head   int            // of buffer, guarded by mu
	bytes  int            // of buffer, guarded by mu
	err    error          // why nothing more is pushed, guarded by mu
	ready  chan struct{}  // something happened
}

// Changes subscribes to committed changes, in the order of their commits. It returns
// ErrCursorExpired if the changes after the cursor are no longer kept, ErrCursorForeign if this
// store does not have the cursor's change, ErrCursorInvalid if the cursor is malformed, and
// ErrInvalid for an invalid id. Close the subscription when done.
func (r *Runtime) Changes(ctx context.Context, q ChangesQuery) (*Subscription, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("subscribe: %w", err)
	}
	if len(q.Entities) > MaxStreamEntities {
		return nil, fmt.Errorf("subscribe: %w: %d entities; at most %d are allowed", ErrInvalid, len(q.Entities), MaxStreamEntities)
	}
	s := &Subscription{
		rt: r, edits: q.Edits && !q.CommandsOnly || q.EditsOnly, ends: q.CommandsOnly, commands: q.Commands || q.CommandsOnly,
		presence: q.Presence, values: !q.EditsOnly && !q.CommandsOnly, computed: q.Computed, most: max(r.hub.buffer, q.Buffer), ready: make(chan struct{}, 1),
	}
	for _, id := range q.Entities {
		if err := CheckID(id); err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		if s.filter == nil {
			s.filter = make(map[string]struct{}, len(q.Entities))
		}
		s.filter[id] = struct{}{}
	}
	if q.Cursor != "" {
		seq, err := r.hub.parse(q.Cursor, r.store.Info())
		if err != nil {
			return nil, fmt.Errorf("subscribe: %w", err)
		}
		s.seq = seq
	}
	return s, r.hub.add(s, q.Cursor == "")
}

// add registers a subscription. If it starts now, it is live at once.
func (h *hub) add(s *Subscription, fromNow bool) error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return fmt.Errorf("subscribe: %w", ErrClosed)
	}
	h.open[s] = struct{}{}
	if fromNow {
		s.seq = h.published
	}
	h.mu.Unlock()
	if fromNow {
		// Changes published in between are in the log, and join returns how far to read it.
		s.upTo, s.live = h.join(s)
	}
	return nil
}

// lagBytes bounds the buffer of a subscription that lags; beyond it the reader gets the rest from
// the log. Subscriptions that keep up buffer the newest changes, which are in memory once for all
// of them, but each one that lags would keep alive a part of the past of its own.
const lagBytes = 256 << 10

// push puts a change into the buffer. REQUIRES: the hub's mu held.
func (s *Subscription) push(c LoggedChange, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || !s.listed(&c) {
		return
	}
	if n := len(s.buffer) - s.head; n >= s.most || n > 0 && s.bytes+bytes > MaxStreamBytes {
		s.err = ErrLagged
		if s.bytes > lagBytes {
			s.buffer, s.head, s.bytes = nil, 0, 0
		}
		s.rt.count.lagged.Add(1)
		nudge(s.ready)
		return
	}
	// Reuse the space of what was read only if it is at least half: otherwise a lasting backlog
	// would be moved again and again.
	if s.head > 0 && s.head >= len(s.buffer)/2 && len(s.buffer) == cap(s.buffer) {
		n := copy(s.buffer, s.buffer[s.head:])
		clear(s.buffer[n:])
		s.buffer, s.head = s.buffer[:n], 0
	}
	s.buffer = append(s.buffer, c)
	s.bytes += bytes
	nudge(s.ready)
}

func (s *Subscription) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		s.err = err
	}
	nudge(s.ready)
}

// Close ends the subscription; a Next that waits returns ErrClosed.
func (s *Subscription) Close() {
	s.end(ErrClosed)
	s.rt.hub.leave(s)
}

// Next returns the next change, and waits for it until ctx ends. Changes in the buffer are returned
// before ErrLagged, unless they are large, and before ErrClosed. After an error other than that of
// ctx the subscription has ended.
func (s *Subscription) Next(ctx context.Context) (Change, error) {
	for {
		if c, ok := s.fromPage(); ok {
			return c, nil
		}
		if !s.live || s.seq < s.upTo {
			if err := s.catchUp(ctx); err != nil {
				return Change{}, err
			}
			continue
		}
		c, ok, err := s.fromBuffer()
		if err != nil {
			return Change{}, err
		}
		if ok {
			return c, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return Change{}, context.Cause(ctx)
		}
	}
}

// pending returns the next change if it is in memory.
func (s *Subscription) pending() (Change, bool) {
	if c, ok := s.fromPage(); ok {
		return c, true
	}
	if !s.live || s.seq < s.upTo {
		return Change{}, false // the log is to be read
	}
	c, ok, _ := s.fromBuffer() // the next call returns the error again
	return c, ok
}

// Cursor returns the reader's position: everything up to it was returned or does not concern the
// subscription. The cursor also advances when there are no changes to return, so it is worth
// storing then, too.
func (s *Subscription) Cursor() string {
	cursor, _ := s.place()
	return cursor
}

// Seq returns the number of the change that Cursor continues after. The changes that follow have
// greater numbers.
func (s *Subscription) Seq() uint64 {
	_, seq := s.place()
	return seq
}

func (s *Subscription) place() (cursor string, seq uint64) {
	h := s.rt.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live && s.seq >= s.upTo && len(s.page) == 0 && s.head == len(s.buffer) && s.err == nil {
		s.seq = max(s.seq, h.published)
	}
	return h.cursor(s.seq), s.seq
}

// fromPage returns the next change of the page that concerns the subscription.
func (s *Subscription) fromPage() (Change, bool) {
	for len(s.page) > 0 {
		c := s.page[0]
		s.page = s.page[1:]
		s.seq = c.Seq
		if s.wants(&c) {
			return s.change(c), true
		}
	}
	return Change{}, false
}

// listed reports whether changes of this sort are wanted.
func (s *Subscription) listed(c *LoggedChange) bool {
	switch {
	case c.Edit != nil:
		return s.edits || s.ends && c.Edit.Deleted
	case c.Command != nil:
		return s.commands
	case c.Presence != nil:
		return s.presence
	}
	return s.values && (!s.computed || c.Origin.Source != "")
}

// wants reports whether a change from the log concerns the subscription.
func (s *Subscription) wants(c *LoggedChange) bool {
	if !s.listed(c) {
		return false
	}
	_, ok := s.filter[c.Entity]
	return ok || s.filter == nil
}

// catchUp reads the next page of the log, and goes live near the end of the log.
func (s *Subscription) catchUp(ctx context.Context) error {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if !s.live {
		s.upTo, s.live = s.rt.hub.join(s)
		if s.live && s.seq >= s.upTo {
			return nil
		}
	}
	s.page, err = query(ctx, s.rt, func(ctx context.Context) ([]LoggedChange, error) { return s.rt.store.Changes(ctx, s.seq, changePage) })
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	for n := len(s.page); n > 0 && s.page[n-1].Seq > s.upTo; n-- {
		s.page = s.page[:n-1] // the buffer will have them, or the next page
	}
	return nil
}

// fromBuffer returns the next change that was pushed.
func (s *Subscription) fromBuffer() (c Change, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.head < len(s.buffer) {
		next := s.buffer[s.head]
		s.buffer[s.head] = LoggedChange{}
		s.bytes -= next.Bytes()
		if s.head++; s.head == len(s.buffer) {
			s.buffer, s.head = s.buffer[:0], 0
		}
		if next.Seq > s.seq { // otherwise the log had it
			s.seq = next.Seq
			return s.change(next), true, nil
		}
	}
	return c, false, s.err
}

func (s *Subscription) change(c LoggedChange) Change {
	return Change{
		Cursor: s.rt.hub.cursor(c.Seq), Seq: c.Seq, Entity: c.Entity, TS: c.TS,
		Values: c.Values, Origin: c.Origin, Edit: c.Edit, Command: c.Command, Presence: c.Presence, Committed: c.Committed,
		Arrived: c.Arrived, Created: c.Created,
	}
}

// Bytes returns about how much memory the change takes.
func (c *LoggedChange) Bytes() int { return changeBytes(c.Values, c.Edit, c.Command) }

// nudge signals the receiver of ch that there is something new; signals are not counted.
func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}
