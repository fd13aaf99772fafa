package mapping

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/owner"
)

const (
	// feedBuffer is how many changes wait for the engine, and the most that are
	// applied at once.
	feedBuffer = 4096
	// maxFlights is how many batches of computed readings may be on their way to
	// the disk at once.
	maxFlights = 16
	// landPatience is how long Close waits for what is on its way.
	landPatience = 5 * time.Second
)

// follower is one run of a service, from a place on, until the service is closed or the runtime
// fails. It is owned by the engine's goroutine.
type follower struct {
	s         *Service
	engine    *Engine
	installed map[string]*Installed // changed by keep and forget
	bytes     int                   // of all that are installed and not refused
	refused   marks                 // which are
	short     marks                 // which have no room for what they keep
	reload    reload
	told      time.Time // when it was last logged that there is no room
	untold    uint64    // values for which there was no room since

	feed     *feed
	position string              // the cursor of the last change that was applied
	seq      uint64              // its number
	loading  map[string][]string // by cursor: the mappings that are live from there on
	waiting  map[string][]chan error

	flights  []*flight     // in order
	landed   chan struct{} // something has been settled
	inFlight map[string]*inFlight
	durable  string // the cursor up to which everything except the backlog is written
	saved    place
	stored   []byte // saved, as it is stored

	backlog     backlog
	blocked     bool // the current slice waits for something in flight
	sliced      bool // the last thing done was a slice
	waitingRest []restWait

	loadsOne bool  // a mapping is being loaded, by portions
	failed   error // of what was done between them, for which the service has to begin anew
}

// place is the body of the document with the service's progress.
type place struct {
	Cursor string `json:"cursor"`
	// Missed says that changes before the cursor were not seen, and that the
	// mappings have to be recomputed over the history.
	Missed bool `json:"missed,omitempty"`
	// Backlog is what changes up to the cursor have left to be recomputed.
	Backlog []piece `json:"backlog,omitempty"`
}

// begin loads the mappings and the place, and starts to follow. A follower that is returned
// with an error does not follow, but knows what is installed.
func (s *Service) begin(ctx context.Context) (*follower, error) {
	f := &follower{
		s: s, engine: NewEngine(), installed: make(map[string]*Installed),
		loading: make(map[string][]string), waiting: make(map[string][]chan error), landed: make(chan struct{}, 1),
		inFlight: make(map[string]*inFlight),
		refused:  marks{id: refusedID}, short: marks{id: shortID}, reload: reload{tried: make(map[string]int)},
	}
	f.engine.room.most = s.cfg.mostValues
	if err := f.loadPlace(ctx); err != nil {
		return nil, err
	}
	head, err := f.head(ctx)
	if err != nil {
		return nil, err
	}
	if f.saved.Cursor == "" { // the very first run: from here on nothing is missed
		f.durable = head
		if err := f.save(ctx); err != nil {
			return f, err
		}
	}
	// All changes, even those of commands and presences, which have no effect: a caller that waits
	// for a place waits for the change at it.
	changes, err := s.rt.Follow(ctx, entity.ChangesQuery{Cursor: f.saved.Cursor, Edits: true, Commands: true, Presence: true})
	if errors.Is(err, entity.ErrCursorExpired) || errors.Is(err, entity.ErrCursorInvalid) {
		s.count.missed.Add(1)
		s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "mappings have missed changes that are not kept any more; they are recomputed over the history",
			slog.String("cursor", f.saved.Cursor))
		f.saved, f.durable = place{Cursor: head, Missed: true}, head
		changes, err = s.rt.Follow(ctx, entity.ChangesQuery{Cursor: head, Edits: true, Commands: true, Presence: true})
	}
	if err != nil {
		return nil, err
	}
	f.position, f.durable = f.saved.Cursor, f.saved.Cursor
	if err := f.load(ctx, head); err != nil {
		changes.Close()
		return f, err
	}
	f.feed = startFeed(s, changes)
	return f, nil
}

// loadPlace reads where the last run stopped.
func (f *follower) loadPlace(ctx context.Context) error {
	doc, err := f.s.rt.Doc(ctx, stateKind, placeID)
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(doc.Body, &f.saved); err != nil {
		return fmt.Errorf("the place of the mappings: %w", err)
	}
	f.stored = doc.Body
	f.backlog.restore(f.saved.Backlog)
	return nil
}

// head returns the cursor of the newest change.
func (f *follower) head(ctx context.Context) (string, error) {
	sub, err := f.s.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return "", err
	}
	defer sub.Close()
	return sub.Cursor(), nil
}

