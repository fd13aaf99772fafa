package behavior

import (
	"context"
	"errors"
	"sync"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// batchChanges and batchBytes bound a batch, which may exceed them by its last change, and
	// feedBatches is how many batches are read ahead.
	batchChanges = 2048
	batchBytes   = 1 << 20
	feedBatches  = 2
	// feedBuffer is how many changes the runtime holds for the feed, which then need not be read
	// from the log.
	feedBuffer = 1 << 16
)

// feed reads changes ahead of the follower, up to a bounded number.
type feed struct {
	batches chan batch // closed at the end, when err is set
	err     error
	stop    context.CancelFunc
}

// batch is some changes. A batch without changes says that those up to a cursor were missed.
type batch struct {
	changes []entity.Change
	missed  string
}

func startFeed(ctx context.Context, wg *sync.WaitGroup, changes *entity.Follower) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{batches: make(chan batch, feedBatches), stop: cancel}
	wg.Go(func() {
		defer close(f.batches)
		defer changes.Close()
		f.err = f.read(ctx, changes)
	})
	return f
}

// read passes on what there is to read, until an error.
func (f *feed) read(ctx context.Context, changes *entity.Follower) error {
	for {
		var b batch
		c, err := changes.Next(ctx)
		switch {
		case errors.Is(err, entity.ErrLagged):
			continue // they are read from the log
		case errors.Is(err, entity.ErrCursorExpired):
			b.missed = changes.Cursor()
		case err != nil:
			return err
		default:
			b.take(c, changes)
		}
		select {
		case f.batches <- b:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// take takes a change, and those that have been read as well.
func (b *batch) take(c entity.Change, changes *entity.Follower) {
	b.changes = []entity.Change{c}
	for bytes := c.Bytes(); len(b.changes) < batchChanges && bytes < batchBytes; {
		next, ok := changes.Ready()
		if !ok {
			return
		}
		b.changes = append(b.changes, next)
		bytes += next.Bytes()
	}
}
