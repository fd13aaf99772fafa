package server

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// prepare makes a server that set can still change, and then runs it.
func prepare(t *testing.T, set func(*Server)) *running {
	t.Helper()
	log, dir := &logBuffer{}, t.TempDir()
	s, err := New(t.Context(), Config{DataDir: dir, Store: pgtest.Address(t, dir), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	set(s)
	return run(t, s, log)
}

// raw writes bytes to a new connection.
func (r *running) raw(text string) *net.TCPConn {
	r.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.HTTPAddr())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = conn.Close() }) // the test may have closed it
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		r.t.Fatal(err)
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		r.t.Fatalf("the connection is a %T", conn)
	}
	return tcp
}

// readAnswer reads the next answer from a connection.
func readAnswer(t *testing.T, conn net.Conn) (status int, body string) {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestNullIsNoObject(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"a","attributes":{"n":1}}`)
	for _, path := range []string{"POST /v1/entities", "PUT /v1/entities/a", "PATCH /v1/entities/a", "PUT /v1/types/T", "POST /v1/search", "POST /v1/bulk", "PUT /v1/queries/q", "PUT /v1/retention/r", "POST /v1/history"} {
		method, path, _ := strings.Cut(path, " ")
		media := typeJSONHeader
		if method == "PATCH" {
			media = typeMergeHeader
		}
		if _, body := s.send(400, method, path, media, " null\n", "If-Match", "*"); !strings.Contains(body, "null") {
			t.Errorf("%s %s: %s", method, path, body)
		}
	}
	if text := s.document("/v1/entities/a/attributes/attributes"); strings.TrimSpace(text) != `{"n":1}` {
		t.Errorf("the entity is %s", text)
	}
}

// A patch of many operations is worked off in a time that grows with it, and not with
// its square.
func TestCostOfAPatchGrowsWithItsOperations(t *testing.T) {
	cost := func(n int) float64 {
		body := []byte("[" + strings.TrimSuffix(strings.Repeat(`{"op":"add","path":"/desired/x","value":1},`, n), ",") + "]")
		return testing.AllocsPerRun(1, func() {
			if list, err := splitPatch(body); err != nil || len(list) != 1 {
				t.Errorf("%d patches, %v", len(list), err)
			}
		})
	}
	if few, many := cost(100), cost(800); many > 12*few {
		t.Errorf("%v allocations for 100 operations, %v for 800", few, many)
	}
}

func TestBodyThatDoesNotComeIsTheClientsAffair(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.http.ReadTimeout = 100 * time.Millisecond })
	const head = "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\n"
	for name, tt := range map[string]struct {
		rest   string
		half   bool // the client closes its side
		status int
	}{
		"ends early":      {"Content-Length: 100\r\n\r\n{\"a\":", true, 400},
		"comes slowly":    {"Content-Length: 100\r\n\r\n{\"a\":", false, 408},
		"is wrong inside": {"Transfer-Encoding: chunked\r\n\r\nxyz\r\n", false, 400},
	} {
		for _, path := range []string{"/v1/entities/a/telemetry", "/v1/search", "/v1/import?what=history&format=csv"} {
			if tt.status == 408 && strings.Contains(path, "import") {
				continue // which has more patience than this test
			}
			conn := s.raw(fmt.Sprintf(head, path, "application/json") + tt.rest)
			if tt.half {
				if err := conn.CloseWrite(); err != nil {
					t.Fatal(err)
				}
			}
			if status, body := readAnswer(t, conn); status != tt.status {
				t.Errorf("a body that %s, to %s: %d %s", name, path, status, body)
			}
		}
	}
	if text := s.log.String(); strings.Contains(text, "level=ERROR") {
		t.Errorf("logged: %s", text)
	}
}

func TestHeadOfAStreamEnds(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	conn := s.raw("HEAD /v1/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
	in := bufio.NewReader(conn)
	head := &http.Request{Method: http.MethodHead}
	resp, err := http.ReadResponse(in, head)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != mediaEvents {
		t.Fatalf("%+v, %v", resp, err)
	}
	_ = resp.Body.Close() // there is none
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	resp, err = http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the next request of the connection: %+v, %v", resp, err)
	}
	_ = resp.Body.Close() // its status is all
	s.send(400, "HEAD", "/v1/stream?mode=sometimes", typeJSONHeader, "")
}

func TestImportOfSpoiledCSV(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	imported := func(status int, body string) (done importedJSON, text string) {
		t.Helper()
		_, text = s.send(status, "POST", "/v1/import?what=history", mediaCSV, body)
		if err := json.Unmarshal([]byte(text), &done); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return done, text
	}
	const head = "entity,ts,key,value\n"
	// A quote that nobody closes must not gather the rest in memory.
	if _, text := imported(413, head+"a,1,t,1\na,2,t,\"oops\n"+strings.Repeat("a,3,t,3\n", maxImportLine/4)); !strings.Contains(text, "record 2") {
		t.Errorf("a quote: %s", text)
	}
	same(t, "what came before it", s.latest("a"), "map[t:1]")
	done, text := imported(200, byteOrderMark+head+"b,1,t,\"1,\"\"u\"\":2\"\nb,2,t,\nb,3,t,warm\nb,4,t,\"\"\"warm\"\"\"\nb,5,t\n")
	if done.Accepted != 1 || done.Failed != 4 || !strings.Contains(text, "must be JSON") {
		t.Errorf("wrong values: %s", text)
	}
	same(t, "what was right", s.latest("b"), `map[t:"warm"]`)
	if _, text := s.send(200, "POST", "/v1/import?what=history", mediaNDJSON, byteOrderMark+`{"entity":"c","ts":1,"values":{"t":1}}`); !strings.Contains(text, `"accepted":1,"failed":0`) {
		t.Errorf("a byte order mark: %s", text)
	}
}

// An entity that is deleted while an export goes on is left out, and the export is not
// broken off.
func TestExportGoesOnWithoutWhatIsDeleted(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, id := range []string{"a", "b", "c"} {
		s.post(id, `{"ts":1,"values":{"t":1}}`)
	}
	f, err := filter.Parse("")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	x := &exporter{transferAPI: &transferAPI{runtime: s.runtime, finder: s.finder}, ctx: t.Context(), in: &exportRequest{}, from: entity.MinTS, to: entity.MaxTS, out: bufio.NewWriter(&out)}
	err = x.each(search.Query{Filter: f}, func(v entity.View) error {
		if v.ID() == "b" {
			s.send(204, "DELETE", "/v1/entities/b", typeJSONHeader, "")
		}
		return x.history(v)
	})
	if err := errors.Join(err, x.out.Flush()); err != nil {
		t.Fatal(err)
	}
	same(t, "exported", out.String(), "{\"entity\":\"a\",\"ts\":1,\"values\":{\"t\":1}}\n{\"entity\":\"c\",\"ts\":1,\"values\":{\"t\":1}}\n")
}

func TestPatchesOfOneVersionHaveOneWinner(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	resp, _ := s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"a"}`)
	for round := range 5 {
		var wg sync.WaitGroup
		var mu sync.Mutex
		won := map[int]string{}
		tag, statuses := resp.Header.Get("ETag"), map[int]int{}
		for i := range 16 {
			wg.Go(func() {
				resp, _ := s.do("PATCH", "/v1/entities/a/attributes/attributes", fmt.Sprintf(`{"n":%d}`, round*100+i), "Content-Type", mediaMergePatch, "If-Match", tag)
				mu.Lock()
				defer mu.Unlock()
				statuses[resp.StatusCode]++
				if resp.StatusCode == http.StatusOK {
					won[round*100+i] = resp.Header.Get("ETag")
				}
			})
		}
		wg.Wait()
		if statuses[200] != 1 || statuses[412] != 15 {
			t.Fatalf("statuses %v", statuses)
		}
		for n, etag := range won {
			same(t, "the winner's", strings.TrimSpace(s.document("/v1/entities/a/attributes/attributes")), fmt.Sprintf(`{"n":%d}`, n))
			resp.Header.Set("ETag", etag)
		}
	}
}

