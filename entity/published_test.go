package entity_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestASubscriptionThatReadsTheLogIsNotAheadOfOneFromNowOn(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{StreamBuffer: 4})
	first := s.subscribe(entity.ChangesQuery{})
	begin := first.Cursor()
	for i := range int64(20) {
		s.write("a", at(i, "t", value.Int(i)))
	}
	// The acker is held after it has published one more, so that the commit after
	// that is in the log and not published.
	held, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	if err := s.Ingest(t.Context(), "a", []entity.Reading{at(20, "t", value.Int(20))}, 10, func(error) { close(held); <-release }); err != nil {
		t.Fatal(err)
	}
	<-held
	before := s.store.Info().LastChange
	if err := s.Ingest(t.Context(), "a", []entity.Reading{at(21, "t", value.Int(21))}, 10, nil); err != nil {
		t.Fatal(err)
	}
	for s.store.Info().LastChange == before {
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
	now := s.subscribe(entity.ChangesQuery{}).Cursor()
	sub := s.subscribe(entity.ChangesQuery{Cursor: begin})
	for range 21 {
		if c := next(t, sub); c.TS == 20 && c.Cursor != now {
			t.Errorf("the newest change has the cursor %q, a subscription from now on begins at %q", c.Cursor, now)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := sub.Next(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("what is not published is read: %+v, %v", c, err)
	}
}
