package server

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/internal/keyed"
)

// NodeConfig says which node of a cluster a [Front] is. Name and Secret are needed.
type NodeConfig struct {
	// Name is the name of the node, which no other has.
	Name string
	// Link is the address at which the other nodes reach this one, host:port; by default a free port of the
	// loopback address.
	Link string
	// Secret is known to all nodes, and to nobody else: who knows it may do everything. It has at least 24 bytes,
	// which must be random. Connections between nodes are TLS by which both prove that they know it.
	Secret string
	// Control answers requests over the link from peers that know the secret, other than those that
	// nodes forward for clients. By default the answer is 404.
	Control http.Handler
	// Nodes, unless nil, returns the nodes of the cluster, in the order in which admins see them.
	// It is called on the node that owns the store, for each request to show them, and may be
	// called concurrently. It may block as long as ctx lasts.
	Nodes func(ctx context.Context) ([]NodeInfo, error)
	// Ended, unless nil, is called when the server that Own has started with a claim has ended by
	// itself: it has failed, or the store has found that another server has taken it. The node no
	// longer answers clients by itself, so it must give up whatever made it the owner. Ended is
	// called once for a claim, on a goroutine of its own, after the server has closed the store;
	// Close waits for it.
	Ended func(claim uint64, err error)
}

// Front is a node of a cluster of servers with one store, a database. One node at a time owns the
// store, and runs a [Server] on it. Each node listens for clients, and forwards to the owner what
// they send: HTTP by request, so that connections survive a change of owner, and MQTT by
// connection. Requests and connections that come while no owner is known wait for some seconds.
// Streams of events end with the owner; their clients resume with the next one, on any node, from
// the last cursor that they have seen. The same holds for MQTT clients with lasting sessions, if
// the owner shut down in order, and for browser logins in any case.
//
// Each node answers /healthz and /metrics itself. A node that forwards has only metrics whose names
// begin with greenroom_node, and shows them to callers that may read the owner's; the owner has
// them in addition to its others.
//
// The Front does not decide which node is the owner: [Front.Own] makes it this node,
// [Front.Release] and [Front.Abandon] end that, and [Front.Follow] names another node. A Front is
// safe for concurrent use.
type Front struct {
	cfg     Config
	node    NodeConfig
	log     *slog.Logger
	secure  *certificates // nil without TLS
	conns   *httpConns    // of clients that speak HTTP
	mqtts   *httpConns    // of clients that speak MQTT, while they wait or are forwarded
	guests  *httpConns    // of the link, until they have proved that they know the secret
	keyed   *tls.Config
	metrics *frontMetrics
	warned  atomic.Int64 // when a stranger at the link was last logged, in nanoseconds since the epoch

	httpLn, mqttLn, linkLn net.Listener
	http, link             *http.Server
	linkHTTP               *handed      // connections of the link that speak HTTP
	kept                   *intake.Room // for bodies of requests that are kept to be sent again

	running context.Context //nolint:containedctx // its own life
	stop    context.CancelFunc
	work    sync.WaitGroup

	mu      sync.Mutex
	now     *answerer     // guarded by mu; what answers clients, nil if no owner is known
	epoch   uint64        // guarded by mu; the greatest epoch of an owner
	changed chan struct{} // guarded by mu; closed when now changes
	drained sync.WaitGroup

	sessions *handed // guarded by mu; of actor systems, nil if none is connected by the link
}

// answerer answers clients: a server on this node, or another node.
type answerer struct {
	node  string
	epoch uint64
	addr  string // of its link
	trip  *http.Transport

	local   *Server // nil on another node
	held    func() bool
	in      *handed            // MQTT connections for it
	stopRun context.CancelFunc // shuts it down in order
	ran     chan struct{}      // closed when it has ended
	taken   atomic.Bool        // another server has taken the store

	ctx    context.Context //nolint:containedctx // ends when another answerer takes over
	cancel context.CancelFunc

	requests sync.WaitGroup // that the local server answers
	fence    sync.RWMutex   // requests are added under a read lock
	closed   atomic.Bool    // no more are added; set under fence

	mu   sync.Mutex
	used map[net.Conn]int // guarded by mu; connections with requests that the local server answers
}

