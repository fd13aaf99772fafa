package entity

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// The committer: from the entities to the disk, many readings with one fsync.
//
// Entities append what they accepted to the batch that gathers. One goroutine
// takes it and commits it; meanwhile the next one gathers, so that a batch is as
// large as the time of a commit makes it (natural group commit). Before each
// commit the batch may grow for a moment, but only while readings keep coming: to
// write the pages of a small batch costs nearly as much as those of a large one,
// and without the moment a moderate load would keep a core busy with small ones. A
// fixed timer alone would make everybody wait; a commit for each reading alone is
// bound by the disk's fsyncs.
//
// A second goroutine, the acker, takes each batch after its COMMIT, in order:
// changes to the subscriptions, then the sources' done, then the window. So the
// next COMMIT runs while the acknowledgements of the last one go out.
//
// A commit that fails is tried again, with the same batch, until it succeeds or
// the runtime is closed by force. Nothing is acknowledged meanwhile, the window
// fills, and the sources wait.
type committer struct {
	rt   *Runtime
	wake chan struct{} // the batch has its first delivery
	full chan struct{} // the batch has BatchBytes
	stop chan struct{} // closed when nothing will come any more
	acks chan committed

	mu        sync.Mutex
	gathering []*delivery   // guarded by mu
	bytes     int64         // guarded by mu
	accepted  uint64        // deliveries ever accepted, guarded by mu
	done      uint64        // deliveries ever committed, guarded by mu
	progress  chan struct{} // closed when done moves; nil when nobody waits, guarded by mu

	// Owned by the goroutine that commits.
	batch    Batch
	number   uint64
	latestAt map[latestKey]int
	took     time.Duration // of the last commit
	failing  string        // the error that was logged last, "" when the store works
}

// latestKey finds the row of an entity and key in the change buffer.
type latestKey struct {
	entity int
	key    string
}

// committed is a batch that is on the disk.
type committed struct {
	deliveries []*delivery
	first      uint64 // the sequence of its first change
	ms         int64  // when, in milliseconds since the epoch
	nanos      int64  // when, by the runtime's clock
}

func newCommitter(rt *Runtime) *committer {
	return &committer{
		rt: rt, wake: make(chan struct{}, 1), full: make(chan struct{}, 1), stop: make(chan struct{}),
		acks: make(chan committed, 1), latestAt: make(map[latestKey]int),
		batch: Batch{First: rt.store.Info().LastChange + 1},
	}
}

// accept takes a delivery over from an entity and returns its number. It does
// not wait.
func (c *committer) accept(d *delivery) uint64 {
	d.accepted = c.rt.nanos()
	c.mu.Lock()
	c.gathering = append(c.gathering, d)
	c.bytes += d.cost
	c.accepted++
	ticket, first, full := c.accepted, len(c.gathering) == 1, c.bytes >= c.rt.cfg.BatchBytes
	c.mu.Unlock()
	if first {
		nudge(c.wake)
	}
	if full {
		nudge(c.full)
	}
	return ticket
}

