package search

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// quietAfter is how long the follower waits for a change before it checks how far the order of
// changes has advanced without one for it.
const quietAfter = 20 * time.Millisecond

// follow keeps the table up to date with the changes until the index or the runtime is
// closed.
func (x *index) follow(changes *entity.Follower) {
	defer changes.Close()
	cursor := changes.Cursor()
	for {
		x.reached(cursor, 0)
		waiting, stop := context.WithTimeout(x.ctx, quietAfter)
		c, err := changes.Next(waiting)
		stop()
		if err == nil {
			if err = x.apply(&c); err == nil {
				cursor = c.Cursor
				x.reached(cursor, c.Seq)
				continue
			}
			changes.Rewind(cursor)
		}
		switch {
		case x.ctx.Err() != nil, errors.Is(err, entity.ErrClosed):
			return
		case errors.Is(err, context.DeadlineExceeded):
			cursor = changes.Cursor()
		case errors.Is(err, entity.ErrLagged):
		case errors.Is(err, entity.ErrCursorExpired):
			x.mu.Lock()
			x.table = newTable()
			x.mu.Unlock()
			cursor = changes.Cursor()
		default:
			x.log.LogAttrs(x.ctx, slog.LevelWarn, "search index: the changes are read again", slog.Any("error", err))
		}
	}
}

// reached records how far the table has come, and wakes those who wait for it.
func (x *index) reached(cursor string, seq uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.cursor == cursor {
		return
	}
	x.cursor, x.seq = cursor, max(x.seq, seq)
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
