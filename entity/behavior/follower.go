package behavior

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// follower is one run of a behavior, starting from what is durable, until it is stopped or the
// runtime fails. It is owned by the behavior's goroutine, except that its runners belong to other
// goroutines while a batch is handled.
type follower struct {
	b       *behavior
	ctx     context.Context //nolint:containedctx // ends with the follower
	cancel  context.CancelFunc
	disk    context.Context //nolint:containedctx // for reads of the store, see patient
	giveUp  context.CancelFunc
	wg      sync.WaitGroup
	feed    *feed
	rest    []entity.Change // of the batch at hand
	slice   int             // how many changes are handled at once
	sender  *sender
	runners []*runner
	fine    []bool // by place in the batch: the call has not failed

	place    place
	position string // the cursor of the last change that was handled
	moved    bool   // since the last commit
	decided  []effect
	open     int      // effects that were sent and have no result yet
	landed   []string // keys of chunks to be removed
	failed   bool     // the failures are to be stored
	written  time.Time
	saved    time.Time // when the failures were last stored
	waits    []wait
	tick     tick
}

// place is the body of the item that stores a behavior's progress.
type place struct {
	Cursor  string `json:"cursor"`
	Version int64  `json:"version"`
	Off     string `json:"off,omitempty"`
	InRow   int    `json:"in_row,omitempty"`
	Chunk   uint64 `json:"chunk,omitempty"` // the number of the last one
	// Tick is the time of the last regular calls, and After the id up to which they were made, "" for
	// all.
	Tick  int64  `json:"tick,omitempty"`
	After string `json:"after,omitempty"`
}

// tick is the regular calls under way.
type tick struct {
	running bool
	after   string
}

// wait is a caller that waits for a place.
type wait struct {
	cursor  string
	reached bool
	done    chan error
}

// Parts of the keys of items.
const (
	keyPlace    = "p"
	keyFailures = "f"
	keyChunk    = "o"
	keyState    = "s"
)

func (b *behavior) key(part string) string    { return b.spec.Name + "\x00" + part }
func (b *behavior) stateKey(id string) string { return b.key(keyState) + id }
func (b *behavior) chunkKey(n uint64) string  { return b.key(keyChunk) + fmt.Sprintf("%016x", n) }
func (b *behavior) item(key string, body []byte) entity.Item {
	return entity.Item{Kind: b.s.cfg.Prefix, Key: key, Body: body}
}

// load reads the behavior's progress. It clears what is left of a removed behavior of the same
// name, and begins from now if there is no place or the behavior is switched on again.
func (b *behavior) load(ctx context.Context) (place, error) {
	var p place
	items, err := b.s.rt.Items(ctx, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: b.key(keyPlace), To: b.key(keyPlace) + "\x00", Limit: 1})
	if err != nil {
		return p, fmt.Errorf("behavior %q: %w", b.spec.Name, err)
	}
	if len(items) == 0 {
		if err := b.clear(ctx); err != nil {
			return p, err
		}
	} else if err := json.Unmarshal(items[0].Body, &p); err != nil {
		return p, fmt.Errorf("place of behavior %q: %w", b.spec.Name, err)
	}
	if p.Version != b.spec.Version && p.Off == OffFailures {
		p.Off, p.InRow, p.Cursor = "", 0, ""
	}
	p.Version = b.spec.Version
	return p, nil
}

// clear removes all items of the behavior, the place last.
func (b *behavior) clear(ctx context.Context) error {
	const page = 1000
	for {
		list, err := b.s.rt.Items(ctx, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: b.key(""), To: b.spec.Name + "\x01", Limit: page})
		if err != nil {
			return fmt.Errorf("behavior %q: %w", b.spec.Name, err)
		}
		remove := make([]entity.Item, 0, len(list))
		for i := range list {
			if list[i].Key != b.key(keyPlace) || len(list) == 1 {
				remove = append(remove, b.item(list[i].Key, nil))
			}
		}
		if len(remove) == 0 {
			return nil
		}
		if err := b.s.rt.PutItems(ctx, remove); err != nil {
			return fmt.Errorf("behavior %q: %w", b.spec.Name, err)
		}
	}
}