// load puts the mappings of the store in force. head is a cursor that the store
// had reached before.
func (f *follower) load(ctx context.Context, head string) error {
	list, err := f.loadMappings(ctx)
	if err != nil {
		return err
	}
	had, short, err := f.splitShort(ctx, list)
	if err != nil {
		return err
	}
	var outputs []Output
	for _, some := range [][]Mapping{had, short} { // the second take what room the first have left
		more, failed, err := f.engine.Restore(ctx, f.s.reader, 0, some...)
		if err != nil {
			return err
		}
		outputs = append(outputs, more...)
		for name, err := range failed {
			f.installed[name].Problem = err.Error()
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "mapping cannot be put in force", slog.String("mapping", name), slog.Any("error", err))
		}
	}
	if err := f.saveMarks(ctx); err != nil {
		f.warnUnsaved(ctx, err)
	}
	f.reload.loadAll(f.engine)
	f.backlog.unfold(f.saved.Backlog, f.engine.mappings)
	f.backlog.inheritAll(f.engine.mappings)
	names := make([]string, 0, len(list))
	for i := range list {
		names = append(names, list[i].Name)
		for j := range list[i].Statement.Select {
			if f.saved.Missed {
				f.backlog.missed(restKey{Mapping: list[i].Name, Version: list[i].Version, Field: j})
			}
		}
	}
	f.liveFrom(head, names...)
	f.tell()
	return f.flight(nil, func(fl *flight) error { return f.write(ctx, fl, outputs, true) })
}

// loadMappings reads the mappings of the store and returns those to be put in force. Those for which
// there was no room come last, so that they take the room of no other.
func (f *follower) loadMappings(ctx context.Context) (list []Mapping, err error) {
	refused, err := f.refused.load(ctx, f.s.rt)
	if err != nil {
		return nil, err
	}
	for _, again := range []bool{false, true} {
		err := f.s.rt.EachDoc(ctx, docKind, func(doc *entity.Doc) error {
			if _, was := slices.BinarySearch(refused, entity.TokenOf(doc.ID)); was != again {
				return nil
			}
			in := f.restored(doc)
			f.keep(in)
			if in.Problem == "" {
				list = append(list, in.Mapping)
				return nil
			}
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "stored mapping cannot be used and stays out of force", slog.String("mapping", in.Name), slog.String("problem", in.Problem))
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(refused) == 0 {
			break
		}
	}
	return list, nil
}

// restored reads a stored mapping, with its Problem if it cannot be used.
func (f *follower) restored(doc *entity.Doc) *Installed {
	in := &Installed{Mapping: Mapping{Name: doc.ID, Version: doc.Version}, ETag: doc.ETag(), Updated: doc.Updated}
	statement, size, err := f.read(in.Name, doc.Body)
	if err != nil {
		in.Problem, in.bytes, in.refused = err.Error(), size, errors.Is(err, ErrLimit)
		return in
	}
	in.Statement, in.bytes = statement, size
	return in
}

// read returns the statement in the body of a document, and what it takes of the memory of mappings.
func (f *follower) read(name string, body []byte) (*Statement, int, error) {
	var in stored
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, 0, fmt.Errorf("mapping %q: the stored document: %w", name, err)
	}
	statement, err := in.parse()
	if err != nil {
		return nil, 0, err
	}
	size := statement.bytes()
	return statement, size, f.room(name, size)
}

// keep records what is installed under a name.
func (f *follower) keep(in *Installed) {
	f.forget(in.Name)
	f.installed[in.Name] = in
	f.bytes += in.taken()
	f.s.count.mappings.Store(int64(len(f.installed)))
}

// forget is the opposite of keep.
func (f *follower) forget(name string) {
	if in := f.installed[name]; in != nil {
		f.bytes -= in.taken()
		delete(f.installed, name)
	}
	f.s.count.mappings.Store(int64(len(f.installed)))
}

// room returns ErrLimit if there is no room for a mapping of size bytes that replaces the one of
// the same name.
func (f *follower) room(name string, size int) error {
	all := f.bytes - f.installed[name].taken() + size
	if all <= f.s.cfg.most {
		return nil
	}
	return fmt.Errorf("mapping %q: statement: %w: it takes %d bytes of memory, with which all mappings take %d; at most %d are allowed; delete one, or make it shorter",
		name, ErrLimit, size, all, f.s.cfg.most)
}

// liveFrom makes mappings live once the change of a cursor has been applied.
func (f *follower) liveFrom(cursor string, names ...string) {
	if f.position == cursor {
		f.engine.Live(names...)
		return
	}
	f.loading[cursor] = append(f.loading[cursor], names...)
}

