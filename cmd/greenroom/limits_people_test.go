package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/internal/pause"
)

// until waits until something holds.
func (s *limited) until(what string, holds func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if err := pause.For(s.t.Context(), 100*time.Millisecond); err != nil || time.Now().After(deadline) {
			s.t.Fatalf("it is not so in time: %s", what)
		}
	}
}

// principals makes principals, each with the longest grants, whose passwords are then checked more at once than may
// wait for it. All of it is written to the audit log.
func (s *limited) principals() {
	const principals = 2000
	var made struct{ Token string }
	text := s.must(201, "POST", "/v1/principals", "application/json", `{"name":"admin","grants":[{"role":"admin"}]}`)
	if err := json.Unmarshal([]byte(text), &made); err != nil {
		s.t.Fatal(err)
	}
	s.token = made.Token
	grant := func(bytes int) string {
		return fmt.Sprintf(`{"role":"viewer","filter":"id = '%s'"}`, strings.Repeat("x", bytes))
	}
	grants := strings.Repeat(grant(200)+",", 15) + grant(200)
	s.each(principals, func(i int) {
		s.must(201, "POST", "/v1/principals", "application/json", fmt.Sprintf(`{"name":"viewer-%d","grants":[%s]}`, i, grants))
	})
	s.refused(400, "16", "POST", "/v1/principals", "application/json", fmt.Sprintf(`{"name":"much","grants":[%s,%s]}`, grants, grant(1)))
	s.refused(400, "4096", "POST", "/v1/principals", "application/json", fmt.Sprintf(`{"name":"long","grants":[%s]}`, grant(5000)))
	s.must(201, "POST", "/v1/principals", "application/json", `{"name":"word","grants":[{"role":"viewer"}],"password":"12345678"}`)
	var mu sync.Mutex
	answers := make(map[int]int)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.http+"/v1/entities", nil)
			if err != nil {
				s.t.Error(err)
				return
			}
			req.SetBasicAuth("word", "12345678")
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				s.t.Error(err)
				return
			}
			_ = resp.Body.Close()
			mu.Lock()
			defer mu.Unlock()
			answers[resp.StatusCode]++
		})
	}
	all.Wait()
	if answers[http.StatusOK] == 0 || answers[http.StatusServiceUnavailable] == 0 || len(answers) != 2 {
		s.t.Errorf("the answers to 200 passwords at once: %v", answers)
	}
	if text := s.must(200, "GET", "/v1/audit?limit=1", "", ""); !strings.Contains(text, "word") {
		s.t.Errorf("the audit log: %s", text)
	}
}

// consoles has as many connections to the console as there may be, each with the longest line, and one more.
func (s *limited) consoles() {
	var open []net.Conn
	dial := func() net.Conn {
		nc, err := new(net.Dialer).DialContext(s.t.Context(), "unix", s.socket)
		if err != nil {
			s.t.Fatalf("%v\n%s", err, s.errors)
		}
		open = append(open, nc)
		return nc
	}
	told := func(nc net.Conn, what string) {
		answer := make([]byte, 100)
		_ = nc.SetReadDeadline(time.Now().Add(patience))
		if n, err := nc.Read(answer); err != nil || !strings.Contains(string(answer[:n]), what) {
			s.t.Errorf("%q %v, want %q", answer[:n], err, what)
		}
	}
	line := []byte(strings.Repeat("x", 1<<20-1))
	for range 16 {
		if _, err := dial().Write(line); err != nil {
			s.t.Error(err)
		}
	}
	told(dial(), "16 connections")
	if _, err := open[0].Write([]byte("xx")); err != nil {
		s.t.Error(err)
	}
	told(open[0], "at most 1048576 bytes")
	for _, nc := range open {
		_ = nc.Close()
	}
}
