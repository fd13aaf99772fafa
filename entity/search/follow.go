package search

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// quietAfter is how long the follower waits for a change before it looks how far
	// the order of changes has gone on without one for it.
	quietAfter = 20 * time.Millisecond
	// retryAfter is the pause after an error.
	retryAfter = time.Second
)

// follow keeps the table up to date with the changes until the index is closed.
func (x *index) follow() {
	cursor := ""
	for x.ctx.Err() == nil {
		sub, err := x.rt.Changes(x.ctx, entity.ChangesQuery{Cursor: cursor, Edits: true})
		if errors.Is(err, entity.ErrCursorExpired) {
			x.mu.Lock()
			x.table = newTable() // changes are missing: start over
			x.mu.Unlock()
			cursor = ""
			continue
		}
		if err == nil {
			cursor, err = x.read(sub)
			sub.Close()
		}
		x.mu.Lock()
		x.following = false
		x.mu.Unlock()
		if x.ctx.Err() != nil || errors.Is(err, entity.ErrClosed) {
			return
		}
		if !errors.Is(err, entity.ErrLagged) {
			x.log.LogAttrs(x.ctx, slog.LevelWarn, "search index: the changes are read again", slog.Any("error", err))
			timer := time.NewTimer(retryAfter)
			select {
			case <-timer.C:
			case <-x.ctx.Done():
				timer.Stop()
			}
		}
	}
}

// read applies the changes of a subscription, and returns the cursor of the last one.
func (x *index) read(sub *entity.Subscription) (cursor string, err error) {
	cursor = sub.Cursor()
	x.reached(cursor, 0)
	for {
		waiting, stop := context.WithTimeout(x.ctx, quietAfter)
		c, err := sub.Next(waiting)
		stop()
		if x.ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
			cursor = sub.Cursor()
			x.reached(cursor, 0)
			continue
		}
		if err != nil {
			return cursor, err
		}
		if err := x.apply(&c); err != nil {
			return cursor, err
		}
		cursor = c.Cursor
		x.reached(cursor, c.Committed)
	}
}

// reached records how far the table has come, and wakes those who wait for it.
func (x *index) reached(cursor string, committed int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.following = true
	if x.cursor == cursor {
		return
	}
	x.cursor, x.committed = cursor, max(x.committed, committed)
	close(x.moved)
	x.moved = make(chan struct{})
}

// apply puts a change into the table.
func (x *index) apply(c *entity.Change) error {
	x.mu.Lock()
	again := x.table.apply(c)
	x.mu.Unlock()
	if !again {
		return nil
	}
	// What the change does not say is read from the store, which has it by now.
	return x.rt.Scan(x.ctx, entity.ListQuery{IDs: []string{c.Entity}}, func(v entity.View) bool {
		view := filterView(x.ctx, x.rt, v)
		x.mu.Lock()
		defer x.mu.Unlock()
		x.table.put(view, nil, true)
		return true
	})
}
