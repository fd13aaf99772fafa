package server

import (
	"context"
	"io"
	"math"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

const (
	// requestCost is what a request costs of the allowance of its principal besides the bytes of the
	// body: about as many as take as much time to handle.
	requestCost = 2 << 10
	// ratePatience is how long a request waits because of what its principal has sent before. One
	// that would wait longer is refused, since waiting requests use up connections.
	ratePatience = time.Second
)

// pay charges the principal of a request, and waits if it has sent too much before. A body that is
// read in parts is paid in parts, and one whose length is not known once it is read.
func (s *Server) pay(r *http.Request, o *operation) error {
	who := callerOf(r.Context()).who
	if who == nil {
		return nil
	}
	cost := int64(requestCost)
	switch {
	case o.request.body == nil:
	case o.slow:
		r.Body = &paidBody{r.Body, s, r.Context(), who}
	case r.ContentLength < 0:
		r.Body = &owedBody{r.Body, s.book, who}
	default: // no more is read
		cost += min(r.ContentLength, o.limit)
	}
	wait, err := s.book.Charge(who, cost, ratePatience)
	if err != nil {
		return err
	}
	return s.await(r.Context(), wait)
}

// await waits, at most until the server shuts down, and returns nil, or the cause if ctx ends.
func (s *Server) await(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-s.serving.Done():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// paidBody charges for what is read of a body, and waits until what was sent before is paid.
type paidBody struct {
	io.ReadCloser
	server *Server
	ctx    context.Context //nolint:containedctx // of the request
	who    *access.Principal
}

func (b *paidBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	wait, _ := b.server.book.Charge(b.who, int64(n), math.MaxInt64) // which is longer than any wait
	if stopped := b.server.await(b.ctx, wait); stopped != nil {
		return 0, stopped
	}
	return n, err
}

// owedBody charges for what is read of a body.
type owedBody struct {
	io.ReadCloser
	book *access.Book
	who  *access.Principal
}

func (b *owedBody) Read(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p)
	b.book.Owe(b.who, int64(n))
	return n, err
}
