package server

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// event is a server-sent event as a browser sees it.
type event struct{ id, name, data string }

// events reads a stream until the test ends.
type events struct {
	t      *testing.T
	lines  *bufio.Scanner
	id     string // the last one
	cancel context.CancelFunc
}

// open opens a stream and waits until it is subscribed.
func (r *running) open(path string, header ...string) *events {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+r.HTTPAddr()+path, http.NoBody)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("GET %s: %s %s", path, resp.Status, resp.Header.Get("Content-Type"))
	}
	return &events{t: r.t, lines: bufio.NewScanner(resp.Body), cancel: cancel}
}

// next returns the next event, false at the end of the stream.
func (e *events) next() (event, bool) {
	e.t.Helper()
	ev := event{}
	for e.lines.Scan() {
		line := e.lines.Text()
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "" && ev.data != "":
			ev.id = e.id
			return ev, true
		case line == "":
			ev = event{}
		case name == "id":
			e.id = value
		case name == "event":
			ev.name = value
		case name == "data":
			ev.data = value
		}
	}
	return event{}, false
}

func (e *events) mustBe(name, data string) {
	e.t.Helper()
	ev, ok := e.next()
	if !ok || ev.name != name || !strings.Contains(ev.data, data) || ev.id == "" {
		e.t.Fatalf("the event is %+v, want %s with %s", ev, name, data)
	}
}

func TestStreamSendsCommittedChanges(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	all, one := s.open("/v1/stream"), s.open("/v1/stream?entity=b&entity=c")
	s.post("a", `{"ts":1000,"values":{"t":1,"s":"x"}}`)
	s.post("b", `{"ts":2000,"values":{"t":2.5}}`)
	all.mustBe("change", `{"entity":"a","ts":1000,"values":{"t":1,"s":"x"},"committed_ms":`)
	all.mustBe("change", `{"entity":"b","ts":2000,"values":{"t":2.5},"committed_ms":`)
	one.mustBe("change", `"entity":"b"`)
}

func TestStreamResumesAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	first := s.open("/v1/stream?entity=a")
	s.post("a", `{"n":1}`)
	first.mustBe("change", `{"n":1}`)
	first.cancel()
	for n := 2; n <= 4; n++ {
		s.post("a", fmt.Sprintf(`{"n":%d}`, n))
		s.post("b", `{"n":0}`)
	}
	second := s.open("/v1/stream?entity=a", "Last-Event-ID", first.id)
	for n := 2; n <= 4; n++ {
		second.mustBe("change", fmt.Sprintf(`{"n":%d}`, n))
	}
	// The header is newer than the parameter, which a browser does not change.
	third := s.open("/v1/stream?entity=a&cursor="+first.id, "Last-Event-ID", second.id)
	fourth := s.open("/v1/stream?entity=a&cursor=" + first.id)
	s.post("a", `{"n":5}`)
	third.mustBe("change", `{"n":5}`)
	fourth.mustBe("change", `{"n":2}`)
}

func TestStreamCutOffBeforeItsFirstEventMissesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `{"n":1}`)
	first := s.open("/v1/stream")
	for first.id == "" && first.lines.Scan() {
		first.id, _ = strings.CutPrefix(first.lines.Text(), "id: ")
		if !strings.HasPrefix(first.lines.Text(), "id: ") {
			first.id = ""
		}
	}
	first.cancel()
	s.post("a", `{"n":2}`)
	s.open("/v1/stream", "Last-Event-ID", first.id).mustBe("change", `{"n":2}`)
}

func TestStreamSurvivesARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	before := s.open("/v1/stream")
	s.post("a", `{"n":1}`)
	before.mustBe("change", `{"n":1}`)
	s.post("a", `{"n":2}`)
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	s = start(t, dir)
	s.open("/v1/stream", "Last-Event-ID", before.id).mustBe("change", `{"n":2}`)
}

func TestStreamWithACursorThatIsGoneIsReset(t *testing.T) {
	t.Parallel()
	other := start(t, "")
	foreign := other.open("/v1/stream")
	other.post("a", `{"n":1}`)
	foreign.mustBe("change", `{"n":1}`)

	s := start(t, "")
	stream := s.open("/v1/stream", "Last-Event-ID", foreign.id)
	stream.mustBe("reset", "read the present state")
	s.post("a", `{"n":2}`)
	stream.mustBe("change", `{"n":2}`)
}

func TestStreamsEndWithTheServer(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	stream := s.open("/v1/stream")
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	if ev, ok := stream.next(); ok {
		t.Errorf("an event after the shutdown: %+v", ev)
	}
}

func TestStreamsAreBounded(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	who := callerOf(s.asAnybody()).who
	for range MaxStreams {
		if _, err := s.streams.places.enter(who); err != nil {
			t.Fatal(err)
		}
	}
	resp, body := s.do("GET", "/v1/stream", "")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" || !strings.Contains(body, strconv.Itoa(MaxStreams)+" streams") {
		t.Errorf("one stream too many: %s %s", resp.Status, body)
	}
}

func TestHeartbeatMovesTheCursor(t *testing.T) {
	t.Parallel()
	e := &eventWriter{id: "a"}
	e.alive("a")
	e.alive("b")
	e.alive("b")
	same(t, "what is sent", string(e.buf), ": alive\n\n: alive\nid: b\n\n: alive\n\n")
}
