package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// MaxStreams bounds the open streams, event streams and WebSockets together. A principal may
	// open a quarter of them.
	MaxStreams = 1024
	// heartbeatEvery is the interval of signs of life on a silent stream. Proxies close a silent
	// connection after a minute or less.
	heartbeatEvery = 15 * time.Second
	// streamWriteTimeout is how long a reader may take for streamWritePart bytes before its stream is
	// closed. It can resume.
	streamWriteTimeout = 10 * time.Second
	streamWritePart    = 32 << 10
	// streamFlushBytes is how much is buffered before it is flushed, even if more is ready.
	streamFlushBytes = 32 << 10
)

// streamAPI sends committed changes to their readers as they happen.
type streamAPI struct {
	runtime *entity.Runtime
	serving context.Context                //nolint:containedctx // the server's own life
	places  *places                        // counts the open streams
	events  [len(eventNames)]atomic.Uint64 // sent to readers, by name
	judge   judge
	large   largeEvent
}

func (a *streamAPI) operations() []operation {
	return []operation{
		rawOp("GET", streamPattern, "stream", "Read committed changes as server-sent events: change, edit, lagged and reset.", a.stream, needs(seesSome),
			takesLong, sends(content{mediaEvents, ""})),
		rawOp("GET", "/v1/ws", "socket", "Read the events of the stream as messages of a WebSocket.", a.socket, needs(seesSome),
			takesLong, answers(http.StatusSwitchingProtocols), fails(http.StatusUpgradeRequired)),
	}
}

// streamPattern is the path of the server-sent events.
const streamPattern = "/v1/stream"

type streamRequest struct {
	feedRequest
	// Where to resume; takes precedence over cursor.
	LastEventID string `header:"Last-Event-ID"`
}

// stream sends committed changes as server-sent events.
//
// The id of an event is a cursor. A reader that resumes with it, as Last-Event-ID or as the
// parameter cursor, receives the changes in between. If these are no longer kept, it receives the
// event reset, should read the current state, and continues from now on.
func (a *streamAPI) stream(w http.ResponseWriter, r *http.Request, in *streamRequest) error {
	query, err := in.query(r.Context())
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead { // whose response must end
		w.Header().Set("Content-Type", mediaEvents)
		return nil
	}
	leave, err := a.places.enter(query.who)
	if err != nil {
		return err
	}
	defer leave()
	if in.LastEventID != "" { // it is newer than the URL when a browser reconnects
		query.cursor = in.LastEventID
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.serving, cancel)()
	out := &eventWriter{ctx: ctx, w: w, rc: http.NewResponseController(w)}
	f := a.newFeed(query, out)
	if err := f.open(ctx, query.cursor); err != nil {
		return err
	}
	out.open()
	f.run(ctx)
	return nil
}

// eventWriter writes server-sent events.
type eventWriter struct {
	ctx     context.Context //nolint:containedctx // of the stream; a large event ends with it
	w       http.ResponseWriter
	rc      *http.ResponseController
	buf     []byte
	written int    // bytes of large events since the last flush
	id      string // the last one written
	err     error  // of writing a large event
}

// open writes the headers.
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
	e.buf = append(e.buf, "\ndata: "...)
	if len(data) > streamFlushBytes {
		e.write()
		e.written += len(data)
		if e.err == nil {
			e.err = inParts(e.ctx, data, e.writePart)
		}
	} else {
		e.buf = append(e.buf, data...)
	}
	e.buf = append(e.buf, "\n\n"...)
}

// alive sends a sign of life, and moves the reader's cursor past changes that did not concern it,
// so that the cursor does not expire. The first one says where the stream begins, so that a reader
// that is interrupted before the first change misses nothing.
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

func (e *eventWriter) buffered() int { return e.written + len(e.buf) }

func (e *eventWriter) flush() error {
	if len(e.buf) == 0 && e.err == nil {
		return nil
	}
	e.write()
	e.written = 0
	if e.err == nil {
		e.err = e.rc.Flush()
	}
	if e.err != nil {
		return fmt.Errorf("write events: %w", e.err)
	}
	return nil
}

// write writes what is buffered.
func (e *eventWriter) write() {
	if e.err == nil {
		e.err = e.writePart(e.buf)
	}
	e.buf = e.buf[:0]
}

// writePart writes within streamWriteTimeout.
func (e *eventWriter) writePart(part []byte) error {
	err := e.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	if err == nil {
		_, err = e.w.Write(part)
	}
	return err
}

// inParts writes data in parts of streamWritePart bytes until ctx ends: each has a time of its own, so
// that a reader with a slow connection gets large data whole.
func inParts(ctx context.Context, data []byte, write func([]byte) error) error {
	for part := range slices.Chunk(data, streamWritePart) {
		err := ctx.Err()
		if err == nil {
			err = write(part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
