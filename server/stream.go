package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// MaxStreams bounds the event streams that are open at the same time.
	MaxStreams = 256
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

// stream sends committed changes as server-sent events.
//
// The id of an event is a cursor. A reader that comes back with it, as
// Last-Event-ID or as the parameter cursor, gets what came in between; when that
// is no longer kept it gets the event reset, should read the present state, and
// goes on from now. A reader that is too slow for the runtime's buffer is carried
// on from the store's change log by the same means, without noticing.
func (s *Server) stream(w http.ResponseWriter, r *http.Request) error {
	select {
	case s.streams <- struct{}{}:
		defer func() { <-s.streams }()
	default:
		return problemf(http.StatusServiceUnavailable, "%d streams are open, which is the limit; close one, or follow several entities with one stream: ?entity=a&entity=b", MaxStreams)
	}
	q := r.URL.Query()
	cursor := r.Header.Get("Last-Event-ID") // it is newer than the URL when a browser reconnects
	if cursor == "" {
		cursor = q.Get("cursor")
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.serving, cancel)()
	sub, reset, err := s.subscribe(ctx, cursor, q)
	if err != nil {
		return err
	}
	defer func() { sub.Close() }()

	out := &eventWriter{w: w, rc: http.NewResponseController(w)}
	out.open(sub.Cursor(), reset)
	for {
		if err := out.flush(); err != nil {
			return nil // the reader has left, or was too slow
		}
		err := out.follow(ctx, sub)
		if !errors.Is(err, entity.ErrLagged) && !errors.Is(err, entity.ErrCursorExpired) {
			return nil // the reader has left, or the server shuts down
		}
		next, reset, err := s.subscribe(ctx, out.cursor, q)
		if err != nil {
			return nil // likewise
		}
		sub.Close()
		sub = next
		if reset {
			out.reset(sub.Cursor())
		}
	}
}

// subscribe subscribes from a cursor or, with true, from now when the changes
// after it are gone.
func (s *Server) subscribe(ctx context.Context, cursor string, q url.Values) (sub *entity.Subscription, reset bool, err error) {
	query := entity.ChangesQuery{Cursor: cursor, Entities: q["entity"]}
	sub, err = s.runtime.Changes(ctx, query)
	if errors.Is(err, entity.ErrCursorExpired) {
		reset, query.Cursor = true, ""
		sub, err = s.runtime.Changes(ctx, query)
	}
	if err != nil {
		return nil, false, err
	}
	return sub, reset, nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w      http.ResponseWriter
	rc     *http.ResponseController
	buf    []byte
	cursor string // of the last event, or where the stream began
}

// open writes the head, and the cursor at which the stream begins, so that a
// reader that is cut off before the first change misses nothing either.
func (e *eventWriter) open(cursor string, reset bool) {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	e.w.WriteHeader(http.StatusOK)
	e.buf = append(e.buf, ": greenroom\nretry: 2000\n"...)
	if reset {
		e.reset(cursor)
		return
	}
	e.cursor = cursor
	e.buf = append(e.buf, "id: "+cursor+"\n\n"...)
}

// reset says that changes were missed.
func (e *eventWriter) reset(cursor string) {
	e.cursor = cursor
	e.buf = append(e.buf, "id: "+cursor+"\nevent: reset\ndata: {\"reason\":\"the changes after the cursor are no longer kept; read the present state\"}\n\n"...)
}

func (e *eventWriter) change(c *entity.Change) {
	e.cursor = c.Cursor
	e.buf = append(e.buf, "id: "...)
	e.buf = append(e.buf, c.Cursor...)
	e.buf = append(e.buf, "\nevent: change\ndata: "...)
	e.buf = append(appendChange(e.buf, c), "\n\n"...)
}

// follow writes changes until something ends them.
func (e *eventWriter) follow(ctx context.Context, sub *entity.Subscription) error {
	for {
		waiting, stop := context.WithTimeout(ctx, heartbeatEvery)
		c, err := sub.Next(waiting)
		stop()
		switch {
		case err == nil:
			e.change(&c)
			err = e.gather(sub)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			e.heartbeat(sub.Cursor())
			err = nil
		}
		if ferr := e.flush(); ferr != nil {
			return ferr
		}
		if err != nil {
			return err
		}
	}
}

// heartbeat shows that the stream lives, and moves the reader's cursor past the
// changes that did not concern it, which keeps it from expiring.
func (e *eventWriter) heartbeat(cursor string) {
	e.buf = append(e.buf, ": alive\n"...)
	if cursor != e.cursor {
		e.cursor = cursor
		e.buf = append(e.buf, "id: "+cursor+"\n"...)
	}
	e.buf = append(e.buf, '\n')
}

// now is a context that has ended: Next with it returns what is there.
var now = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// gather adds the changes that are ready, so that a burst is one write.
func (e *eventWriter) gather(sub *entity.Subscription) error {
	for len(e.buf) < streamFlushBytes {
		c, err := sub.Next(now)
		if errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		e.change(&c)
	}
	return nil
}

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