const (
	// MaxForwarded bounds the MQTT connections that a node of a cluster forwards to the owner of
	// the store. A further one displaces a connection that has not logged in, the oldest of the
	// address with the most such connections, or waits if all have logged in.
	MaxForwarded = 20_000

	// maxGuests bounds the connections to the link of a node that have not proved that they know the secret. Each is
	// given linkWithin, and a further one displaces another as with MaxForwarded.
	maxGuests = 64

	// knownWithin is the time by which the broker of the owner has closed a connection on which
	// nobody has logged in: ten seconds for CONNECT, and as many for a login. A node that forwards
	// it cannot see the login, since the connection may be encrypted.
	knownWithin = 25 * time.Second

	ownerWithin = 10 * time.Second // how long requests and connections wait for an owner
	linkWithin  = 5 * time.Second  // for a handshake between nodes

	heldTick = 50 * time.Millisecond // how often to check whether a lease holds again

	// answersWithin is the time that a former owner on another node has to answer what it has
	// received. It may be frozen.
	answersWithin = 250 * time.Millisecond
)

// ErrNodes is wrapped by errors about servers that cannot be nodes of a cluster.
var ErrNodes = errors.New("nodes of a cluster")

// NewFront opens the listeners: clients can connect from now on, and wait for an owner. The store
// must be a PostgreSQL database, and the certificate in a file: with --acme each node would order
// its own. It fails with ErrNodes, ErrAddressInUse, ErrNotLoopback, ErrTLS or ErrProxy. Call Run,
// or Close if Run is not called.
func NewFront(ctx context.Context, cfg Config, node NodeConfig) (_ *Front, err error) {
	cfg.setDefaults()
	f := &Front{cfg: cfg, node: node, log: cfg.Logger, changed: make(chan struct{}), kept: intake.New(maxBodies)}
	f.conns, f.mqtts, f.guests = newHTTPConns(MaxHTTPConnections), newHTTPConns(MaxForwarded), newHTTPConns(maxGuests)
	f.running, f.stop = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	switch {
	case node.Name == "":
		return nil, fmt.Errorf("%w: the name of the node is empty", ErrNodes)
	case !postgres.IsURL(cfg.Store):
		return nil, fmt.Errorf("%w: they share a store, so --store must be postgres://user@host/database, not %q", ErrNodes, StoreName(cfg.Store))
	case len(cfg.TLS.ACME.Hosts) > 0:
		return nil, fmt.Errorf("%w: the certificate must be in a file, --tls-cert and --tls-key: with --acme each node would order its own", ErrNodes)
	}
	if f.keyed, err = keyed.TLS(node.Secret, linkHTTP, linkMQTT, linkActors); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNodes, err)
	}
	if f.conns.proxies, err = parseProxies(cfg.TrustedProxies); err != nil {
		return nil, err
	}
	f.mqtts.proxies = f.conns.proxies
	if cfg.TLS.Enabled() {
		if f.secure, err = newCertificates(cfg.TLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	open := cfg.Insecure || f.secure != nil
	if f.httpLn, err = listen(ctx, "HTTP", "--http", cfg.HTTP, open); err != nil {
		return nil, err
	}
	if f.mqttLn, err = listen(ctx, "MQTT", "--mqtt", cfg.MQTT, open); err != nil {
		return nil, err
	}
	if f.linkLn, err = listen(ctx, "other nodes", "--join", cmp.Or(node.Link, "127.0.0.1:0"), true); err != nil {
		return nil, err
	}
	f.linkHTTP = newHanded(f.linkLn.Addr())
	f.metrics = newFrontMetrics(f)
	quiet := slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug)
	f.http = &http.Server{
		Handler: http.HandlerFunc(f.serve), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeAllIn,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ConnState: f.conns.note, ConnContext: withRaw, ErrorLog: quiet,
	}
	f.link = &http.Server{
		Handler: http.HandlerFunc(f.serveLink), ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeAllIn,
		IdleTimeout: idleTimeout, MaxHeaderBytes: 2 * maxHeaderBytes, ConnContext: withRaw, ErrorLog: quiet,
	}
	return f, nil
}

// HTTPAddr returns the address of the HTTP API, host:port.
func (f *Front) HTTPAddr() string { return f.httpLn.Addr().String() }

// MQTTAddr returns the address for MQTT, host:port.
func (f *Front) MQTTAddr() string { return f.mqttLn.Addr().String() }

// LinkAddr returns the address for the other nodes, host:port.
func (f *Front) LinkAddr() string { return f.linkLn.Addr().String() }

