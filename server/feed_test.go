package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestStreamHasOnlyWhatItsFilterIsAbout(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 4 {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":"m%d","attributes":{"floor":%d}}`, i, i%2))
	}
	floor := s.open("/v1/stream?q=" + url.QueryEscape(`attributes.floor = 1`))
	hot := s.open("/v1/stream?q=" + url.QueryEscape(`t > 30`) + "&key=t&key=u")
	for i := range 4 {
		s.post(fmt.Sprintf("m%d", i), fmt.Sprintf(`{"ts":1000,"values":{"t":%d,"v":1}}`, 10*i))
	}
	judged := func(ts int) { // an entity is judged as it is then: the next change has to wait for that
		s.post("mark", fmt.Sprintf(`{"ts":%d,"values":{"t":99}}`, ts))
		hot.mustBe("change", fmt.Sprintf(`{"entity":"mark","ts":%d`, ts))
	}
	judged(1000)
	s.post("m0", `{"ts":2000,"values":{"t":31,"u":2,"v":3}}`)
	hot.mustBe("change", `{"entity":"m0","ts":2000,"values":{"t":31,"u":2}`)
	s.post("m0", `{"ts":3000,"values":{"v":4}}`)
	s.post("m0", `{"ts":4000,"values":{"t":30}}`)
	judged(4000)
	s.post("m0", `{"ts":5000,"values":{"t":32}}`)
	floor.mustBe("change", `{"entity":"m1","ts":1000,"values":{"t":10,"v":1}`)
	floor.mustBe("change", `{"entity":"m3","ts":1000`)
	hot.mustBe("change", `{"entity":"m0","ts":5000,"values":{"t":32}`)
	s.send(200, "PATCH", "/v1/entities/m0/attributes/attributes", typeMergeHeader, `{"floor":1}`)
	s.post("m0", `{"ts":6000,"values":{"t":1}}`)
	floor.mustBe("change", `{"entity":"m0","ts":6000`)
}

func TestStreamHasEditsAsEventsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"b"}`)
	both, edits := s.open("/v1/stream?kinds=readings,edits"), s.open("/v1/stream?kinds=edits&entity=a")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"a","attributes":{"x":{"y":1}},"relations":[{"type":"has","to":"b","properties":{"n":1}}]}`)
	s.post("a", `{"ts":1,"values":{"t":1}}`)
	s.send(200, "PATCH", "/v1/entities/a/attributes/attributes", typeMergeHeader, `{"x":null,"z":[1]}`)
	s.send(204, "DELETE", "/v1/entities/a/relations/has/b", typeJSONHeader, "")
	s.send(204, "DELETE", "/v1/entities/a", typeJSONHeader, "")
	for _, stream := range []*events{both, edits} {
		stream.mustBe("edit", `"created":true,"attributes":[{"section":"attributes","path":"/x/y","value":1}],"relations":[{"from":"a","type":"has","to":"b","properties":{"n":1}}],"committed_ms":`)
		if stream == both {
			stream.mustBe("change", `"values":{"t":1}`)
		}
		stream.mustBe("edit", `[{"section":"attributes","path":"/x/y","removed":true},{"section":"attributes","path":"/z","value":[1]}]`)
		stream.mustBe("edit", `"relations":[{"from":"a","type":"has","to":"b","removed":true}]`)
		stream.mustBe("edit", `"deleted":true`)
	}
}

// A stream told all deletions, also of entities that its filter was known not to match.
func TestAStreamTellsDeletionsOfWhatItsFilterMatches(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ids := map[string]int{"cold": 1, "hot": 99, "was-hot": 99}
	for id, temperature := range ids {
		s.post(id, fmt.Sprintf(`{"ts":1,"values":{"t":%d}}`, temperature))
	}
	stream := s.open("/v1/stream?kinds=readings,edits&q=" + url.QueryEscape("t > 30"))
	for id, temperature := range ids {
		s.post(id, fmt.Sprintf(`{"ts":2,"values":{"t":%d}}`, temperature))
		if temperature > 30 {
			stream.mustBe("change", fmt.Sprintf("%q", id))
		}
	}
	s.post("was-hot", `{"ts":3,"values":{"t":0}}`)
	s.post("hot", `{"ts":3,"values":{"t":98}}`)
	stream.mustBe("change", `{"entity":"hot","ts":3`) // by now all are judged
	for _, id := range []string{"cold", "was-hot", "hot"} {
		s.send(204, "DELETE", "/v1/entities/"+id, typeJSONHeader, "")
	}
	stream.mustBe("edit", `{"entity":"hot"`)
}

