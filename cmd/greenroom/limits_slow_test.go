package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// dial connects until the end of the test.
func (s *limited) dial(address string) net.Conn {
	s.t.Helper()
	nc, err := new(net.Dialer).DialContext(s.t.Context(), "tcp", address)
	if err != nil {
		s.t.Fatalf("%v\n%s", err, s.errors)
	}
	s.t.Cleanup(func() { _ = nc.Close() })
	return nc
}

// slowReader is a client that reads 56 kB of an answer a second.
type slowReader struct {
	what string
	read atomic.Int64 // bytes
	cut  atomic.Bool  // the server has ended the connection
}

func (s *limited) slowReader(path string) *slowReader {
	s.t.Helper()
	nc := s.dial(s.http)
	if err := nc.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		s.t.Fatal(err)
	}
	if _, err := fmt.Fprintf(nc, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		s.t.Fatal(err)
	}
	r := &slowReader{what: path}
	go func() {
		for buf := make([]byte, 5600); pause.For(s.t.Context(), 100*time.Millisecond) == nil; {
			n, err := nc.Read(buf)
			r.read.Add(int64(n))
			if err != nil {
				r.cut.Store(s.t.Context().Err() == nil)
				return
			}
		}
	}()
	return r
}

// newcomers returns how long some requests take, each on a connection of its own.
func (s *limited) newcomers() time.Duration {
	s.t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	began := time.Now()
	for i := range 20 {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.http+"/v1/entities/alive/telemetry", strings.NewReader(fmt.Sprintf(`{"t":%d}`, i)))
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := transport.RoundTrip(req)
		if err != nil {
			s.t.Fatalf("%v\n%s", err, s.errors)
		}
		_ = resp.Body.Close() // it has none
		if resp.StatusCode != http.StatusNoContent {
			s.t.Fatal(resp.Status)
		}
	}
	return time.Since(began)
}

// readers has clients that read 56 kB a second of exports, pages and streams of large events, and others that
// say nothing, in the long form more than may be connected.
func (s *limited) readers() {
	each, silent, least := 4, 100, int64(10_000)
	if s.long {
		each, silent, least = 100, 4200, 50_000
	}
	payload := texts(15)
	for range 6 {
		s.must(204, "POST", "/v1/entities/read/telemetry", "application/json", payload)
	}
	before := s.newcomers()
	var slow []*slowReader
	for range each {
		for _, path := range []string{"/v1/export?what=history", "/v1/stream", "/v1/entities/read/telemetry/k0?limit=100000"} {
			slow = append(slow, s.slowReader(path))
		}
	}
	for range silent {
		s.dial(s.http)
		s.dial(s.mqtt)
	}
	for range 6 {
		s.must(204, "POST", "/v1/entities/read/telemetry", "application/json", payload)
	}
	beside := s.newcomers()
	s.t.Logf("20 newcomers take %v beside slow readers and silent clients, %v without", beside, before)
	if beside > 20*max(before, 500*time.Millisecond) {
		s.t.Errorf("20 newcomers take %v beside slow readers and silent clients, %v without", beside, before)
	}
	for _, r := range slow {
		for deadline := time.Now().Add(patience); r.read.Load() < least && !r.cut.Load(); {
			if err := pause.For(s.t.Context(), 10*time.Millisecond); err != nil || time.Now().After(deadline) {
				s.t.Fatalf("a slow reader of %s gets %d bytes", r.what, r.read.Load())
			}
		}
		if r.cut.Load() && !s.long { // in the long form, they may be those that make room for others
			s.t.Errorf("a slow reader of %s was disconnected after %d bytes", r.what, r.read.Load())
		}
	}
}

// refusals sends large messages that are refused, of the latest of which a little is remembered.
func (s *limited) refusals() {
	c, _ := s.connect("refused", 2, "")
	for i := range 120 {
		if code := c.publish(s.t, fmt.Sprintf("nobody/%d", i), strings.Repeat("x", 60_000), 0); code == 0 {
			s.t.Fatal("a message of nobody's topic is taken")
		}
	}
	if text := s.must(200, "GET", "/v1/refusals", "", ""); len(text) > 600_000 || !strings.Contains(text, "nobody/119") {
		s.t.Errorf("the refused messages are shown in %d bytes: %.300s", len(text), text)
	}
}

// connects begins CONNECTs that are large and do not end.
func (s *limited) connects() {
	conns := 100
	if s.long {
		conns = 4000
	}
	for range conns {
		_, _ = s.dial(s.mqtt).Write(append(binary.AppendUvarint([]byte{0x10}, 126<<10), strings.Repeat("x", 64<<10)...))
	}
	if _, code := s.connect("small", 2, ""); code != 0 {
		s.t.Errorf("code %x for a client with a small CONNECT", code)
	}
}

// exchanges begins exchanges of QoS 2 and does not end them, in the long form more than all clients may have.
func (s *limited) exchanges() {
	clients, each := 2, 1000
	if s.long {
		clients, each = 120, 4000
	}
	var refused atomic.Int64
	var all sync.WaitGroup
	for client := range clients {
		c, _ := s.connect(fmt.Sprint("exchanges-", client), 2, "")
		all.Go(func() {
			out := bufio.NewWriter(c)
			for i := range each {
				_, _ = out.Write(frame(0x34, field(fmt.Sprintf("e/exchange-%d/telemetry", client)), number(i+1), "\x00", `{"t":1}`))
			}
			_ = out.Flush()
		})
		all.Go(func() {
			for range each {
				kind, err := c.in.ReadByte()
				var n uint64
				if err == nil {
					n, err = binary.ReadUvarint(c.in)
				}
				body := make([]byte, n)
				if err == nil {
					_, err = io.ReadFull(c.in, body)
				}
				if kind != 0x50 || err != nil {
					s.t.Errorf("the answer to PUBLISH: %x %q %v", kind, body, err)
					return
				}
				if len(body) > 2 && body[2] == 0x97 {
					refused.Add(1)
				}
			}
		})
	}
	all.Wait()
	if n := refused.Load(); n > 0 != s.long {
		s.t.Errorf("%d exchanges of %d were refused", n, clients*each)
	}
}
