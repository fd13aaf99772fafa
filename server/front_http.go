package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"time"

	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/internal/keyed"
	"github.com/greenroom-go/greenroom/server/access"
)

// The headers of requests between nodes. Those of clients are removed.
const (
	clientHeader = "Greenroom-Client"    // the sender, see client
	refuseHeader = "Greenroom-Not-Owner" // in an answer: the node that was asked does not own the store, and nothing was done
	knownHeader  = "Greenroom-Known"     // in an answer: the client has logged in
)

// maxReplayed bounds the body of a request that is kept so that it can be sent again.
const maxReplayed = 1 << 20

// client identifies the sender of a request to a node, for the owner of the store.
type client struct {
	Address string `json:"address"`
	TLS     bool   `json:"tls,omitempty"`
	// Certificate is the verified client certificate, in DER.
	Certificate []byte `json:"certificate,omitempty"`
	// Until is when the certificate, or one that vouches for it, expires.
	Until time.Time `json:"until,omitzero"`
}

func clientOf(r *http.Request) *client {
	c := &client{Address: r.RemoteAddr, TLS: r.TLS != nil}
	if _, until := access.CertificateOf(r.TLS, time.Now()); !until.IsZero() {
		c.Certificate, c.Until = r.TLS.PeerCertificates[0].Raw, until
	}
	return c
}

func (c *client) header() string {
	text, _ := json.Marshal(c) // of texts
	return base64.StdEncoding.EncodeToString(text)
}

// apply makes a request appear as sent by this client.
func (c *client) apply(r *http.Request) error {
	r.RemoteAddr, r.TLS = c.Address, nil
	if !c.TLS {
		return nil
	}
	r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	if len(c.Certificate) == 0 {
		return nil
	}
	cert, err := x509.ParseCertificate(c.Certificate)
	if err != nil {
		return err
	}
	cert.NotAfter = c.Until
	r.TLS.PeerCertificates = []*x509.Certificate{cert}
	r.TLS.VerifiedChains = [][]*x509.Certificate{r.TLS.PeerCertificates} // by the node that had the connection
	return nil
}

func clientFrom(header string) (*client, error) {
	text, err := base64.StdEncoding.DecodeString(header)
	if err != nil {
		return nil, err
	}
	c := &client{}
	return c, json.Unmarshal(text, c)
}

// rawKey is the context key of a request's connection, as hangUp takes it.
type rawKey struct{}

func withRaw(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(withConn(ctx, conn), rawKey{}, conn)
}

// serve answers a client of this node.
func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	r.Header.Del(clientHeader)
	within, cancel := context.WithTimeout(r.Context(), ownerWithin)
	defer cancel()
	if r.URL.Path == healthPath && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		f.health(w, r)
		return
	}
	began := time.Now()
	a, err := f.answers(within, nil)
	f.metrics.waited.Observe(time.Since(began).Seconds())
	switch {
	case err != nil:
		f.metrics.http.noOwner.Inc()
		writeProblem(w, r, problemOf(err))
	case a.local != nil && a.serve(w, r):
	case a.local == nil && r.URL.Path == metricsPath && safe(r.Method) && f.showMetrics(a, w, r):
	default:
		f.forward(w, r)
	}
}

// serve lets the server on this node answer a request. It reports false if the server accepts no
// more requests.
func (a *answerer) serve(w http.ResponseWriter, r *http.Request) bool {
	a.fence.RLock()
	if a.closed.Load() || a.ctx.Err() != nil || !a.held() {
		a.fence.RUnlock()
		return false
	}
	a.requests.Add(1)
	a.fence.RUnlock()
	defer a.requests.Done()
	conn, _ := r.Context().Value(rawKey{}).(net.Conn)
	a.use(conn, 1)
	defer a.use(conn, -1)
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(a.ctx, cancel)()
	a.local.http.Handler.ServeHTTP(w, r.WithContext(ctx))
	return true
}

// use counts the requests of a connection.
func (a *answerer) use(conn net.Conn, n int) {
	if conn == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used[conn] += n; a.used[conn] == 0 {
		delete(a.used, conn)
	}
}

