package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/behavior"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/model"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
	"github.com/greenroom-go/greenroom/server/script"
	"github.com/greenroom-go/greenroom/server/template"
)

// problem is an RFC 9457 problem document.
type problem struct {
	Type   string `json:"type" example:"about:blank"`
	Title  string `json:"title" example:"Bad Request"`
	Status int    `json:"status" example:"400"`
	// What was wrong, and what is expected.
	Detail string `json:"detail" example:"limit must be an integer from 1 to 1000, not 0"`
	// The path of the request.
	Instance string `json:"instance" example:"/v1/entities"`

	// The position in a filter or a statement, in characters from 1.
	Column *int `json:"column,omitempty"`
	// The values of a cycle of mappings.
	Cycle []string `json:"cycle,omitempty"`
	// The member of a JSON body that contains the position.
	In string `json:"in,omitempty"`
	// The line of the position, from 1.
	Line *int `json:"line,omitempty"`
	// The mappings of the cycle.
	Mappings []string `json:"mappings,omitempty"`
	// The place in bytes of UTF-8.
	Offset *int `json:"offset,omitempty"`
}

// Error returns a text for logs and tests.
func (p *problem) Error() string { return fmt.Sprintf("%d %s: %s", p.Status, p.Title, p.Detail) }

// problemf returns a problem. The detail says what was wrong, and what is expected.
func problemf(status int, format string, args ...any) *problem {
	return &problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: fmt.Sprintf(format, args...)}
}

// codes maps errors of other packages to HTTP statuses, before refusal.Answers. The first match
// applies, so errors that wrap others precede them.
var codes = []struct {
	err    error
	status int
	hint   string // what the client can do
}{
	{entity.ErrTypeInUse, http.StatusConflict, ""},
	{model.ErrCycle, http.StatusConflict, ""},
	{model.ErrUnknown, http.StatusUnprocessableEntity, ""},
	{model.ErrInvalid, http.StatusBadRequest, ""},
	{series.ErrTooManyBuckets, http.StatusBadRequest, ""},
	{series.ErrInvalid, http.StatusBadRequest, ""},
	{series.ErrTooFine, http.StatusUnprocessableEntity, ""},
	{series.ErrNoPercentiles, http.StatusUnprocessableEntity, ""},
	{series.ErrCut, http.StatusUnprocessableEntity, "only rollups are kept of a part of the range, and the step or the ends of the range do not fit them"},
	{mapping.ErrNotFound, http.StatusNotFound, ""},
	{mapping.ErrTaken, http.StatusConflict, ""},
	{mapping.ErrLimit, http.StatusUnprocessableEntity, ""},
	{mapping.ErrClosed, http.StatusServiceUnavailable, "the server is shutting down; try again in a moment"},
	{script.ErrLimit, http.StatusUnprocessableEntity, ""},
	{script.ErrBusy, http.StatusServiceUnavailable, script.ErrBusy.Error() + "; try again in a moment"},
	{behavior.ErrTooMuch, http.StatusUnprocessableEntity, ""},
	{behavior.ErrClosed, http.StatusServiceUnavailable, "the server is shutting down; try again in a moment"},
	{alarm.ErrLimit, http.StatusUnprocessableEntity, ""},
	{alarm.ErrInUse, http.StatusConflict, ""},
	{alarm.ErrCleared, http.StatusConflict, ""},
	{alarm.ErrHolds, http.StatusConflict, "shelve it, or change its rule"},
	{alarm.ErrClosed, http.StatusServiceUnavailable, "the server is shutting down; try again in a moment"},
	{entity.ErrCursorExpired, http.StatusGone, "start over without a cursor"},
	{entity.ErrCursorInvalid, http.StatusBadRequest, "a cursor must be the next of an answer, or the id of an event"},
	{retention.ErrOverlap, http.StatusConflict, ""},
	{filter.ErrSyntax, http.StatusBadRequest, ""},
	{filter.ErrVisits, http.StatusUnprocessableEntity, "use a filter that looks at fewer related entities"},
	{search.ErrCountTimeout, http.StatusUnprocessableEntity, "ask without count, with a narrower filter, or again: what is indexed by then is counted at once"},
	{retention.ErrTooManyRules, http.StatusUnprocessableEntity, ""},
	{template.ErrTooMany, http.StatusUnprocessableEntity, ""},
}

