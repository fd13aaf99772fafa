package pause

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPauseEndsWithItsTimeOrItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := For(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v: %v, want nil after a minute", time.Since(began), err)
		}
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(why) })
		began = time.Now()
		if err := For(ctx, time.Minute); !errors.Is(err, why) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v, want the cause after a second", time.Since(began), err)
		}
	})
}

func TestHalfOfTheTimeIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		whole, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		began := time.Now()
		half, cancel := Half(whole)
		defer cancel()
		<-half.Done()
		if time.Since(began) != time.Minute/2 || whole.Err() != nil {
			t.Errorf("half of a minute ended after %v, the minute with %v", time.Since(began), whole.Err())
		}
		endless, end := context.WithCancel(t.Context())
		half, cancel = Half(endless)
		defer cancel()
		if _, ok := half.Deadline(); ok || half.Err() != nil {
			t.Errorf("half of what does not end ends, %v", half.Err())
		}
		end()
		<-half.Done()
	})
}
