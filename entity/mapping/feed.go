package mapping

import (
	"context"
	"errors"

	"github.com/greenroom-go/greenroom/entity"
)

// feed reads changes ahead of a follower, up to a bounded number.
type feed struct {
	changes chan entity.Change // closed at the end, when err is set
	err     error
	cancel  context.CancelFunc
}

// startFeed passes on what a follower reads, and closes it.
func startFeed(s *Service, changes *entity.Follower) *feed {
	ctx, cancel := context.WithCancel(s.ctx)
	f := &feed{changes: make(chan entity.Change, feedBuffer), cancel: cancel}
	s.wg.Go(func() {
		defer close(f.changes)
		f.err = f.read(ctx, s, changes)
	})
	return f
}

// read passes changes on until there is an error other than that the feed fell behind.
func (f *feed) read(ctx context.Context, s *Service, changes *entity.Follower) error {
	defer changes.Close()
	for {
		c, err := changes.Next(ctx)
		switch {
		case errors.Is(err, entity.ErrLagged):
			s.count.lagged.Add(1)
			continue
		case err != nil:
			return err
		}
		select {
		case f.changes <- c:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// drain returns the change and those that wait behind it.
func (f *feed) drain(first entity.Change) []entity.Change {
	list := make([]entity.Change, 1, 1+len(f.changes))
	list[0] = first
	for len(list) < feedBuffer {
		select {
		case c, ok := <-f.changes:
			if !ok {
				return list // the end is found the next time
			}
			list = append(list, c)
		default:
			return list
		}
	}
	return list
}

// stop ends it without waiting.
func (f *feed) stop() { f.cancel() }
