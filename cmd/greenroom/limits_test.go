package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// limited is a server whose limits are driven.
type limited struct {
	*process
	t      *testing.T
	long   bool
	socket string // of the console
	token  string // of an admin, once clients have to log in
}

// TestTheServerLivesAtItsLimits drives limits of docs/limits.md to their ends, one after the other on
// one server with little memory: what is beyond a limit is refused as documented, the server answers
// after each, and its memory stays within a bound. The long form drives those that take hundreds of
// megabytes, too, and has more memory for it.
func TestTheServerLivesAtItsLimits(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: the memory of a process is read as on Linux")
	}
	if pgtest.OnPostgres() {
		t.Skip("NOT TESTED: the limits are those of the server, not of its store")
	}
	t.Parallel()
	const mebibyte = 1 << 20
	long := soaktest.Rounds(t, 1, 2) > 1
	memory := int64(256 * mebibyte)
	if long {
		memory *= 3
	}
	binary := build(t)
	for _, drive := range []struct {
		what string
		do   func(*limited)
		long bool // it takes long, or much memory
	}{
		{"payloads and patches", func(s *limited) { s.payloads(); s.attributes(); s.patches() }, false},
		{"types, commands and scripts", func(s *limited) { s.types(); s.commands(); s.scripts() }, false},
		{"pages", func(s *limited) { s.history(); s.page() }, false},
		{"messages for sessions", (*limited).queue, false},
		{"retained messages", (*limited).retained, false},
		{"subscriptions and sessions", func(s *limited) { s.subscriptions(); s.sessions() }, false},
		{"wills and filters", func(s *limited) { s.wills(); s.filters() }, false},
		{"messages on their way in", func(s *limited) { s.received(); s.writes() }, false},
		{"streams", (*limited).streams, false},
		{"templates and mappings", func(s *limited) { s.templates(); s.mappings() }, false},
		{"slow readers and silent clients", (*limited).readers, false},
		{"refusals, handshakes and consoles", func(s *limited) { s.refusals(); s.connects(); s.exchanges(); s.consoles() }, false},
		{"alarms", (*limited).alarms, true},
		{"search", (*limited).indexes, true},
		{"principals", (*limited).principals, true},
		{"descriptions, births and names", func(s *limited) { s.descriptions(); s.births(); s.names() }, false},
	} {
		if drive.long && !long {
			continue
		}
		t.Run(drive.what, func(t *testing.T) {
			dir, err := os.MkdirTemp("", "limits") // whose name is short enough for a socket
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.RemoveAll(dir) })
			socket := filepath.Join(dir, "console")
			p := startProcess(t, binary, t.TempDir(), "GOMEMLIMIT="+strconv.FormatInt(memory, 10), "GREENROOM_CONSOLE="+socket)
			s := &limited{process: p, t: t, long: long, socket: socket}
			drive.do(s)
			s.must(http.StatusNoContent, "POST", "/v1/entities/alive/telemetry", "application/json", `{"t":1}`)
			s.must(http.StatusOK, "GET", "/v1/entities/alive", "", "")
			peak := s.peak()
			t.Logf("%d MiB at most, %d s of the processors", peak/mebibyte, s.metric("process_cpu_seconds_total"))
			if peak > 2*memory {
				t.Errorf("%d MiB, want at most %d\n%s", peak/mebibyte, 2*memory/mebibyte, p.errors)
			}
			p.kill(t)
		})
	}
}

// peak returns the most memory that the process has had in RAM.
func (s *limited) peak() (bytes int64) {
	s.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.errors)
	}
	_, rest, _ := strings.Cut(string(text), "VmHWM:")
	n, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n << 10
}

// try sends a request and returns the status and the body.
func (s *limited) try(method, path, media, body string) (status int, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.http+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Errorf("%s %s: %v\n%s", method, path, err, s.errors)
		return 0, ""
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Errorf("%s %s: %v", method, path, err)
	}
	return resp.StatusCode, string(raw)
}

// must sends a request that has an answer of this status.
func (s *limited) must(status int, method, path, media, body string) (text string) {
	s.t.Helper()
	got, text := s.try(method, path, media, body)
	if got != status {
		s.t.Errorf("%s %s: %d %.300s, want %d", method, path, got, text, status)
	}
	return text
}

