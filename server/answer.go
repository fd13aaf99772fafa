package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// answer is what a handler answers a request with: a T, as JSON.
type answer[T any] struct {
	value    T
	text     []byte // value as JSON, where the handler has encoded it; empty, and not nil, for no body
	status   int    // 0 is 200, or 204 for nothing
	etag     string // the version, for conditions
	whole    bool   // etag is the version of all that is in the answer
	location string
}

// ok answers with a value.
func ok[T any](value T) *answer[T] { return &answer[T]{value: value} }

// encoded answers with the JSON of a T.
func encoded[T any](text []byte) *answer[T] { return &answer[T]{text: text} }

// noContent is the answer where there is nothing to say.
func noContent() *answer[nothing] { return &answer[nothing]{status: http.StatusNoContent} }

// withStatus sets the status.
func (a *answer[T]) withStatus(status int) *answer[T] {
	a.status = status
	return a
}

// withETag adds the version that conditions of writes are about.
func (a *answer[T]) withETag(version string) *answer[T] {
	a.etag = version
	return a
}

// versioned adds a version that changes with any part of the answer: a client that
// has it is told so instead.
func (a *answer[T]) versioned(version string) *answer[T] {
	a.etag, a.whole = version, true
	return a
}

func (a *answer[T]) write(w http.ResponseWriter, r *http.Request) error {
	h := w.Header()
	if a.etag != "" {
		h.Set("ETag", `"`+a.etag+`"`)
	}
	if a.whole {
		h.Set("Cache-Control", "no-cache")
		if matches(r.Header.Get("If-None-Match"), `"`+a.etag+`"`) {
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	if a.location != "" {
		h.Set("Location", a.location)
	}
	if a.status == http.StatusNoContent || a.text != nil && len(a.text) == 0 {
		w.WriteHeader(a.status)
		return nil
	}
	if a.text == nil {
		var err error
		if a.text, err = encodeJSON(a.value); err != nil {
			return err
		}
	}
	a.text = append(a.text, '\n')
	h.Set("Content-Type", mediaJSON)
	h.Set("Content-Length", strconv.Itoa(len(a.text)))
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = w.Write(a.text) // a client that has left is not our error
	return nil
}

// encodeJSON encodes a value. The JSON does not end up inside HTML, so < is not escaped.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// created is the status of a write.
func created(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

// either is one of two answers.
type either[A, B any] struct {
	a *A
	b *B
}

// MarshalJSON encodes the one that is set.
func (e either[A, B]) MarshalJSON() ([]byte, error) {
	if e.a != nil {
		return encodeJSON(e.a)
	}
	return encodeJSON(e.b)
}