func TestStreamOnChangeHasADeadband(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	absolute, relative, every := s.open("/v1/stream?mode=onchange&deadband=1"), s.open("/v1/stream?mode=onchange&deadband=10%25"), s.open("/v1/stream?mode=onchange")
	for i, v := range []string{"100", "100", "100.5", "101.5", `"off"`, `"off"`, "101.5", "112"} {
		s.post("a", fmt.Sprintf(`{"ts":%d,"values":{"t":%s}}`, 1000+i, v))
	}
	s.post("a", `{"ts":500,"values":{"t":900}}`) // late
	s.post("end", `{"t":1}`)
	for stream, want := range map[*events]string{absolute: `100 101.5 "off" 101.5 112`, relative: `100 "off" 101.5 112`, every: `100 100.5 101.5 "off" 101.5 112`} {
		for v := range strings.FieldsSeq(want) {
			stream.mustBe("change", `"values":{"t":`+v+`}`)
		}
		stream.mustBe("change", `"entity":"end"`)
	}
}

func TestPeriodicStreamHasTheNewestOfEachKey(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	stream := s.open("/v1/stream?mode=periodic&every=300ms")
	for i := range 200 {
		s.post("a", fmt.Sprintf(`{"ts":%d,"values":{"t":%d}}`, 1000+i, i))
	}
	s.post("a", `{"ts":900,"values":{"t":-1}}`) // late
	events, last := 0, ""
	for !strings.Contains(last, `"ts":1199,"values":{"t":199}`) {
		ev, ok := stream.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		last = ev.data
		events++
	}
	if events > 100 {
		t.Errorf("%d events for 201 readings", events)
	}
	s.post("a", `{"ts":950,"values":{"t":-2}}`) // late for what was sent in a period before
	s.post("b", `{"ts":1,"values":{"t":0}}`)
	stream.mustBe("change", `"entity":"b"`)
	s.post("a", `{"ts":2000,"values":{"t":5}}`)
	stream.mustBe("change", `"values":{"t":5}`)
	resumed := s.open("/v1/stream?cursor=" + stream.id)
	s.post("a", `{"ts":3000,"values":{"t":6}}`)
	resumed.mustBe("change", `"values":{"t":6}`)
}

func TestSlowReaderIsToldAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	query, err := (&feedRequest{Kinds: "readings"}).query(s.asAnybody())
	if err != nil {
		t.Fatal(err)
	}
	out := &slowOutlet{first: make(chan struct{}), release: make(chan struct{})}
	f := s.streams.newFeed(query, out)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.open(ctx, ""); err != nil {
		t.Fatal(err)
	}
	go f.run(ctx)
	receive(t, out.first, "the beginning of the stream")
	const n = 20_000 // more than the buffer has room for
	for i := 0; i < n; i += 1000 {
		var b strings.Builder
		for j := range 1000 {
			fmt.Fprintf(&b, `,{"ts":%d,"values":{"n":%d}}`, i+j, i+j)
		}
		s.post("a", "["+b.String()[1:]+"]")
	}
	out.done = make(chan struct{})
	out.want = n
	close(out.release)
	receive(t, out.done, "all changes")
	if out.lagged == 0 {
		t.Error("the reader was not told that it is slow")
	}
	if len(out.wrong) > 0 {
		t.Errorf("out of order: %v", out.wrong)
	}
}

func TestStreamOfEditsIsNotFilledUpByReadings(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	query, err := (&feedRequest{Kinds: "edits"}).query(s.asAnybody())
	if err != nil {
		t.Fatal(err)
	}
	out := &slowOutlet{first: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{}), edits: true, want: 2}
	f := s.streams.newFeed(query, out)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.open(ctx, ""); err != nil {
		t.Fatal(err)
	}
	go f.run(ctx)
	receive(t, out.first, "the beginning of the stream")
	s.send(201, "PATCH", "/v1/entities/a/attributes/desired", typeMergeHeader, `{"n":0}`)
	for i := range 20 { // more than the buffer has room for
		var b strings.Builder
		for j := range 1000 {
			fmt.Fprintf(&b, `,{"ts":%d,"values":{"n":1}}`, 1000*i+j)
		}
		s.post("a", "["+b.String()[1:]+"]")
	}
	s.send(200, "PATCH", "/v1/entities/a/attributes/desired", typeMergeHeader, `{"n":1}`)
	close(out.release)
	receive(t, out.done, "both edits")
	if out.lagged != 0 {
		t.Error("a reader that has missed no edit was told that it is slow")
	}
}