// Run serves clients until ctx ends, and then closes everything; call Release before to shut the
// server down in order. It returns nil once that is done, or the error of a listener that has
// failed.
func (f *Front) Run(ctx context.Context) error {
	failed := make(chan error, 2)
	clients := f.conns.listener(f.httpLn)
	if f.secure != nil {
		clients = f.secure.listener(clients, f.cfg.TLS.httpProtocols())
	}
	f.work.Go(func() { failed <- f.http.Serve(clients) })
	f.work.Go(func() { failed <- f.link.Serve(f.linkHTTP) })
	f.work.Go(f.acceptMQTT)
	f.work.Go(f.acceptLink)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve HTTP: %w", err)
	}
	f.Close()
	return err
}

// Close closes everything at once, and waits until that is done. If the server is still running,
// Close shuts it down in order and waits for that as well.
func (f *Front) Close() {
	f.Abandon()
	f.mu.Lock()
	f.stop()
	if f.sessions != nil {
		_ = f.sessions.Close() // it returns nil
	}
	f.mu.Unlock()
	for _, ln := range []net.Listener{f.httpLn, f.mqttLn, f.linkLn} {
		if ln != nil {
			_ = ln.Close() // it may be closed already
		}
	}
	if f.http != nil {
		_ = f.http.Close()
		_ = f.link.Close()
	}
	f.work.Wait()
	f.drained.Wait()
}

// Own opens the store with a claim, the epoch with which this node owns it, and starts a server on
// it that answers clients: here and, by their links, on the other nodes. held reports whether the
// node still owns the store; it is asked for each request, and must not block. Own returns when the
// server has started. It fails with an error of [New], and if a later owner is known.
//
// The server ends with Release, Abandon or Close, if another node has a later epoch, and if the store finds
// that another server has taken it.
func (f *Front) Own(ctx context.Context, claim uint64, held func() bool) (*Server, error) {
	cfg := f.cfg
	a := f.newAnswerer(f.node.Name, f.LinkAddr(), claim)
	a.held, a.in, a.used = held, newHanded(f.mqttLn.Addr()), make(map[net.Conn]int)
	cfg.front = &fronted{
		http: newHanded(f.httpLn.Addr()), mqtt: a.in, finish: a.finish, metrics: f.metrics, particular: keyed.Name(f.node.Secret),
		node: f.node.Name, epoch: claim, since: time.Now(), nodes: f.node.Nodes,
	}
	lost := make(<-chan struct{})
	s, err := open(ctx, cfg, func() (entity.Store, error) {
		store, err := postgres.Open(ctx, cfg.Store, postgres.Options{Logger: cfg.Logger, ChangeLogAge: cfg.ChangeLogAge, SealAfter: cfg.SealAfter, Claim: claim})
		if err != nil {
			return nil, err
		}
		lost = store.TakenOver()
		return store, nil
	})
	if err != nil {
		a.cancel()
		return nil, fmt.Errorf("own the store: %w", err)
	}
	a.local = s
	run, stop := context.WithCancel(f.running)
	a.stopRun, a.ran = stop, make(chan struct{})
	if !f.replace(a) {
		a.cancel()
		stop()
		return nil, errors.Join(fmt.Errorf("own the store: %w: there is a later owner than that of epoch %d", ErrNodes, claim), s.Close())
	}
	go f.run(run, a)
	go func() {
		defer f.drained.Done()
		select {
		case <-a.ctx.Done():
		case <-lost:
			f.log.LogAttrs(context.Background(), slog.LevelWarn, "another node has taken the store", slog.Uint64("epoch", claim))
			a.taken.Store(true)
			f.remove(a)
		}
	}()
	return s, nil
}

// run runs the server of an answerer until ctx ends, or it has failed.
func (f *Front) run(ctx context.Context, a *answerer) {
	defer f.drained.Done()
	err := a.local.Run(ctx)
	itself := ctx.Err() == nil || a.taken.Load()
	if err != nil {
		f.log.LogAttrs(context.Background(), slog.LevelWarn, "the server has not ended in order", slog.Any("error", err))
	}
	close(a.ran)
	f.remove(a)
	if itself && f.node.Ended != nil {
		f.node.Ended(a.epoch, err)
	}
}