// problemOf converts an error of a handler to a problem.
func problemOf(err error) *problem {
	var p *problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &tooLarge):
		return problemf(http.StatusRequestEntityTooLarge, "the body has more than %d bytes; send it in parts", tooLarge.Limit)
	}
	if p := placedProblem(err); p != nil {
		return p
	}
	for _, c := range codes {
		if !errors.Is(err, c.err) {
			continue
		}
		switch {
		case c.hint == "":
			return problemf(c.status, "%v", err)
		case c.status == http.StatusServiceUnavailable:
			return problemf(c.status, "%s", c.hint) // the error would not help the client
		default:
			return problemf(c.status, "%v; %s", err, c.hint)
		}
	}
	a, _ := refusal.Find(err)
	return problemf(a.Status, "%s", a.Say(err))
}

// placedProblem returns the problem for an error with a position in a text, or nil for any other.
func placedProblem(err error) *problem {
	if at, ok := errors.AsType[*template.Error](err); ok {
		return templateProblem(at)
	}
	if at, ok := errors.AsType[*script.Error](err); ok {
		return scriptProblem(at)
	}
	p := problemf(http.StatusBadRequest, "%v", err)
	if cycle, ok := errors.AsType[*mapping.CycleError](err); ok {
		p = problemf(http.StatusConflict, "%v", err)
		p.Cycle, p.Mappings = cycle.Values, cycle.Mappings
	} else if syntax, ok := errors.AsType[*mapping.SyntaxError](err); ok {
		p.Line, p.Column, p.Offset, p.In = &syntax.Line, &syntax.Column, &syntax.Offset, syntax.In
	} else if text, ok := errors.AsType[*filter.Error](err); ok {
		p.Offset, p.Column = &text.Offset, &text.Column
		if condition, ok := errors.AsType[*alarm.ConditionError](err); ok {
			p.In = condition.In
		}
	} else {
		return nil
	}
	return p
}

// writeProblem sends a problem. Nothing of the response may have been sent.
func writeProblem(w http.ResponseWriter, r *http.Request, p *problem) {
	sent := *p
	sent.Instance = shorten(shownPath(r), 1024)
	body, err := encodeJSON(&sent)
	if err != nil { // it cannot fail
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Del("Content-Encoding")
	h.Del("ETag")
	h.Set("Cache-Control", "no-store")
	switch sent.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "1")
	case http.StatusTooManyRequests:
		h.Set("Retry-After", strconv.Itoa(int(access.FailureForgiven.Seconds())))
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="greenroom"`)
	}
	w.WriteHeader(sent.Status)
	_, _ = w.Write(append(body, '\n')) // the client may have left
}

// shownPath returns the path of a request for logs and problems. If it contains a token, the result
// is the pattern.
func shownPath(r *http.Request) string {
	if r.PathValue("token") != "" {
		_, pattern, _ := strings.Cut(r.Pattern, " ") // after the method
		return pattern
	}
	return r.URL.EscapedPath()
}

// fail answers a request with the problem for an error, and logs errors of the server.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, err error) {
	var known *problem // also for an incomplete body, which ends the context
	if r.Context().Err() != nil && !errors.Is(err, entity.ErrClosed) && !errors.As(err, &known) {
		// The client has left, or has half closed the connection and is still reading. If fail
		// returned, net/http would answer 200, although the reading is not committed.
		panic(http.ErrAbortHandler)
	}
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError {
		s.log.LogAttrs(r.Context(), slog.LevelError, "request failed",
			slog.String("method", r.Method), slog.String("path", shorten(shownPath(r), 300)), slog.Any("error", err))
	}
	writeProblem(w, r, p)
}
