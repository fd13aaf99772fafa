package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// startCaller returns a caller of a server that does what handle does.
func startCaller(t *testing.T, ctx context.Context, handle http.HandlerFunc) *caller { //nolint:revive // a test comes first
	t.Helper()
	srv := httptest.NewServer(handle)
	t.Cleanup(srv.Close)
	c, err := newCaller(ctx, strings.TrimPrefix(srv.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c
}

func TestACallerAsksOnOneConnectionAndReadsWholeAnswers(t *testing.T) {
	remotes := map[string]bool{}
	c := startCaller(t, t.Context(), func(w http.ResponseWriter, r *http.Request) {
		remotes[r.RemoteAddr] = true
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if r.URL.Path == "/in/parts" { // without a length
			_, _ = io.WriteString(w, `{"Said":`)
			w.(http.Flusher).Flush()
		} else {
			_, _ = io.WriteString(w, `{"Said":`)
		}
		fmt.Fprintf(w, "%q}", fmt.Sprint(r.Method, r.URL, r.Host == "", r.Header.Get("Content-Type"), r.Header.Get("If-Match"), string(body)))
	})
	for _, tt := range []struct {
		method, path, media, body, want string
		header                          []string
	}{
		{"GET", "/plain?fields=latest", "", "", "GET/plain?fields=latest false", nil},
		{"PATCH", "/in/parts", "text/plain", "hello", `PATCH/in/parts falsetext/plain"1"hello`, []string{"If-Match", `"1"`}},
		{"GET", "/again", "", "", "GET/again false", nil},
	} {
		var answer struct{ Said string }
		if err := c.do(tt.method, tt.path, tt.media, tt.body, &answer, tt.header...); err != nil || answer.Said != tt.want {
			t.Errorf("%s %s: %q, %v, want %q", tt.method, tt.path, answer.Said, err, tt.want)
		}
	}
	if err := c.do("GET", "/", "", "", nil); err != nil {
		t.Error(err)
	}
	if len(remotes) != 1 {
		t.Errorf("%d connections", len(remotes))
	}
}

func TestACallerTellsWhatIsWrongWithAnAnswer(t *testing.T) {
	answers := map[string]http.HandlerFunc{
		"/problem": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
			_, _ = io.WriteString(w, `{"detail":"another version"}`)
		},
		"/text":  func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "gone", http.StatusGone) },
		"/cut":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"a":`) },
		"/close": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
		"/none":  func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	}
	for path, want := range map[string]string{
		"/problem": "the server answered 409: another version", "/text": "the server answered 410: gone",
		"/cut": "read the server's answer", "/close": "closes the connection", "/none": "no response from",
	} {
		c := startCaller(t, t.Context(), func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w, r) })
		if err := c.get(path, &struct{}{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func TestACallerEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	c := startCaller(t, ctx, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done() // the caller has closed the connection
		close(over)
	})
	if err := c.get("/", nil); err == nil {
		t.Error("there was an answer")
	}
	<-over
	if _, err := newCaller(ctx, c.addr); !errors.Is(err, context.Canceled) {
		t.Errorf("connect after the end: %v", err)
	}
}
