package server

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestDashboardIsServedWithItsAssets(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	d, err := newDashboard()
	if err != nil {
		t.Fatal(err)
	}
	for path, a := range d {
		resp, body := s.do("GET", path, "")
		if resp.StatusCode != http.StatusOK || body != string(a.plain) {
			t.Errorf("%s: %s, %d bytes of %d", path, resp.Status, len(body), len(a.plain))
		}
		want := "no-cache"
		if strings.HasPrefix(path, "/assets/") {
			want = "public, max-age=31536000, immutable"
		}
		same(t, "Cache-Control of "+path, resp.Header.Get("Cache-Control"), want)
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy is %q", path, policy)
		}
		again, body := s.do("GET", path, "", "If-None-Match", `"other", `+resp.Header.Get("ETag"))
		if again.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("%s again: %s with %d bytes", path, again.Status, len(body))
		}
	}
	if resp, _ := s.do("GET", "/", ""); !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		t.Errorf("/ is %s", resp.Header.Get("Content-Type"))
	}
}

func TestAssetsAreCompressedForWhoTakesThem(t *testing.T) {
	t.Parallel()
	content := strings.Repeat("compress me ", 1000)
	a := newAsset("/assets/x.js", []byte(content))
	if a.gzipped == nil {
		t.Fatal("not compressed")
	}
	s := start(t, "")
	var path string
	d, err := newDashboard()
	if err != nil {
		t.Fatal(err)
	}
	for p, a := range d {
		if a.gzipped != nil {
			path = p
		}
	}
	if path == "" {
		t.Fatal("no file of the dashboard is worth compressing")
	}
	for header, want := range map[string]string{"gzip": "gzip", "br, gzip;q=0.5": "gzip", "gzip;q=0": "", "br": "", "identity": ""} {
		resp, body := s.do("GET", path, "", "Accept-Encoding", header)
		same(t, "Content-Encoding for "+header, resp.Header.Get("Content-Encoding"), want)
		if want == "gzip" {
			zr, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(zr)
			if err != nil {
				t.Fatal(err)
			}
			body = string(plain)
		}
		if body != string(d[path].plain) {
			t.Errorf("Accept-Encoding %s: another content", header)
		}
	}
}
