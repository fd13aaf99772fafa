package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fakeStore counts what it is asked.
type fakeStore struct {
	tsStore
	server  *httptest.Server
	lines   int
	asked   map[string]int
	settled bool
}

func newFakeStore(t *testing.T, of tsStore) *fakeStore {
	f := &fakeStore{tsStore: of, asked: make(map[string]int)}
	f.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		f.lines += bytes.Count(body, []byte("\n"))
		if r.Method == http.MethodGet {
			f.asked[r.URL.Path+" "+r.URL.Query().Get("q")+r.URL.Query().Get("query")]++
		}
	}))
	t.Cleanup(f.server.Close)
	return f
}

func (f *fakeStore) address() string                     { return strings.TrimPrefix(f.server.URL, "http://") }
func (f *fakeStore) settle(context.Context) error        { f.settled = true; return nil }
func (f *fakeStore) rest(context.Context) (int64, error) { return int64(10 * f.lines), nil }
func (f *fakeStore) kill()                               {}

// TestStoresAreComparedByTurns has two stores, of which one answers like nobody in particular, get the
// same readings and questions.
func TestStoresAreComparedByTurns(t *testing.T) {
	t.Parallel()
	path := recordingFile(t, 50)
	data, err := comparedReadings(path)
	if err != nil {
		t.Fatal(err)
	}
	data = data[:2000]
	stores := []*fakeStore{newFakeStore(t, &influx{}), newFakeStore(t, &victoria{})}
	var out bytes.Buffer
	if err := compareStores(t.Context(), &out, []tsStore{stores[0], stores[1]}, data); err != nil {
		t.Fatal(err)
	}
	for _, f := range stores {
		if f.lines != len(data) || !f.settled || len(f.asked) != 5 {
			t.Errorf("%s got %d lines of %d, and was asked %v", f.name(), f.lines, len(data), f.asked)
		}
		for question, n := range f.asked {
			if n != askWarm+askRounds {
				t.Errorf("%s was asked %q %d times", f.name(), question, n)
			}
		}
	}
	if n := stores[0].asked[`/query SELECT mean("temperature") FROM bench WHERE entity='room-0' AND time >= 1422986400000ms AND time < 1422989340001ms GROUP BY time(3600000ms)`]; n == 0 {
		t.Errorf("InfluxDB was asked %v", stores[0].asked)
	}
	if n := stores[1].asked[`/api/v1/query_range max_over_time(bench_v{entity="walk"}[60000ms])`]; n == 0 {
		t.Errorf("VictoriaMetrics was asked %v", stores[1].asked)
	}
	for _, want := range []string{"InfluxDB 1", "VictoriaMetrics", "bytes a value at rest", "(1.00)", "last 100", "is in memory for seconds"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// TestOurStoreIsMeasuredAlone runs the shape where no other store is installed.
func TestOurStoreIsMeasuredAlone(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), build(t), "bench", "--shape", "stores", "--recording", recordingFile(t, 200), "--data", t.TempDir())
	cmd.Env = append(os.Environ(), "PATH="+t.TempDir())
	out, err := cmd.CombinedOutput()
	for _, want := range []string{"influxd is not installed", "victoria-metrics is not installed", "hourly averages", "bytes a value at rest"} {
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("no %q, %v: %s", want, err, out)
		}
	}
}

// recordingFile is a short recording.
func recordingFile(t *testing.T, rows int) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("date,Temperature,Humidity,Name\n")
	for i := range rows {
		fmt.Fprintf(&b, "2015-02-03 18:%02d:00,%d.5,27.25,x\n", i%60, 20+i%3)
	}
	path := filepath.Join(t.TempDir(), "recording.csv")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
