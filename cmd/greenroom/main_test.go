package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

func TestMistakesOnTheCommandLineAreSaidOnOneLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		says string
	}{
		{"nonsense", "nonsense"},
		{"serve now", "now"},
		{"serve --port 1", "--port"},
		{"replay", "--file and --demo"},
		{"replay --demo --file x.csv", "--file and --demo"},
		{"replay --demo --speed 3", "--speed cannot be combined with --demo"},
		{"replay --demo --duration -1s", "--duration"},
		{"replay --file x.csv --duration 1s", "--duration needs --demo"},
		{"replay --file x.csv --speed fast", "not fast"},
		{"replay --file x.csv --speed 0", "60, not 0"},
		{"replay --file x.csv --connections 0", "1 to 1000"},
		{"replay --file x.csv --zone Mars", "Mars"},
		{"replay --file x.csv --entity a/b", "a/b"},
		{"bench --connections 0", "10000, not 0"},
		{"bench --mqtt 192.0.2.1:1883", "this machine"},
		{"bench --duration 100h", "--duration"},
		{"bench --rate=-1", "--rate"},
	} {
		_, errs := command(t, exitUsage, strings.Fields(tt.args)...)
		if !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "greenroom: ") {
			t.Errorf("greenroom %s: %q, want one line with %q", tt.args, errs, tt.says)
		}
	}
	_, errs := command(t, exitFailed, "replay", "--file", "no-such.csv")
	if !strings.Contains(errs, "no-such.csv") {
		t.Errorf("a file that is not there: %q", errs)
	}
}

func TestAnErrorWithOneCauseIsPrintedOnce(t *testing.T) {
	t.Parallel()
	stopped, other := errors.New("stopped by the signal"), errors.New("2 messages were refused")
	if got := oneLine(errors.Join(stopped, errors.Join(stopped, other))); got != "stopped by the signal; 2 messages were refused" {
		t.Errorf("the line is %q", got)
	}
}

func TestServeOnATakenPortSaysSo(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, errs := command(t, exitFailed, "serve", "--data", t.TempDir(), "--http", "127.0.0.1:0", "--mqtt", ln.Addr().String())
	if !strings.Contains(errs, ln.Addr().String()) || !strings.Contains(errs, "--mqtt") || strings.Count(errs, "\n") != 1 {
		t.Errorf("the error is %q", errs)
	}
}

func TestVersionAndHelp(t *testing.T) {
	t.Parallel()
	out, _ := command(t, 0, "version")
	if !regexp.MustCompile(`^greenroom \S+ go\S+ \w+/\w+\n$`).MatchString(out) {
		t.Errorf("version: %q", out)
	}
	out, _ = command(t, 0)
	for _, name := range []string{"serve", "replay", "bench", "version"} {
		if !strings.Contains(out, name) {
			t.Errorf("the help has no %s", name)
		}
	}
}