func TestEdgeToItselfIsListedOnce(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"a"}`)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"b"}`)
	for _, edge := range []string{"a/relations/x/a", "a/relations/x/b", "b/relations/x/a"} {
		s.send(200, "PUT", "/v1/entities/"+edge, typeJSONHeader, `{}`)
	}
	var seen []string
	for next := ""; len(seen) < 10; {
		var page relationPageJSON
		s.get("/v1/entities/a/relations?limit=1&cursor="+next, &page)
		for _, r := range page.Relations {
			seen = append(seen, r.From+r.To)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	same(t, "edges", seen, "[aa ab ba]")
}

// A search hands out what it has when its time is up, and the next page goes on there,
// however short the time.
func TestSearchWithoutTimeGoesOn(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.find.timeout = -1 })
	for i := range 5 {
		s.post(fmt.Sprintf("e%d", i), `{"t":1}`)
	}
	var found []string
	pages := 0
	for next := ""; pages < 20; {
		var page struct {
			Entities []struct{ ID string }
			Next     string
		}
		s.get("/v1/entities?q=t%3D1&cursor="+next, &page)
		pages++
		for _, e := range page.Entities {
			found = append(found, e.ID)
		}
		if next = page.Next; next == "" {
			break
		}
	}
	same(t, "found", found, "[e0 e1 e2 e3 e4]")
}