// Release shuts the server on this node down in order: requests and messages that have arrived are
// answered, and later ones wait for the next owner. It waits for that as long as ctx lasts.
func (f *Front) Release(ctx context.Context) error {
	f.mu.Lock()
	a := f.now
	if a == nil || a.local == nil {
		f.mu.Unlock()
		return nil
	}
	f.set(nil)
	f.mu.Unlock()
	a.stopRun()
	select {
	case <-a.ran:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("release the store: %w", context.Cause(ctx))
	}
}

// Abandon stops the server on this node from answering anybody, at once, because the node does not
// own the store. It does not wait for the server's end.
func (f *Front) Abandon() {
	f.mu.Lock()
	a := f.now
	f.mu.Unlock()
	if a != nil && a.local != nil {
		f.remove(a)
	}
}

// Follow says which node owns the store, with which epoch, and the address of its link. It ignores
// an owner with an earlier epoch than the known one, and this node itself, for which Own is called.
func (f *Front) Follow(node, link string, epoch uint64) {
	if node == f.node.Name {
		return
	}
	if a := f.newAnswerer(node, link, epoch); !f.replace(a) {
		a.cancel()
	}
}

// Owner returns the node that is known to own the store, and its epoch; "" for none.
func (f *Front) Owner() (node string, epoch uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.now == nil {
		return "", 0
	}
	return f.now.node, f.now.epoch
}

func (f *Front) newAnswerer(node, link string, epoch uint64) *answerer {
	a := &answerer{node: node, addr: link, epoch: epoch}
	a.ctx, a.cancel = context.WithCancel(f.running)
	a.trip = &http.Transport{
		DialContext:  func(ctx context.Context, _, _ string) (net.Conn, error) { return f.dial(ctx, link, linkHTTP) },
		MaxIdleConns: MaxHTTPConnections, MaxIdleConnsPerHost: MaxHTTPConnections, IdleConnTimeout: idleTimeout / 2,
		DisableCompression: true, ResponseHeaderTimeout: 2 * writeAllIn,
	}
	return a
}

// replace makes a the answerer, unless it or a later one is known already. It reports whether it
// has.
func (f *Front) replace(a *answerer) bool {
	f.mu.Lock()
	old := f.now
	if a.epoch < f.epoch || f.running.Err() != nil || a.local == nil && old != nil && old.epoch == a.epoch && old.addr == a.addr {
		f.mu.Unlock()
		return false
	}
	f.epoch = a.epoch
	f.set(a)
	if a.local != nil {
		f.drained.Add(2) // before Close waits
	}
	f.mu.Unlock()
	if old != nil {
		f.discard(old)
	}
	return true
}

// remove removes the answerer if it is a.
func (f *Front) remove(a *answerer) {
	f.mu.Lock()
	if f.now == a {
		f.set(nil)
	}
	f.mu.Unlock()
	f.discard(a)
}

// set changes the answerer. The caller holds mu.
func (f *Front) set(a *answerer) {
	f.now = a
	close(f.changed)
	f.changed = make(chan struct{})
}

// discard ends an answerer. The server on this node gets no time: its connections are closed first.
func (f *Front) discard(a *answerer) {
	a.end()
	if a.local != nil {
		a.stopRun()
	}
}

// end closes the connections of an answerer.
func (a *answerer) end() {
	a.trip.CloseIdleConnections()
	if a.local == nil {
		time.AfterFunc(answersWithin, a.cancel)
		return
	}
	a.cancel()
	a.in.hangUp()
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn := range a.used {
		hangUp(raw(conn))
	}
}

// answers returns the answerer, waiting for one other than not, which the caller knows does not
// answer. A server on this node answers only while the node owns the store.
func (f *Front) answers(ctx context.Context, not *answerer) (*answerer, error) {
	for {
		if ctx.Err() != nil { // otherwise a caller that is always turned away would try again forever
			return nil, errNoOwner
		}
		f.mu.Lock()
		a, changed := f.now, f.changed
		f.mu.Unlock()
		if a != nil && a != not && (a.local == nil || a.held()) { // not under the lock: it may take other locks
			return a, nil
		}
		select {
		case <-changed:
		case <-time.After(heldTick):
		case <-ctx.Done():
			return nil, errNoOwner
		}
	}
}

// errNoOwner says that no owner of the store is known.
var errNoOwner = problemf(http.StatusServiceUnavailable, "no node of the cluster owns the store at the moment; try again")
