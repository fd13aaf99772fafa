package behavior

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// batchChanges and batchBytes are the most that is handled at once, but for the last change,
	// and feedBatches is how many of these are read ahead.
	batchChanges = 2048
	batchBytes   = 1 << 20
	feedBatches  = 2
	// feedBuffer is how many changes the runtime holds for the feed: what is in it is not read from
	// the log.
	feedBuffer = 1 << 16
)

// feed reads the changes ahead of the follower, by a bounded number.
type feed struct {
	batches chan []entity.Change // closed at the end, when err is set
	err     error
	stop    context.CancelFunc
	missed  atomic.Uint64
}

func startFeed(ctx context.Context, wg *sync.WaitGroup, changes *entity.Follower) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{batches: make(chan []entity.Change, feedBatches), stop: cancel}
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
		c, err := changes.Next(ctx)
		switch {
		case errors.Is(err, entity.ErrLagged):
			continue // they are read from the log
		case errors.Is(err, entity.ErrCursorExpired):
			f.missed.Add(1)
			continue
		case err != nil:
			return err
		}
		batch, bytes := []entity.Change{c}, c.Bytes()
		for len(batch) < batchChanges && bytes < batchBytes {
			next, ok := changes.Ready()
			if !ok {
				break
			}
			batch = append(batch, next)
			bytes += next.Bytes()
		}
		select {
		case f.batches <- batch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
