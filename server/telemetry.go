package server

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/mqtt"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// telemetryAPI accepts readings, and reads the history of one key.
type telemetryAPI struct {
	runtime  *entity.Runtime
	mappings *mapping.Service
	refusals *refusal.Counter
	reader   *historyReader
	broker   *mqtt.Broker
}

func (a *telemetryAPI) operations() []operation {
	return []operation{
		op("POST", "/v1/entities/{id}/telemetry", "postTelemetry", "Ingest readings. Responds once they are durable.", a.post, needs(reportsEntity),
			accepts(entity.MaxPayloadBytes, content{mediaJSON, telemetryBody{}}), fails(422), onError(a.refused)),
		op("GET", "/v1/entities/{id}/telemetry/{key}", "getTelemetry", "Read the history of a key: its values, aggregates by steps of time, or points for a chart.", a.get, needs(seesEntity), answersMuch, fails(404, 422)),
		op("GET", "/v1/entities/{id}/telemetry/{key}/explain", "explainValue", "Read where a value comes from: a device, or a version of a mapping.", a.explain, needs(seesEntity), fails(404)),
	}
}

// telemetryBody is what a device sends: values measured now, a reading, or an array of
// either.
type telemetryBody struct{}

// sentReading is one of the readings of an array.
type sentReading struct {
	either[valuesBody, readingBody]
}

// valuesBody is values by key, measured now.
type valuesBody map[string]value.Value

// readingBody is values by key, measured at a time.
type readingBody struct {
	TS int64 `json:"ts" minimum:"0" maximum:"253402300799999" example:"1451649600512"`
	// The device's own number for the reading, by which a repetition is recognized.
	Seq    int64      `json:"seq,omitempty" minimum:"1"`
	Values valuesBody `json:"values"`
}

type postTelemetryRequest struct {
	entityPath
	// Identifies the request: one of the same principal with the same key and body is stored once,
	// even after a restart.
	IdempotencyKey *string `header:"Idempotency-Key" minLength:"1" maxLength:"256"`
	Body           payload
}

// post accepts the same payloads as MQTT, and responds after the commit.
func (a *telemetryAPI) post(ctx context.Context, in *postTelemetryRequest) (*answer[nothing], error) {
	if err := entity.CheckID(in.ID); err != nil {
		return nil, err
	}
	readings, err := entity.ParseReadings(in.Body.text, time.Now())
	if err != nil {
		return nil, err
	}
	if err := a.store(ctx, in.ID, in.once(callerOf(ctx).who.Name()), readings, in.Body.text); err != nil {
		return nil, err
	}
	return noContent(), nil
}

// store commits readings, and publishes them to their subscribers.
func (a *telemetryAPI) store(ctx context.Context, id string, once entity.Once, readings []entity.Reading, payload []byte) error {
	once.By = callerOf(ctx).who.Name()
	if err := a.runtime.WriteOnce(ctx, id, once, readings, len(payload)); err != nil {
		return err
	}
	a.broker.Committed(id, payload)
	return nil
}

// once returns the identity of the request of a principal, by which a repetition is recognized.
func (in *postTelemetryRequest) once(by string) entity.Once {
	if in.IdempotencyKey == nil {
		return entity.Once{}
	}
	return entity.Once{Token: entity.TokenOf("http", by, in.ID, *in.IdempotencyKey, string(in.Body.text))}
}

// refused counts a refused request.
func (a *telemetryAPI) refused(r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.refusals.Add(refusal.HTTP, refusedFor(err), r.URL.EscapedPath(), "", problemOf(err).Detail)
	}
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

type seriesPath struct {
	entityPath
	Key string `path:"key" minLength:"1" maxLength:"256" example:"temperature"`
}