// check returns why a mapping of size bytes cannot be put in force, nil if it can.
func (f *follower) check(ctx context.Context, name string, statement *Statement, size int) error {
	if f.installed[name] == nil && len(f.installed) >= MaxMappings {
		return fmt.Errorf("mapping %q: %w: at most %d are allowed", name, ErrLimit, MaxMappings)
	}
	if err := f.room(name, size); err != nil {
		return err
	}
	return f.engine.Check(ctx, f.s.reader, Mapping{Name: name, Statement: statement})
}

// install puts a mapping in force that is durable already.
func (f *follower) install(ctx context.Context, in Installed) error {
	f.keep(&in)
	loaded := f.reload.load(f.engine, in.Name)
	outputs, _, err := f.putInForce(ctx, in.Mapping, false)
	if err != nil {
		f.installed[in.Name].Problem = err.Error()
		return fmt.Errorf("it is kept, and put in force at the next start: %w", err)
	}
	loaded()
	return f.flight(nil, func(fl *flight) error { return f.write(ctx, fl, outputs, true) })
}

// find returns what is installed under a name, or ErrNotFound.
func (f *follower) find(name string) (*Installed, error) {
	if in := f.installed[name]; in != nil {
		return in, nil
	}
	return nil, fmt.Errorf("mapping %q: %w", name, ErrNotFound)
}

// follow applies changes and handles calls, until an error.
func (f *follower) follow() error {
	save := time.NewTicker(f.s.cfg.SaveEvery)
	defer save.Stop()
	for {
		if err := f.step(save.C); err != nil {
			return err
		}
	}
}

// step waits for the next thing to do, and does it.
func (f *follower) step(save <-chan time.Time) error {
	changes, more := f.feed.changes, (chan struct{})(nil)
	if len(f.flights) >= maxFlights {
		changes = nil
	}
	if f.catchesUp() {
		more = make(chan struct{})
		close(more)
	}
	select {
	case <-f.s.ctx.Done():
		return ErrClosed
	case c := <-f.s.calls:
		f.answer(c)
		return f.drained()
	case c := <-f.s.looks:
		f.answer(c)
	case c, ok := <-changes:
		if !ok {
			return f.feed.err
		}
		f.sliced = false
		return f.apply(f.feed.drain(c))
	case <-f.landed:
		f.blocked = false
		return f.land()
	case <-more:
		f.sliced = true
		if f.reload.waits() {
			if err := f.reloadNext(f.s.ctx); err != nil {
				return err
			}
			return f.drained()
		}
		return f.catchUp()
	case <-save:
		return f.save(f.s.ctx)
	}
	return nil
}

// catchesUp reports whether a slice of the backlog is next: if changes wait as well, they take
// turns.
func (f *follower) catchesUp() bool {
	waits := f.reload.waits() || len(f.backlog.rests) > 0 && !f.blocked
	return waits && len(f.flights) < sliceFlights && (!f.sliced || len(f.feed.changes) == 0)
}

// answer handles a call.
func (f *follower) answer(c owner.Call[*follower]) {
	if err := context.Cause(c.Context); err != nil {
		c.Answer(err)
		return
	}
	ctx, cancel := context.WithCancelCause(c.Context)
	defer cancel(nil)
	defer context.AfterFunc(f.s.ctx, func() { cancel(ErrClosed) })()
	c.Answer(c.Run(ctx, f))
}

// apply applies changes and writes their results.
func (f *follower) apply(changes []entity.Change) error {
	f.s.count.changes.Add(uint64(len(changes)))
	f.s.count.committed.Store(changes[len(changes)-1].Committed)
	for len(changes) > 0 {
		n := len(changes)
		if len(f.loading)+len(f.waiting) > 0 {
			for i := range changes {
				if c := changes[i].Cursor; f.loading[c] != nil || f.waiting[c] != nil {
					n = i + 1
					break
				}
			}
		}
		if err := f.applyAll(changes[:n]); err != nil {
			return err
		}
		changes = changes[n:]
	}
	f.s.count.waiting.Store(int64(len(f.feed.changes)))
	f.tell()
	return nil
}

// applyMost bounds the readings that one step produces, not counting those of its last change.
const applyMost = 4 * outputPage

// applyAll applies changes up to a point where something happens.
func (f *follower) applyAll(changes []entity.Change) error {
	for len(changes) > 0 {
		n, effects := f.engine.applySome(changes, applyMost)
		if err := f.applied(&changes[n-1], effects); err != nil {
			return err
		}
		changes = changes[n:]
	}
	return nil
}

