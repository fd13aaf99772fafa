package entity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/internal/groupcommit"
)

// The committer: from the entities to the disk, many readings with one fsync.
//
// Entities pass on what they have accepted; package groupcommit decides what is committed together,
// and retries commits that fail. Meanwhile nothing is acknowledged, the window fills, and the
// sources wait. While the store has no room on its disk, they are told so instead: new deliveries
// are refused, and waiting sources learn that the outcome is unknown. Commits of what was accepted
// are still retried, which is how the committer learns that there is room again.
//
// A second goroutine, the acker, takes each batch after its COMMIT, in order:
// changes to the subscriptions, then the sources' done, then the window. So the
// next COMMIT runs while the acknowledgements of the last one go out.
type committer struct {
	*groupcommit.Committer[*delivery]
	rt *Runtime

	// Owned by the goroutine that commits.
	batch    Batch
	number   uint64
	latestAt map[latestKey]int
	failing  string // the last error that was logged, "" while the store works
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
	c := &committer{rt: rt, latestAt: make(map[latestKey]int), batch: Batch{First: rt.store.Info().LastChange + 1}}
	cfg := groupcommit.Config{Bytes: rt.cfg.BatchBytes, Delay: rt.cfg.BatchDelay, RetryMin: rt.cfg.RetryMin, RetryMax: rt.cfg.RetryMax}
	c.Committer = groupcommit.New(rt.ctx, cfg, c, func(d *delivery) int64 { return d.cost }, rt.nanos)
	return c
}

// accept takes a delivery from an entity and returns its number. It does not wait.
func (c *committer) accept(d *delivery) uint64 {
	d.accepted = c.rt.nanos()
	return c.Accept(d)
}

// Commit makes deliveries durable: all of them, or fewer if an entity is created again after its
// deletion.
func (c *committer) Commit(ctx context.Context, deliveries []*delivery) (n int, acknowledge func(), err error) {
	n = c.build(deliveries)
	if err := c.persist(ctx); err != nil {
		return 0, nil, err
	}
	deliveries = deliveries[:n:n]
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
	return n, func() { c.rt.acknowledge(done) }, nil
}

// Refuse settles the deliveries that are not committed when the runtime is closed by force.
func (c *committer) Refuse(deliveries []*delivery, err error) {
	if err == nil {
		err = fmt.Errorf("commit: %w", ErrClosed)
	} else {
		err = fmt.Errorf("%w while the store failed: %w", ErrClosed, err)
	}
	for _, d := range deliveries {
		c.rt.reject(d, err)
	}
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
			b.Records = append(b.Records, Record{Entity: h.place, Reading: Reading{TS: d.ts}, Origin: d.origin, Edit: d.edit})
			continue
		}
		if d.presence != nil {
			b.Records = append(b.Records, Record{Entity: h.place, Reading: Reading{TS: d.ts}, Presence: d.presence})
		}
		for _, command := range d.commands {
			b.Records = append(b.Records, Record{Entity: h.place, Reading: Reading{TS: d.ts}, Command: command})
		}
		sample := 0
		for i := range d.readings {
			r, seq := &d.readings[i], d.firstSeq+uint64(i)
			b.Records = append(b.Records, Record{Entity: h.place, Seq: seq, Reading: *r, Origin: d.origin, Once: d.once.Token, Created: d.made && i == 0})
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

// persist commits the batch.
func (c *committer) persist(ctx context.Context) error {
	if len(c.batch.Records) == 0 {
		return nil // repetitions only
	}
	c.batch.Committed = c.rt.clock.stamp()
	if err := c.rt.store.Commit(ctx, &c.batch); err != nil {
		c.complain(err)
		return err
	}
	c.recovered()
	return nil
}

// complain logs that the store fails, once for each cause.
func (c *committer) complain(err error) {
	if errors.Is(err, ErrFull) {
		c.rt.window.setFull(true)
		c.notify(fmt.Errorf("outcome unknown until there is room: %w", ErrFull))
	}
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

// notify tells waiting callers that their edits are accepted and not committed. Those that come
// between this call and the refusal of all others are told with the next retry.
func (c *committer) notify(err error) {
	for _, d := range c.Uncommitted() {
		switch {
		case d.notice != nil:
			d.notice(err)
			d.notice = nil
		case d.change == nil && !d.patient():
			c.rt.settle(d, err)
			d.done = nil
		}
	}
}

func (c *committer) recovered() {
	c.rt.window.setFull(false)
	if c.failing == "" {
		return
	}
	c.failing = ""
	c.rt.count.storeError.Store(nil)
	c.rt.log.LogAttrs(context.Background(), slog.LevelInfo, "commit succeeded again")
}

// acknowledge publishes a batch and settles its deliveries. The acker calls it, in order.
func (r *Runtime) acknowledge(done committed) {
	r.graph.follow(done.deliveries)
	r.hub.publish(done)
	var readings, values uint64
	for _, d := range done.deliveries {
		readings += uint64(len(d.readings))
		for i := range d.readings {
			values += uint64(len(d.readings[i].Values))
		}
		r.count.commands.Add(uint64(len(d.commands)))
		if !d.look {
			r.count.latency.observe(time.Duration(done.nanos - d.accepted))
		}
	}
	r.count.readings.Add(readings)
	r.count.values.Add(values)
	for _, d := range done.deliveries {
		r.settle(d, nil)
	}
	r.window.releaseAll(done.deliveries)
}
