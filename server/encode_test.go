package server

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

// What is encoded by hand, because it is hot, is what encoding/json makes of the struct
// that openapi.json describes.
func TestFastEncodersWriteWhatTheirStructsSay(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"floor <1>"}`)
	s.send(201, "PUT", "/v1/types/Room", typeJSONHeader, `{"id":"Room"}`, "If-None-Match", "*")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"room","type":"Room","attributes":{"a":{"x/y":[1,null]},"b":"<&>"},"desired":{"on":true,"n":-1.5},
		"reported":{"on":false},"relations":[{"type":"on","to":"floor <1>","properties":{"since":2020}},{"type":"by","to":"room"}]}`)
	const but = "fields=attributes,desired,reported,delta,metadata,relations" // the values of telemetry cannot be decoded
	_, body := s.do("GET", "/v1/entities/room?"+but, "")
	sameAsStruct[entityJSON](t, body)
	_, body = s.do("GET", "/v1/entities?limit=1&search=ROO&"+but, "")
	sameAsStruct[entityPageJSON](t, body)
	_, body = s.do("GET", "/v1/entities/room/attributes", "")
	sameAsStruct[sectionsJSON](t, body)
	_, body = s.do("POST", "/v1/entities/room/traverse", `{"fields":["relations"]}`, "Content-Type", mediaJSON)
	sameAsStruct[reachedListJSON](t, body)
	_, body = s.do("GET", "/v1/export?what=relations&entity=room", "")
	for line := range strings.Lines(body) {
		sameAsStruct[relationJSON](t, line)
	}

	origin := entity.Origin{Source: "mapping:m@3", Seq: 4}
	computed := originJSON{Mapping: "m", Source: "mapping:m@3", SourceSeq: 4}
	values := valuesBody{"a": value.Int(5), "b": value.String("\u2028 \"<é>\""), "c": value.Float(0.1), "d": value.Bool(true)}
	change, snapshot := entity.Change{Entity: "x", TS: 1, Committed: 2, Origin: origin}, entity.Snapshot{ID: "x", ETag: "e"}
	want := entityJSON{ID: "x", ETag: "e", Presence: presenceJSON{State: "unknown"}, Latest: map[string]latestJSON{}}
	var points []series.Point
	page := pointPageJSON{Entity: "x", Key: "k"}
	for i, key := range slices.Sorted(maps.Keys(values)) {
		change.Values = append(change.Values, entity.Sample{Key: key, Value: values[key]})
		snapshot.Latest = append(snapshot.Latest, entity.Latest{Key: key, Value: values[key], TS: 1, Seq: 2, Origin: origin})
		want.Latest[key] = latestJSON{values[key], 1, 2, computed}
		points = append(points, series.Point{TS: int64(i), Value: values[key]})
		page.Points = append(page.Points, pointJSON{int64(i), values[key]})
	}
	encodesTo(t, changeJSON{"x", 1, values, 2, computed}, appendChange(nil, &change))
	text, err := s.find.encoder.append(t.Context(), nil, &snapshot, fieldLatest)
	if err != nil {
		t.Fatal(err)
	}
	encodesTo(t, want, text)
	encodesTo(t, page, append(appendPoints(beginSeries("x", "k"), points), '}'))
}

func encodesTo(t *testing.T, v any, text []byte) {
	t.Helper()
	want, err := encodeJSON(v)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "encoded by hand", string(text), string(want))
}

// sameAsStruct decodes a text into a T, which must encode to the same text.
func sameAsStruct[T any](t *testing.T, text string) {
	t.Helper()
	var v T
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	encodesTo(t, v, []byte(strings.TrimSpace(text)))
}
