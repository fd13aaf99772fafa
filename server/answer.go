package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// answer is the response of a handler: a T, as JSON.
type answer[T any] struct {
	value    T
	text     []byte // value as JSON, if the handler has encoded it; empty, and not nil, for no body
	status   int    // 0 means 200, or 204 for no body
	etag     string // the version, for conditional requests
	whole    bool   // etag covers everything in the response
	location string
}

// ok returns a response with a value.
func ok[T any](value T) *answer[T] { return &answer[T]{value: value} }

// encoded returns a response with a T that is already JSON.
func encoded[T any](text []byte) *answer[T] { return &answer[T]{text: text} }

// noContent returns a response without a body.
func noContent() *answer[nothing] { return &answer[nothing]{status: http.StatusNoContent} }

// withStatus sets the status.
func (a *answer[T]) withStatus(status int) *answer[T] {
	a.status = status
	return a
}

// withETag sets the version for conditional writes.
func (a *answer[T]) withETag(version string) *answer[T] {
	a.etag = version
	return a
}

// versioned sets a version that changes with any part of the response: a client that has it
// receives 304 instead.
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
	if rec, ok := w.(*recorder); ok && rec.much != nil && len(a.text) > smallAnswer {
		leave, err := rec.much(len(a.text))
		if err != nil {
			return err
		}
		defer leave()
	}
	h.Set("Content-Type", mediaJSON)
	h.Set("Content-Length", strconv.Itoa(len(a.text)))
	w.WriteHeader(max(a.status, http.StatusOK))
	_, _ = w.Write(a.text) // the client may have left
	return nil
}

// encodeJSON encodes a value. It does not escape <, because the JSON is not embedded in HTML.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}), nil
}

// created returns the status of a write.
func created(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}

// either is one of two values.
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
