package actor

import (
	"context"
	"fmt"
	"time"
)

// WaitOption refines one wait, such as that of [Ask], [AskThen] or [Gather]: see [Within]. The zero
// value changes nothing.
type WaitOption struct{ limit time.Duration } // 0 is none

// Within ends a wait after d at the latest, with an error that wraps [context.DeadlineExceeded]. If
// d is 0 or less nothing is sent. For an ask it replaces the system's ask timeout, shorter or
// longer; a deadline of the context still counts. Of several limits the shortest counts.
//
// In a handler, use it where other code uses context.WithTimeout(ctx, d): it costs less, and the
// other messages of a [Reentrant] actor do not wait meanwhile.
func Within(d time.Duration) WaitOption {
	if d <= 0 {
		d = -1
	}
	return WaitOption{d}
}

// limitOf returns the limit that the options set: 0 for none, negative for one that has passed.
func limitOf(opts []WaitOption) (limit time.Duration) {
	for _, o := range opts {
		if limit == 0 || o.limit != 0 && o.limit < limit {
			limit = o.limit
		}
	}
	return limit
}

// askDeadline returns when an ask with that context and limit ends at the latest, and whether it
// takes an alarm to end it then: otherwise the context does.
func (s *System) askDeadline(ctx context.Context, limit time.Duration) (at time.Duration, alarmed bool) {
	deadline, has := ctx.Deadline()
	if !has {
		return s.limitAt(limit), true
	}
	at = deadline.Sub(s.clock.base)
	if limit == 0 {
		return at, false
	}
	own := s.clock.in(limit)
	return min(own, at), own < at
}

// limitAt returns when an ask with that limit ends, whose context has no deadline.
func (s *System) limitAt(limit time.Duration) time.Duration {
	if limit == 0 {
		limit = s.askTimeout
	}
	return s.clock.in(limit)
}

// withLimit gives ctx the limit, or the timeout when there is neither a limit nor a deadline.
func withLimit(ctx context.Context, timeout, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit != 0 {
		return context.WithTimeoutCause(ctx, limit, limitError(limit))
	}
	if _, ok := ctx.Deadline(); ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, timeout, timeoutError(timeout))
}

// errTimeUp is the end of an ask whose alarm has rung; timeUp says it in full.
var errTimeUp = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

// timeUp returns err, and for errTimeUp an error that names the limit.
func (s *System) timeUp(err error, limit time.Duration) error {
	switch {
	case err != errTimeUp: //nolint:errorlint // it is the alarm's own and never wrapped
		return err
	case limit == 0:
		return timeoutError(s.askTimeout)
	default:
		return limitError(limit)
	}
}

func timeoutError(timeout time.Duration) error {
	return fmt.Errorf("no answer within the system's ask timeout of %v: %w", timeout, context.DeadlineExceeded)
}

func limitError(limit time.Duration) error {
	return fmt.Errorf("no answer within %v: %w", max(limit, 0), context.DeadlineExceeded)
}