// begin starts to follow.
func (b *behavior) begin(p place) (_ *follower, err error) {
	f := &follower{b: b, place: p, position: p.Cursor, written: time.Now(), slice: minSlice}
	f.ctx, f.cancel = context.WithCancel(b.ctx)
	f.disk, f.giveUp = f.patient()
	defer func() {
		if err != nil {
			f.cancel()
			f.giveUp()
			f.wg.Wait()
		}
	}()
	if p.Cursor == "" { // nothing is missed from here on
		if f.position, err = b.head(f.ctx); err != nil {
			return nil, err
		}
		f.moved = true
	}
	query := entity.ChangesQuery{Cursor: f.position, Edits: true, Commands: true, Presence: true, Buffer: feedBuffer}
	changes, err := b.s.rt.Follow(f.ctx, query)
	if errors.Is(err, entity.ErrCursorExpired) || errors.Is(err, entity.ErrCursorInvalid) {
		f.miss()
		if f.position, err = b.head(f.ctx); err != nil {
			return nil, err
		}
		query.Cursor, f.moved = f.position, true
		changes, err = b.s.rt.Follow(f.ctx, query)
	}
	if err != nil {
		return nil, err
	}
	f.sender = startSender(f.ctx, b.s.rt, b.spec.Allow)
	defer func() {
		if err != nil {
			changes.Close()
		}
	}()
	if err := f.resend(); err != nil {
		return nil, err
	}
	for n := range b.s.cfg.Runners {
		f.runners = append(f.runners, &runner{f: f, e: Entity{ctx: f.ctx, runner: n}, subjects: make(map[string]*subject)})
	}
	if f.moved {
		if err := f.commit(); err != nil {
			return nil, err
		}
	}
	f.tick = tick{running: p.After != "", after: p.After}
	f.feed = startFeed(f.ctx, &f.wg, changes)
	return f, nil
}

// patient returns a context for calls of the store: when the behavior is stopped, a call that has
// begun may finish, for at most endPatience from the stop or from this call, whichever is later.
func (f *follower) patient() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(f.b.ctx))
	settled := context.AfterFunc(f.ctx, func() { f.b.s.cfg.later(cancel) })
	return ctx, func() { settled(); cancel() }
}

// resend sends what was decided and may not have been carried out.
func (f *follower) resend() error {
	b := f.b
	for from := b.key(keyChunk); ; {
		list, err := b.s.rt.Items(f.ctx, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: from, To: b.key(keyChunk) + "g", Limit: 16})
		if err != nil {
			return fmt.Errorf("effects of behavior %q: %w", b.spec.Name, err)
		}
		for i := range list {
			c := &chunk{key: list[i].Key}
			if c.effects, err = parseEffects(list[i].Body); err != nil {
				return fmt.Errorf("behavior %q: %w", b.spec.Name, err)
			}
			f.send(c)
			from = c.key + "\x00"
		}
		if len(list) < 16 {
			return nil
		}
	}
}

// follow handles changes and calls, until an error or until the behavior is switched off.
func (f *follower) follow() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	ready := make(chan struct{})
	close(ready)
	for {
		f.report()
		if f.ctx.Err() != nil {
			return ErrClosed
		}
		if f.place.Off != "" {
			f.moved = true
			return f.commit()
		}
		timer.Reset(f.nap())
		batches, more := f.feed.batches, (<-chan struct{})(nil)
		switch {
		case f.open+len(f.decided) >= MaxPending:
			batches = nil
		case len(f.rest) > 0:
			batches, more = nil, ready
		}
		var err error
		select {
		case <-f.ctx.Done():
			return ErrClosed
		case c := <-f.b.calls:
			c.Answer(c.Run(c.Context, f))
		case batch, ok := <-batches:
			if !ok {
				if f.ctx.Err() != nil { // which has ended the feed
					return ErrClosed
				}
				return f.feed.err
			}
			if f.rest = batch.changes; f.rest == nil {
				err = f.skip(batch.missed)
			} else {
				err = f.handleSome()
			}
		case <-more:
			err = f.handleSome()
		case <-f.sender.news:
		case <-timer.C:
		}
		if err == nil {
			err = f.work()
		}
		if err != nil {
			return err
		}
	}
}

// maxNap bounds the sleep until something is due: the machine's clock may be set.
const maxNap = 10 * time.Second

