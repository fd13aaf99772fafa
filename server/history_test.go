package server

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

// hourly posts a value for each minute of some hours, from a time on.
func (r *running) hourly(id, key string, from time.Time, hours int, value func(i int) float64) {
	r.t.Helper()
	var b strings.Builder
	for i := range 60 * hours {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"ts":%d,"values":{%q:%v}}`, from.Add(time.Duration(i)*time.Minute).UnixMilli(), key, value(i))
	}
	r.post(id, "["+b.String()+"]")
}

func TestAggregatesByCalendarFillAndPercentiles(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	// The day on which the clocks go forward has 23 hours.
	from := time.Date(2024, 3, 30, 0, 0, 0, 0, berlin)
	s.hourly("room", "n", from, 24+23+24, func(i int) float64 { return float64(i % 100) })
	type bucket struct {
		TS, End, Count        int64
		Avg, P50, Rate, First *float64
	}
	ask := func(query string) (buckets []bucket) {
		t.Helper()
		var page struct{ Buckets []bucket }
		s.get("/v1/entities/room/telemetry/n?"+query, &page)
		return page.Buckets
	}
	days := ask("agg=count,p50&step=day&tz=Europe/Berlin")
	same(t, "days", fmt.Sprint(len(days), days[0].Count, days[1].Count, days[2].Count), "3 1440 1380 1440")
	same(t, "the short day", time.UnixMilli(days[1].End).Sub(time.UnixMilli(days[1].TS)), "23h0m0s")
	same(t, "its first moment", days[1].TS, time.Date(2024, 3, 31, 0, 0, 0, 0, berlin).UnixMilli())
	if *days[0].P50 < 47 || *days[0].P50 > 50 {
		t.Errorf("the median is %v", *days[0].P50)
	}
	if one := ask("agg=first,count"); len(one) != 1 || one[0].Count != 71*60 || *one[0].First != 0 {
		t.Errorf("without a step: %+v", one)
	}
	s.post("gap", `[{"ts":0,"values":{"n":0}},{"ts":3000,"values":{"n":6}}]`)
	for fill, want := range map[string]string{
		"none":     `[{"ts":0,"avg":0},{"ts":3000,"avg":6}]`,
		"null":     `[{"ts":0,"avg":0},{"ts":1000,"avg":null},{"ts":2000,"avg":null},{"ts":3000,"avg":6}]`,
		"previous": `[{"ts":0,"avg":0},{"ts":1000,"avg":0},{"ts":2000,"avg":0},{"ts":3000,"avg":6}]`,
		"linear":   `[{"ts":0,"avg":0},{"ts":1000,"avg":2},{"ts":2000,"avg":4},{"ts":3000,"avg":6}]`,
		"-1":       `[{"ts":0,"avg":0},{"ts":1000,"avg":-1},{"ts":2000,"avg":-1},{"ts":3000,"avg":6}]`,
	} {
		same(t, fill, s.document("/v1/entities/gap/telemetry/n?agg=avg&step=1s&fill="+fill), `{"entity":"gap","key":"n","step_ms":1000,"buckets":`+want+`}`)
	}
	same(t, "the value before the range", s.document("/v1/entities/gap/telemetry/n?agg=avg,rate&step=1s&fill=previous&from=2000&to=4000"),
		`{"entity":"gap","key":"n","step_ms":1000,"buckets":[{"ts":2000,"avg":0,"rate":null},{"ts":3000,"avg":6,"rate":2}]}`)
}

// The number before a range was looked for behind 16 values that are none.
func TestTheNumberBeforeARangeIsFoundBehindManyTexts(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	var texts strings.Builder
	for i := range 50 {
		fmt.Fprintf(&texts, `{"ts":%d,"values":{"n":"text"}},`, 1000+i)
	}
	s.post("mixed", `[{"ts":0,"values":{"n":7}},`+texts.String()+`{"ts":4000,"values":{"n":9}}]`)
	same(t, "the value before the range", s.document("/v1/entities/mixed/telemetry/n?agg=avg,rate&step=1s&fill=previous&from=2000&to=5000"),
		`{"entity":"mixed","key":"n","step_ms":1000,"buckets":[{"ts":2000,"avg":7,"rate":null},{"ts":3000,"avg":7,"rate":null},{"ts":4000,"avg":9,"rate":0.5}]}`)
}

func TestChartHasThePointsOfLTTB(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	from := time.UnixMilli(1_000_000_000)
	wave := func(i int) float64 { return math.Round(1000*math.Sin(float64(i)/20)) / 10 }
	s.hourly("room", "n", from, 10, wave)
	var all []series.Point
	for i := range 600 {
		all = append(all, series.Point{TS: from.Add(time.Duration(i) * time.Minute).UnixMilli(), Value: value.Float(wave(i))})
	}
	var chart struct {
		Total  int
		Points []struct {
			TS    int64
			Value float64
		}
	}
	s.get("/v1/entities/room/telemetry/n?points=50", &chart)
	want := series.Downsample(all, 50)
	if chart.Total != 600 || len(chart.Points) != len(want) {
		t.Fatalf("%d of %d points", len(chart.Points), chart.Total)
	}
	for i, p := range want {
		if chart.Points[i].TS != p.TS || chart.Points[i].Value != p.Value.Float() {
			t.Errorf("point %d is %v, want %v", i, chart.Points[i], p)
		}
	}
}

func TestHistoryOfSeveralEntitiesIsGrouped(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 4 {
		id := fmt.Sprintf("m%d", i)
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":%q,"attributes":{"building":"b%d"}}`, id, i/2))
		s.post(id, fmt.Sprintf(`[{"ts":0,"values":{"p":%d,"q":1}},{"ts":500,"values":{"p":%d}},{"ts":1000,"values":{"p":%d}}]`, i, i+2, 10*i))
	}
	ask := func(body string) string {
		t.Helper()
		_, text := s.send(200, "POST", "/v1/history", typeJSONHeader, body)
		return text
	}
	same(t, "each", ask(`{"entities":["m1","m3"],"keys":["p"],"agg":["avg"],"step":"1s"}`),
		`{"step_ms":1000,"series":[{"group":{"entity":"m1","key":"p"},"entities":1,"buckets":[{"ts":0,"avg":2},{"ts":1000,"avg":10}]},`+
			`{"group":{"entity":"m3","key":"p"},"entities":1,"buckets":[{"ts":0,"avg":4},{"ts":1000,"avg":30}]}]}`)
	same(t, "pooled", ask(`{"filter":"id like \"m%\"","keys":["p"],"agg":["sum","count"],"step":"1s","group_by":["attributes.building"]}`),
		`{"step_ms":1000,"series":[{"group":{"attributes.building":"b0"},"entities":2,"buckets":[{"ts":0,"sum":6,"count":4},{"ts":1000,"sum":10,"count":2}]},`+
			`{"group":{"attributes.building":"b1"},"entities":2,"buckets":[{"ts":0,"sum":14,"count":4},{"ts":1000,"sum":50,"count":2}]}]}`)
	same(t, "across", ask(`{"filter":"","keys":["p"],"agg":["avg"],"step":"1s","group_by":[],"combine":"sum","to":1000}`),
		`{"step_ms":1000,"series":[{"group":{},"entities":4,"buckets":[{"ts":0,"avg":10}]}]}`)
	same(t, "charts", ask(`{"entities":["m1"],"keys":["p","q"],"points":2}`),
		`{"series":[{"group":{"entity":"m1","key":"p"},"entities":1,"total":3,"points":[{"ts":0,"value":1},{"ts":1000,"value":10}]},`+
			`{"group":{"entity":"m1","key":"q"},"entities":1,"total":1,"points":[{"ts":0,"value":1}]}]}`)
	for body, mentions := range map[string]string{
		`{"entities":["m1"],"agg":["avg"]}`:                                   "keys",
		`{"keys":["p"],"agg":["avg"]}`:                                        "entities, filter or type",
		`{"entities":["m1"],"filter":"","keys":["p"],"agg":["avg"]}`:          "must not be given with",
		`{"entities":["m1"],"keys":["p"]}`:                                    "agg or points",
		`{"entities":["m1"],"keys":["p"],"agg":["avg"],"group_by":["color"]}`: "attributes.building",
		`{"entities":["m1"],"keys":["p"],"agg":["avg"],"combine":"mix"}`:      "pool, sum",
		`{"entities":["m1"],"keys":["p"],"agg":["avg"],"from":5,"to":5}`:      "before to",
		`{"entities":["m1"],"keys":["p"],"agg":["avg"],"from":"now"}`:         "RFC 3339",
		`{"entities":["m1"],"keys":["p"],"points":3,"step":"1s"}`:             "need agg",
	} {
		if _, text := s.send(400, "POST", "/v1/history", typeJSONHeader, body); !strings.Contains(text, mentions) {
			t.Errorf("%s: %s, want %q", body, text, mentions)
		}
	}
	s.send(404, "POST", "/v1/history", typeJSONHeader, `{"entities":["m1","nobody"],"keys":["p"],"agg":["avg"]}`)
}

