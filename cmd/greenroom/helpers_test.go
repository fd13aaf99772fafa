package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/server"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// startServer runs a server in the test's process until stop is called.
func startServer(t *testing.T, dir string) (s *server.Server, stop func()) {
	t.Helper()
	s, err := server.New(t.Context(), server.Config{DataDir: dir, Store: pgtest.Address(t, dir), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return s, stop
}

// command runs the command line, which must end with the exit code.
func command(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out, errs bytes.Buffer
	if got := run(ctx, args, &out, &errs); got != code {
		t.Fatalf("greenroom %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), got, code, &out, &errs)
	}
	return out.String(), errs.String()
}

func getJSON(t *testing.T, addr, path string, into any) {
	t.Helper()
	status, body := get(t, addr, path)
	if status != http.StatusOK {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		t.Fatalf("GET %s: %v in %.200s", path, err, body)
	}
}

// exists reports whether there is something under a path of the API.
func exists(t *testing.T, addr, path string) bool {
	t.Helper()
	status, body := get(t, addr, path)
	if status != http.StatusOK && status != http.StatusNotFound {
		t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return status == http.StatusOK
}

func get(t *testing.T, addr, path string) (status int, body []byte) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if body, err = io.ReadAll(resp.Body); err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return resp.StatusCode, body
}

// point is a reading of one key.
type point struct {
	TS    int64
	Value float64
}

// history reads all readings of a key, page by page.
func history(t *testing.T, addr, id, key string) (points []point) {
	t.Helper()
	for cursor := ""; ; {
		var page struct {
			Points []point
			Next   string
		}
		getJSON(t, addr, fmt.Sprintf("/v1/entities/%s/telemetry/%s?limit=5000&cursor=%s", url.PathEscape(id), url.PathEscape(key), url.QueryEscape(cursor)), &page)
		points = append(points, page.Points...)
		if cursor = page.Next; cursor == "" {
			return points
		}
	}
}

// recording is what is in a file, read by other code than replay's.
type recording struct {
	file  string
	times []int64
	keys  map[string][]float64
}

// occupancyKeys are the columns of the occupancy data and their keys.
var occupancyKeys = map[string]string{
	"Temperature": "temperature", "Humidity": "humidity", "Light": "light", "CO2": "co2", "HumidityRatio": "humidity_ratio", "Occupancy": "occupancy",
}

func readRecording(t *testing.T, file string) *recording {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	r := &recording{file: file, keys: map[string][]float64{}}
	for _, record := range records[1:] {
		at, err := time.Parse(time.DateTime, record[0])
		if err != nil {
			t.Fatal(err)
		}
		r.times = append(r.times, at.UnixMilli())
		for i, cell := range record[1:] {
			v, err := strconv.ParseFloat(cell, 64)
			if err != nil {
				t.Fatal(err)
			}
			key := occupancyKeys[records[0][i+1]]
			r.keys[key] = append(r.keys[key], v)
		}
	}
	return r
}

// writeRecording makes a file like the occupancy data.
func writeRecording(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`"Date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"` + "\n")
	at := time.Date(2015, 2, 4, 17, 51, 0, 0, time.UTC)
	for i := range rows {
		at = at.Add(time.Duration(58+i%5) * time.Second)
		fmt.Fprintf(&b, "%q,%v,%v,%d,%v,%v,%d\n", at.Format(time.DateTime), 20+math.Round(300*math.Sin(float64(i)/50))/100,
			27+float64(i%17)/8, 400+i%30, 700+float64(i%9)/4, 0.004+float64(i)/1e6, i/20%2)
	}
	file := filepath.Join(t.TempDir(), "small.csv")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// realData is the real recording; its README names its source and license.
var realData = filepath.Join("..", "..", "testdata", "occupancy", "occupancy-training.csv")

// check compares all that the server says about the recording with what the file
// says: every reading, the hourly aggregates, the latest values.
func (r *recording) check(t *testing.T, addr string, id func(key string) string) {
	t.Helper()
	for key, values := range r.keys {
		points := history(t, addr, id(key), key)
		if len(points) != len(values) {
			t.Errorf("%s has %d readings, the file %d", key, len(points), len(values))
			continue
		}
		for i, p := range points {
			if p.TS != r.times[i] || p.Value != values[i] {
				t.Errorf("%s: reading %d is %v at %d, in the file %v at %d", key, i, p.Value, p.TS, values[i], r.times[i])
				break
			}
		}
		r.checkHours(t, addr, id(key), key)
		var e struct {
			Updated int64 `json:"updated_ms"`
			Latest  map[string]point
		}
		getJSON(t, addr, "/v1/entities/"+url.PathEscape(id(key)), &e)
		last := len(values) - 1
		if want := (point{r.times[last], values[last]}); e.Latest[key] != want || e.Updated != want.TS {
			t.Errorf("%s: latest is %v, updated %d; the last row has %v", key, e.Latest[key], e.Updated, want)
		}
	}
}

func (r *recording) checkHours(t *testing.T, addr, id, key string) {
	t.Helper()
	type bucket struct{ TS, Count, Avg, Min, Max, Sum float64 }
	var page struct{ Buckets []bucket }
	getJSON(t, addr, "/v1/entities/"+url.PathEscape(id)+"/telemetry/"+key+"?agg=avg,min,max,sum,count&step=1h", &page)
	var want []bucket
	for i, v := range r.keys[key] {
		const hour = 3_600_000
		start := float64(r.times[i] / hour * hour)
		if len(want) == 0 || want[len(want)-1].TS != start {
			want = append(want, bucket{TS: start, Min: v, Max: v})
		}
		b := &want[len(want)-1]
		b.Count, b.Sum, b.Min, b.Max = b.Count+1, b.Sum+v, min(b.Min, v), max(b.Max, v)
		b.Avg = b.Sum / b.Count
	}
	if len(page.Buckets) != len(want) {
		t.Errorf("%s has %d hours, the file %d", key, len(page.Buckets), len(want))
		return
	}
	near := func(a, b float64) bool { return math.Abs(a-b) <= 1e-12*math.Abs(b) }
	for i, got := range page.Buckets {
		w := want[i]
		if got.TS != w.TS || got.Count != w.Count || got.Min != w.Min || got.Max != w.Max || !near(got.Sum, w.Sum) || !near(got.Avg, w.Avg) {
			t.Errorf("%s: the hour is %+v, in the file %+v", key, got, w)
		}
	}
}
