package server

import (
	"context"
	"net/http"
	"time"

	"github.com/coder/websocket"

	"github.com/greenroom-go/greenroom/entity/value"
)

// socket sends committed changes over a WebSocket: the events of the stream, each as a text
// message.
func (a *streamAPI) socket(w http.ResponseWriter, r *http.Request, in *feedRequest) error {
	if r.Header.Get("Upgrade") == "" {
		w.Header().Set("Upgrade", "websocket")
		return problemf(http.StatusUpgradeRequired, "this path speaks WebSocket; %s has the same as server-sent events", streamPattern)
	}
	query, err := in.query(r.Context())
	if err != nil {
		return err
	}
	leave, err := a.places.enter(query.who)
	if err != nil {
		return err
	}
	defer leave()
	out := &socketWriter{}
	f := a.newFeed(query, out)
	if err := f.open(r.Context(), query.cursor); err != nil {
		return err
	}
	c, err := websocket.Accept(w, r, nil) // it compares the origin with the host
	if err != nil {
		f.changes.Close()
		return nil // it has responded
	}
	defer func() { _ = c.CloseNow() }() // it may be closed already
	connected := listenIn(context.WithoutCancel(r.Context()), c)
	ctx, cancel := context.WithCancel(connected)
	defer cancel()
	defer context.AfterFunc(a.serving, cancel)()
	revoked := callerOf(r.Context()).revoked
	defer context.AfterFunc(revoked, cancel)()
	out.conn, out.ctx, out.stream = c, connected, ctx // canceling a write would close the connection without the reason
	f.run(ctx)
	switch {
	case revoked.Err() != nil:
		_ = c.Close(websocket.StatusPolicyViolation, errRevoked.Error())
	case a.serving.Err() != nil:
		_ = c.Close(websocket.StatusGoingAway, "the server is shutting down") // the client may have left
	}
	return nil
}

// listenIn returns a context that ends with the connection, and closes the connection if it
// receives a message. CloseRead would do the same, but then wait 15 seconds for itself, while the
// stream still counts.
func listenIn(ctx context.Context, c *websocket.Conn) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer cancel()
		if _, _, err := c.Reader(ctx); err == nil {
			_ = c.Close(websocket.StatusPolicyViolation, "unexpected data message") // the client may have left
		}
	}()
	return ctx
}

// socketWriter writes events as messages.
type socketWriter struct {
	conn     *websocket.Conn
	ctx      context.Context //nolint:containedctx // of the connection
	stream   context.Context //nolint:containedctx // a large event ends with it
	messages []outgoing
	bytes    int
	greeted  bool
}

// outgoing is a message: head or, if there is large data, head, data and a brace.
type outgoing struct{ head, data []byte }

// head appends the beginning of a message.
func (o *socketWriter) head(name, cursor string) []byte {
	m := append(append([]byte(`{"event":"`), name...), '"')
	if cursor != "" {
		m = value.String(cursor).AppendJSON(append(m, `,"cursor":`...))
	}
	return m
}

func (o *socketWriter) add(m outgoing) {
	o.messages = append(o.messages, m)
	o.bytes += len(m.head) + len(m.data)
}

func (o *socketWriter) event(name, cursor string, data []byte) {
	m := append(o.head(name, cursor), `,"data":`...)
	if len(data) > streamFlushBytes {
		o.add(outgoing{m, data})
		return
	}
	o.add(outgoing{head: append(append(m, data...), '}')})
}

// alive sends a sign of life; the first one is called hello.
func (o *socketWriter) alive(cursor string) {
	name := "alive"
	if !o.greeted {
		name, o.greeted = "hello", true
	}
	o.add(outgoing{head: append(o.head(name, cursor), '}')})
}

func (o *socketWriter) buffered() int { return o.bytes }

func (o *socketWriter) flush() error {
	for i, m := range o.messages {
		if err := o.write(m); err != nil {
			return err
		}
		o.messages[i] = outgoing{}
	}
	o.messages, o.bytes = o.messages[:0], 0
	return nil
}

func (o *socketWriter) write(m outgoing) error {
	ctx, cancel := context.WithCancel(o.ctx)
	defer cancel()
	patience := time.AfterFunc(streamWriteTimeout, cancel)
	defer patience.Stop()
	if m.data == nil {
		return o.conn.Write(ctx, websocket.MessageText, m.head)
	}
	w, err := o.conn.Writer(ctx, websocket.MessageText)
	if err != nil {
		return err
	}
	for _, data := range [][]byte{m.head, m.data, {'}'}} {
		err := inParts(o.stream, data, func(part []byte) error {
			patience.Reset(streamWriteTimeout)
			_, err := w.Write(part)
			return err
		})
		if err != nil {
			return err
		}
	}
	return w.Close()
}
