package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// Media types of bodies.
const (
	mediaJSON       = "application/json"
	mediaMergePatch = "application/merge-patch+json"
	mediaJSONPatch  = "application/json-patch+json"
	mediaNDJSON     = "application/x-ndjson"
	mediaCSV        = "text/csv"
	mediaParquet    = "application/vnd.apache.parquet"
	mediaText       = "text/plain"
	mediaEvents     = "text/event-stream"
)

const (
	// maxBodies bounds the bodies that are being received or handled.
	maxBodies = 64 << 20
	// smallBody is the size up to which a body needs no room.
	smallBody = 16 << 10
)

// makeRoom waits until there is room for the body of a request. A body that the operation does not
// take, or reads in parts, needs none. The caller must call leave at the end of the request.
func (s *Server) makeRoom(w http.ResponseWriter, r *http.Request, o *operation) (leave func(), err error) {
	size := r.ContentLength
	if size < 0 || size > o.limit { // unknown, or too large
		size = o.limit
	}
	if o.request.body == nil || size <= smallBody {
		return func() {}, nil
	}
	if leave, err = s.enter(w, r, size); err == nil && o.waits {
		r.Body = &leavingBody{r.Body, leave}
	}
	return leave, err
}

// leavingBody gives its room back once it is read.
type leavingBody struct {
	io.ReadCloser
	leave func()
}

func (b *leavingBody) Read(p []byte) (n int, err error) {
	if n, err = b.ReadCloser.Read(p); err != nil {
		b.leave()
	}
	return n, err
}

// enter waits until there is room for the body of a request.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, size int64) (leave func(), err error) {
	from := s.senderOf(r)
	stay := s.bodies.Enter(from, size)
	waited, err := granted(r, stay, readTimeout, "bodies are on their way from "+from)
	if err == nil && waited { // maybe for long
		if err = callerOf(r.Context()).still(); err == nil {
			err = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		}
	}
	if err != nil {
		stay.Leave()
		return nil, err
	}
	return stay.Leave, nil
}

// senderOf returns by whom what a request needs is counted.
func (s *Server) senderOf(r *http.Request) string {
	if s.book.Guarded() {
		return "principal " + callerOf(r.Context()).who.Name()
	}
	return access.AddressKey(addressOf(r))
}

// readBody reads a body of at most limit bytes, and returns it with its media type, which must be
// one of medias. The first of them is the default.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, medias ...string) ([]byte, string, error) {
	media, err := mediaOf(r.Header, medias...)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return body, media, bodyProblem(err)
}

// bodyProblem returns the problem for an error of reading a body, which is the client's fault.
func bodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemf(http.StatusRequestTimeout, "the body took too long to arrive; send it faster, or in parts")
	default:
		return problemf(http.StatusBadRequest, "the body ended early: %v", err)
	}
}

// mediaOf returns the media type of a body, or an error if it is not among medias.
func mediaOf(h http.Header, medias ...string) (string, error) {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", problemf(http.StatusUnsupportedMediaType, "the body must have no Content-Encoding, not %s", shorten(encoding, 64))
	}
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return medias[0], nil
	}
	if slices.Contains(medias, contentType) { // nearly always: it need not be parsed
		return contentType, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	if err != nil || !slices.Contains(medias, media) || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return "", problemf(http.StatusUnsupportedMediaType, "the body must be %s in UTF-8, not %s: with curl, -H 'Content-Type: %s'",
			oneOf(medias), shorten(contentType, 128), medias[0])
	}
	return media, nil
}