// nap returns how long there is nothing to do unless something arrives.
func (f *follower) nap() time.Duration {
	since := time.Since(f.written)
	nap := maxNap
	switch {
	case f.tick.running && f.open < MaxPending:
		nap = 0
	case f.touched():
		nap = f.b.s.cfg.Gather - since
	case f.unsaved():
		nap = f.b.s.cfg.SaveEvery - since
	}
	if every := f.b.spec.Every; every > 0 && !f.tick.running {
		nap = min(nap, time.Duration(f.due()-f.b.s.cfg.now())*time.Millisecond)
	}
	return max(nap, 0)
}

// due is the time of the next regular calls.
func (f *follower) due() int64 {
	every := f.b.spec.Every.Milliseconds()
	return (max(f.place.Tick, f.b.began)/every + 1) * every
}

// touched reports whether something was decided since the last commit.
func (f *follower) touched() bool {
	return len(f.decided) > 0 || slices.ContainsFunc(f.runners, func(r *runner) bool { return len(r.touched)+len(r.gone) > 0 })
}

// unsaved reports whether there is something to make durable that is not urgent.
func (f *follower) unsaved() bool { return f.moved || f.failed || len(f.landed) > 0 }

// sliceTime is roughly how long changes are handled before other work is done, if they are more
// than minSlice.
const (
	sliceTime = 50 * time.Millisecond
	minSlice  = 16
)

// handleSome handles a part of the batch at hand.
func (f *follower) handleSome() error {
	n := min(len(f.rest), f.slice)
	began := time.Now()
	if err := f.handle(f.rest[:n]); err != nil {
		return err
	}
	if took := time.Since(began); took > sliceTime {
		f.slice = max(n/2, minSlice)
	} else {
		f.slice = min(2*f.slice, batchChanges)
	}
	if f.rest = f.rest[n:]; len(f.rest) == 0 {
		f.rest = nil
	}
	return nil
}

// handle handles some changes.
func (f *follower) handle(batch []entity.Change) error {
	for i := range batch {
		r := f.runnerOf(batch[i].Entity)
		r.work = append(r.work, i)
	}
	if err := f.run(len(batch), func(r *runner) { r.handle(batch) }); err != nil {
		return err
	}
	last := &batch[len(batch)-1]
	f.position, f.moved = last.Cursor, true
	f.b.count.committed.Store(last.Committed)
	for i := range f.waits {
		f.waits[i].reached = f.waits[i].reached || slices.ContainsFunc(batch, func(c entity.Change) bool { return c.Cursor == f.waits[i].cursor })
	}
	return nil
}

// miss records that the changes after the place were missed.
func (f *follower) miss() {
	f.b.count.missed.Add(1)
	f.b.s.cfg.Logger.LogAttrs(f.ctx, slog.LevelWarn, "a behavior has missed changes that are not kept any more", slog.String("behavior", f.b.spec.Name), slog.String("cursor", f.position))
}

// skip continues from a cursor after the changes up to it were missed. What is known about entities
// may be older than these changes, and is read again.
func (f *follower) skip(cursor string) error {
	f.miss()
	f.position, f.moved = cursor, true
	if err := f.commit(); err != nil {
		return err
	}
	for _, r := range f.runners {
		r.forget()
	}
	for _, w := range f.waits { // what they wait for may be among the missed
		w.done <- errAnew
	}
	f.waits = nil
	return nil
}

// runnerOf returns the runner of an entity.
func (f *follower) runnerOf(id string) *runner {
	if len(f.runners) == 1 {
		return f.runners[0]
	}
	return f.runners[maphash.String(f.b.s.seed, id)%uint64(len(f.runners))]
}

// run lets the runners do their work, and records the outcomes in the order of the batch.
func (f *follower) run(places int, do func(*runner)) error {
	f.fine = slices.Grow(f.fine[:0], places)[:places]
	clear(f.fine)
	var wg sync.WaitGroup
	var own *runner // whose work is done here
	for _, r := range f.runners {
		switch {
		case len(r.work) == 0:
		case own == nil:
			own = r
		default:
			wg.Go(func() { do(r) })
		}
	}
	if own != nil {
		do(own)
	}
	wg.Wait()
	var made []outcome
	var err error
	for _, r := range f.runners {
		made = append(made, r.made...)
		f.b.count.runs.Add(r.runs)
		err = errors.Join(err, r.err)
		clear(r.made)
		r.work, r.made, r.runs, r.err = r.work[:0], r.made[:0], 0, nil
	}
	slices.SortFunc(made, func(a, b outcome) int { return a.place - b.place })
	at := 0
	for i := range made {
		o := &made[i]
		if slices.Contains(f.fine[at:o.place], true) {
			f.place.InRow = 0
		}
		at = o.place
		f.decided = append(f.decided, o.effects...)
		if o.failure != nil {
			f.fail(*o.failure)
		}
	}
	if slices.Contains(f.fine[at:], true) && f.place.Off == "" {
		f.place.InRow = 0
	}
	return err
}

