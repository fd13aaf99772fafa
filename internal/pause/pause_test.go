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