func TestServeDemoShowsRoomsWithAHistory(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	code := make(chan int, 1)
	var errs strings.Builder
	go func() {
		c := run(ctx, []string{"serve", "--demo", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"}, write, &errs)
		write.Close()
		code <- c
	}()
	var addr, dir string
	lines := bufio.NewScanner(read)
	for dir == "" && lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch fields[0] {
		case "dashboard":
			addr = strings.Trim(strings.TrimPrefix(fields[1], "http://"), "/")
		case "data":
			dir = fields[1]
		}
	}
	go io.Copy(io.Discard, read) //nolint:errcheck // a pipe in memory
	if _, err := os.Stat(dir); err != nil {
		t.Fatalf("the demo's directory: %v", err)
	}
	// The history comes before the first live reading, one each second.
	var system struct{ Ingest struct{ Readings int } }
	entities := 2 * 5
	want := entities*int(demoHistory/demoHistoryEvery-1) + entities
	for deadline := time.Now().Add(patience); system.Ingest.Readings < want; {
		if time.Now().After(deadline) {
			t.Fatalf("%d readings, want %d", system.Ingest.Readings, want)
		}
		getJSON(t, addr, "/v1/system", &system)
	}
	var page struct{ Entities []struct{ ID string } }
	getJSON(t, addr, "/v1/entities", &page)
	if len(page.Entities) != entities {
		t.Errorf("%d entities, want %d", len(page.Entities), entities)
	}
	points := history(t, addr, "office", "co2")
	if span := points[len(points)-1].TS - points[0].TS; span < (demoHistory - 2*demoHistoryEvery).Milliseconds() {
		t.Errorf("the history spans %v", time.Duration(span)*time.Millisecond)
	}
	cancel()
	if c := <-code; c != 0 {
		t.Errorf("exit code %d: %s", c, &errs)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the demo's directory is still there: %v", err)
	}
}

func TestReplayDemoPublishesForItsDuration(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	out, _ := command(t, 0, "replay", "--demo", "--duration", "1500ms", "--mqtt", s.MQTTAddr())
	var messages, readings, values int
	if _, err := fmt.Sscanf(out, "%d messages acknowledged (%d readings, %d values)", &messages, &readings, &values); err != nil || messages < 1 || readings != messages || values <= messages {
		t.Errorf("the report is %q: %v", out, err)
	}
}

func TestTheDemoGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	p, err := dial(t.Context(), s.MQTTAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	now := time.Now().Truncate(time.Second)
	if err := backfill(t.Context(), p, newBuilding(now.Add(-2*time.Minute)), 0, now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	known, err := newest(t.Context(), s.HTTPAddr(), "office")
	if err != nil {
		t.Fatal(err)
	}
	if err := backfill(t.Context(), p, newBuilding(now.Add(-2*time.Minute)), known, now); err != nil {
		t.Fatal(err)
	}
	if n := len(history(t, s.HTTPAddr(), "office", "co2")); n != 23 {
		t.Errorf("%d readings, want one each 5 s of two minutes without the ends, 23", n)
	}
	if got, err := newest(t.Context(), s.HTTPAddr(), "nobody"); got != 0 || err != nil {
		t.Errorf("newest of nobody: %d, %v", got, err)
	}
}

func TestRoomsOfTheDemoLive(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := newBuilding(start)
	lowest, highest := map[string]float64{}, map[string]float64{}
	for at := start; at.Before(start.Add(3 * dayLength)); at = at.Add(time.Second) {
		b.advance(at)
		for _, r := range b.readings() {
			for _, s := range r.reading.Values {
				v, ok := s.Value.Number()
				if !ok && s.Value.Kind() == value.KindBool && s.Value.Bool() {
					v = 1
				}
				key := r.id + " " + s.Key
				if _, seen := lowest[key]; !seen {
					lowest[key], highest[key] = v, v
				}
				lowest[key], highest[key] = min(lowest[key], v), max(highest[key], v)
			}
		}
	}
	for key, limits := range map[string][4]float64{ // at least from … to, at most from … to
		"office temperature":         {19, 21, 10, 32},
		"office humidity":            {45, 50, 20, 80},
		"office co2":                 {470, 800, 380, 3000},
		"office light":               {50, 400, 0, 1200},
		"office people":              {0, 3, 0, 6},
		"office occupied":            {0, 1, 0, 1},
		"office-door open":           {0, 1, 0, 1},
		"meeting-room people":        {0, 4, 0, 10},
		"meeting-room-air co2":       {470, 900, 380, 3500},
		"meeting-room-light light":   {50, 400, 0, 1200},
		"office-climate humidity":    {45, 50, 20, 80},
		"office-climate temperature": {19, 21, 10, 32},
	} {
		low, high := lowest[key], highest[key]
		if low > limits[0] || high < limits[1] {
			t.Errorf("%s goes only from %v to %v, which nobody watches", key, low, high)
		}
		if low < limits[2] || high > limits[3] {
			t.Errorf("%s goes from %v to %v, which no room does", key, low, high)
		}
	}
}

func TestBenchMeasuresADurableServer(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	out, _ := command(t, 0, "bench", "--mqtt", s.MQTTAddr(), "--connections", "3", "--entities", "7", "--messages", "1000", "--in-flight", "10")
	if !strings.Contains(out, " 1000 messages of 3 values acknowledged in ") {
		t.Errorf("the report is %q", out)
	}
	total := 0
	for i := range 7 {
		total += len(history(t, s.HTTPAddr(), fmt.Sprintf("bench-%d", i), "temperature"))
	}
	if total != 1000 {
		t.Errorf("%d readings, want 1000", total)
	}
	out, _ = command(t, 0, "bench", "--mqtt", s.MQTTAddr(), "--connections", "2", "--rate", "1000", "--messages", "20")
	if !strings.Contains(out, " 20 messages of 3 values acknowledged in ") {
		t.Errorf("with a rate, the report is %q", out)
	}
}

func TestQuantilesAreNearTheTruth(t *testing.T) {
	t.Parallel()
	var l latencies
	if l.quantile(0.5) != 0 || l.max() != 0 {
		t.Errorf("of nothing: %v, %v", l.quantile(0.5), l.max())
	}
	const n = 10_000
	for _, i := range rand.Perm(n) {
		l.add(time.Duration(i+1) * time.Millisecond)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 1} {
		want := q * n
		if got := l.quantile(q).Seconds() * 1000; math.Abs(got-want) > 0.025*want {
			t.Errorf("the quantile %v is %v ms, want about %v", q, got, want)
		}
	}
	if l.max() != n*time.Millisecond {
		t.Errorf("the longest is %v", l.max())
	}
}