// fail records a failure.
func (f *follower) fail(failure Failure) {
	f.b.failed = slices.Insert(f.b.failed, 0, failure)
	if len(f.b.failed) > MaxFailures {
		f.b.failed = f.b.failed[:MaxFailures]
	}
	f.failed = true
	if failure.Refused {
		f.b.count.refused.Add(1)
		return
	}
	f.b.count.failures.Add(1)
	f.place.InRow++
	if f.place.InRow >= MaxInRow && f.place.Off == "" {
		f.place.Off = OffFailures
		f.b.s.cfg.Logger.LogAttrs(f.ctx, slog.LevelError, "a behavior is switched off: too many calls in a row have failed",
			slog.String("behavior", f.b.spec.Name), slog.Int("failures", f.place.InRow), slog.String("entity", failure.Entity), slog.String("error", failure.Text))
	}
}

// work does what is due.
func (f *follower) work() error {
	landed, refused, done := f.sender.take()
	f.landed = append(f.landed, landed...)
	f.open -= done
	f.b.count.effects.Add(uint64(done - len(refused))) //nolint:gosec // not negative
	for _, r := range refused {
		r.Version = f.b.spec.Version
		f.fail(r)
	}
	if err := f.regular(); err != nil {
		return err
	}
	since := time.Since(f.written)
	due := f.touched() && since >= f.b.s.cfg.Gather || f.unsaved() && since >= f.b.s.cfg.SaveEvery
	if due || f.awaited() || len(f.decided) >= MaxPending/2 || f.many() {
		if err := f.commit(); err != nil {
			return err
		}
	}
	f.answer()
	return nil
}

// many reports whether so many states have changed that the commit should not wait for more.
func (f *follower) many() bool {
	n := 0
	for _, r := range f.runners {
		n += len(r.touched)
	}
	return n >= batchChanges
}

// tickPage is how many regular calls are made at once.
const tickPage = 256

