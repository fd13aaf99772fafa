package server

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

const (
	// MaxStreams bounds the streams that are open at the same time, those of
	// events and WebSockets together.
	MaxStreams = 1024
	// heartbeatEvery is when a silent stream says that it lives. Proxies give up
	// on silence after a minute or less.
	heartbeatEvery = 15 * time.Second
	// streamWriteTimeout is how long a reader may take nothing before it is put
	// out. It can resume.
	streamWriteTimeout = 10 * time.Second
	// streamFlushBytes is how much is gathered before it is flushed although
	// more is ready.
	streamFlushBytes = 32 << 10
)

// Paths of the streams.
const (
	streamPattern = "/v1/stream"
	socketPattern = "/v1/ws"
)

func isStream(pattern string) bool { return pattern == streamPattern || pattern == socketPattern }

func (s *Server) streamRoutes() []route {
	return []route{
		{"GET", streamPattern, feedParams, s.stream},
		{"GET", socketPattern, feedParams, s.socket},
	}
}

// enter takes a place for a stream, which leave gives back.
func (s *Server) enter() (leave func(), err error) {
	select {
	case s.streams <- struct{}{}:
		return func() { <-s.streams }, nil
	default:
		return nil, problemf(http.StatusServiceUnavailable, "%d streams are open, which is the limit; close one, or follow several entities with one stream: ?entity=a&entity=b", MaxStreams)
	}
}

// stream sends committed changes as server-sent events.
//
// The id of an event is a cursor. A reader that comes back with it, as
// Last-Event-ID or as the parameter cursor, gets what came in between; when that
// is no longer kept it gets the event reset, should read the present state, and
// goes on from now.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead { // whose answer has an end
		_, err := feedParam(r.URL.Query())
		if err == nil {
			w.Header().Set("Content-Type", mediaEvents)
		}
		return err
	}
	leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	query, err := feedParam(r.URL.Query())
	if err != nil {
		return err
	}
	if last := r.Header.Get("Last-Event-ID"); last != "" { // it is newer than the URL when a browser reconnects
		query.cursor = last
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)()
	out := &eventWriter{w: w, rc: http.NewResponseController(w)}
	f := s.newFeed(query, out)
	if err := f.open(ctx, query.cursor); err != nil {
		return err
	}
	out.open()
	f.run(ctx)
	return nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w   http.ResponseWriter
	rc  *http.ResponseController
	buf []byte
	id  string // the last one that was written
}

// open writes the head.
func (e *eventWriter) open() {
	h := e.w.Header()
	h.Set("Content-Type", mediaEvents)
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	e.w.WriteHeader(http.StatusOK)
	e.buf = append(e.buf, ": greenroom\nretry: 2000\n\n"...)
}

func (e *eventWriter) event(name, cursor string, data []byte) {
	e.cursor(cursor)
	e.buf = append(append(e.buf, "event: "...), name...)
	e.buf = append(append(e.buf, "\ndata: "...), data...)
	e.buf = append(e.buf, "\n\n"...)
}

// alive shows that the stream lives, and moves the reader's cursor past the
// changes that did not concern it, which keeps it from expiring. At the beginning
// it says where the stream begins, so that a reader that is cut off before the
// first change misses nothing either.
func (e *eventWriter) alive(cursor string) {
	e.buf = append(e.buf, ": alive\n"...)
	e.cursor(cursor)
	e.buf = append(e.buf, '\n')
}

func (e *eventWriter) cursor(id string) {
	if id == "" || id == e.id {
		return
	}
	e.id = id
	e.buf = append(append(append(e.buf, "id: "...), id...), '\n')
}

func (e *eventWriter) buffered() int { return len(e.buf) }

func (e *eventWriter) flush() error {
	if len(e.buf) == 0 {
		return nil
	}
	if err := e.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	_, err := e.w.Write(e.buf)
	if err == nil {
		err = e.rc.Flush()
	}
	e.buf = e.buf[:0]
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}
