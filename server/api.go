package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"
)

// route is one operation of the HTTP API.
type route struct {
	method, pattern string
	query           []string // the parameters it knows
	handle          func(w http.ResponseWriter, r *http.Request) error
}

// routes lists the whole API. openapi.json describes the same, which a test
// compares.
func (s *Server) routes() []route {
	return slices.Concat(s.entityRoutes(), s.telemetryRoutes(), s.typeRoutes(), s.queryRoutes(), s.mappingRoutes(), s.streamRoutes(), s.bulkRoutes(), s.transferRoutes(), []route{
		{"GET", "/v1/system", nil, s.getSystem},
		{"GET", "/v1/actors", []string{"path", "limit"}, s.getActors},
		{"GET", "/v1/actor", []string{"path", "pid"}, s.getActor},
		{"GET", "/healthz", nil, s.getHealth},
		{"GET", "/metrics", []string{"name[]"}, s.getMetrics},
		{"GET", "/openapi.json", nil, s.getOpenAPI},
	})
}

// handler builds the HTTP side.
func (s *Server) handler() (http.Handler, error) {
	dashboard, err := newDashboard()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, rt := range s.routes() {
		mux.Handle(rt.method+" "+rt.pattern, s.serve(rt))
		allowed[rt.pattern] = append(allowed[rt.pattern], rt.method)
	}
	for pattern, methods := range allowed {
		mux.Handle(pattern, notAllowed(methods))
	}
	mux.Handle("/", dashboard)
	return s.guard(mux), nil
}

// serve runs an operation: its query is checked, what it returns becomes a
// problem document, and it is measured.
func (s *Server) serve(rt route) http.Handler {
	metrics := s.metrics.operation(rt)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					metrics.observe(rec.status, time.Since(start))
					panic(p)
				}
				s.log.LogAttrs(r.Context(), slog.LevelError, "panic in a request", slog.String("route", rt.pattern),
					slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				if rec.status != 0 {
					panic(http.ErrAbortHandler) // half an answer must not look like a whole one
				}
				writeProblem(rec, r, problemOf(fmt.Errorf("panic: %v", p)))
			}
			metrics.observe(rec.status, time.Since(start))
		}()
		w.Header().Set("Cache-Control", "no-store")
		err := checkQuery(r, rt.query)
		if err == nil {
			err = s.handle(rt, rec, r)
		}
		if err != nil {
			s.fail(rec, r, err)
		}
	})
}

// answerTimeout bounds a question. A stream has no end, and what is written is waited for
// as long as the client waits.
const answerTimeout = 30 * time.Second

func (s *Server) handle(rt route, w http.ResponseWriter, r *http.Request) error {
	if rt.method != http.MethodGet || isStream(rt.pattern) || rt.pattern == exportPattern {
		return rt.handle(w, r)
	}
	ctx, cancel := context.WithTimeout(r.Context(), answerTimeout)
	defer cancel()
	return rt.handle(w, r.WithContext(ctx))
}

// notAllowed answers the other methods of a path.
func notAllowed(methods []string) http.Handler {
	if slices.Contains(methods, "GET") {
		methods = append(slices.Clone(methods), "HEAD")
	}
	slices.Sort(methods)
	allow := strings.Join(methods, ", ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Allow", allow)
		writeProblem(w, r, problemf(http.StatusMethodNotAllowed, "%s is not possible here; %s is", shorten(r.Method, 32), allow))
	})
}

// recorder remembers the status of an answer.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		r.status = status
	}
	r.ResponseWriter.WriteHeader(status)
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.status == 0 {
		r.status = http.StatusOK
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// writeBody sends a complete body of JSON.
func writeBody(w http.ResponseWriter, body []byte) { writeBodyStatus(w, http.StatusOK, body) }

func writeBodyStatus(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", mediaJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that has left is not our error
}

func writeJSON(w http.ResponseWriter, v any) error { return writeStatus(w, http.StatusOK, v) }