// slowOutlet takes nothing until it is released, and compares what it gets with 0,
// 1, 2 and so on.
type slowOutlet struct {
	first, release, done chan struct{}
	want, got, lagged    int
	wrong                []string
	opened               bool
	edits                bool // only these are wanted; otherwise only readings
}

func (o *slowOutlet) event(name, _ string, data []byte) {
	wanted := eventChange
	if o.edits {
		wanted = eventEdit
	}
	if name != wanted {
		o.lagged++
		return
	}
	if !o.edits && !strings.Contains(string(data), fmt.Sprintf(`"values":{"n":%d}`, o.got)) && len(o.wrong) < 3 {
		o.wrong = append(o.wrong, string(data))
	}
	if o.got++; o.got == o.want {
		close(o.done)
	}
}

func (o *slowOutlet) alive(string)  {}
func (o *slowOutlet) buffered() int { return 0 }
func (o *slowOutlet) flush() error {
	if !o.opened {
		o.opened = true
		close(o.first)
		<-o.release
	}
	return nil
}

// socketMessage is a message of the WebSocket.
type socketMessage struct {
	Event, Cursor string
	Data          json.RawMessage
}

// dialSocket opens a WebSocket and returns what reads its next message.
func (r *running) dialSocket(query string) (next func() socketMessage, conn *websocket.Conn) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	r.t.Cleanup(cancel)
	conn, resp, err := websocket.Dial(ctx, "ws://"+r.HTTPAddr()+"/v1/ws"+query, nil)
	if err != nil {
		r.t.Fatalf("dial %s: %v", query, err)
	}
	if resp.Body != nil {
		_ = resp.Body.Close() // a switch of protocols has no body
	}
	r.t.Cleanup(func() { _ = conn.CloseNow() }) // it may be closed already
	return func() (m socketMessage) {
		r.t.Helper()
		_, text, err := conn.Read(ctx)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			r.t.Fatalf("read: %v in %s", err, text)
		}
		return m
	}, conn
}

func TestSocketHasTheEventsOfTheStream(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	next, conn := s.dialSocket("?kinds=readings,edits&entity=a")
	hello := next()
	if hello.Event != "hello" || hello.Cursor == "" {
		t.Errorf("the first message is %+v", hello)
	}
	s.post("b", `{"n":0}`)
	s.post("a", `{"ts":1,"values":{"n":1}}`)
	first := next()
	if first.Event != eventChange || !strings.Contains(string(first.Data), `"values":{"n":1}`) || first.Cursor == "" {
		t.Errorf("the change is %+v", first)
	}
	s.send(200, "PATCH", "/v1/entities/a/attributes/desired", typeMergeHeader, `{"x":1}`)
	if m := next(); m.Event != eventEdit || !strings.Contains(string(m.Data), `"path":"/x"`) {
		t.Errorf("the edit is %+v", m)
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	s.post("a", `{"ts":2,"values":{"n":2}}`)
	next, _ = s.dialSocket("?entity=a&cursor=" + first.Cursor)
	next() // hello
	if m := next(); !strings.Contains(string(m.Data), `"values":{"n":2}`) {
		t.Errorf("after the resumption: %+v", m)
	}
	next, conn = s.dialSocket("?cursor=other-1")
	if m := next(); m.Event != eventReset {
		t.Errorf("with the cursor of another store: %+v", m)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("at the shutdown: %v", err)
	}
}

func TestSocketIsForPagesOfTheServerOnly(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	conn, resp, err := websocket.Dial(t.Context(), "ws://"+s.HTTPAddr()+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://elsewhere.example"}}})
	if err == nil {
		_ = conn.CloseNow() // the test has failed
		t.Fatal("a page of another origin was let in")
	}
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("another origin: %s", resp.Status)
	}
	s.send(426, "GET", "/v1/ws", typeJSONHeader, "")
}

func TestWrongStreamsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for query, mentions := range map[string]string{
		"mode=fast": "periodic", "deadband=1": "onchange", "every=1s": "periodic", "mode=onchange&deadband=-1": "not negative", "mode=onchange&deadband=NaN": "not negative",
		"mode=periodic&every=1ms": "100ms", "mode=periodic&every=2h": "1h", "kinds=all": "edits", "q=t+%3E": "column", "cursor=nonsense": "cursor", "entity=a%2Fb": "not allowed",
	} {
		for _, path := range []string{"/v1/stream?", "/v1/ws?"} {
			resp, body := s.do("GET", path+query, "", "Upgrade", "websocket", "Connection", "Upgrade")
			if resp.StatusCode != http.StatusBadRequest || !strings.Contains(body, mentions) {
				t.Errorf("GET %s%s: %s %s, want %q", path, query, resp.Status, body, mentions)
			}
		}
	}
}

