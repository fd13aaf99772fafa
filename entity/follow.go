package entity

import (
	"context"
	"errors"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// Bounds of the pause of a Follower after a failure. It doubles from one to the next.
const (
	followPauseMin = 100 * time.Millisecond
	followPauseMax = 5 * time.Second
)

// Follower reads the committed changes one after the other and, unlike a Subscription, continues
// after a failure: after any error of Next except ErrClosed, the caller may call it again. Make it
// with Runtime.Follow.
//
// It must not be used concurrently.
type Follower struct {
	rt     *Runtime
	query  ChangesQuery
	sub    *Subscription // nil after a failure, until Next resubscribes
	cursor string        // where Next resubscribes
	pause  time.Duration // before Next resubscribes
}

// Follow begins to follow the changes, from now or from a cursor. The errors are those
// of Changes. Close the Follower when done.
func (r *Runtime) Follow(ctx context.Context, q ChangesQuery) (*Follower, error) {
	sub, err := r.Changes(ctx, q)
	if err != nil {
		return nil, err
	}
	return &Follower{rt: r, query: q, sub: sub}, nil
}

// Next returns the next change, waiting for it until ctx ends. Each error but the first
// says how the next call continues:
//
//   - ErrClosed: the runtime is closed, and there are no more changes.
//   - ErrLagged: the caller was too slow for the buffer. Nothing is lost; the changes
//     are read from the log.
//   - ErrCursorExpired: changes are lost, because the log no longer has them. Next continues from
//     now. What the caller reads from the store after this includes their effects.
//   - an error of ctx: as if the call had not been made.
//   - any other error, of the store: Next tries again after a pause.
func (f *Follower) Next(ctx context.Context) (Change, error) {
	for {
		if f.sub == nil {
			if err := f.subscribe(ctx); err != nil {
				return Change{}, err
			}
		}
		c, err := f.sub.Next(ctx)
		switch {
		case err == nil:
			f.pause = 0
		case ctx.Err() != nil, errors.Is(err, ErrClosed):
		case errors.Is(err, ErrLagged):
			f.drop(f.sub.Cursor())
		case errors.Is(err, ErrCursorExpired): // while the log was read
			f.Rewind(f.sub.Cursor())
			continue // subscribing returns it again, with a cursor to continue from
		default:
			f.Rewind(f.sub.Cursor())
		}
		return c, err
	}
}

// subscribe resubscribes after a failure.
func (f *Follower) subscribe(ctx context.Context) error {
	if f.pause > 0 {
		if err := pause.For(ctx, f.pause); err != nil {
			return err
		}
	}
	q := f.query
	q.Cursor = f.cursor
	sub, err := f.rt.Changes(ctx, q)
	if errors.Is(err, ErrCursorExpired) {
		q.Cursor = ""
		now, nowErr := f.rt.Changes(ctx, q)
		if nowErr != nil {
			return nowErr
		}
		f.sub = now
		return err
	}
	f.sub = sub
	return err
}

// Ready returns the next change if it has been read already, so that a caller can take a
// burst as one. It does not wait, and leaves errors to Next.
func (f *Follower) Ready() (c Change, ok bool) {
	if f.sub == nil {
		return c, false
	}
	return f.sub.pending()
}

// Cursor returns the position up to which every change was returned by Next or Ready or does not
// concern the query. A later Follower can resume there. The cursor also advances while only changes
// that do not concern the query are committed.
func (f *Follower) Cursor() string {
	if f.sub == nil {
		return f.cursor
	}
	return f.sub.Cursor()
}

// Rewind makes Next return the changes after a cursor once more, after a pause, for a caller that
// has failed on them.
func (f *Follower) Rewind(cursor string) {
	f.drop(cursor)
	f.pause = min(max(2*f.pause, followPauseMin), followPauseMax)
}

// Close ends the subscription. Next must not be called any more.
func (f *Follower) Close() { f.drop("") }

// drop ends the subscription; the next one begins at cursor.
func (f *Follower) drop(cursor string) {
	if f.sub != nil {
		f.sub.Close()
	}
	f.sub, f.cursor = nil, cursor
}
