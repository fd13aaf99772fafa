package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// discard is an answer of which only the status is looked at.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header { return d.header }

func (d *discard) WriteHeader(status int) { d.status = status }

func (d *discard) SetReadDeadline(time.Time) error { return nil }

func (d *discard) SetWriteDeadline(time.Time) error { return nil }

func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkRequest is what a request costs beside net/http: the routes, the checks,
// the runtime and the text of the answer, without a connection. The control is an
// operation that does nothing. It is what the dashboard, the API and greenroom bench
// ask most.
func BenchmarkRequest(b *testing.B) {
	s, err := New(b.Context(), Config{DataDir: b.TempDir(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	ask := func(b *testing.B, method, path, media, body string) *discard {
		r, err := http.NewRequestWithContext(b.Context(), method, path, strings.NewReader(body))
		if err != nil {
			b.Fatal(err)
		}
		r.Host, r.Header = s.HTTPAddr(), http.Header{"Content-Type": {media}}
		d := &discard{header: make(http.Header)}
		s.http.Handler.ServeHTTP(d, r)
		if d.status != http.StatusOK && d.status != http.StatusCreated {
			b.Fatal(method, path, d.status)
		}
		return d
	}
	const nodes = 3000
	var entities, edges strings.Builder
	for i := range nodes {
		fmt.Fprintf(&entities, "{\"id\":\"tree-%d\",\"attributes\":{\"n\":%d}}\n", i, i)
		if i > 0 {
			fmt.Fprintf(&edges, "{\"from\":\"tree-%d\",\"type\":\"has\",\"to\":\"tree-%d\"}\n", (i-1)/10, i)
		}
	}
	ask(b, "POST", "/v1/import?what=entities", mediaNDJSON, entities.String())
	ask(b, "POST", "/v1/import?what=relations", mediaNDJSON, edges.String())
	b.ResetTimer()

	for _, q := range []struct{ name, method, path, media, body string }{
		{"control=health", "GET", "/healthz", "", ""},
		{"latest", "GET", "/v1/entities/tree-1?fields=latest", "", ""},
		{"traverse", "POST", "/v1/entities/tree-0/traverse", mediaJSON, `{"types":["has"]}`},
		{"traverse-match", "POST", "/v1/entities/tree-0/traverse", mediaJSON, `{"match":"attributes.n >= 0"}`},
		{"traverse-whole", "POST", "/v1/entities/tree-0/traverse", mediaJSON, `{"fields":["attributes"]}`},
	} {
		b.Run(q.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, q.method, q.path, q.media, q.body)
			}
		})
	}
	b.Run("patch-if-match", func(b *testing.B) {
		b.ReportAllocs()
		b.SetParallelism(32)
		var clients atomic.Int64
		b.RunParallel(func(pb *testing.PB) {
			path := fmt.Sprintf("/v1/entities/client-%d/attributes/desired", clients.Add(1))
			etag := ask(b, "PATCH", path, mediaMergePatch, `{}`).header.Get("ETag")
			for i := 0; pb.Next(); i++ {
				r, err := http.NewRequestWithContext(b.Context(), http.MethodPatch, path, strings.NewReader(fmt.Sprintf(`{"setpoint":%d}`, i)))
				if err != nil {
					b.Error(err)
					return
				}
				r.Host, r.Header = s.HTTPAddr(), http.Header{"Content-Type": {mediaMergePatch}, "If-Match": {etag}}
				d := &discard{header: make(http.Header)}
				s.http.Handler.ServeHTTP(d, r)
				if etag = d.header.Get("ETag"); d.status != http.StatusOK {
					b.Error(d.status)
					return
				}
			}
		})
	})
}
