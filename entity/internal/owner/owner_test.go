package owner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

func TestCallReturnsTheAnswerOfTheOwner(t *testing.T) {
	t.Parallel()
	calls, failed := make(Calls[*int]), errors.New("failed")
	go func() {
		state := 41
		for c := range calls {
			if err := c.Run(c.Context, &state); err != nil {
				c.Answer(errors.Join(failed, err))
				continue
			}
			c.Answer(nil)
		}
	}()
	defer close(calls)
	var got int
	if err := calls.Do(t.Context(), nil, nil, func(_ context.Context, n *int) error { *n++; got = *n; return nil }); err != nil || got != 42 {
		t.Errorf("got %d, %v; want 42", got, err)
	}
	why := errors.New("why")
	if err := calls.Do(t.Context(), nil, nil, func(context.Context, *int) error { return why }); !errors.Is(err, failed) || !errors.Is(err, why) {
		t.Errorf("got %v, want the owner's answer", err)
	}
}

func TestCallThatIsNotReceivedEndsWithItsContextOrTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls, closed, why := make(Calls[int]), errors.New("closed"), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan struct{})
		var canceled, refused error
		go func() { canceled = calls.Do(ctx, nil, closed, nil) }()
		go func() { refused = calls.Do(t.Context(), ended, closed, nil) }()
		synctest.Wait()
		cancel(why)
		close(ended)
		synctest.Wait()
		if !errors.Is(canceled, why) || !errors.Is(refused, closed) {
			t.Errorf("got %v and %v, want %v and %v", canceled, refused, why, closed)
		}
	})
}

func TestWaitEndsWithTheGoroutinesOrTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release, why := make(chan struct{}), errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { <-release })
		cancel(why)
		if err := Wait(ctx, &wg); !errors.Is(err, why) {
			t.Errorf("got %v, want %v", err, why)
		}
		close(release)
		if err := Wait(t.Context(), &wg); err != nil {
			t.Error(err)
		}
	})
}
