package server

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// said is what a node has answered to bytes that were sent: the status of each answer until the connection has ended, or
// has nothing more to say.
func (n *testNode) said(to, send string, answers int) string {
	n.t.Helper()
	conn := n.raw(to, send)
	in := bufio.NewReader(conn)
	var list []string
	for range answers {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			list = append(list, "end")
			break
		}
		list = append(list, fmt.Sprint(resp.StatusCode))
		if resp.StatusCode == http.StatusSwitchingProtocols {
			break
		}
		_, _ = io.Copy(io.Discard, resp.Body) // a refusal may be cut off by what was not read of the request
	}
	return strings.Join(list, " ")
}

// TestANodePassesNothingOffAsAnotherRequest, whatever bytes a client sends: it gets the answers that the owner would
// have given to it, and never reaches what only other nodes may, as one that names their headers in Connection tried.
func TestANodePassesNothingOffAsAnotherRequest(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	var controlled atomic.Int64
	control := func(f *Front) {
		f.node.Control = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { controlled.Add(1) })
	}
	a, b := startNode(t, store, "a", control), startNode(t, store, "b", control)
	a.own(1, b)
	token := a.guarded()
	a.principal(token, `{"name":"few","grants":[{"role":"viewer","filter":"id = \"room\""}]}`)
	spoofed := (&client{Address: "203.0.113.9:1", TLS: true}).header()
	const post = "POST /v1/entities/room/telemetry HTTP/1.1\r\nHost: 127.0.0.1\r\n"
	login := "Authorization: Bearer " + token + "\r\n"
	const get = "GET /v1/principals HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
	long := "X: " + strings.Repeat("x", maxHeaderBytes-1000) + "\r\n"
	for _, tt := range []struct {
		what, send, want string
		answers          int
	}{
		{"a length and chunks, with another request in what the length leaves out", post + login + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n{\"a\":1}\r\n0\r\n\r\n" + get, "204 401", 2},
		{"a length and chunks, with another request in the length", post + login + "Transfer-Encoding: chunked\r\nContent-Length: 200\r\n\r\n0\r\n\r\n" + get, "400 401", 2},
		{"two lengths", post + login + "Content-Length: 7\r\nContent-Length: 8\r\n\r\n{\"a\":1}", "400", 1},
		{"another encoding", post + login + "Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n", "501", 1},
		{"a space before the colon", post + login + "Transfer-Encoding : chunked\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "400", 1},
		{"a request in the body", post + login + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(get), get), "400", 1},
		{"the length named by Connection", post + login + "Connection: Content-Length\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "204", 1},
		{"the header of nodes named by Connection", "POST /drain HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "Connection: Greenroom-Client\r\nGreenroom-Client: " + spoofed + "\r\nContent-Length: 0\r\n\r\n", "404", 1},
		{"an empty header of nodes", "GET /status HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "greenroom-client:\r\nConnection: greenroom-client, close\r\n\r\n", "404", 1},
		{"the header of nodes as a trailer", post + login + "Transfer-Encoding: chunked\r\nTrailer: Greenroom-Client\r\n\r\n7\r\n{\"a\":1}\r\n0\r\nGreenroom-Client: " + spoofed + "\r\n\r\n", "204", 1},
		{"the credentials named by Connection", "GET /v1/principals HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "Connection: Authorization\r\n\r\n", "401", 1},
		{"a foreign host", "GET /v1/principals HTTP/1.1\r\nHost: evil.example\r\n" + login + "\r\n", "403", 1},
		{"a foreign host in the address", "GET http://evil.example/v1/principals HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "\r\n", "403", 1},
		{"the health, for a foreign host", "GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n", "403", 1},
		{"the metrics, for a foreign host", "GET /metrics HTTP/1.1\r\nHost: evil.example\r\n" + login + "\r\n", "403", 1},
		{"two hosts", "GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n\r\n", "400", 1},
		{"CONNECT", "CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: 127.0.0.1:1\r\n" + login + "\r\n", "404", 1},
		{"a path that goes up", "GET /v1/../drain HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "\r\n", "307", 1},
		{"an upgrade with a body", post + login + "Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "204", 1},
		{"an upgrade to HTTP/2", post + login + "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 7\r\n\r\n{\"a\":1}", "204", 1},
		{"HTTP/2 with prior knowledge", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "403", 1},
		{"a WebSocket with a body", "GET /v1/ws HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(get), get), "101", 2},
		{"as long a header as may be", "GET /v1/principals HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + long + "\r\n", "200", 1},
		{"a header that is too long", "GET /v1/principals HTTP/1.1\r\nHost: 127.0.0.1\r\n" + login + long + long + "\r\n", "431", 1},
		{"a stranger", get, "401", 1},
	} {
		owner, got := a.said(a.HTTPAddr(), tt.send, tt.answers), b.said(b.HTTPAddr(), tt.send, tt.answers)
		if got != tt.want {
			t.Errorf("%s: %s by the node that passes on, and %s by the owner; want %s", tt.what, got, owner, tt.want)
		}
	}
	if n := controlled.Load(); n != 0 {
		t.Errorf("what only other nodes may was asked %d times", n)
	}
	b.do("POST", "/v1/principals", `{"name":"made","grants":[{"role":"viewer"}]}`, "Authorization", "Bearer "+token, "Content-Type", "application/json",
		"X-Forwarded-For", "203.0.113.9", "Forwarded", "for=203.0.113.9", "X-Real-Ip", "203.0.113.9", clientHeader, spoofed, "Connection", "X-Forwarded-For")
	if _, log := b.do("GET", "/v1/audit", "", "Authorization", "Bearer "+token); strings.Contains(log, "203.0.113.9") || !strings.Contains(log, "made") || !strings.Contains(log, `"from":"127.0.0.1"`) {
		t.Errorf("the audit log has %s", log)
	}
}

// TestAnAnswerThatIsCutIsNotTakenForAWholeOne.
func TestAnAnswerThatIsCutIsNotTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	_, url := followFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/length" {
			w.Header().Set("Content-Length", "100")
		}
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	for _, path := range []string{"/length", "/chunks"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(text) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
}

// TestWhatIsSentAgainByAnotherNodeHappensOnce, also if the owner has changed in between: readings and commands with an
// idempotency key, and writes with the tag of what they replace.
func TestWhatIsSentAgainByAnotherNodeHappensOnce(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1, b)
	tag := func(n *testNode) string {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+n.HTTPAddr()+"/v1/entities/room", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.Header.Get("ETag")
	}
	send := func(n *testNode, want int, method, path, body string, header ...string) {
		t.Helper()
		if status, answer := n.do(method, path, body, append([]string{"Content-Type", map[bool]string{true: "application/merge-patch+json", false: "application/json"}[method == "PATCH"]}, header...)...); status != want {
			t.Errorf("%s %s by %s: %d %s", method, path, n.node.Name, status, answer)
		}
	}
	reading := func(n *testNode) {
		t.Helper()
		send(n, http.StatusNoContent, "POST", "/v1/entities/room/telemetry", `{"v":1}`, "Idempotency-Key", "r1")
	}
	command := func(n *testNode) string {
		t.Helper()
		status, answer := n.do("POST", "/v1/entities/room/commands", `{"name":"open"}`, "Content-Type", "application/json", "Idempotency-Key", "c1")
		var made struct{ ID json.RawMessage }
		if err := json.Unmarshal([]byte(answer), &made); err != nil || len(made.ID) == 0 {
			t.Errorf("%d %s", status, answer)
		}
		return string(made.ID)
	}
	reading(b)
	reading(a)
	first := command(b)
	old := tag(b)
	send(b, http.StatusOK, "PATCH", "/v1/entities/room", `{"attributes":{"floor":1}}`, "If-Match", old)
	current := tag(a)
	if old == "" || old == current {
		t.Fatalf("the tags are %s and %s", old, current)
	}
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.own(2, a)
	reading(a)
	reading(b)
	if again := command(a); again != first {
		t.Errorf("the command %s was sent again as %s", first, again)
	}
	if _, answer := a.do("GET", "/v1/entities/room/telemetry/v", ""); strings.Count(answer, `"value":1`) != 1 {
		t.Errorf("the history is %s", answer)
	}
	version := func(tag string) string { // without what stands for readings and presence
		before, _, _ := strings.Cut(tag, ".")
		return before
	}
	if got := tag(a); version(got) != version(current) {
		t.Errorf("the tag was %s, and is %s with the next owner", current, got)
	}
	send(a, http.StatusPreconditionFailed, "PATCH", "/v1/entities/room", `{"attributes":{"floor":2}}`, "If-Match", old)
	send(a, http.StatusOK, "PATCH", "/v1/entities/room", `{"attributes":{"floor":3}}`, "If-Match", current)
}

// TestANodeWithTLSSpeaksOneProtocol: HTTP/2, which the link does not have, is not offered.
func TestANodeWithTLSSpeaksOneProtocol(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	ca.sign("server", []string{"127.0.0.1"}, false)
	f, _ := followFake(t, func(w http.ResponseWriter, r *http.Request) {
		from, err := clientFrom(r.Header.Get(clientHeader))
		fmt.Fprintf(w, "%s %v %v", r.Proto, err == nil && from.TLS, r.TLS != nil)
	}, func(f *Front) {
		f.cfg.TLS = TLS{Cert: ca.path("server.pem"), Key: ca.path("server.key")}
		var err error
		if f.secure, err = newCertificates(f.cfg.TLS, f.log); err != nil {
			t.Fatal(err)
		}
	})
	for _, protocols := range [][]string{{"h2", "http/1.1"}, nil} {
		config := ca.client("")
		config.NextProtos = protocols
		c := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: config}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+f.HTTPAddr()+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		c.CloseIdleConnections()
		if resp.Proto != "HTTP/1.1" || string(text) != "HTTP/1.1 true true" {
			t.Errorf("%s: %s", resp.Proto, text)
		}
	}
	config := ca.client("")
	config.NextProtos = []string{"h2"}
	ctx, cancel := context.WithTimeout(t.Context(), linkWithin)
	defer cancel()
	var conn net.Conn
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", f.HTTPAddr())
	if err == nil {
		_ = conn.Close()
		t.Error("HTTP/2 is spoken")
	}
}
