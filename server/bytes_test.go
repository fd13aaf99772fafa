package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/mqtt"
)

// A page of a thousand of them took 1.5 GB.
func TestAPageOfLargeEntitiesEndsByItsBytes(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const all, limit, size = 12, 50_000, 20_000
	s.find.bytes = limit
	for i := range all {
		document := fmt.Appendf(nil, `{"text":%q}`, strings.Repeat("x", size))
		if _, err := s.runtime.Edit(t.Context(), fmt.Sprintf("large-%02d", i), entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: document}}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, query := range []string{"", "&q=" + "id%20like%20%22large%25%22"} {
		var ids []string
		pages := 0
		for cursor := ""; ; pages++ {
			resp, body := s.do("GET", "/v1/entities?limit=1000&fields=attributes"+query+"&cursor="+cursor, "")
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s %s", resp.Status, body)
			}
			if len(body) > limit+2*size {
				t.Errorf("a page of %d bytes", len(body))
			}
			var page struct {
				Entities []struct{ ID string }
				Next     string
			}
			if err := json.Unmarshal([]byte(body), &page); err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entities {
				ids = append(ids, e.ID)
			}
			if cursor = page.Next; cursor == "" {
				break
			}
		}
		if pages != 3 || len(ids) != all || ids[0] != "large-00" || ids[all-1] != "large-11" {
			t.Errorf("with %q: %d further pages, entities %v", query, pages, ids)
		}
	}
}

// begin sends the text of a request, or a part of it, on a connection of its own, whose answer stays
// with the server but for a few kilobytes until it is read.
func (r *running) begin(t *testing.T, request string) net.Conn {
	t.Helper()
	nc, err := new(net.Dialer).DialContext(t.Context(), "tcp", r.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	if err := nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprint(nc, request); err != nil {
		t.Fatal(err)
	}
	return nc
}

// Many requests whose bodies do not come took a megabyte each, of 4 096 connections.
func TestBodiesThatDoNotEndAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const size, room = 1_000_000, 8_000_000
	s.bodies = intake.New(room)
	var conns []net.Conn
	for range 20 {
		conns = append(conns, s.begin(t, fmt.Sprintf("POST /v1/entities/a/telemetry HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n[%s", size, strings.Repeat(" ", size/10))))
	}
	eventually(t, "half of the room to be used", func() bool { return s.bodies.Used() == room/2 })
	s.post("b", `{"t":1}`) // is small
	if used := s.bodies.Used(); used != room/2 {
		t.Errorf("%d bytes are used", used)
	}
	for _, nc := range conns {
		_ = nc.Close()
	}
	s.post("b", fmt.Sprintf(`{"t":%q}`, strings.Repeat("x", 60_000)))
	eventually(t, "the room to be free", func() bool { return s.bodies.Used() == 0 })
}

// Pages that nobody reads took tens of megabytes each.
func TestLargeAnswersAreBoundedTogether(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	const entities, room = 8, 20 << 20 // as many times 0.9 MB are more than the kernel takes for a connection
	s.answers, s.making = intake.New(room), intake.New(8)
	document := make(map[string]string)
	for i := range 15 {
		document[fmt.Sprint("k", i)] = strings.Repeat("x", 60_000)
	}
	body, err := json.Marshal(document)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entities {
		if _, err := s.runtime.Edit(t.Context(), fmt.Sprint("large-", i), entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: body}}}); err != nil {
			t.Fatal(err)
		}
	}
	var conns []net.Conn
	for range 20 {
		conns = append(conns, s.begin(t, "GET /v1/entities?limit=1000&fields=attributes HTTP/1.1\r\nHost: localhost\r\n\r\n"))
	}
	eventually(t, "one answer to be written, and four to wait", func() bool { return s.answers.Used() > room/4 && s.making.Used() == 4 })
	if used := s.answers.Used(); used > room/2 {
		t.Errorf("%d bytes are being written, want at most %d", used, room/2)
	}
	s.document("/v1/entities/large-1") // is not large enough to wait
	for _, nc := range conns {
		_ = nc.Close()
	}
	eventually(t, "all of them to end", func() bool { return s.answers.Used() == 0 && s.making.Used() == 0 })
	s.document("/v1/entities?limit=1000&fields=attributes")
}

