package server

import (
	"context"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// requestCost is what a request with a body costs of the allowance of its principal besides the
	// bytes of the body: about as many as take as much time to handle.
	requestCost = 2 << 10
	// ratePatience is how long a request waits because of what its principal has sent before. One
	// that would wait longer is refused, since waiting requests use up connections.
	ratePatience = time.Second
)

// pay charges the principal of a request for its body, and waits if it has sent too much before. A
// body that is read in parts is paid in parts.
func (s *Server) pay(r *http.Request, o *operation) error {
	who := callerOf(r.Context()).who
	if o.request.body == nil || who == nil {
		return nil
	}
	cost := int64(requestCost)
	if o.slow {
		r.Body = &paidBody{r.Body, r.Context(), s.book, who}
	} else {
		cost += max(0, r.ContentLength)
	}
	wait, err := s.book.Charge(who, cost, ratePatience)
	if err != nil {
		return err
	}
	return paused(r.Context(), wait)
}

// paused is pause.For without a timer for no time.
func paused(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	return pause.For(ctx, wait)
}

// paidBody waits before each read until what was read before is paid.
type paidBody struct {
	io.ReadCloser
	ctx  context.Context //nolint:containedctx // of the request
	book *access.Book
	who  *access.Principal
}

func (b *paidBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	wait, _ := b.book.Charge(b.who, int64(n), math.MaxInt64) // which is longer than any wait
	if stopped := paused(b.ctx, wait); stopped != nil {
		return 0, stopped
	}
	return n, err
}