// finish waits until the requests that have arrived are answered.
func (a *answerer) finish(ctx context.Context) {
	a.fence.Lock()
	a.closed.Store(true)
	a.fence.Unlock()
	ended := make(chan struct{})
	go func() {
		a.requests.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
}

// forward forwards a request to the owner.
func (f *Front) forward(w http.ResponseWriter, r *http.Request) {
	if stay, ok := f.keep(r); ok {
		defer stay.Leave()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			writeProblem(w, r, problemf(http.StatusBadRequest, "the body has ended early: %v", err))
			return
		}
		r.Body, r.GetBody = io.NopCloser(bytes.NewReader(body)), func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
	rc := http.NewResponseController(w)
	_ = rc.SetWriteDeadline(time.Time{}) // if the connection has ended, writing says so
	w = &forwardedWriter{w, rc}
	if r.GetBody == nil && r.ContentLength != 0 {
		r.Body = &forwardedBody{ReadCloser: r.Body, rc: rc}
	}
	from := clientOf(r).header()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host = "http", "owner", p.In.Host // the link is TLS in any case
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				if values, ok := p.In.Header[name]; ok { // as a proxy has written it, for which RemoteAddr stands
					p.Out.Header[name] = values
				}
			}
			p.Out.Header.Set(clientHeader, from)
			p.Out.GetBody = p.In.GetBody
		},
		Transport: (*forwarder)(f), FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			count := f.metrics.http.noOwner
			if !errors.Is(err, errNoOwner) {
				count = f.metrics.http.failed
			}
			count.Inc()
			if _, ok := errors.AsType[*problem](err); !ok {
				err = problemf(http.StatusBadGateway, "the node that owned the store has not answered; whether the request had an effect is not known: %v", err)
			}
			writeProblem(w, r, problemOf(err))
		},
	}
	proxy.ServeHTTP(w, r)
}

// keep reports whether the body of a request should be kept and there is room for it: an address
// may use as much as it leaves for others. The caller releases the room.
func (f *Front) keep(r *http.Request) (stay *intake.Stay, ok bool) {
	if r.ContentLength <= 0 || r.ContentLength > maxReplayed {
		return nil, false
	}
	stay = f.kept.Enter(access.AddressKey(addressOf(r)), r.ContentLength)
	select {
	case <-stay.Granted():
		return stay, true
	default:
		stay.Leave()
		return nil, false
	}
}

// forwardedBody is the body of a request that is forwarded as it comes. The owner limits how long
// it may take in all, by ending its connection.
type forwardedBody struct {
	io.ReadCloser
	rc    *http.ResponseController
	ended bool
}

// Read reads within importReadTimeout.
func (b *forwardedBody) Read(p []byte) (n int, err error) {
	if !b.ended { // a deadline after the end would end the request
		_ = b.rc.SetReadDeadline(time.Now().Add(importReadTimeout))
	}
	n, err = b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	return n, err
}

// forwardedWriter writes the answer of the owner, which may be a stream.
type forwardedWriter struct {
	http.ResponseWriter
	rc *http.ResponseController
}

// WriteHeader writes within streamWriteTimeout, as an answer without a body is.
func (w *forwardedWriter) WriteHeader(status int) {
	_ = w.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout)) // if the connection has ended, writing says so
	w.ResponseWriter.WriteHeader(status)
}