// retain makes the server apply its rules, and waits until that is done.
func (r *running) retain() retention.Status {
	r.t.Helper()
	begun := r.retention.Status().Rounds
	for deadline := time.Now().Add(patience); ; {
		var answer struct{ Status retention.Status }
		r.get("/v1/retention", &answer)
		if answer.Status.Error != "" {
			r.t.Fatalf("retention: %s", answer.Status.Error)
		}
		switch done := answer.Status.Rounds >= begun+2; { // the second one has begun after the call
		case !done:
			r.send(202, "POST", "/v1/retention", typeJSONHeader, "")
		case !answer.Status.Running: // which each further request would put off
			return answer.Status
		}
		if time.Now().After(deadline) {
			r.t.Fatalf("retention: %+v", answer.Status)
		}
	}
}

func TestOldValuesBecomeRowsThatAnswerTheSame(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	from := time.Now().Add(-20 * 24 * time.Hour).Truncate(24 * time.Hour)
	wave := func(i int) float64 { return math.Round(1000*math.Sin(float64(i)/50)) / 10 }
	for day := range 4 {
		s.hourly("room", "n", from.AddDate(0, 0, day), 24, func(i int) float64 { return wave(1440*day + i) })
	}
	s.hourly("room", "kept", from, 1, wave)
	s.hourly("room", "n", time.Now().Add(-time.Hour), 1, wave)
	const path = "/v1/entities/room/telemetry/n?agg=avg,min,max,sum,count,first,last,p50&step=2h"
	before := s.document(path)
	points := strings.Count(s.document("/v1/entities/room/telemetry/n?limit=100000"), `"ts"`)

	s.send(201, "PUT", "/v1/retention/n", typeJSONHeader, `{"key":"n","raw":"7d","tiers":[{"step":"5m","keep":"10d","percentiles":true},{"step":"1h","percentiles":true}]}`)
	status := s.retain()
	if status.Removed != int64(points-60) || status.Rows == 0 || status.Series != 1 {
		t.Errorf("of %d values: %+v", points, status)
	}
	after := s.document(path)
	if !strings.Contains(after, `"source":["1h`) {
		t.Errorf("the source is not said: %.200s", after)
	}
	compareBuckets(t, after, before)
	same(t, "values that are left", strings.Count(s.document("/v1/entities/room/telemetry/n?limit=100000"), `"ts"`), 60)
	same(t, "values without a rule", strings.Count(s.document("/v1/entities/room/telemetry/kept?limit=100000"), `"ts"`), 60)
	s.send(422, "GET", "/v1/entities/room/telemetry/n?agg=avg&step=1m", typeJSONHeader, "")

	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	compareBuckets(t, s.document(path), before)
	s.send(204, "DELETE", "/v1/entities/room", typeJSONHeader, "")
	s.post("room", `{"ts":1000,"values":{"n":1}}`)
	same(t, "another entity of the same id", s.document("/v1/entities/room/telemetry/n?agg=count&step=1h"), `{"entity":"room","key":"n","step_ms":3600000,"buckets":[{"ts":0,"count":1}]}`)
}