// refused sends a request that is refused with this status and with a text that has a part.
func (s *limited) refused(status int, part, method, path, media, body string) {
	s.t.Helper()
	if text := s.must(status, method, path, media, body); !strings.Contains(text, part) {
		s.t.Errorf("%s %s: %.300s, want %q", method, path, text, part)
	}
}

// metric returns a figure of /metrics.
func (s *limited) metric(name string) int64 {
	s.t.Helper()
	_, rest, _ := strings.Cut(s.must(http.StatusOK, "GET", "/metrics", "", ""), "\n"+name+" ")
	text, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		s.t.Errorf("metric %s: %v", name, err)
	}
	return int64(n)
}

const (
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
)

// texts returns a JSON object of so many texts of 60 kB.
func texts(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"k%d":%q`, i, strings.Repeat(string(rune('a'+i%26)), 60_000))
	}
	return "{" + b.String()[1:] + "}"
}

func (s *limited) payloads() {
	const path = "/v1/entities/payload/telemetry"
	s.refused(413, "1048576", "POST", path, "application/json", `{"t":"`+strings.Repeat("x", 1<<20)+`"}`)
	s.refused(400, "65536", "POST", path, "application/json", `{"t":"`+strings.Repeat("x", 1<<16+1)+`"}`)
	s.refused(400, "10000", "POST", path, "application/json", "["+strings.Repeat(`{"ts":1,"values":{"t":1}},`, 10_000)+`{"ts":1,"values":{"t":1}}]`)
	s.refused(400, "32", "POST", path, "application/json", `{"t":`+strings.Repeat("[", 40)+strings.Repeat("]", 40)+"}")
	for message := range 5 {
		var b strings.Builder
		for i := range 1024 {
			fmt.Fprintf(&b, `,"k%d_%d":1`, message, i)
		}
		if body := "{" + b.String()[1:] + "}"; message < 4 {
			s.must(204, "POST", path, "application/json", body)
		} else {
			s.refused(422, "4096", "POST", path, "application/json", body)
		}
	}
}

func (s *limited) attributes() {
	const path = "/v1/entities/full/attributes/attributes"
	s.must(201, "PATCH", path, mergePatch, fmt.Sprintf(`{"part":%s}`, texts(15)))
	for i := range 3 {
		s.must(200, "PATCH", path, mergePatch, fmt.Sprintf(`{"part%d":%s}`, i, texts(15)))
	}
	s.refused(400, "at most 4194304 are allowed", "PATCH", path, mergePatch, fmt.Sprintf(`{"last":%s}`, texts(15)))
}

func (s *limited) patches() {
	const path = "/v1/entities/patched/attributes/attributes"
	s.must(201, "PATCH", path, mergePatch, fmt.Sprintf(`{"text":%q,"list":[%s0]}`, strings.Repeat("x", 60_000), strings.Repeat("0,", 9999)))
	var copies, replaces strings.Builder
	for i := range 15_000 {
		fmt.Fprintf(&copies, `,{"op":"copy","from":"/text","path":"/t%d"}`, i)
		fmt.Fprintf(&replaces, `,{"op":"replace","path":"/list/%d","value":1}`, i%10_000)
	}
	s.refused(400, "too many steps", "PATCH", path, jsonPatch, "["+copies.String()[1:]+"]")
	s.must(200, "PATCH", path, jsonPatch, "["+replaces.String()[1:]+"]") // of one array, which is quick
	var members strings.Builder
	for i := range 90_000 {
		fmt.Fprintf(&members, `,"m%d":1`, i)
	}
	s.refused(400, "more than 8192 attributes", "PATCH", path, mergePatch, "{"+members.String()[1:]+"}")
}

func (s *limited) types() {
	s.must(201, "PUT", "/v1/types/L0", "application/json", `{"properties":{"n":{"type":"integer"}}}`)
	for level := 1; ; level++ {
		body := fmt.Sprintf(`{"components":{"a":"L%d","b":"L%d"}}`, level-1, level-1)
		status, text := s.try("PUT", fmt.Sprintf("/v1/types/L%d", level), "application/json", body)
		if status == http.StatusCreated && level < 20 {
			continue
		}
		if status != 422 && status != 400 && status != 413 || !strings.Contains(text, "10000") {
			s.t.Errorf("level %d: %d %s", level, status, text)
		}
		return
	}
}

func (s *limited) commands() {
	const path = "/v1/entities/commanded/commands"
	s.must(204, "POST", "/v1/entities/commanded/telemetry", "application/json", `{"t":1}`)
	request := fmt.Sprintf(`{"name":"go","request":%q}`, strings.Repeat("x", 5000))
	n := 0
	for ; n <= 1000; n++ {
		if status, text := s.try("POST", path, "application/json", request); status != 201 && status != 202 {
			if status != 422 && status != 429 && status != 409 || !strings.Contains(text, "1000") && !strings.Contains(text, "4194304") {
				s.t.Errorf("command %d: %d %s", n, status, text)
			}
			break
		}
	}
	if n < 800 || n > 1000 { // of 5 kB in 4 MiB
		s.t.Errorf("%d commands of 5 kB are taken", n)
	}
}

// rawClient is a client of MQTT 5 that is quick to make.
type rawClient struct {
	net.Conn
	in *bufio.Reader
}

// frame returns a packet of MQTT.
func frame(kind byte, body ...string) []byte {
	whole := strings.Join(body, "")
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(whole))), whole...)
}

// field returns a text with its length.
func field(text string) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(len(text)))) + text //nolint:gosec // short
}

// number returns a packet id.
func number(id int) string {
	return string(binary.BigEndian.AppendUint16(nil, uint16(id))) //nolint:gosec // small
}

// connect connects a client with flags, and with a session that outlives the connection. will is
// empty or the fields of a will.
func (s *limited) connect(id string, flags byte, will string) (c *rawClient, code byte) {
	s.t.Helper()
	nc, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.mqtt)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.errors)
	}
	s.t.Cleanup(func() { _ = nc.Close() })
	c = &rawClient{nc, bufio.NewReader(nc)}
	c.write(s.t, frame(0x10, field("MQTT"), "\x05", string([]byte{flags}), number(0), "\x05\x11\xff\xff\xff\xff", field(id), will))
	kind, body := c.read(s.t)
	if kind != 0x20 {
		s.t.Fatalf("the answer to CONNECT: %x %q", kind, body)
	}
	return c, body[1]
}

func (c *rawClient) write(t *testing.T, packet []byte) {
	t.Helper()
	if _, err := c.Write(packet); err != nil {
		t.Fatal(err)
	}
}

func (c *rawClient) read(t *testing.T) (kind byte, body string) {
	t.Helper()
	kind, err := c.in.ReadByte()
	var n uint64
	if err == nil {
		n, err = binary.ReadUvarint(c.in)
	}
	raw := make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(c.in, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return kind, string(raw)
}

// publish publishes with QoS 1 and returns the reason code of the answer. flags are 1 to retain.
func (c *rawClient) publish(t *testing.T, topic, payload string, flags byte) (code byte) {
	t.Helper()
	c.write(t, frame(0x32|flags, field(topic), number(1), "\x00", payload))
	kind, body := c.read(t)
	if kind != 0x40 {
		t.Fatalf("the answer to PUBLISH: %x %q", kind, body)
	}
	if len(body) > 2 {
		code = body[2]
	}
	return code
}

// leave ends the connection and keeps the session.
func (c *rawClient) leave(t *testing.T) {
	t.Helper()
	c.write(t, frame(0xe0))
	_, _ = io.Copy(io.Discard, c.in) // until the server has closed it
	_ = c.Close()
}

func (s *limited) queue() {
	sessions, messages := 2, 30
	if s.long {
		sessions, messages = 20, 1100 // those are more than all sessions together may have
	}
	for i := range sessions {
		c, _ := s.connect(fmt.Sprint("away-", i), 0, "")
		c.write(s.t, frame(0x82, number(1), "\x00", field("e/queue/#"), "\x01"))
		c.read(s.t)
		c.leave(s.t)
	}
	c, _ := s.connect("sensor", 2, "")
	payload := texts(9)
	for range messages {
		if code := c.publish(s.t, "e/queue/telemetry", payload, 0); code != 0 {
			s.t.Errorf("code %x", code)
		}
	}
	queued, lost := s.metric("greenroom_mqtt_queued_bytes"), s.metric("greenroom_mqtt_forward_dropped_total")
	if most := min(int64(sessions)*16<<20, 256<<20); queued > most || queued < most/2 || lost == 0 {
		s.t.Errorf("%d bytes wait, want at most %d, and %d messages are lost", queued, most, lost)
	}
	if text := s.must(200, "GET", "/v1/refusals", "", ""); !strings.Contains(text, "not_forwarded") || !strings.Contains(text, "away-0") {
		s.t.Errorf("the refusals: %s", text)
	}
	for i := range sessions { // which ends them
		c, _ := s.connect(fmt.Sprint("away-", i), 2, "")
		c.write(s.t, frame(0xe0, "\x00\x05\x11\x00\x00\x00\x00"))
	}
}

func (s *limited) history() {
	for i := range 40 { // 2.4 MB of texts each
		s.must(204, "POST", "/v1/entities/long/telemetry", "application/json", fmt.Sprintf(`{"ts":%d,"values":{"t":%q}}`, 1000+i, strings.Repeat("x", 60_000)))
	}
	text := s.must(200, "GET", "/v1/entities/long/telemetry/t?limit=100000", "", "")
	if len(text) > 17<<20 {
		s.t.Errorf("a page of %d bytes", len(text))
	}
}

func (s *limited) page() {
	entities := 12
	if s.long {
		entities = 300
	}
	var all sync.WaitGroup
	for i := range entities {
		all.Go(func() {
			for part := range 4 {
				s.try("PATCH", fmt.Sprintf("/v1/entities/large-%d/attributes/attributes", i), mergePatch, fmt.Sprintf(`{"part%d":%s}`, part, texts(15)))
			}
		})
		if i%4 == 3 {
			all.Wait()
		}
	}
	all.Wait()
	filter := url.QueryEscape(`id like "large-%"`)
	seen := 0
	for cursor := ""; ; {
		var page struct {
			Entities []struct{ ID string }
			Next     string
		}
		path := "/v1/entities?limit=1000&fields=attributes&q=" + filter + "&cursor=" + url.QueryEscape(cursor)
		getJSON(s.t, s.http, path, &page)
		seen += len(page.Entities)
		if len(page.Entities) > 10 { // 3.6 MB each
			s.t.Errorf("a page of %d large entities", len(page.Entities))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if seen != entities {
		s.t.Errorf("%d entities on all pages, want %d", seen, entities)
	}
}

func (s *limited) retained() {
	const size, places = 60_000, 15 // of 4 KiB
	c, _ := s.connect("retainer", 2, "")
	payload := fmt.Sprintf(`{"t":%q}`, strings.Repeat("x", size))
	for i := range 16384/places + 10 {
		if code := c.publish(s.t, fmt.Sprintf("e/retained-%d/telemetry", i), payload, 1); code != 0 {
			s.t.Errorf("code %x", code)
		}
	}
	if n := s.metric("greenroom_mqtt_retained"); n > 16384/places+50 || n < 16384/places-50 { // some of $SYS
		s.t.Errorf("%d messages are retained", n)
	}
	if text := s.must(200, "GET", "/v1/refusals", "", ""); !strings.Contains(text, `"retain"`) {
		s.t.Errorf("the refusals: %s", text)
	}
}

func (s *limited) subscriptions() {
	c, _ := s.connect("subscriber", 2, "")
	granted, refused := 0, 0
	for packet := range 2 {
		var filters strings.Builder
		for i := range 520 {
			filters.WriteString(field(fmt.Sprintf("e/%d-%d/delta", packet, i)) + "\x01")
		}
		c.write(s.t, frame(0x82, number(packet+1), "\x00", filters.String()))
		kind, body := c.read(s.t)
		if kind != 0x90 {
			s.t.Fatalf("the answer to SUBSCRIBE: %x %q", kind, body)
		}
		for _, code := range []byte(body[3+int(body[2]):]) {
			if code == 0x97 {
				refused++
			} else {
				granted++
			}
		}
	}
	if granted != 1024 || refused != 16 {
		s.t.Errorf("%d filters are granted and %d refused", granted, refused)
	}
	c.write(s.t, frame(0xe0, "\x00\x05\x11\x00\x00\x00\x00")) // with its session
}

func (s *limited) sessions() {
	const most, workers = 10_000, 4
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range most/workers + 25 {
				nc, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.mqtt)
				if err != nil {
					s.t.Errorf("%v\n%s", err, s.errors)
					return
				}
				packets := frame(0x10, field("MQTT"), "\x05\x00", number(0), "\x05\x11\xff\xff\xff\xff", field(fmt.Sprintf("gone-%d-%d", worker, i)))
				_, _ = nc.Write(append(packets, frame(0xe0)...))
				_, _ = io.Copy(io.Discard, nc)
				_ = nc.Close()
			}
		})
	}
	all.Wait()
	if n := s.metric("greenroom_mqtt_sessions"); n > most || n < most*9/10 {
		s.t.Errorf("%d sessions", n)
	}
	if text := s.must(200, "GET", "/v1/refusals", "", ""); !strings.Contains(text, `"session"`) {
		s.t.Errorf("the refusals: %s", text)
	}
}

func (s *limited) wills() {
	if !s.long {
		return // what waits for all sessions is 256 MiB
	}
	const size = 60_000
	payload := fmt.Sprintf(`{"t":%q}`, strings.Repeat("x", size-10))
	will := "\x00" + field("e/will/telemetry") + field(payload)
	var refused byte
	for i := 0; refused == 0 && i < 10_000; i++ {
		_, refused = s.connect(fmt.Sprint("will-", i), 0x06, will)
	}
	if refused != 0x97 {
		s.t.Errorf("code %x, want 97", refused)
	}
	if n := s.metric("greenroom_mqtt_queued_bytes"); n > 256<<20+10_000*8<<10 {
		s.t.Errorf("%d bytes wait", n)
	}
}

// received begins messages and does not end them.
func (s *limited) received() {
	conns := 150
	if s.long {
		conns = 1500
	}
	half := strings.Repeat(" ", 900_000)
	var all sync.WaitGroup
	var open []net.Conn
	for range conns {
		nc, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", s.http)
		if err != nil {
			s.t.Fatal(err)
		}
		c, _ := s.connect("", 2, "")
		open = append(open, nc, c)
		all.Go(func() {
			_, _ = fmt.Fprintf(nc, "POST /v1/entities/slow/telemetry HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n%s", half)
		})
		all.Go(func() { _, _ = c.Write(append(binary.AppendUvarint([]byte{0x32}, 1_000_000), half...)) })
	}
	for i := range 20 { // small ones are not kept waiting
		s.must(204, "POST", "/v1/entities/alive/telemetry", "application/json", fmt.Sprintf(`{"t":%d}`, i))
	}
	for _, nc := range open {
		_ = nc.Close()
	}
	all.Wait()
}

// writes sends more than there is room for on the way to the store.
func (s *limited) writes() {
	clients, each := 40, 2
	if s.long {
		clients, each = 400, 5
	}
	payload := texts(16)
	var all sync.WaitGroup
	for client := range clients {
		all.Go(func() {
			for range each {
				status, text := s.try("POST", fmt.Sprintf("/v1/entities/writer-%d/telemetry", client), "application/json", payload)
				if status != 204 && status != 503 {
					s.t.Errorf("%d %s", status, text)
				}
			}
		})
	}
	all.Wait()
}

func (s *limited) streams() {
	const most = 1100
	answers := make(map[int]int)
	var bodies []io.Closer
	ctx, cancel := context.WithCancel(s.t.Context())
	defer cancel()
	for range most {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.http+"/v1/stream", nil)
		if err != nil {
			s.t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.t.Fatalf("%v\n%s", err, s.errors)
		}
		bodies = append(bodies, resp.Body)
		answers[resp.StatusCode]++
		if resp.StatusCode != http.StatusOK {
			break
		}
	}
	if n := answers[http.StatusOK]; n != 1024 && n != 256 || answers[http.StatusServiceUnavailable]+answers[http.StatusTooManyRequests] != 1 {
		s.t.Errorf("the answers: %v", answers)
	}
	payload := texts(15)
	for range 40 { // which nobody reads
		s.must(204, "POST", "/v1/entities/streamed/telemetry", "application/json", payload)
	}
	for _, b := range bodies {
		_ = b.Close()
	}
}
