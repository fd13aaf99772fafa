package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/refusal"
)

func (s *Server) telemetryRoutes() []route {
	return []route{
		{"POST", "/v1/entities/{id}/telemetry", nil, s.postTelemetry},
		{"GET", "/v1/entities/{id}/telemetry/{key}", []string{"from", "to", "limit", "order", "cursor", "points", "agg", "step", "tz", "fill"}, s.getTelemetry},
		{"POST", "/v1/history", nil, s.postHistory},
		{"GET", "/v1/retention", nil, s.listRetention},
		{"POST", "/v1/retention", nil, s.runRetention},
		{"GET", "/v1/retention/{rule}", nil, s.getRetention},
		{"PUT", "/v1/retention/{rule}", nil, s.putRetention},
		{"DELETE", "/v1/retention/{rule}", nil, s.deleteRetention},
		{"GET", "/v1/entities/{id}/telemetry/{key}/explain", []string{"ts"}, s.explainValue},
	}
}

// postTelemetry takes the payloads of MQTT and answers after the commit.
func (s *Server) postTelemetry(w http.ResponseWriter, r *http.Request) error {
	err := s.ingest(w, r)
	if err != nil && r.Context().Err() == nil {
		s.refusals.Add(refusal.HTTP, refusedFor(err), r.URL.EscapedPath(), problemOf(err).Detail)
	}
	return err
}

// refusedFor returns the cause that a refused request is counted by.
func refusedFor(err error) string {
	var p *problem
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p) && p.Status < http.StatusInternalServerError:
		return refusal.CauseInvalid
	case errors.As(err, &tooLarge):
		return refusal.CausePacketSize
	default:
		return refusal.Judge(err).Cause
	}
}

func (s *Server) ingest(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := entity.CheckID(id); err != nil {
		return err
	}
	body, _, err := readBody(w, r, entity.MaxPayloadBytes, mediaJSON)
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

// getTelemetry answers with the history of a key, or its aggregates.
func (s *Server) getTelemetry(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	from, to, err := rangeParam(q)
	if err != nil {
		return err
	}
	switch {
	case q.Has("agg"), q.Has("step"), q.Has("tz"), q.Has("fill"):
		return s.aggregate(w, r, q, from, to)
	case q.Has("points"):
		return s.downsample(w, r, q, from, to)
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
	return append(appendOrigin(dst, c.Origin), '}')
}