func TestShutdownDoesNotWaitForSlowTransfers(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `{"t":1}`)
	const line = `{"entity":"b","ts":1,"values":{"t":1}}` + "\n"
	conn := s.raw(fmt.Sprintf("POST /v1/import?what=history HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n%s", line))
	eventually(t, "the line to be taken in", func() bool { return s.runtime.Stats().Registered == 2 })
	if err := s.stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	if status, body := readAnswer(t, conn); status != http.StatusServiceUnavailable {
		t.Errorf("the import is answered with %d %s", status, body)
	}
}

// Clients open connections ahead of time. A shutdown does not wait for them to be used.
func TestShutdownDoesNotWaitForUnusedConnections(t *testing.T) {
	t.Parallel()
	opened := make(chan struct{}, 10)
	s := prepare(t, func(s *Server) {
		s.cfg.DrainTimeout = 4 * time.Second // net/http would wait for five
		s.http.ConnState = func(conn net.Conn, state http.ConnState) {
			s.conns.note(conn, state)
			opened <- struct{}{}
		}
	})
	conn := s.raw("")
	receive(t, opened, "the connection")
	if err := s.stopped(t); err != nil {
		t.Errorf("the shutdown: %v", err)
	}
	if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("the connection has %d bytes, %v", n, err)
	}
}

// Who never sends the rest of a request takes half of the time that a shutdown has, and
// the store has the other half.
func TestShutdownLeavesTimeForTheStore(t *testing.T) {
	t.Parallel()
	s := prepare(t, func(s *Server) { s.cfg.DrainTimeout = time.Second })
	conn := s.raw("POST /v1/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n")
	line := make([]byte, len("HTTP/1.1 100"))
	if _, err := io.ReadFull(conn, line); err != nil || string(line) != "HTTP/1.1 100" { // the handler reads now
		t.Fatalf("the request is answered %q, %v", line, err)
	}
	err := s.stopped(t)
	if err == nil || !strings.Contains(err.Error(), "finish HTTP requests") || strings.Count(err.Error(), "\n") != 0 {
		t.Errorf("the shutdown: %v", err)
	}
}

// stopped stops the server, which may fail.
func (r *running) stopped(t *testing.T) error {
	t.Helper()
	err := r.stop()
	r.stop = func() error { return nil }
	return err
}

func TestRulesAgreeWhoeverPutsThem(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	var wg sync.WaitGroup
	statuses := make(chan int, 20)
	for i := range 20 {
		wg.Go(func() {
			resp, _ := s.do("PUT", fmt.Sprintf("/v1/retention/r%d", i), `{"type":"T","key":"k","raw":"7d"}`, "Content-Type", mediaJSON)
			statuses <- resp.StatusCode
		})
	}
	wg.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	if count[201] != 1 || count[409] != 19 {
		t.Errorf("statuses %v", count)
	}
}

// A reader of a WebSocket has nothing to say. One that does is put out, and nobody else
// notices.
func TestSocketThatTalksIsPutOut(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	next, _ := s.dialSocket("")
	next() // hello
	for _, say := range []func(*websocket.Conn) error{
		func(c *websocket.Conn) error { return c.Write(t.Context(), websocket.MessageText, []byte("hello")) },
		func(c *websocket.Conn) error {
			return c.Write(t.Context(), websocket.MessageBinary, make([]byte, 1<<20))
		},
	} {
		_, conn := s.dialSocket("")
		if err := say(conn); err != nil {
			continue // it was put out before the end
		}
		for {
			if _, _, err := conn.Read(t.Context()); err != nil {
				if t.Context().Err() != nil {
					t.Error("it is still there")
				}
				break
			}
		}
	}
	s.post("a", `{"ts":1,"values":{"n":1}}`)
	if m := next(); m.Event != eventChange {
		t.Errorf("the quiet one gets %+v", m)
	}
	eventually(t, "the end of all streams but one", func() bool { return s.streams.places.len() == 1 })
}

// What a bulk update has said that it changed is changed, also when the server was
// stopped in the middle of it.
func TestBulkUpdateEndsWithTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := start(t, dir)
	const n = 300
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, `{"id":"e%03d"}`+"\n", i)
	}
	s.send(200, "POST", "/v1/import?what=entities", mediaNDJSON, lines.String())
	s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"","patch":{"desired":{"on":true}}}`)
	job := s.bulk.known()[0]
	eventually(t, "the first change", func() bool { return job.state().Changed > 0 })
	if err := s.stopped(t); err != nil {
		t.Fatal(err)
	}
	status := job.state()
	if status.State == bulkRunning || status.Failed != 0 || status.Ended == 0 {
		t.Errorf("the job is %+v", status)
	}
	s = start(t, dir)
	if changed := len(s.found("desired.on = true", "")); int64(changed) < status.Changed || status.State == bulkDone && changed != n {
		t.Errorf("%d are changed, the job says %+v", changed, status)
	}
}