// regular makes a part of the regular calls, where they are due.
func (f *follower) regular() error {
	b := f.b
	if b.spec.Every == 0 || f.place.Off != "" {
		return nil
	}
	if !f.tick.running {
		now := b.s.cfg.now()
		if now < f.due() {
			return nil
		}
		every := b.spec.Every.Milliseconds()
		f.place.Tick = max(f.due(), now/every*every)
		f.tick = tick{running: true}
	}
	if f.open >= MaxPending {
		return nil
	}
	if f.touched() { // the calls are for those whose state is stored
		if err := f.commit(); err != nil {
			return err
		}
	}
	prefix := b.key(keyState)
	list, err := b.s.rt.Items(f.disk, entity.ItemsQuery{Kind: b.s.cfg.Prefix, From: prefix + f.tick.after, To: b.key(keyState) + "\xff", Limit: tickPage})
	if err != nil {
		return fmt.Errorf("states of behavior %q: %w", b.spec.Name, err)
	}
	ids := make([]string, len(list))
	for i := range list {
		ids[i] = strings.TrimPrefix(list[i].Key, prefix)
		r := f.runnerOf(ids[i])
		r.work = append(r.work, i)
	}
	err = f.run(len(ids), func(r *runner) {
		for _, i := range r.work {
			if r.err = r.tick(i, ids[i], f.place.Tick); r.err != nil {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	f.moved = true
	f.tick.running = len(ids) == tickPage
	f.place.After = ""
	if f.tick.running {
		f.tick.after = ids[len(ids)-1] + "\x00"
		f.place.After = f.tick.after
	}
	return f.commit()
}

// chunkBytes is roughly the size of an item of effects.
const chunkBytes = 256 << 10

// commit makes the decisions and the place that they reach durable, and has them carried out.
func (f *follower) commit() error {
	b := f.b
	f.written = time.Now()
	next := f.place
	next.Cursor = f.position
	var items []entity.Item
	for _, key := range f.landed {
		items = append(items, b.item(key, nil))
	}
	for _, r := range f.runners {
		for _, id := range r.gone {
			items = append(items, b.item(b.stateKey(id), nil))
		}
		for _, s := range r.touched {
			if !s.ended {
				items = append(items, b.item(b.stateKey(s.id), s.stored()))
			}
		}
	}
	var chunks []*chunk
	var body []byte
	var err error
	c := &chunk{decided: time.Now()}
	for i := range f.decided {
		c.effects = append(c.effects, f.decided[i])
		if body, err = f.decided[i].append(body); err != nil {
			return err
		}
		if len(body) >= chunkBytes || i == len(f.decided)-1 {
			next.Chunk++
			c.key = b.chunkKey(next.Chunk)
			items, chunks = append(items, b.item(c.key, body)), append(chunks, c)
			body, c = nil, &chunk{decided: c.decided}
		}
	}
	text, err := json.Marshal(&next)
	if err != nil {
		return fmt.Errorf("place of behavior %q: %w", b.spec.Name, err)
	}
	items = append(items, b.item(b.key(keyPlace), text))
	if f.failed && (next.Off != "" || time.Since(f.saved) >= b.s.cfg.SaveEvery) {
		if text, err = json.Marshal(b.failed); err != nil {
			return fmt.Errorf("failures of behavior %q: %w", b.spec.Name, err)
		}
		items = append(items, b.item(b.key(keyFailures), text))
		f.saved, f.failed = time.Now(), false
	}
	disk, done := f.patient() // handlers may have taken long since the stop
	defer done()
	if err := b.s.rt.PutItems(disk, items); err != nil {
		return fmt.Errorf("commit of behavior %q: %w", b.spec.Name, err)
	}
	f.place, f.landed, f.decided, f.moved = next, nil, nil, false
	for _, r := range f.runners {
		for _, s := range r.touched {
			s.touched = false
		}
		clear(r.touched)
		r.touched, r.gone = r.touched[:0], r.gone[:0]
	}
	for _, c := range chunks {
		f.send(c)
	}
	return nil
}

// send has what is durable carried out.
func (f *follower) send(c *chunk) {
	f.open += len(c.effects)
	f.sender.send(c)
}

// awaited reports whether a caller waits for something that is not durable yet.
func (f *follower) awaited() bool {
	return (f.moved || f.touched()) && slices.ContainsFunc(f.waits, func(w wait) bool { return w.reached })
}

// answer tells waiting callers that everything is done.
func (f *follower) answer() {
	if f.moved || f.touched() || f.tick.running || f.open > 0 {
		return
	}
	if len(f.waits) > 0 {
		f.report()
	}
	f.waits = slices.DeleteFunc(f.waits, func(w wait) bool {
		if w.reached {
			w.done <- nil
		}
		return w.reached
	})
}

// report publishes the behavior's status.
func (f *follower) report() {
	f.b.count.pending.Store(int64(f.open + len(f.decided)))
	f.b.count.waiting.Store(int64(len(f.feed.batches)))
	f.b.publish(f.place)
}

// end stops everything, and makes the decisions durable, unless that has failed before.
func (f *follower) end(why error) {
	f.feed.stop()
	if errors.Is(why, ErrClosed) && (f.moved || f.touched()) {
		if err := f.commit(); err != nil && !errors.Is(err, entity.ErrClosed) {
			f.b.s.cfg.Logger.LogAttrs(f.ctx, slog.LevelWarn, "the place of a behavior is not saved; what came since is handled again", slog.String("behavior", f.b.spec.Name), slog.Any("error", err))
		}
	}
	f.cancel()
	f.giveUp()
	f.sender.wg.Wait()
	f.wg.Wait()
	f.b.count.pending.Store(0)
	f.b.publish(f.place)
	for _, w := range f.waits {
		w.done <- errAnew
	}
}

// endPatience is how long work that has begun may take when a behavior is stopped.
const endPatience = 5 * time.Second

// errInterrupted says that a handler failed because the behavior was stopped. The current changes
// are handled at the next start, and no decision about them becomes durable.
var errInterrupted = errors.New("the behavior is stopped during a call")

// errAnew tells callers that wait for a place that the behavior has restarted before reaching it.
var errAnew = errors.New("the behavior begins anew")