// historyRequest selects values, or with Agg aggregates, or with Points points for a chart.
type historyRequest struct {
	seriesPath
	timeRange
	// The maximum number of values to return; not with agg or points.
	Limit *int `query:"limit" minimum:"1" maximum:"100000" default:"1000"`
	// Oldest or newest first; not with agg or points.
	Order *string `query:"order" enum:"asc,desc" default:"asc"`
	// The cursor from the previous page; not with agg or points.
	Cursor *string `query:"cursor"`
	// Reduce to this many points that look the same in a chart (Largest Triangle Three Buckets).
	Points *int `query:"points" minimum:"2" maximum:"10000"`
	// Aggregates over the numbers of each step, separated by commas: avg, min, max, sum, count, first,
	// last, rate and percentiles such as p95.
	Agg *string `query:"agg" example:"avg,max"`
	// The length of a step: 500ms, 15m, 1h, 1d, 1w, or a unit of the calendar: minute, hour, day,
	// week, month or year, also 3month. By default there is one bucket.
	Step *string `query:"step" example:"1h"`
	// The time zone of a step of the calendar.
	TZ *string `query:"tz"`
	// What to put into buckets without a number: none, null, previous, linear or a number.
	Fill *string `query:"fill" example:"null"`
}

// pointJSON is a value of a history.
type pointJSON struct {
	TS    int64       `json:"ts" example:"1451649600512"`
	Value value.Value `json:"value"`
}

// pointPageJSON is a page of the values of a key, or points for a chart.
type pointPageJSON struct {
	Entity string `json:"entity" example:"room-1"`
	Key    string `json:"key" example:"temperature"`
	// How many numbers there are; only with points.
	Total  *int        `json:"total,omitempty"`
	Points []pointJSON `json:"points"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

// historyJSON is a page of values, or aggregates.
type historyJSON struct{}

// get returns the history of a key, or its aggregates.
func (a *telemetryAPI) get(ctx context.Context, in *historyRequest) (*answer[historyJSON], error) {
	from, to, err := in.bounds()
	if err != nil {
		return nil, err
	}
	switch {
	case in.Agg != nil, in.Step != nil, in.TZ != nil, in.Fill != nil:
		return a.reader.aggregate(ctx, in, from, to)
	case in.Points != nil:
		return a.reader.downsample(ctx, in, from, to)
	}
	query := entity.HistoryQuery{ID: in.ID, Key: in.Key, From: from, To: to, Cursor: some(in.Cursor), Limit: some(in.Limit), Descending: some(in.Order) == "desc"}
	points, next, err := a.runtime.History(ctx, query)
	if err != nil {
		return nil, err
	}
	body := beginSeries(query.ID, query.Key)
	body = append(body, `,"points":[`...)
	for i, p := range points {
		body = appendPoint(appendComma(body, i), p.TS, p.Value)
	}
	return encoded[historyJSON](appendNext(append(body, ']'), next)), nil
}

// some returns *p, or the zero value if p is nil.
func some[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// beginSeries returns the beginning of an object about a series.
func beginSeries(id, key string) []byte {
	dst := []byte(`{"entity":`)
	dst = value.String(id).AppendJSON(dst)
	dst = append(dst, `,"key":`...)
	return value.String(key).AppendJSON(dst)
}

func appendComma(dst []byte, i int) []byte {
	if i > 0 {
		return append(dst, ',')
	}
	return dst
}

// changeJSON is the data of a change event: a reading that was committed.
type changeJSON struct {
	Entity string     `json:"entity" example:"room-1"`
	TS     int64      `json:"ts" example:"1451649600512"`
	Values valuesBody `json:"values"`
	// When it was committed.
	Committed int64 `json:"committed_ms" example:"1451649600700"`
	originJSON
}

// appendChange encodes a change in the form of changeJSON.
func appendChange(dst []byte, c *entity.Change) []byte {
	dst = append(dst, `{"entity":`...)
	dst = value.String(c.Entity).AppendJSON(dst)
	dst = append(dst, `,"ts":`...)
	dst = strconv.AppendInt(dst, c.TS, 10)
	dst = entity.AppendSamples(append(dst, `,"values":`...), c.Values)
	dst = append(dst, `,"committed_ms":`...)
	dst = strconv.AppendInt(dst, c.Committed, 10)
	return append(appendOrigin(dst, c.Origin), '}')
}
