package alarm

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// feedBytes is roughly how much may wait for the engine in memory, and feedBatch how many
	// changes are passed on at once. A single batch is accepted whatever its size.
	feedBytes = 16 << 20
	feedBatch = 256
	// feedBuffer is how many changes the runtime holds for the feed: a burst of that many need not
	// be read from the log, which costs more than making it durable.
	feedBuffer = 1 << 16
	// feedBatches bounds the batches by their number; those of single changes are small.
	feedBatches = 1024
	// feedUsed is how many processed batches are kept for reuse.
	feedUsed = 16
)

// feed reads changes ahead of the engine, up to a bounded number of bytes.
type feed struct {
	batches chan batch           // closed at the end, when err is set
	used    chan []entity.Change // room of batches that were taken in, for others
	stop    context.CancelFunc
	err     error
	waiting atomic.Int64 // changes in batches

	mu    sync.Mutex
	bytes int           // in batches, guarded by mu
	freed chan struct{} // has room for one: there are less bytes
}

// batch is some changes and their size.
type batch struct {
	changes []entity.Change
	bytes   int
}

func startFeed(ctx context.Context, wg *sync.WaitGroup, changes *entity.Follower, lagged *atomic.Uint64) *feed {
	ctx, cancel := context.WithCancel(ctx)
	f := &feed{batches: make(chan batch, feedBatches), used: make(chan []entity.Change, feedUsed), stop: cancel, freed: make(chan struct{}, 1)}
	wg.Go(func() {
		defer close(f.batches)
		defer changes.Close()
		for f.err == nil {
			c, err := changes.Next(ctx)
			if errors.Is(err, entity.ErrLagged) {
				lagged.Add(1)
				continue
			}
			if f.err = err; err == nil {
				f.err = f.pass(ctx, c, changes)
			}
		}
	})
	return f
}

// pass passes a change on, with those that have been read as well.
func (f *feed) pass(ctx context.Context, c entity.Change, changes *entity.Follower) error {
	var b batch
	select {
	case b.changes = <-f.used:
	default:
	}
	b.add(c)
	for len(b.changes) < feedBatch && b.bytes < feedBytes/8 {
		next, ok := changes.Ready()
		if !ok {
			break
		}
		b.add(next)
	}
	for !f.reserve(b.bytes) {
		select {
		case <-f.freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	f.waiting.Add(int64(len(b.changes)))
	select {
	case f.batches <- b:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (b *batch) add(c entity.Change) {
	b.changes = append(b.changes, c)
	b.bytes += c.Bytes()
}

// reserve takes room, and reports whether there was some.
func (f *feed) reserve(bytes int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bytes > 0 && f.bytes+bytes > feedBytes {
		return false
	}
	f.bytes += bytes
	return true
}

// took releases the room of a batch that is no longer used.
func (f *feed) took(b batch) {
	f.waiting.Add(-int64(len(b.changes)))
	clear(b.changes)
	if cap(b.changes) >= feedBatch {
		select {
		case f.used <- b.changes[:0]:
		default:
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.bytes -= b.bytes
	select {
	case f.freed <- struct{}{}:
	default:
	}
}