// Questions whose edges are edges of rows have the same answers before and after the
// values became rows: also the rate and what is filled in at the start of the range, which
// depend on the last number before it.
func TestRowsAnswerToTheLastBit(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	rng := rand.New(rand.NewPCG(11, 14))
	const hour = int64(3_600_000)
	first := time.Now().Add(-16 * 24 * time.Hour).Truncate(24 * time.Hour).UnixMilli()
	for _, id := range []string{"a", "b"} {
		var body []byte
		counter := int64(0)
		for ts := first + rng.Int64N(hour); ts < time.Now().UnixMilli()-hour; ts += 1 + rng.Int64N(hour) {
			value := strconv.FormatInt(counter, 10)
			switch rng.IntN(12) {
			case 0:
				value = `"none"`
			case 1:
				value = strconv.FormatFloat(rng.NormFloat64()*1e3, 'g', -1, 64)
			case 2:
				counter = 0
			case 3:
				ts += 9 * hour // a gap
			}
			counter += rng.Int64N(100)
			body = fmt.Appendf(append(body, ','), `{"ts":%d,"values":{"n":%s}}`, ts, value)
		}
		for i := range int64(40) { // no number among the last before a time
			body = fmt.Appendf(append(body, ','), `{"ts":%d,"values":{"n":"none"}}`, first+15*24*hour-i-1)
		}
		body[0] = '['
		s.post(id, string(append(body, ']')))
	}
	last := (time.Now().UnixMilli() - first) / hour
	var questions []string
	for i := range 150 {
		from := first + rng.Int64N(last)*hour
		to := from + (1+rng.Int64N(100))*hour
		if i == 0 {
			from, to = first+15*24*hour, first+16*24*hour
		}
		step := []string{"1h", "2h", "5h", "1d"}[rng.IntN(4)]
		fill := []string{"none", "null", "previous", "linear", "7"}[rng.IntN(5)]
		questions = append(questions, fmt.Sprintf(`{"from":%d,"to":%d,"step":%q,"fill":%q,"agg":["avg","min","max","sum","count","first","last","rate","p0","p50","p95","p100"]`, from, to, step, fill))
	}
	source := regexp.MustCompile(`"source":\[[^]]*\],`)
	ask := func(q string) (answers []string) {
		for _, group := range []string{`"entities":["a"]`, `"entities":["a","b"],"group_by":["key"]`, `"entities":["a","b"],"group_by":["key"],"combine":"sum"`} {
			_, text := s.send(200, "POST", "/v1/history", typeJSONHeader, q+`,"keys":["n"],`+group+"}")
			answers = append(answers, source.ReplaceAllString(text, ""))
		}
		return answers
	}
	before := make(map[string][]string)
	for _, q := range questions {
		before[q] = ask(q)
	}
	s.send(201, "PUT", "/v1/retention/n", typeJSONHeader, `{"key":"n","raw":"3d","tiers":[{"step":"5m","keep":"8d","percentiles":true},{"step":"1h","percentiles":true}]}`)
	if status := s.retain(); status.Removed == 0 || status.Rows == 0 {
		t.Fatalf("nothing became rows: %+v", status)
	}
	for _, q := range questions {
		for i, got := range ask(q) {
			if want := before[q][i]; got != want {
				t.Fatalf("%s:\n%s\nwas\n%s", q, got, want)
			}
		}
	}
}

