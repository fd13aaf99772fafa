package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

// resources creates the handlers of the API, and returns their operations.
func (s *Server) resources() []operation {
	editor := &editor{s.runtime}
	reader := &historyReader{s.runtime, s.retention}
	queries := &queryBook{runtime: s.runtime}
	closing := func() bool { return s.serving.Err() != nil }
	telemetry := &telemetryAPI{s.runtime, s.mappings, s.refusals, reader, s.broker}
	commands := &commandAPI{s.runtime, s.serving}
	devices := &thingsboardAPI{s.runtime, telemetry, commands}
	resources := []interface{ operations() []operation }{
		&entityAPI{s.runtime, editor, s.find, s.find.encoder},
		&attributeAPI{s.runtime, editor},
		&relationAPI{s.runtime, editor},
		&shadowAPI{s.runtime},
		telemetry,
		&manyHistoryAPI{s.runtime, s.finder, reader},
		&retentionAPI{s.retention},
		commands,
		devices,
		&azureAPI{s.runtime, telemetry, commands},
		&claimAPI{s.runtime, s.claims, onError(devices.refused)},
		&typeAPI{s.runtime},
		&queryAPI{runtime: s.runtime, queries: queries},
		&mappingAPI{s.mappings},
		&scriptAPI{s.scripts, s.book, s.runtime},
		&templateAPI{s.templates},
		&alarmAPI{s.alarms, s.runtime, s.streams},
		&alarmRuleAPI{s.alarms},
		&webhookAPI{s.alarms},
		s.streams,
		s.bulk,
		&transferAPI{s.runtime, s.mappings, s.scripts, s.book, s.alarms, s.finder, queries, s.retention, s.broker, s.serving, s.log},
		&sessionAPI{s.gate, s.cfg.OIDC.Issuer},
		&principalAPI{s.book, s.audit},
		&provisionAPI{s.book, s.provisioner()},
		&consoleAPI{s.console},
		&clusterAPI{s.cfg.front, s.runtime, s.log},
		&systemAPI{s.system, s.runtime, s.refusals, s.metrics.handler, s.cfg.Version, s.cfg.front.nodeName(), s.addresses, closing},
	}
	var list []operation
	for _, resource := range resources {
		list = append(list, resource.operations()...)
	}
	return list
}

// handler builds the HTTP handler.
func (s *Server) handler() (http.Handler, error) {
	dashboard, err := loadDashboard()
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	allowed := map[string][]string{}
	for _, o := range s.operations {
		mux.Handle(o.method+" "+o.pattern, s.serve(&o))
		allowed[o.pattern] = append(allowed[o.pattern], o.method)
	}
	for pattern, methods := range allowed {
		if !covered(pattern, allowed) { // otherwise the covering pattern answers other methods
			mux.Handle(pattern, notAllowed(methods))
		}
	}
	if s.oidc != nil {
		mux.HandleFunc("GET "+oidcPath, s.oidc.begin)
		mux.HandleFunc("GET "+oidcCallback, s.oidc.finish)
	}
	mux.Handle("GET "+pagesPath+"/", s.pages())
	mux.Handle("/mqtt", s.broker)
	mux.Handle("/", dashboard)
	return s.proxies.wrap(guard(mux, s.isOwnName)), nil
}

// covered reports whether another pattern covers the paths of a pattern, as /a/{name} covers
// /a/try.
func covered(pattern string, all map[string][]string) bool {
	parts := strings.Split(pattern, "/")
	for other := range all {
		others := strings.Split(other, "/")
		if other != pattern && len(others) == len(parts) && slices.EqualFunc(others, parts, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") }) {
			return true
		}
	}
	return false
}

// isOwnName reports whether requests may address the server by a host name. An IP address cannot be
// redirected to another machine.
func (s *Server) isOwnName(host string) bool {
	if isLoopback(host) || slices.ContainsFunc(s.cfg.Hosts, func(own string) bool { return strings.EqualFold(own, host) }) {
		return true
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil && !onLoopback(s.httpLn) {
		return true
	}
	if u, err := url.Parse(s.cfg.OIDC.URL); err == nil && u.Hostname() != "" && strings.EqualFold(u.Hostname(), host) {
		return true
	}
	return s.certificates != nil && s.certificates.isFor(host)
}

// serve runs an operation. It turns errors and panics into problem documents, and counts the
// request.
func (s *Server) serve(o *operation) http.Handler {
	metrics := s.metrics.operation(o)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		rec := &recorder{ResponseWriter: w}
		defer func() {
			if p := recover(); p != nil {
				if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
					metrics.observe(rec.status, time.Since(start))
					panic(p)
				}
				s.log.LogAttrs(r.Context(), slog.LevelError, "panic in a request", slog.String("route", o.pattern),
					slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
				if rec.status != 0 {
					panic(http.ErrAbortHandler) // a partial response must not look complete
				}
				writeProblem(rec, r, problemOf(fmt.Errorf("panic: %v", p)))
			}
			metrics.observe(rec.status, time.Since(start))
		}()
		w.Header().Set("Cache-Control", "no-store")
		admitted, release, err := s.gate.admit(r, o)
		if err == nil {
			defer release()
			err = s.served(rec, admitted, o)
			if err == nil {
				s.heard(o, admitted)
			}
		} else if o.failed != nil && errors.Is(err, access.ErrForbidden) {
			o.failed(r, err)
		}
		if err != nil {
			s.fail(rec, r, err)
		}
	})
}

// served runs an operation once it is the turn of its principal, and there is room for the body.
func (s *Server) served(rec *recorder, r *http.Request, o *operation) error {
	if err := s.pay(r, o); err != nil {
		if o.failed != nil {
			o.failed(r, err)
		}
		return err
	}
	leave, err := s.makeRoom(rec, r, o)
	if err != nil {
		return err
	}
	defer leave()
	return s.serveMuch(rec, r, o)
}

// heard records a request by the device of an entity.
func (s *Server) heard(o *operation, r *http.Request) {
	if id := o.needs.deviceOf(r, callerOf(r.Context()).who, s.gate.entities); id != "" {
		s.runtime.Seen(id)
	}
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
		writeProblem(w, r, problemf(http.StatusMethodNotAllowed, "the method must be %s, not %s", oneOf(methods), shorten(r.Method, 32)))
	})
}

// recorder records the status of a response.
type recorder struct {
	http.ResponseWriter
	status int
	// much, unless nil, waits until there is room for a large answer of so many bytes. The caller
	// must call leave once it is written.
	much func(bytes int) (leave func(), err error)
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

// Unwrap is used by http.ResponseController.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
