package owner

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
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

func TestRerunWaitsLongerAfterEachFailureUntilWorkHasLasted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		failed := errors.New("failed")
		var delays []time.Duration
		works := 0
		work := func() error {
			switch works++; works {
			case 3:
				time.Sleep(5 * s) // it has lasted
			case 5:
				return entity.ErrClosed
			}
			return failed
		}
		again := func(why error, delay time.Duration) error {
			if !errors.Is(why, failed) {
				t.Errorf("again for %v", why)
			}
			if delays = append(delays, delay); len(delays) == 2 {
				return failed // it could not be prepared
			}
			return nil
		}
		Rerun(t.Context(), s, 4*s, failed, work, again)
		if want := []time.Duration{s, 2 * s, 4 * s, 4 * s, s, 2 * s}; !slices.Equal(delays, want) || works != 5 {
			t.Errorf("waited for %v, want %v; worked %d times", delays, want, works)
		}
		ctx, cancel := context.WithCancel(t.Context())
		Rerun(ctx, s, s, nil, func() error { cancel(); return failed }, again)
		if len(delays) != 6 {
			t.Error("it goes on after the end of its context")
		}
	})
}
