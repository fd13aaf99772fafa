package actor

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// FarAsk is an ask of this system that goes to another one. The zero FarAsk is none. It is a
// comparable value; its methods are safe for concurrent use.
type FarAsk struct{ ask pendingAsk }

// IsZero reports whether there is no ask.
func (a FarAsk) IsZero() bool { return a.ask == nil }

// Settle answers: decode is called with a pointer to what the asker wants, or with a *[FarRelay] if
// the request was forwarded and the asker is somewhere else. An error of decode rejects the ask with
// [ErrNotAccepted]. Settle reports whether it has ended the ask: not if nobody waits any more, or if the
// request went to several actors and it is rejected while others may answer.
func (a FarAsk) Settle(decode func(into any) error) bool {
	ended, err := a.ask.settle(decode)
	if err != nil {
		return a.ask.reject(fmt.Errorf("%w: the answer: %w", ErrNotAccepted, err), nil)
	}
	return ended
}

// Reject ends the ask with an error, and reports whether it has, as Settle does.
func (a FarAsk) Reject(err error) bool { return a.ask.reject(err, nil) }

// Over reports whether the asker no longer waits.
func (a FarAsk) Over() bool { return a.ask.over() }

// Deadline returns when the asker gives up.
func (a FarAsk) Deadline() time.Time {
	_, deadline := a.ask.asker()
	return deadline
}

// FarRelay is an answer that is passed on to another system, in whatever form the carrier chooses.
// The [FarRequest] is answered with it.
type FarRelay struct{ Answer any }

// FarRequest is a request that has come from another system, and that an actor of this one answers.
// [NewFarRequest] makes one.
type FarRequest struct {
	answer   func(answer any, err error)
	deadline time.Time
	from     *core // set before it is delivered

	settled  atomic.Bool
	answerer atomic.Pointer[answerer]

	mu     sync.Mutex
	ctx    context.Context         //nolint:containedctx // the asker's, as the handler is given it; made on first need and not changed, guarded by mu
	cancel context.CancelCauseFunc // as ctx
}

// NewFarRequest returns a request whose asker gives up when left has passed. answer is called once,
// on any goroutine, with what the handler has answered, or with the error with which the ask ends. It
// must not block. If the asker has given up, it is not called.
func NewFarRequest(left time.Duration, answer func(answer any, err error)) *FarRequest {
	required(answer != nil, "NewFarRequest: the function is nil")
	return &FarRequest{answer: answer, deadline: time.Now().Add(left)}
}

// Cancel ends the request, because its asker has given up: the handler's context ends.
func (r *FarRequest) Cancel() {
	if r.settled.Swap(true) {
		return
	}
	why := context.Canceled
	if !time.Now().Before(r.deadline) {
		why = context.DeadlineExceeded
	}
	r.asker()
	r.cancel(why)
}

func (r *FarRequest) resolveAny(answer any, err error) bool {
	if r.settled.Load() || r.settled.Swap(true) {
		return false
	}
	r.answer(answer, err)
	return true
}

func (r *FarRequest) reject(err error, _ *worker) bool { return r.resolveAny(nil, err) }

func (r *FarRequest) settle(decode func(into any) error) (bool, error) {
	var relay FarRelay
	if err := decode(&relay); err != nil {
		return false, err
	}
	return r.resolveAny(relay, nil), nil
}

func (r *FarRequest) passTo(c *core)      { r.answerer.Store(&answerer{c}) }
func (r *FarRequest) passedTo() *answerer { return r.answerer.Load() }
func (r *FarRequest) sentBy(from *core)   { r.from = from }
func (r *FarRequest) sender() *core       { return r.from }
func (r *FarRequest) over() bool          { return r.settled.Load() }

// answered reports false: once it is answered, nothing ends the context of its asker any more.
func (r *FarRequest) answered() bool { return false }

// interrupt does nothing: its asker is no handler of this system.
func (r *FarRequest) interrupt(error) {}

func (r *FarRequest) request() interrupter { return r }

func (r *FarRequest) asker() (ctx context.Context, deadline time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx == nil {
		r.ctx, r.cancel = context.WithCancelCause(context.Background())
	}
	return r.ctx, r.deadline
}

var _ answerable[int] = (*call[int])(nil)

// farAnswerable is a request that has come from another system, for whoever answers with an R, which
// may not be what its asker wants.
type farAnswerable[R any] struct{ *FarRequest }

func (a farAnswerable[R]) reply(answer R, _ *worker) bool { return a.resolveAny(answer, nil) }
