package server

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// dist is the dashboard, which is built from web/ and committed, so that go install needs no npm.
//
//go:embed all:dist
var dist embed.FS

// contentPolicy restricts pages to resources of this server.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// asset is a file of the dashboard.
type asset struct {
	contentType string
	etag        string
	cache       string
	plain       []byte
	gzipped     []byte // nil if it would not be smaller
}

// dashboard serves the embedded files, and 404 for any other path.
type dashboard map[string]*asset

// loadDashboard loads the dashboard once, because compressing it takes time.
var loadDashboard = sync.OnceValues(newDashboard)

func newDashboard() (dashboard, error) {
	d := dashboard{}
	err := fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		urlPath := strings.TrimPrefix(name, "dist")
		d[urlPath] = newAsset(urlPath, content)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the dashboard: %w", err)
	}
	if d["/"] = d["/index.html"]; d["/"] == nil {
		return nil, fmt.Errorf("read the dashboard: dist/index.html: %w", fs.ErrNotExist)
	}
	return d, nil
}

func newAsset(urlPath string, content []byte) *asset {
	sum := sha256.Sum256(content)
	a := &asset{
		contentType: mime.TypeByExtension(path.Ext(urlPath)), plain: content,
		etag: `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`, cache: "no-cache",
	}
	if a.contentType == "" {
		a.contentType = "application/octet-stream"
	}
	if strings.HasPrefix(urlPath, "/assets/") { // their names contain a hash of the content
		a.cache = "public, max-age=31536000, immutable"
	}
	var zipped bytes.Buffer
	zw, _ := gzip.NewWriterLevel(&zipped, gzip.BestCompression) // the level is valid
	_, _ = zw.Write(content)                                    // writing to memory does not fail
	_ = zw.Close()                                              // likewise
	if zipped.Len() < len(content)*9/10 {
		a.gzipped = zipped.Bytes()
	}
	return a
}

// ServeHTTP serves a file of the dashboard.
func (d dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := d[r.URL.Path]
	if a == nil {
		writeProblem(w, r, problemf(http.StatusNotFound, "there is nothing at this path; the dashboard is at /, the API is described at /openapi.json"))
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		notAllowed([]string{"GET"}).ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", contentPolicy)
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", a.cache)
	h.Set("Vary", "Accept-Encoding")
	body, etag := a.plain, a.etag
	if a.gzipped != nil && acceptsGzip(r.Header.Get("Accept-Encoding")) {
		body, etag = a.gzipped, strings.TrimSuffix(a.etag, `"`)+`-gz"`
		h.Set("Content-Encoding", "gzip")
	}
	h.Set("ETag", etag)
	if matches(r.Header.Get("If-None-Match"), etag) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // the client may have left
}

// acceptsGzip parses Accept-Encoding: gzip is accepted unless its weight is 0.
func acceptsGzip(header string) bool {
	for item := range strings.SplitSeq(header, ",") {
		coding, params, _ := strings.Cut(strings.TrimSpace(item), ";")
		if strings.TrimSpace(coding) != "gzip" {
			continue
		}
		weight, ok := strings.CutPrefix(strings.TrimSpace(params), "q=")
		if !ok {
			return true
		}
		q, err := strconv.ParseFloat(weight, 64)
		return err == nil && q > 0
	}
	return false
}

// matches reports whether If-None-Match contains an entity tag.
func matches(header, etag string) bool {
	for item := range strings.SplitSeq(header, ",") {
		item = strings.TrimPrefix(strings.TrimSpace(item), "W/")
		if item == etag || item == "*" {
			return true
		}
	}
	return false
}
