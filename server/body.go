package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// Media types of bodies.
const (
	mediaJSON       = "application/json"
	mediaMergePatch = "application/merge-patch+json"
	mediaJSONPatch  = "application/json-patch+json"
	mediaNDJSON     = "application/x-ndjson"
	mediaCSV        = "text/csv"
	mediaText       = "text/plain"
	mediaEvents     = "text/event-stream"
)

// readBody reads a body of at most limit bytes and returns it with its media
// type, which is one of those given. The first of them is taken where the request
// names none.
func readBody(w http.ResponseWriter, r *http.Request, limit int64, medias ...string) ([]byte, string, error) {
	media, err := mediaOf(r.Header, medias...)
	if err != nil {
		return nil, "", err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	return body, media, bodyProblem(err)
}

// bodyProblem is the problem of an error of reading a body: what comes, and how, is
// the client's affair.
func bodyProblem(err error) error {
	var tooLarge *http.MaxBytesError
	switch {
	case err == nil, errors.As(err, &tooLarge):
		return err
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problemf(http.StatusRequestTimeout, "the body did not come within the time for it; send it faster, or in parts")
	default:
		return problemf(http.StatusBadRequest, "the body could not be read to its end: %v", err)
	}
}

// mediaOf returns the media type of a body, or refuses one that is not among
// those that are right here.
func mediaOf(h http.Header, medias ...string) (string, error) {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return "", problemf(http.StatusUnsupportedMediaType, "the body is encoded with %s; send it without Content-Encoding", shorten(encoding, 64))
	}
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return medias[0], nil
	}
	if slices.Contains(medias, contentType) { // nearly always: it need not be taken apart
		return contentType, nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	if err != nil || !slices.Contains(medias, media) || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return "", problemf(http.StatusUnsupportedMediaType, "the body is %s; %s in UTF-8 is right: with curl, -H 'Content-Type: %s'",
			shorten(contentType, 128), strings.Join(medias, " or "), medias[0])
	}
	return media, nil
}

// readJSON reads a body of JSON of at most maxBodyBytes into v. Members that v does not have are refused:
// they are misspelled ones.
func readJSON(w http.ResponseWriter, r *http.Request, v any) error {
	body, _, err := readBody(w, r, maxBodyBytes, mediaJSON)
	if err != nil {
		return err
	}
	return decodeJSON(body, v)
}

func decodeJSON(body []byte, v any) error {
	switch text := bytes.TrimSpace(body); {
	case len(text) == 0:
		return problemf(http.StatusBadRequest, "the body is empty; a JSON object is right")
	case isNull(text): // to Go an object without members
		return problemf(http.StatusBadRequest, "the body is null; a JSON object is right")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return problemf(http.StatusBadRequest, "the body cannot be read: %v; /openapi.json says what is right", jsonError(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problemf(http.StatusBadRequest, "something stands after the end of the JSON value, at byte %d", d.InputOffset())
	}
	return nil
}

// jsonError says what is wrong with JSON in the terms of JSON.
func jsonError(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind) && kind.Field != "":
		return fmt.Errorf("%s is a %s, which is not possible there", kind.Field, kind.Value)
	case errors.As(err, &kind):
		return fmt.Errorf("a %s is not possible at byte %d", kind.Value, kind.Offset)
	case errors.As(err, &syntax):
		return fmt.Errorf("%s, at byte %d", strings.TrimPrefix(syntax.Error(), "json: "), syntax.Offset)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("it ends in the middle")
	default:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
}

// conditionOf reads the condition of a write: If-Match with one version or *, or
// If-None-Match: *. The result is as entity.CheckCondition has it.
func conditionOf(h http.Header) (string, error) {
	match, none := h.Get("If-Match"), h.Get("If-None-Match")
	switch {
	case len(h.Values("If-Match"))+len(h.Values("If-None-Match")) > 1:
		return "", problemf(http.StatusBadRequest, "there is more than one condition; one If-Match or If-None-Match is right")
	case none == "*":
		return entity.IfNone, nil
	case none != "":
		return "", problemf(http.StatusBadRequest, "If-None-Match: %s is not possible in a write; If-None-Match: * writes only where there is nothing, If-Match takes a version", shorten(none, 64))
	case match == "*":
		return entity.IfAny, nil
	case match == "":
		return "", nil
	}
	tag, ok := strings.CutPrefix(match, `"`)
	tag, closed := strings.CutSuffix(tag, `"`)
	if !ok || !closed || tag == "" || strings.ContainsAny(tag, `",`) {
		return "", problemf(http.StatusBadRequest, `If-Match: %s is not possible; the ETag of an answer, in its quotes, or * is right`, shorten(match, 64))
	}
	tag, _, _ = strings.Cut(tag, ".") // the version of the telemetry
	return tag, nil
}

// replaceCondition is conditionOf for a PUT: without a condition it may only make
// something new, and blind says so.
func replaceCondition(h http.Header) (condition string, blind bool, err error) {
	condition, err = conditionOf(h)
	if condition == "" {
		return entity.IfNone, true, err
	}
	return condition, false, err
}

// conditionProblem turns the error of a write under a condition into what HTTP
// has for it. missing tells whether ErrNotFound can only mean the thing that is
// written.
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

// notModified answers with 304 if the client has this version, which it is told
// in any case. version has no quotes.
func notModified(w http.ResponseWriter, r *http.Request, version string) bool {
	tag := `"` + version + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", "no-cache")
	if !matches(r.Header.Get("If-None-Match"), tag) {
		return false
	}
	w.WriteHeader(http.StatusNotModified)
	return true
}

// encodeJSON encodes an answer. It is not for the inside of HTML, so that < is <.
func encodeJSON(v any) ([]byte, error) {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return buf.Bytes(), nil
}

// writeStatus is writeJSON with a status.
func writeStatus(w http.ResponseWriter, status int, v any) error {
	body, err := encodeJSON(v)
	if err != nil {
		return err
	}
	writeBodyStatus(w, status, body)
	return nil
}

// created is the status of what was written.
func created(isNew bool) int {
	if isNew {
		return http.StatusCreated
	}
	return http.StatusOK
}