// applied writes the results of the changes up to one.
func (f *follower) applied(last *entity.Change, effects Effects) error {
	replaying := len(f.loading) > 0
	f.position, f.seq = last.Cursor, last.Seq
	f.backlog.late(effects.Late)
	effects.Late = nil
	f.reload.add(effects.reload)
	effects.reload = nil
	err := f.flight(nil, func(fl *flight) error {
		if err := f.write(f.s.ctx, fl, effects.Outputs, replaying); err != nil || effects.Settled() {
			return err
		}
		return f.engine.Complete(f.s.ctx, f.s.reader, effects, f.seq, func(outputs []Output) error {
			return f.write(f.s.ctx, fl, outputs, true)
		})
	})
	if names := f.loading[f.position]; names != nil {
		f.engine.Live(names...)
		delete(f.loading, f.position)
	}
	if waiting := f.waiting[f.position]; waiting != nil {
		f.whenDone(waiting...)
		delete(f.waiting, f.position)
	}
	return err
}

// sync returns a channel that gets a value when everything committed now has been applied and the
// results are durable.
func (f *follower) sync(ctx context.Context) (<-chan error, error) {
	head, err := f.head(ctx)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	if f.position == head {
		f.whenDone(done)
	} else {
		f.waiting[head] = append(f.waiting[head], done)
	}
	return done, nil
}

// recompute computes the next part of a field's history, and returns where the rest
// begins, how many values differed from what was there, and a channel that gets a value when
// they are durable. With polite it may have to be called again after that, see slice.
func (f *follower) recompute(ctx context.Context, name string, index int, within interval, polite bool) (next int64, count int, landed chan error, err error) {
	m := f.engine.mappings[name]
	if m == nil || index >= len(m.fields) {
		return within.to, 0, nil, fmt.Errorf("mapping %q: %w any more", name, ErrNotFound)
	}
	next, count, _, err = f.slice(ctx, &rest{restKey: restKey{Mapping: name, Version: m.Version, Field: index}, missed: true}, within, polite)
	landed = make(chan error, 1)
	f.whenLanded(landed)
	return next, count, landed, err
}

// save makes the place durable.
func (f *follower) save(ctx context.Context) error {
	if err := f.saveMarks(ctx); err != nil {
		return err
	}
	now := place{Cursor: f.durable, Missed: f.backlog.hasMissed(), Backlog: f.backlog.pieces()}
	if f.saved.Missed && len(f.flights) > 0 {
		now.Missed = true // what was recomputed is on its way
	}
	for _, fl := range f.flights {
		if fl.part != nil {
			now.Backlog = append(now.Backlog, *fl.part)
		}
	}
	body, err := now.body()
	if err != nil || bytes.Equal(body, f.stored) {
		return err
	}
	if _, err := f.s.rt.PutDoc(ctx, stateKind, placeID, body, ""); err != nil {
		return fmt.Errorf("save the place of the mappings: %w", err)
	}
	f.saved, f.stored = now, body
	return nil
}

// body returns the document of the place, made coarser if it would be too large.
func (p *place) body() ([]byte, error) {
	if tooLong(p.Backlog) {
		p.Backlog = fold(p.Backlog)
	}
	body, err := json.Marshal(p)
	if err == nil && len(body) > entity.MaxDocBytes {
		p.Missed, p.Backlog = true, nil
		body, err = json.Marshal(p)
	}
	return body, err
}

// hasInFlight reports whether anything is in flight. After a restart the service compares with what
// is stored, and should find it there.
func (f *follower) hasInFlight() bool {
	return slices.ContainsFunc(f.flights, func(fl *flight) bool {
		_, known, _ := fl.result()
		return !known
	})
}

// end waits a moment for what is in flight and saves the place.
func (f *follower) end() {
	ctx, cancel := context.WithTimeout(context.Background(), landPatience)
	defer cancel()
	f.feed.stop()
	for f.hasInFlight() && ctx.Err() == nil {
		select {
		case <-f.landed:
		case <-ctx.Done():
		}
	}
	_ = f.land() // the error of a flight is why it ends, or does not matter any more
	if serr := f.save(ctx); serr != nil && !errors.Is(serr, entity.ErrClosed) {
		f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "the place of the mappings is not saved; what came since is gone through again", slog.Any("error", serr))
	}
	for _, fl := range f.flights {
		fl.wake(errAnew)
	}
	for _, waiting := range f.waiting {
		for _, done := range waiting {
			done <- errAnew
		}
	}
	for _, w := range f.waitingRest {
		for _, done := range w.done {
			done <- errAnew
		}
	}
}

// errAnew tells callers that wait for a place that the mappings have restarted before reaching it.
var errAnew = errors.New("the mappings begin anew")