// A range that the rows of one series widen is widened for all series of the answer.
func TestARangeIsAsWideForAll(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/types/old", typeJSONHeader, `{}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"b","type":"old"}`)
	from := time.Now().Add(-10 * 24 * time.Hour).Truncate(time.Hour).UnixMilli()
	for _, id := range []string{"a", "b"} {
		s.post(id, fmt.Sprintf(`[{"ts":%d,"values":{"n":1}},{"ts":%d,"values":{"n":1}}]`, from+600_000, from+2_400_000))
	}
	s.send(201, "PUT", "/v1/retention/old", typeJSONHeader, `{"type":"old","raw":"1d","tiers":[{"step":"1h"}]}`)
	s.retain()
	_, text := s.send(200, "POST", "/v1/history", typeJSONHeader, fmt.Sprintf(`{"entities":["a","b"],"keys":["n"],"agg":["count"],"step":"2h","from":%d,"to":%d}`, from+1_800_000, from+3_600_000))
	if n := strings.Count(text, `"count":2`); n != 2 {
		t.Errorf("the counts are %s; want 2 twice", text)
	}
}

// compareBuckets compares aggregates of rollups with those of the values: only a
// percentile may differ, and by little.
func compareBuckets(t *testing.T, got, want string) {
	t.Helper()
	type answer struct{ Buckets []map[string]float64 }
	var g, w answer
	for text, into := range map[string]*answer{got: &g, want: &w} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.Buckets) != len(w.Buckets) {
		t.Fatalf("%d buckets, want %d", len(g.Buckets), len(w.Buckets))
	}
	for i := range w.Buckets {
		for name, value := range w.Buckets[i] {
			allowed := 1e-9
			if name == "p50" {
				allowed = 0.02
			}
			if math.Abs(g.Buckets[i][name]-value) > allowed*math.Max(1, math.Abs(value)) {
				t.Errorf("bucket %d: %s is %v, want %v", i, name, g.Buckets[i][name], value)
			}
		}
	}
}