// Write writes within streamWriteTimeout.
func (w *forwardedWriter) Write(p []byte) (int, error) {
	if err := w.rc.SetWriteDeadline(time.Now().Add(streamWriteTimeout)); err != nil {
		return 0, err
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap returns the writer for an [http.ResponseController].
func (w *forwardedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// forwarder is the http.RoundTripper for forwarded requests. A request that certainly had no
// effect, or may have it twice, is sent again to the next owner.
type forwarder Front

// RoundTrip implements http.RoundTripper.
func (t *forwarder) RoundTrip(r *http.Request) (*http.Response, error) {
	f := (*Front)(t)
	within, cancel := context.WithTimeout(r.Context(), ownerWithin)
	defer cancel()
	for {
		a, err := f.answers(within, nil)
		if err != nil {
			return nil, err
		}
		resp, sent, err := a.tripOnce(r)
		if err == nil && resp.Header.Get(refuseHeader) == "" {
			f.metrics.http.passed.Inc()
			recognizedBy(r, resp)
			return resp, nil
		}
		if err == nil {
			_ = resp.Body.Close()
			sent = false
		}
		again := !sent || safe(r.Method) && r.Header.Get("Upgrade") == ""
		if r.Body != nil && r.Body != http.NoBody {
			if r.GetBody == nil {
				again = again && isDial(err)
			} else if body, err := r.GetBody(); err == nil {
				r.Body = body
			}
		}
		switch {
		case errors.Is(err, keyed.ErrOtherSecret):
			return nil, problemf(http.StatusBadGateway, "node %q does not know the secret of node %q, which owns the store: all nodes must have the same", f.node.Name, a.node)
		case err == nil && (within.Err() != nil || !again): // refused, and the part of the body that was sent is not kept
			return nil, errNoOwner
		case within.Err() != nil || !again:
			return nil, err
		}
		f.pause(within, a)
	}
}

// recognizedBy records whether the answer to a request says that its client has logged in. A client
// of MQTT over a WebSocket has not yet.
func recognizedBy(r *http.Request, resp *http.Response) {
	if resp.Header.Get(knownHeader) != "" {
		resp.Header.Del(knownHeader)
		recognized(r)
		return
	}
	if body, ok := resp.Body.(heldSocket); ok {
		if conn, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
			stop, done := recognizedLater(conn), body.done
			body.done = func() {
				stop()
				done()
			}
		}
	}
}

// pause waits for another answerer than a, or for a moment.
func (f *Front) pause(ctx context.Context, a *answerer) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, _ = f.answers(ctx, a) // the caller asks again
}

// tripOnce sends a request once. sent reports whether the owner may have got it.
func (a *answerer) tripOnce(r *http.Request) (resp *http.Response, sent bool, err error) {
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(a.ctx, cancel)
	out := r.WithContext(ctx)
	if r.Body != nil && r.Body != http.NoBody {
		out.Body = io.NopCloser(r.Body) // kept for the next time; the server closes it
	}
	resp, err = a.trip.RoundTrip(out)
	if err != nil {
		stop()
		cancel()
		return nil, !isDial(err), err
	}
	held := &heldBody{ReadCloser: resp.Body, done: func() {
		stop()
		cancel()
	}}
	if socket, ok := resp.Body.(io.Writer); ok { // of a changed protocol
		resp.Body = heldSocket{held, socket}
	} else {
		resp.Body = held
	}
	return resp, true, nil
}

// isDial reports whether a request has failed because there was no connection.
func isDial(err error) bool {
	op, ok := errors.AsType[*dialError](err)
	return ok && op != nil
}

// heldBody is a body that ends with its answerer.
type heldBody struct {
	io.ReadCloser
	done func()
}

func (b *heldBody) Close() error {
	defer b.done()
	return b.ReadCloser.Close()
}

// heldSocket is heldBody for a WebSocket.
type heldSocket struct {
	*heldBody
	io.Writer
}

// serveLink answers another node.
func (f *Front) serveLink(w http.ResponseWriter, r *http.Request) {
	header := r.Header.Get(clientHeader)
	if header == "" {
		if f.node.Control == nil {
			http.NotFound(w, r)
			return
		}
		f.node.Control.ServeHTTP(w, r)
		return
	}
	r.Header.Del(clientHeader)
	from, err := clientFrom(header)
	if err == nil {
		err = from.apply(r)
	}
	if err != nil {
		writeProblem(w, r, problemf(http.StatusBadRequest, "the client that a node has named: %v", err))
		return
	}
	f.mu.Lock()
	a := f.now
	f.mu.Unlock()
	r = r.WithContext(context.WithValue(r.Context(), knownKey{}, w.Header()))
	if a == nil || a.local == nil || !a.serve(w, r) {
		w.Header().Set(refuseHeader, "1")
		writeProblem(w, r, errNoOwner)
	}
}

// healthPath is that of the health of a node.
const healthPath = "/healthz"

// nodeHealthJSON is the health of a node that forwards what clients send.
type nodeHealthJSON struct {
	Status string `json:"status"`
	// The node that was asked.
	Node string `json:"node"`
	// The node that owns the store.
	Owner string `json:"owner"`
}

// health reports whether this node can serve clients: its own server can commit, or the owner's can, and
// answers this node.
func (f *Front) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	a, err := f.answers(ctx, nil)
	if err != nil {
		writeProblem(w, r, problemf(http.StatusServiceUnavailable, "node %q: no node of the cluster owns the store at the moment", f.node.Name))
		return
	}
	ok := func() {
		w.Header().Set("Content-Type", mediaJSON)
		w.Header().Set("Cache-Control", "no-store")
		_ = json.NewEncoder(w).Encode(nodeHealthJSON{"ok", f.node.Name, a.node}) // the client may have left
	}
	r = r.WithContext(ctx)
	if a.local != nil {
		if !a.local.isOwnName(hostOf(r)) {
			writeProblem(w, r, errOtherHost(r))
			return
		}
		if reason := a.local.runtime.Stats().StoreError; reason != "" {
			writeProblem(w, r, problemf(http.StatusServiceUnavailable, "node %q: the store does not commit, readings wait: %s", f.node.Name, reason))
			return
		}
		ok()
		return
	}
	r = r.Clone(ctx)
	r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
	r.Header = http.Header{clientHeader: {clientOf(r).header()}}
	r.URL.Scheme, r.URL.Host = "http", "owner"
	resp, _, err := a.tripOnce(r)
	switch {
	case err != nil:
		writeProblem(w, r, problemf(http.StatusServiceUnavailable, "node %q passes on to %q, which does not answer: %v", f.node.Name, a.node, err))
	case resp.StatusCode == http.StatusForbidden:
		_ = resp.Body.Close()
		writeProblem(w, r, errOtherHost(r))
	case resp.StatusCode != http.StatusOK:
		_ = resp.Body.Close()
		writeProblem(w, r, problemf(http.StatusServiceUnavailable, "node %q passes on to %q, which answers %s", f.node.Name, a.node, resp.Status))
	default:
		_ = resp.Body.Close()
		ok()
	}
}
