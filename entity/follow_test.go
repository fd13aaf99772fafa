package entity_test

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

func (s *stage) follow(q entity.ChangesQuery) *entity.Follower {
	s.t.Helper()
	f, err := s.Follow(s.t.Context(), q)
	if err != nil {
		s.t.Fatalf("follow: %v", err)
	}
	s.t.Cleanup(f.Close)
	return f
}

// mustFollow checks that the next changes have these times.
func mustFollow(t *testing.T, f *entity.Follower, from, to int64) {
	t.Helper()
	for want := from; want < to; want++ {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		c, err := f.Next(ctx)
		cancel()
		if err != nil || c.TS != want {
			t.Fatalf("got %d, %v; want %d", c.TS, err, want)
		}
	}
}

func TestFollowerGoesOnAfterItHasLagged(t *testing.T) {
	const buffer = 16
	s := open(t, t.TempDir(), entity.Config{StreamBuffer: buffer})
	f := s.follow(entity.ChangesQuery{})
	for i := range int64(100) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	mustFollow(t, f, 0, buffer)
	if c, ok := f.Ready(); ok {
		t.Errorf("ready after the buffer: %+v", c)
	}
	if _, err := f.Next(t.Context()); !errors.Is(err, entity.ErrLagged) {
		t.Fatalf("got %v, want ErrLagged", err)
	}
	mustFollow(t, f, buffer, 100)
	if n := s.Stats().Subscriptions; n != 1 {
		t.Errorf("there are %d subscriptions, want 1", n)
	}
}

func TestFollowerHasNothingReadyThatItWouldHaveToWaitFor(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	f := s.follow(entity.ChangesQuery{})
	if c, ok := f.Ready(); ok {
		t.Errorf("before all changes: %+v", c)
	}
	s.write("a", at(1, "t", value.Int(1)), at(2, "t", value.Int(2)))
	mustFollow(t, f, 1, 2)
	if c, ok := f.Ready(); !ok || c.TS != 2 {
		t.Errorf("ready: %+v, %v; want the second change", c, ok)
	}
	if c, ok := f.Ready(); ok {
		t.Errorf("after all changes: %+v", c)
	}
}

// brokenLog is a store whose log cannot be read for some times, or has lost what it had.
type brokenLog struct {
	entity.Store
	fails int
	lost  bool
}

var errBrokenLog = errors.New("the log cannot be read")

func (s *brokenLog) Changes(ctx context.Context, after uint64, limit int) ([]entity.LoggedChange, error) {
	if s.fails > 0 {
		s.fails--
		return nil, errBrokenLog
	}
	return s.Store.Changes(ctx, after, limit)
}

func (s *brokenLog) Info() entity.StoreInfo {
	info := s.Store.Info()
	if s.lost {
		info.FirstChange = info.LastChange + 1
	}
	return info
}

func openBroken(t *testing.T, cfg entity.Config) (*stage, *brokenLog) {
	t.Helper()
	log := &brokenLog{}
	s := openOn(t, t.TempDir(), cfg, func(disk *sqlite.Store) entity.Store { log.Store = disk; return log })
	return s, log
}

func TestFollowerTriesAgainWhenTheLogCannotBeRead(t *testing.T) {
	s, log := openBroken(t, entity.Config{})
	from := s.follow(entity.ChangesQuery{}).Cursor()
	for i := range int64(10) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	f := s.follow(entity.ChangesQuery{Cursor: from})
	log.fails = 3
	for range 3 {
		if _, err := f.Next(t.Context()); !errors.Is(err, errBrokenLog) {
			t.Fatalf("got %v, want the error of the store", err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Next(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("during the pause: %v, want the error of the context", err)
	}
	mustFollow(t, f, 0, 10)
}

func TestFollowerGoesOnFromNowWhenChangesAreLost(t *testing.T) {
	const buffer = 4
	s, log := openBroken(t, entity.Config{StreamBuffer: buffer})
	f := s.follow(entity.ChangesQuery{})
	for i := range int64(10) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	mustFollow(t, f, 0, buffer)
	if _, err := f.Next(t.Context()); !errors.Is(err, entity.ErrLagged) {
		t.Fatalf("got %v, want ErrLagged", err)
	}
	log.lost = true
	if _, err := f.Next(t.Context()); !errors.Is(err, entity.ErrCursorExpired) {
		t.Fatalf("got %v, want ErrCursorExpired", err)
	}
	s.write("a", at(10, "t", value.Int(10))) // after the error, so it must come
	mustFollow(t, f, 10, 11)
}

func TestFollowerReturnsWhatItsCallerHasFailedOnOnceMore(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	f := s.follow(entity.ChangesQuery{})
	for i := range int64(10) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	mustFollow(t, f, 0, 5)
	cursor := f.Cursor()
	mustFollow(t, f, 5, 8)
	f.Rewind(cursor)
	if got := f.Cursor(); got != cursor {
		t.Errorf("the cursor is %s, want %s", got, cursor)
	}
	mustFollow(t, f, 5, 10)
}

func TestFollowerEndsWithTheRuntime(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	f := s.follow(entity.ChangesQuery{})
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := f.Next(t.Context()); !errors.Is(err, entity.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	}
}