// decodeJSON decodes a body into v. It refuses members that v does not have, which are probably
// misspelled.
func decodeJSON(body []byte, v any) error {
	switch text := bytes.TrimSpace(body); {
	case len(text) == 0:
		return problemf(http.StatusBadRequest, "the body must be a JSON object, but is empty")
	case isNull(text): // which Go would decode as an empty object
		return problemf(http.StatusBadRequest, "the body must be a JSON object, not null")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return problemf(http.StatusBadRequest, "the body cannot be read: %v; its members are described in /openapi.json", jsonError(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "the body must end after the JSON value, at byte %d", d.InputOffset())
	}
	return nil
}

// jsonError describes an error of encoding/json without Go's terms.
func jsonError(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s must not be a %s", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("unexpected %s at byte %d", kind.Value, kind.Offset)
	case errors.As(err, &syntax):
		return fmt.Errorf("%s, at byte %d", strings.TrimPrefix(syntax.Error(), "json: "), syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends in the middle")
	default:
		return errors.New(strings.Replace(strings.TrimPrefix(err.Error(), "json: "), "unknown field", "unknown member", 1))
	}
}

// precondition is the condition of a write on the current version.
type precondition struct {
	// The version that must be current, in quotes, or * for any.
	IfMatch entityTags `header:"If-Match"`
	// *: fail if it already exists.
	IfNoneMatch entityTags `header:"If-None-Match"`

	condition string // of both headers, for entity.CheckCondition; "" for none
}

// ifChanged is the condition of a read: see [answer.versioned].
type ifChanged struct {
	// The version that the client has; if it is still current, the response is 304.
	IfNoneMatch string `header:"If-None-Match"`
}

// entityTags are the values of a header.
type entityTags []string

// check parses the condition.
func (p *precondition) check() error {
	switch {
	case len(p.IfMatch)+len(p.IfNoneMatch) > 1:
		return problemf(http.StatusBadRequest, "the request must have one If-Match or one If-None-Match, not several conditions")
	case len(p.IfNoneMatch) == 1 && p.IfNoneMatch[0] == "*":
		p.condition = entity.IfNone
		return nil
	case len(p.IfNoneMatch) == 1:
		return problemf(http.StatusBadRequest, "If-None-Match must be * in a write, not %s; a version goes into If-Match", shorten(p.IfNoneMatch[0], 64))
	case len(p.IfMatch) == 0 || p.IfMatch[0] == "":
		return nil
	case p.IfMatch[0] == "*":
		p.condition = entity.IfAny
		return nil
	}
	tag, ok := strings.CutPrefix(p.IfMatch[0], `"`)
	tag, closed := strings.CutSuffix(tag, `"`)
	if !ok || !closed || tag == "" || strings.ContainsAny(tag, `",`) {
		return problemf(http.StatusBadRequest, `If-Match must be the ETag of an answer, in its quotes, or *, not %s`, shorten(p.IfMatch[0], 64))
	}
	p.condition, _, _ = strings.Cut(tag, ".") // after the dot is a hash of a representation
	return nil
}

// replacing returns the condition of a write that replaces everything. Without a condition in the
// request, such a write may only create.
func (p *precondition) replacing() string { return cmp.Or(p.condition, entity.IfNone) }

func (p *precondition) blind() bool { return p.condition == "" }

// replaced returns the response to a write that replaces everything.
func replaced[T any](p *precondition, value T, etag string, err error) (*answer[T], error) {
	if err != nil {
		return nil, conditionProblem(err, p.replacing(), p.blind(), true)
	}
	return ok(value).withETag(etag).withStatus(created(p.replacing() == entity.IfNone)), nil
}

// removed returns the response to a deletion.
func (p *precondition) removed(err error) (*answer[nothing], error) {
	if err != nil {
		return nil, conditionProblem(err, p.condition, false, true)
	}
	return noContent(), nil
}

// conditionProblem translates the error of a conditional write for HTTP. missing reports whether
// ErrNotFound can only refer to what is written.
func conditionProblem(err error, condition string, blind, missing bool) error {
	switch {
	case err == nil:
		return nil
	case blind && errors.Is(err, entity.ErrConflict):
		return problemf(http.StatusPreconditionRequired, "%v; to replace it send If-Match with its version, or If-Match: * to replace whatever there is", err)
	case condition == "":
		return err
	case errors.Is(err, entity.ErrConflict), missing && errors.Is(err, entity.ErrNotFound):
		return problemf(http.StatusPreconditionFailed, "%v", err)
	default:
		return err
	}
}