func TestLateValuesMakeTheirRowsAgain(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	from := time.Now().Add(-3 * time.Hour).Truncate(time.Hour)
	s.hourly("room", "n", from, 2, func(int) float64 { return 1 })
	s.send(201, "PUT", "/v1/retention/all", typeJSONHeader, `{"raw":"30d","tiers":[{"step":"1h"}]}`)
	s.retain()
	count := func() string {
		return s.document(fmt.Sprintf("/v1/entities/room/telemetry/n?agg=count&step=1h&from=%d&to=%d", from.UnixMilli(), from.Add(time.Hour).UnixMilli()))
	}
	if text := count(); !strings.Contains(text, `"source":["1h"]`) || !strings.Contains(text, `"count":60`) {
		t.Fatalf("the first hour is %s", text)
	}
	s.post("room", fmt.Sprintf(`{"ts":%d,"values":{"n":1}}`, from.Add(time.Second).UnixMilli()))
	for deadline := time.Now().Add(patience); !strings.Contains(count(), `"count":61`); {
		s.retain()
		if time.Now().After(deadline) {
			t.Fatalf("the hour is still %s", count())
		}
	}
}

func TestRetentionRulesAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(400, "PUT", "/v1/retention/a", typeJSONHeader, `{"raw":"1h","tiers":[{"step":"1d"}]}`)
	s.send(400, "PUT", "/v1/retention/a", typeJSONHeader, `{"raw":"soon"}`)
	s.send(400, "PUT", "/v1/retention/a", typeJSONHeader, `{"row":"1d"}`)
	_, body := s.send(201, "PUT", "/v1/retention/a", typeJSONHeader, `{"key":"n","raw":"1d"}`)
	s.send(409, "PUT", "/v1/retention/b", typeJSONHeader, `{"key":"n","raw":"2d"}`)
	s.send(428, "PUT", "/v1/retention/a", typeJSONHeader, body)
	s.send(200, "PUT", "/v1/retention/a", typeJSONHeader, body, "If-Match", "*")
	s.send(204, "DELETE", "/v1/retention/a", typeJSONHeader, "")
	s.send(404, "GET", "/v1/retention/a", typeJSONHeader, "")
}