// What a reader asks costs those nothing whose entities it may not see.
func TestAStreamAsksOnlyEntitiesOfItsGrant(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"in","attributes":{"hall":3}}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"out","attributes":{"hall":4}}`)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	guest := s.as(s.principal(`{"name":"guest","grants":[{"role":"viewer","filter":"attributes.hall = 3"}]}`))
	stream := guest.open("/v1/stream?q=" + url.QueryEscape("t = 5"))
	for i := range 3 {
		s.post("out", fmt.Sprintf(`{"ts":%d,"values":{"t":5}}`, 1000+i))
	}
	s.post("in", `{"ts":2000,"values":{"t":5}}`)
	stream.mustBe("change", `"entity":"in"`)
	asked := func(id string) (filters []string) {
		s.streams.judge.mu.Lock()
		defer s.streams.judge.mu.Unlock()
		for about := range s.streams.judge.answers {
			if about.entity == id {
				filters = append(filters, about.filter)
			}
		}
		return filters
	}
	same(t, "what an entity outside is asked", asked("out"), "[(attributes.hall = 3)]")
	same(t, "what one inside is asked", len(asked("in")), 2)

	s.send(200, "PATCH", "/v1/entities/out/attributes/attributes", typeMergeHeader, `{"hall":3}`)
	s.post("out", `{"ts":3000,"values":{"t":5}}`)
	stream.mustBe("change", `"entity":"out"`)
	s.send(200, "PATCH", "/v1/entities/out/attributes/attributes", typeMergeHeader, `{"hall":4}`)
	s.post("out", `{"ts":4000,"values":{"t":5}}`)
	s.post("in", `{"ts":5000,"values":{"t":5}}`)
	stream.mustBe("change", `"entity":"in"`)
}

// Large events are not copied for each reader, and are the same for all.
func TestLargeEventsAreWhole(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	next, conn := s.dialSocket("?kinds=readings,edits")
	conn.SetReadLimit(1 << 20)
	next() // hello
	all, some, periodic := s.open("/v1/stream?kinds=readings,edits"), s.open("/v1/stream?key=a&key=b"), s.open("/v1/stream?mode=periodic&every=100ms")
	for _, e := range []*events{all, some, periodic} {
		e.lines.Buffer(nil, 1<<20)
	}
	text := strings.Repeat("\"x\n", 15_000) // each of which is escaped
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		values := fmt.Sprintf(`{"a":%s,"b":%d,"c":%s}`, quoted, i, quoted)
		s.post("large", fmt.Sprintf(`{"ts":%d,"values":%s}`, i+1, values))
		if m := next(); m.Event != "change" || !strings.Contains(string(m.Data), values) {
			t.Fatalf("message %d: %s with %d bytes", i, m.Event, len(m.Data))
		}
		all.mustBe("change", values)
		some.mustBe("change", fmt.Sprintf(`{"a":%s,"b":%d}`, quoted, i))
		periodic.mustBe("change", values)
		s.post("small", `{"n":1}`)
		next()
		all.mustBe("change", `{"n":1}`)
		periodic.mustBe("change", `{"n":1}`)
	}
	s.send(201, "PATCH", "/v1/entities/edited/attributes/attributes", mediaMergePatch, fmt.Sprintf(`{"a":%s}`, quoted))
	if m := next(); m.Event != "edit" || !strings.Contains(string(m.Data), string(quoted)) {
		t.Fatalf("%s with %d bytes", m.Event, len(m.Data))
	}
	all.mustBe("edit", string(quoted))
}

// A stream that continues with small events does not change large ones that others have yet to send.
func TestLargeEventsAreTheSameForLaterStreams(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	open := func(query string) *events {
		e := s.open("/v1/stream" + query)
		e.lines.Buffer(nil, 1<<20)
		return e
	}
	streams := []*events{open(""), open("")}
	for _, size := range []int{5 << 10, 20 << 10, 60 << 10} {
		large := fmt.Sprintf(`{"text":"%s"}`, strings.Repeat("x", size))
		wants := []string{`{"n":1}`, large, `{"n":2}`, `{"n":3}`}
		var b strings.Builder
		for i, values := range wants {
			fmt.Fprintf(&b, `,{"ts":%d,"values":%s}`, size+i, values)
		}
		s.post("a", "["+b.String()[1:]+"]")
		check := func(e *events, first int) {
			t.Helper()
			for i := first; i < len(wants); i++ {
				ev, ok := e.next()
				head := fmt.Sprintf(`{"entity":"a","ts":%d,"values":%s,"committed_ms":`, size+i, wants[i])
				if !ok || ev.name != eventChange || !strings.HasPrefix(ev.data, head) || !json.Valid([]byte(ev.data)) {
					t.Fatalf("with %d bytes, event %d is %s %.100s", size, i, ev.name, ev.data)
				}
			}
		}
		ev, _ := streams[0].next()
		if !strings.Contains(ev.data, wants[0]) {
			t.Fatalf("the first event is %.100s", ev.data)
		}
		check(streams[0], 1)
		check(streams[1], 0)
		later := open("?cursor=" + ev.id)
		check(later, 1)
		later.cancel()
	}
}

// chunkedWriter is the response of a stream. It accepts nothing until it is released, and then
// counts the large writes between flushes.
type chunkedWriter struct {
	httptest.ResponseRecorder
	first, release, done chan struct{}
	fails                bool
	want, large, most    int
	total                int
}

func (w *chunkedWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *chunkedWriter) Write(p []byte) (int, error) {
	if len(p) >= streamWritePart { // the first part of an event
		w.large++
		w.most = max(w.most, w.large)
		w.total++
		if w.fails {
			return 0, http.ErrHandlerTimeout
		}
	}
	return len(p), nil
}

func (w *chunkedWriter) FlushError() error {
	if w.first != nil {
		close(w.first)
		w.first = nil
		<-w.release
	}
	if w.large = 0; w.total == w.want {
		close(w.done)
		w.want = -1
	}
	return nil
}

func TestStreamFlushesEachOfManyLargeEvents(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]bool{"written": false, "failing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, "")
			const n = 5
			w := &chunkedWriter{first: make(chan struct{}), release: make(chan struct{}), done: make(chan struct{}), want: n, fails: fails}
			first := w.first
			ended := s.runFeed(t.Context(), &eventWriter{ctx: t.Context(), w: w, rc: http.NewResponseController(w)})
			receive(t, first, "the beginning of the stream")
			for i := range n {
				s.post("a", fmt.Sprintf(`{"ts":%d,"values":{"text":"%s"}}`, i, strings.Repeat("x", 60<<10)))
			}
			close(w.release)
			if fails {
				receive(t, ended, "the end of the stream")
				same(t, "events after an error", s.streams.events[0].Load(), uint64(1))
				return
			}
			receive(t, w.done, "all events")
			same(t, "large events before a flush", w.most, 1)
		})
	}
}

// leavingOutlet is a reader that leaves with the first event.
type leavingOutlet struct {
	*slowOutlet
	leave context.CancelFunc
}

func (o leavingOutlet) event(string, string, []byte) { o.leave() }

func TestStreamOfALeavingReaderSendsNoMore(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := leavingOutlet{&slowOutlet{first: make(chan struct{}), release: make(chan struct{})}, cancel}
	ended := s.runFeed(ctx, out)
	receive(t, out.first, "the beginning of the stream")
	s.post("a", `[{"ts":1,"values":{"n":1}},{"ts":2,"values":{"n":2}},{"ts":3,"values":{"n":3}}]`)
	close(out.release)
	receive(t, ended, "the end of the stream")
	same(t, "events", s.streams.events[0].Load(), uint64(1))
}

// runFeed sends all readings to an outlet. It returns what is closed when the stream has ended.
func (r *running) runFeed(ctx context.Context, out outlet) <-chan struct{} {
	r.t.Helper()
	query, err := (&feedRequest{Kinds: "readings"}).query(r.asAnybody())
	if err != nil {
		r.t.Fatal(err)
	}
	f := r.streams.newFeed(query, out)
	ctx, cancel := context.WithTimeout(ctx, patience)
	if err := f.open(ctx, ""); err != nil {
		cancel()
		r.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		f.run(ctx)
	}()
	return ended
}
