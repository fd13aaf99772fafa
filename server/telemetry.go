package server

import (
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// postTelemetry takes the payloads of MQTT and answers after the commit.
func (s *Server) postTelemetry(w http.ResponseWriter, r *http.Request) error {
	err := s.ingest(w, r)
	if err != nil && r.Context().Err() == nil {
		v := judge(err)
		s.refusals.add(sourceHTTP, v.cause, r.URL.EscapedPath(), problemOf(err).Detail)
	}
	return err
}

func (s *Server) ingest(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := entity.CheckID(id); err != nil {
		return err
	}
	if err := checkContent(r.Header); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, entity.MaxPayloadBytes))
	if err != nil {
		return err
	}
	readings, err := entity.ParseReadings(body, time.Now())
	if err != nil {
		return err
	}
	if err := s.runtime.Write(r.Context(), id, readings, len(body)); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// checkContent refuses a body that says it is not plain JSON.
func checkContent(h http.Header) error {
	if encoding := h.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return problemf(http.StatusUnsupportedMediaType, "the body is encoded with %s; send it without Content-Encoding", shorten(encoding, 64))
	}
	contentType := h.Get("Content-Type")
	if contentType == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(contentType)
	charset := params["charset"]
	if err != nil || media != "application/json" || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return problemf(http.StatusUnsupportedMediaType, "the body is %s; application/json in UTF-8 is right: with curl, -H 'Content-Type: application/json'", shorten(contentType, 128))
	}
	return nil
}

// getTelemetry answers with the history of a key, or its aggregates.
func (s *Server) getTelemetry(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	from, to, err := rangeParam(q)
	if err != nil {
		return err
	}
	if q.Has("agg") || q.Has("step") {
		return s.aggregate(w, r, q, from, to)
	}
	query := entity.HistoryQuery{ID: r.PathValue("id"), Key: r.PathValue("key"), From: from, To: to, Cursor: q.Get("cursor")}
	if query.Limit, err = limitParam(q, entity.MaxHistoryLimit); err != nil {
		return err
	}
	switch order := q.Get("order"); order {
	case "", "asc":
	case "desc":
		query.Descending = true
	default:
		return problemf(http.StatusBadRequest, "order=%s is not possible; asc (oldest first) or desc is right", shorten(order, 32))
	}
	points, next, err := s.runtime.History(r.Context(), query)
	if err != nil {
		return err
	}
	body := appendSeries(nil, query.ID, query.Key)
	body = append(body, `,"points":[`...)
	for i, p := range points {
		body = appendComma(body, i)
		body = append(body, `{"ts":`...)
		body = strconv.AppendInt(body, p.TS, 10)
		body = append(body, `,"value":`...)
		body = append(p.Value.AppendJSON(body), '}')
	}
	body = append(body, ']')
	if next != "" {
		body = append(body, `,"next":`...)
		body = entity.String(next).AppendJSON(body)
	}
	writeBody(w, append(body, "}\n"...))
	return nil
}

func (s *Server) aggregate(w http.ResponseWriter, r *http.Request, q url.Values, from, to int64) error {
	for _, name := range []string{"limit", "order", "cursor"} {
		if q.Has(name) {
			return problemf(http.StatusBadRequest, "%s does not go with agg; aggregates are ordered by time and come all at once", name)
		}
	}
	if !q.Has("agg") || !q.Has("step") {
		return problemf(http.StatusBadRequest, "agg and step go together, as in agg=avg,max&step=1h")
	}
	step, err := parseStep(q.Get("step"))
	if err != nil {
		return err
	}
	funcs, err := parseFuncs(q.Get("agg"))
	if err != nil {
		return err
	}
	query := entity.AggregateQuery{ID: r.PathValue("id"), Key: r.PathValue("key"), From: from, To: to, Step: step, Funcs: funcs}
	buckets, err := s.runtime.Aggregate(r.Context(), query)
	if err != nil {
		return err
	}
	body := appendSeries(nil, query.ID, query.Key)
	body = append(body, `,"step_ms":`...)
	body = strconv.AppendInt(body, step.Milliseconds(), 10)
	body = append(body, `,"buckets":[`...)
	for i := range buckets {
		body = appendBucket(appendComma(body, i), &buckets[i], funcs)
	}
	writeBody(w, append(body, "]}\n"...))
	return nil
}

func appendBucket(dst []byte, b *entity.Bucket, funcs []entity.AggregateFunc) []byte {
	dst = append(dst, `{"ts":`...)
	dst = strconv.AppendInt(dst, b.TS, 10)
	for _, f := range funcs {
		dst = append(dst, ',', '"')
		dst = append(dst, f...)
		dst = append(dst, '"', ':')
		switch f {
		case entity.Avg:
			dst = entity.Float(b.Avg).AppendJSON(dst)
		case entity.Min:
			dst = entity.Float(b.Min).AppendJSON(dst)
		case entity.Max:
			dst = entity.Float(b.Max).AppendJSON(dst)
		case entity.Sum:
			dst = entity.Float(b.Sum).AppendJSON(dst)
		case entity.Count:
			dst = strconv.AppendInt(dst, b.Count, 10)
		}
	}
	return append(dst, '}')
}

func appendSeries(dst []byte, id, key string) []byte {
	dst = append(dst, `{"entity":`...)
	dst = entity.String(id).AppendJSON(dst)
	dst = append(dst, `,"key":`...)
	return entity.String(key).AppendJSON(dst)
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// appendChange writes the data of a change event.
func appendChange(dst []byte, c *entity.Change) []byte {
	dst = append(dst, `{"entity":`...)
	dst = entity.String(c.Entity).AppendJSON(dst)
	dst = append(dst, `,"ts":`...)
	dst = strconv.AppendInt(dst, c.TS, 10)
	dst = append(dst, `,"values":{`...)
	for i := range c.Values {
		dst = appendComma(dst, i)
		dst = entity.String(c.Values[i].Key).AppendJSON(dst)
		dst = append(dst, ':')
		dst = c.Values[i].Value.AppendJSON(dst)
	}
	dst = append(dst, `},"committed_ms":`...)
	dst = strconv.AppendInt(dst, c.Committed, 10)
	return append(dst, '}')
}