func nudge(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// wait returns when the delivery of that number and all before it are committed.
func (c *committer) wait(ctx context.Context, ticket uint64) error {
	for {
		c.mu.Lock()
		if c.done >= ticket {
			c.mu.Unlock()
			return nil
		}
		if c.progress == nil {
			c.progress = make(chan struct{})
		}
		progress := c.progress
		c.mu.Unlock()
		select {
		case <-progress:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// committed reports whether the delivery of that number and all before it are
// committed.
func (c *committer) committed(ticket uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done >= ticket
}

// run commits until stop is closed and nothing is left.
func (c *committer) run() {
	defer close(c.acks)
	for c.begun() {
		for c.grow(); ; c.grow() {
			batch := c.take()
			if batch == nil {
				break
			}
			began := c.rt.nanos()
			c.commit(batch)
			c.took = time.Duration(c.rt.nanos() - began)
		}
	}
}

// begun returns when a batch has begun, and reports false when none will.
func (c *committer) begun() bool {
	select {
	case <-c.wake:
		return true
	case <-c.stop:
		return false
	}
}

// grow lets what has gathered grow while more keeps coming: for BatchDelay or, where
// commits take longer than that, for as long as they take, up to growthMost times
// BatchDelay. What comes to a halt is committed at once: everybody is waiting.
func (c *committer) grow() {
	if c.rt.cfg.BatchDelay <= 0 {
		return
	}
	n, full := c.gathered()
	if n == 0 || full {
		return
	}
	select { // left from a batch that is gone
	case <-c.full:
	default:
	}
	delay := min(max(c.took, c.rt.cfg.BatchDelay), growthMost*c.rt.cfg.BatchDelay)
	step := c.rt.cfg.BatchDelay / growthSteps
	timer := time.NewTimer(step)
	defer timer.Stop()
	for began := c.rt.nanos(); c.rt.nanos()-began < int64(delay); timer.Reset(step) {
		select {
		case <-timer.C:
		case <-c.full:
			return
		case <-c.rt.ctx.Done():
			return
		}
		before := n
		if n, full = c.gathered(); n == before || full {
			return
		}
	}
}

const (
	growthMost  = 4 // how many times BatchDelay a batch may grow
	growthSteps = 4 // how often in BatchDelay it is looked at
)

// gathered returns how many deliveries there are, and whether they fill a batch.
func (c *committer) gathered() (n int, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.gathering), c.bytes >= c.rt.cfg.BatchBytes
}

// take returns what has gathered, up to BatchBytes and at least one delivery,
// and nil for nothing.
func (c *committer) take() []*delivery {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bytes <= c.rt.cfg.BatchBytes {
		batch := c.gathering
		c.gathering, c.bytes = nil, 0
		return batch
	}
	n, bytes := 0, int64(0)
	for n == 0 || n < len(c.gathering) && bytes+c.gathering[n].cost <= c.rt.cfg.BatchBytes {
		bytes += c.gathering[n].cost
		n++
	}
	batch := c.gathering[:n:n]
	c.gathering = append([]*delivery(nil), c.gathering[n:]...)
	c.bytes -= bytes
	return batch
}

// commit makes deliveries durable, however long it takes, and passes them on:
// as one batch, or as more where an entity goes on after its end.
func (c *committer) commit(deliveries []*delivery) {
	for len(deliveries) > 0 {
		n := c.build(deliveries)
		c.commitBatch(deliveries[:n:n])
		deliveries = deliveries[n:]
	}
}

func (c *committer) commitBatch(deliveries []*delivery) {
	if err := c.persist(); err != nil {
		for _, d := range deliveries {
			c.rt.reject(d, err)
		}
		return
	}
	for _, d := range deliveries {
		if d.records() == 0 {
			continue
		}
		if e := &c.batch.Entities[d.h.place]; e.Deleted {
			d.h.num = 0
		} else {
			d.h.num = e.Num
		}
	}
	done := committed{deliveries, c.batch.First, c.batch.Committed, c.rt.nanos()}
	c.batch.First += uint64(len(c.batch.Records))
	c.rt.count.batches.Add(1)

	c.mu.Lock()
	c.done += uint64(len(deliveries))
	if c.progress != nil {
		close(c.progress)
		c.progress = nil
	}
	c.mu.Unlock()
	c.acks <- done
}

// build makes the store's batch: the changes in order, and the change buffer
// with the newest value of each entity and key, whatever came between. It returns
// how many deliveries are in it.
func (c *committer) build(deliveries []*delivery) int {
	b := &c.batch
	clear(b.Records)
	clear(b.Latest)
	clear(c.latestAt)
	b.Entities, b.Records, b.Latest = b.Entities[:0], b.Records[:0], b.Latest[:0]
	c.number++
	for n, d := range deliveries {
		h := d.h
		if d.records() == 0 {
			continue
		}
		if h.batch != c.number {
			h.batch, h.place = c.number, len(b.Entities)
			b.Entities = append(b.Entities, BatchEntity{Num: max(h.num, d.num), ID: h.id, Created: d.created})
		} else if b.Entities[h.place].Deleted {
			return n
		}
		if d.edit != nil {
			e := &b.Entities[h.place]
			e.Edited, e.Type, e.Revision, e.Deleted = true, d.typ, d.edit.Revision, d.edit.Deleted
			b.Records = append(b.Records, Record{Entity: h.place, Reading: Reading{TS: d.ts}, Edit: d.edit})
			continue
		}
		sample := 0
		for i := range d.readings {
			r, seq := &d.readings[i], d.firstSeq+uint64(i)
			b.Records = append(b.Records, Record{Entity: h.place, Seq: seq, Reading: *r, Origin: d.origin, Once: d.once.Token})
			for j := range r.Values {
				if d.late == nil || !d.late[sample] {
					c.offer(h.place, Latest{Key: r.Values[j].Key, TS: r.TS, Seq: seq, Value: r.Values[j].Value, Origin: d.origin})
				}
				sample++
			}
		}
	}
	return len(deliveries)
}

func (c *committer) offer(place int, l Latest) {
	key := latestKey{place, l.Key}
	if at, ok := c.latestAt[key]; ok {
		c.batch.Latest[at].Latest = l
		return
	}
	c.latestAt[key] = len(c.batch.Latest)
	c.batch.Latest = append(c.batch.Latest, LatestRow{Entity: place, Latest: l})
}

// persist commits the batch. It returns an error only when the runtime is closed
// by force.
func (c *committer) persist() error {
	if len(c.batch.Records) == 0 {
		return nil // repetitions only
	}
	for delay := c.rt.cfg.RetryMin; ; delay = min(2*delay, c.rt.cfg.RetryMax) {
		if c.rt.ctx.Err() != nil {
			return fmt.Errorf("commit: %w", ErrClosed)
		}
		c.batch.Committed = c.rt.clock.stamp()
		err := c.rt.store.Commit(c.rt.ctx, &c.batch)
		if err == nil {
			c.recovered()
			return nil
		}
		c.complain(err)
		if pause.For(c.rt.ctx, delay) != nil {
			return fmt.Errorf("%w while the store failed: %w", ErrClosed, err)
		}
	}
}

// complain reports a failing store, in the log once for each cause.
func (c *committer) complain(err error) {
	text := err.Error()
	c.rt.count.storeErrors.Add(1)
	c.rt.count.storeError.Store(&text)
	if text == c.failing {
		return
	}
	c.failing = text
	c.rt.log.LogAttrs(context.Background(), slog.LevelError, "commit failed, trying again; nothing is acknowledged meanwhile",
		slog.String("error", text), slog.Int("readings", len(c.batch.Records)))
}

func (c *committer) recovered() {
	if c.failing == "" {
		return
	}
	c.failing = ""
	c.rt.count.storeError.Store(nil)
	c.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "commit succeeded again")
}

// acknowledge is the acker: it tells the world about batches, in order.
func (c *committer) acknowledge() {
	for done := range c.acks {
		c.rt.graph.follow(done.deliveries)
		c.rt.hub.publish(done)
		var cost int64
		var readings, values uint64
		for _, d := range done.deliveries {
			readings += uint64(len(d.readings))
			for i := range d.readings {
				values += uint64(len(d.readings[i].Values))
			}
			cost += d.cost
			c.rt.count.latency.observe(time.Duration(done.nanos - d.accepted))
		}
		c.rt.count.readings.Add(readings)
		c.rt.count.values.Add(values)
		for _, d := range done.deliveries {
			c.rt.settle(d, nil)
		}
		c.rt.window.release(cost)
	}
}
