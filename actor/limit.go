package actor

import (
	"context"
	"fmt"
	"time"
)

// AskOption refines one ask: see [Within]. The zero value changes nothing.
type AskOption struct{ limit time.Duration } // 0 is none

// Within ends an ask after d at the latest, with an error that wraps
// [context.DeadlineExceeded]; when d is 0 or less nothing is sent. It takes the place of the system's ask
// timeout, shorter or longer; the deadline of the ask's context still counts. Of several limits
// the shortest counts. It says what context.WithTimeout(ctx, d) would, and costs less.
func Within(d time.Duration) AskOption {
	if d <= 0 {
		d = -1
	}
	return AskOption{d}
}

// limitOf returns the limit that the options set, 0 for none; a negative one has passed already.
func limitOf(opts []AskOption) (limit time.Duration) {
	for _, o := range opts {
		if limit == 0 || o.limit != 0 && o.limit < limit {
			limit = o.limit
		}
	}
	return limit
}

// askDeadline returns when an ask with that context and limit ends at the latest, and whether the
// system's clock has to see to it: otherwise the context ends then.
func (s *System) askDeadline(ctx context.Context, limit time.Duration) (at time.Duration, timed bool) {
	deadline, has := ctx.Deadline()
	if !has {
		return s.askTimeoutAt(limit), true
	}
	at = deadline.Sub(s.clock.base)
	if limit == 0 {
		return at, false
	}
	own := s.clock.in(limit)
	return min(own, at), own < at
}

// askTimeoutAt returns when an ask with that limit ends, whose context has no deadline.
func (s *System) askTimeoutAt(limit time.Duration) time.Duration {
	if limit == 0 {
		limit = s.askTimeout
	}
	return s.clock.in(limit)
}

// errTimeUp is the end of an ask whose alarm has rung; timeUp says it in full.
var errTimeUp = fmt.Errorf("no answer in time: %w", context.DeadlineExceeded)

// timeUp returns err, or for errTimeUp an error that names the limit.
func (s *System) timeUp(err error, limit time.Duration) error {
	switch {
	case err != errTimeUp: //nolint:errorlint // it is the clock's own and never wrapped
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
	limit = max(limit, 0)
	return fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded)
}