// Four such sessions and 1 100 messages of 1 MB made 7 GB of memory. In the long form
// this is what happens here, with the limits that a server has; in the short form both
// are smaller.
func TestSessionsThatAreAwayDoNotFillTheMemory(t *testing.T) {
	t.Parallel()
	messages := soaktest.Rounds(t, 20, 1100)
	limits := mqtt.Limits{SessionBytes: 2 << 20, QueueBytes: 5 << 20}
	long := messages > 100
	if long {
		limits = mqtt.Limits{SessionBytes: mqtt.DefaultSessionBytes, QueueBytes: mqtt.DefaultQueueBytes}
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(512 << 20))
	}
	s := startWith(t, Config{MQTTLimits: limits})
	for i := range 4 {
		c := s.dial311(fmt.Sprint("away-", i), func(o *mqtt311.ClientOptions) { o.SetCleanSession(false) })
		await(t, c.Subscribe("e/#", 1, nil))
		c.Disconnect(0)
	}
	c := s.dial311("sensor")
	text := strings.Repeat("x", 60_000)
	payload := fmt.Sprintf(`{"a":%q,"b":%q,"c":%q,"d":%q,"e":%q,"f":%q,"g":%q,"h":%q}`, text, text, text, text, text, text, text, text)
	for range messages {
		await(t, c.Publish("e/a/telemetry", 1, false, payload))
	}
	stats := s.broker.Stats()
	if stats.Queued > limits.QueueBytes || stats.Queued < limits.SessionBytes || stats.ForwardDropped == 0 {
		t.Errorf("%d bytes wait, %d messages were dropped", stats.Queued, stats.ForwardDropped)
	}
	if !long {
		return
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > 400<<20 {
		t.Errorf("%d MiB on the heap", m.HeapAlloc>>20)
	}
}

// A request of unknown length counted as one of a megabyte as long as it lasted, even if it took no
// body or had been read.
func TestAWaitingRequestNeedsNoRoomForItsBody(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("a", `{"t":1}`)
	stream := s.begin(t, "GET /v1/stream HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	same(t, "bytes that a stream uses", s.bodies.Used(), int64(0))

	command := s.begin(t, "POST /v1/entities/a/commands?wait=25s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
	eventually(t, "the command to use room while it is received", func() bool { return s.bodies.Used() > 0 })
	if _, err := fmt.Fprintf(command, "10\r\n%s\r\n0\r\n\r\n", `"name": "blink"}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the command to use no room", func() bool { return s.bodies.Used() == 0 })
	var c commandJSON
	s.get("/v1/entities/a/next-command?wait=20s", &c)
	s.send(http.StatusNoContent, "POST", "/v1/entities/a/answers", mediaJSON, fmt.Sprintf(`{"id":%q,"result":1}`, c.ID))
	line, err := bufio.NewReader(command).ReadString('\n')
	if err != nil || line != "HTTP/1.1 200 OK\r\n" { // 202 if it had not waited for its end
		t.Errorf("%q, %v", line, err)
	}
}

// deadlineWriter is a ResponseWriter whose connection takes a read deadline, or fails.
type deadlineWriter struct {
	http.ResponseWriter
	err error
}

func (w deadlineWriter) SetReadDeadline(time.Time) error { return w.err }

func TestABodyThatWaitedInVainKeepsNoRoom(t *testing.T) {
	t.Parallel()
	const size, room = 1 << 20, 2 << 20
	closed := errors.New("the connection is closed")
	for _, test := range []struct {
		name                   string
		deadline, still, wants error
	}{
		{"admitted", nil, nil, nil},
		{"closed", closed, nil, closed},
		{"revoked", nil, access.ErrCredentials, access.ErrCredentials},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Server{bodies: intake.New(room), book: access.Everybody()}
				before := s.bodies.Enter("another", size)
				var got error
				go func() {
					r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, &caller{who: &access.Principal{}, still: func() error { return test.still }}), "POST", "/", nil)
					r.ContentLength = size
					leave, err := s.makeRoom(deadlineWriter{httptest.NewRecorder(), test.deadline}, r, &operation{limit: size, request: &decoder{body: []int{0}}})
					if got = err; err == nil {
						leave()
					}
				}()
				synctest.Wait() // until it waits for room
				before.Leave()
				synctest.Wait()
				if !errors.Is(got, test.wants) {
					t.Errorf("%v, want %v", got, test.wants)
				}
				same(t, "bytes that are used", s.bodies.Used(), int64(0))
			})
		})
	}
}
