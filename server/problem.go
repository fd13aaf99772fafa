package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/search"
)

// problem is an RFC 9457 problem document, and the error that a handler returns
// to have it sent.
type problem struct {
	Type   string `json:"type" example:"about:blank"`
	Title  string `json:"title" example:"Bad Request"`
	Status int    `json:"status" example:"400"`
	// What was wrong, and what must be instead.
	Detail string `json:"detail" example:"limit must be an integer from 1 to 1000, not 0"`
	// The path of the request.
	Instance string `json:"instance" example:"/v1/entities"`

	// The place in a filter or a statement, in characters from 1.
	Column *int `json:"column,omitempty"`
	// The values of a cycle of mappings.
	Cycle []string `json:"cycle,omitempty"`
	// The member of a JSON body that the place is in.
	In string `json:"in,omitempty"`
	// The line of the place, from 1.
	Line *int `json:"line,omitempty"`
	// The mappings of the cycle.
	Mappings []string `json:"mappings,omitempty"`
	// The place in bytes of UTF-8.
	Offset *int `json:"offset,omitempty"`
}

// Error is for logs and tests.
func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Detail) }

// problemf makes a problem. The detail says what was wrong and what would be
// right.
func problemf(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// problemOf turns any error of a handler into a problem.
func problemOf(err error) *problem {
	var p *problem
	var tooLarge *http.MaxBytesError
	if errors.Is(err, entity.ErrTestFailed) || errors.Is(err, entity.ErrTypeInUse) {
		return problemf(http.StatusConflict, "%v", err)
	}
	if p := modelProblem(err); p != nil {
		return p
	}
	if p := seriesProblem(err); p != nil {
		return p
	}
	if p := mappingProblem(err); p != nil {
		return p
	}
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return problemf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes; send it in parts", tooLarge.Limit)
	case errors.Is(err, entity.ErrNotFound), errors.Is(err, actor.ErrStopped) && !errors.Is(err, entity.ErrStopped):
		return problemf(http.StatusNotFound, "%v", err)
	case errors.Is(err, entity.ErrCursorExpired):
		return problemf(http.StatusGone, "%v; start over without a cursor", err)
	case errors.Is(err, entity.ErrCursorInvalid):
		return problemf(http.StatusBadRequest, "%v; pass on what an answer before had as next, or the id of an event", err)
	case errors.Is(err, entity.ErrConflict), errors.Is(err, retention.ErrOverlap):
		return problemf(http.StatusConflict, "%v", err)
	case errors.Is(err, filter.ErrVisits):
		return problemf(http.StatusUnprocessableEntity, "%v; use a filter that looks at fewer related entities", err)
	case errors.Is(err, search.ErrCountTimeout):
		return problemf(http.StatusUnprocessableEntity, "%v; ask without count, with a narrower filter, or again: what is indexed by then is counted at once", err)
	case errors.Is(err, entity.ErrTooManyKeys), errors.Is(err, entity.ErrMismatch), errors.Is(err, retention.ErrTooManyRules):
		return problemf(http.StatusUnprocessableEntity, "%v", err)
	case errors.Is(err, entity.ErrInvalid), errors.Is(err, entity.ErrTooManyBuckets):
		return problemf(http.StatusBadRequest, "%v", err)
	case errors.Is(err, entity.ErrClosed):
		return problemf(http.StatusServiceUnavailable, "the server is shutting down; try again in a moment")
	case errors.Is(err, entity.ErrStopped):
		return problemf(http.StatusServiceUnavailable, "%v; the readings were not kept; send them again", err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return problemf(http.StatusServiceUnavailable, "the server is too busy to answer in time; try again in a moment")
	default:
		return problemf(http.StatusInternalServerError, "the request failed for a reason that is not its own; the server's log has it")
	}
}

// writeProblem sends a problem. Nothing of the answer may have been sent.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	sent := *p
	sent.Instance = shorten(r.URL.EscapedPath(), 1024)
	body, err := encodeJSON(&sent)
	if err != nil { // strings and numbers: it cannot be
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Encoding")
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	if sent.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	w.WriteHeader(sent.Status)
	_, _ = w.Write(body) // a client that has left is not our error
}

// fail answers a request with the problem of an error, and logs what is ours.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *problem // also that of a body that did not come whole, which ends the context
	if r.Context().Err() != nil && !errors.Is(err, entity.ErrClosed) && !errors.As(err, &known) {
		// The client has left, or has half closed the connection and still reads. To
		// return would make net/http answer 200, and a reading is not committed.
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.log.LogAttrs(r.Context(), slog.LevelError, "request failed",
			slog.String("method", r.Method), slog.String("path", shorten(r.URL.EscapedPath(), 300)), slog.Any("error", err))
	}
	writeProblem(w, r, p)
}
