package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/awsshadow"
	"github.com/greenroom-go/greenroom/server/azure"
	"github.com/greenroom-go/greenroom/server/homie"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/mqtt"
	"github.com/greenroom-go/greenroom/server/refusal"
	"github.com/greenroom-go/greenroom/server/script"
	"github.com/greenroom-go/greenroom/server/sparkplug"
	"github.com/greenroom-go/greenroom/server/template"
	"github.com/greenroom-go/greenroom/server/thingsboard"
)

// Limits of the HTTP side. A body is limited to entity.MaxPayloadBytes.
const (
	// MaxHTTPConnections bounds the HTTP connections. A further one displaces the connection that
	// has been idle longest, or waits if none is idle.
	MaxHTTPConnections = 4096

	headerTimeout  = 5 * time.Second
	readTimeout    = 30 * time.Second
	writeAllIn     = 60 * time.Second // streams set their own, for each write
	idleTimeout    = 2 * time.Minute
	maxHeaderBytes = 64 << 10
)

// Server is the whole product in one process: store, entity runtime, MQTT broker, HTTP API and
// dashboard. Create one with New, and run it with Run.
type Server struct {
	cfg       Config
	log       *slog.Logger
	system    *actor.System
	runtime   *entity.Runtime
	mappings  *mapping.Service
	scripts   *script.Service
	alarms    *alarm.Service
	bulk      *bulkAPI
	streams   *streamAPI
	find      *entityFinder
	retention *retention.Retainer
	finder    *search.Finder
	templates *template.Book
	refusals  *refusal.Counter
	book      *access.Book
	audit     *access.Log
	gate      *gate
	claims    *access.Claims
	oidc      *oidcLogin // nil without a provider

	console   *console.Console
	consoleLn net.Listener // nil without a socket

	certificates *certificates // nil without TLS
	firstToken   string
	broker       *mqtt.Broker
	metrics      *metrics
	bodies       *intake.Room // for those of requests
	making       *intake.Room // for large answers while they are made
	answers      *intake.Room // for large answers while they are written
	http         *http.Server
	httpLn       net.Listener
	mqttLn       net.Listener

	operations []operation
	conns      *httpConns
	background sync.WaitGroup // goroutines that end with serving
	proxies    proxies

	// serving ends when the server begins to shut down; streams end with it.
	serving context.Context //nolint:containedctx // the server's own life
	end     context.CancelFunc

	shutdown func() error // runs once; later calls wait for it
}

// New opens the listeners and the store, and starts the entity runtime. Clients can connect from
// now on, and are served when Run is called. It fails with ErrAddressInUse, ErrNotLoopback, ErrTLS,
// ErrProxy, ErrStoreAddress, sqlite.ErrInUse, postgres.ErrInUse or another error of the store.
//
// Call Run, or Close if Run is not called.
func New(ctx context.Context, cfg Config) (*Server, error) {
	cfg.setDefaults()
	return open(ctx, cfg, func() (entity.Store, error) {
		return openStore(ctx, cfg.Store, cfg.Logger, sqlite.Options{SealAfter: cfg.SealAfter, ChangeLogAge: cfg.ChangeLogAge})
	})
}

// open is like New, with the caller's store.
func open(ctx context.Context, cfg Config, openStore func() (entity.Store, error)) (_ *Server, err error) {
	s := &Server{cfg: cfg, log: cfg.Logger, refusals: refusal.NewCounter(cfg.Logger), conns: newHTTPConns(MaxHTTPConnections), bodies: intake.New(maxBodies), making: intake.New(maxMaking), answers: intake.New(maxAnswers)}
	s.shutdown = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), cfg.DrainTimeout)
		defer cancel()
		return s.drain(ctx)
	})
	s.serving, s.end = context.WithCancel(context.Background())
	var undo []func(context.Context)
	defer func() {
		if err != nil {
			s.end()
			over, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.DrainTimeout)
			defer cancel()
			for _, undone := range slices.Backward(undo) {
				undone(over)
			}
		}
	}()
	if s.proxies, err = parseProxies(cfg.TrustedProxies); err != nil {
		return nil, err
	}
	s.conns.proxies = s.proxies
	if cfg.TLS.Enabled() {
		if cfg.TLS.ACME.Cache, err = cfg.acmeCache(); err != nil {
			return nil, err
		}
		if s.certificates, err = newCertificates(cfg.TLS, cfg.Logger); err != nil {
			return nil, err
		}
	}
	if err = s.listen(ctx); err != nil {
		return nil, err
	}
	undo = append(undo, func(context.Context) {
		_ = s.httpLn.Close()
		_ = s.mqttLn.Close()
	})
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	s.system = actor.NewSystem("greenroom", actor.WithLogger(cfg.Logger))
	undo = append(undo, func(ctx context.Context) { _, _ = s.system.Shutdown(ctx) })
	if s.runtime, err = entity.Open(ctx, s.system, store, cfg.Entity); err != nil {
		_ = store.Close() // the error that led here says more
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) { _ = s.runtime.Close(ctx) })
	if s.mappings, err = mapping.Open(ctx, s.runtime, mapping.Config{Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) { _ = s.mappings.Close(ctx) })
	if s.alarms, err = alarm.Open(ctx, s.runtime, alarm.Config{Logger: cfg.Logger, Encode: encodeAlarmEvent}); err != nil {
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) { _ = s.alarms.Close(ctx) })
	if s.book, err = access.Open(ctx, s.runtime, access.Config{Required: s.isOpen() && !cfg.Insecure, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) { _ = s.book.Close(ctx) })
	if s.scripts, err = script.Open(ctx, s.runtime, script.Config{May: s.scriptMay, Identity: s.scriptIdentity, Logger: cfg.Logger}); err != nil {
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) { _ = s.scripts.Close(ctx) })
	if s.audit, err = access.OpenLog(ctx, s.runtime); err != nil {
		return nil, err
	}
	_, particular, _ := net.SplitHostPort(s.HTTPAddr()) // it is a valid address
	if cfg.front != nil {
		particular = cfg.front.particular
	}
	s.claims = access.NewClaims(s.book)
	s.gate = &gate{s.book, s.audit, s.runtime, newSessions(particular, s.runtime, cfg.Logger), cfg.Logger}
	over, err := s.gate.sessions.open(ctx, s.book)
	if err != nil {
		return nil, err
	}
	s.background.Go(func() { s.gate.sessions.clear(s.serving, over) })
	if cfg.OIDC.Enabled() {
		if s.oidc, err = newOIDCLogin(&cfg.OIDC, s.gate, particular, cfg.Logger); err != nil {
			return nil, err
		}
	}
	if s.templates, err = template.Open(ctx, s.runtime, cfg.Logger, takenTopics()); err != nil {
		return nil, err
	}
	s.finder = search.New(s.runtime, cfg.Logger)
	undo = append(undo, func(context.Context) { s.finder.Close() })
	s.retention = retention.New(s.runtime, cfg.Logger)
	if s.broker, err = mqtt.New(mqtt.Config{Listener: s.encrypted(s.mqttLn, mqttProtocols), Runtime: s.runtime, Access: s.book, Refusals: s.refusals, Logger: cfg.Logger, Limits: cfg.MQTTLimits, Layouts: append(layouts(s.provisioner(), s.claims), template.NewLayout(s.templates), &azure.Layout{}), Record: s.gate.note, LoggedIn: recognized, Keeper: s.runtime}); err != nil {
		return nil, err
	}
	undo = append(undo, func(ctx context.Context) {
		s.broker.Stop()
		s.broker.Close(ctx)
	})
	s.streams = &streamAPI{runtime: s.runtime, serving: s.serving, places: newPlaces()}
	s.bulk = &bulkAPI{runtime: s.runtime, finder: s.finder, serving: s.serving}
	s.find = &entityFinder{s.finder, &entityEncoder{s.runtime}, findTimeout, maxPageBytes}
	s.metrics = newMetrics(s)
	s.openConsole()
	undo = append(undo, func(context.Context) { s.closeConsole() })
	s.operations = s.resources()
	handler, err := s.handler()
	if err != nil {
		return nil, err
	}
	s.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeAllIn,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: s.conns.note, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug), // errors caused by clients
	}
	// Do this last: nobody would see the token of a server that fails to start.
	if err := s.makeAdmin(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// listen opens the listeners, unless a Front has them.
func (s *Server) listen(ctx context.Context) (err error) {
	if f := s.cfg.front; f != nil {
		s.httpLn, s.mqttLn = f.http, f.mqtt
		return nil
	}
	open := s.cfg.Insecure || s.certificates != nil
	if s.httpLn, err = listen(ctx, "HTTP", "--http", s.cfg.HTTP, open); err != nil {
		return err
	}
	if s.mqttLn, err = listen(ctx, "MQTT", "--mqtt", s.cfg.MQTT, open); err != nil {
		_ = s.httpLn.Close()
	}
	return err
}

// layouts returns the conventions of topics that devices may use besides the server's own and those
// of templates.
func layouts(p thingsboard.Provisioner, c thingsboard.Claimer) []layout.Layout {
	return []layout.Layout{&thingsboard.Layout{Provisioner: p, Claims: c}, &awsshadow.Layout{}, &sparkplug.Layout{}, &homie.Layout{}}
}

// takenTopics returns the topics that templates may not use.
func takenTopics() []template.Taken {
	list := []template.Taken{{Prefix: "e/", Owner: "the server"}}
	for _, l := range append(layouts(nil, nil), &azure.Layout{}) {
		for _, prefix := range l.Prefixes() {
			list = append(list, template.Taken{Prefix: prefix, Owner: "another convention"})
		}
	}
	return list
}

// isOpen reports whether other machines can reach the server.
func (s *Server) isOpen() bool { return !onLoopback(s.httpLn) || !onLoopback(s.mqttLn) }

// makeAdmin creates the first admin if clients must log in and nobody could, and another one if
// requested.
func (s *Server) makeAdmin(ctx context.Context) (err error) {
	spec := access.Spec{Name: "admin", Grants: []access.Grant{{Role: access.Admin}}, By: "the start of the server"}
	switch {
	case s.book.Guarded() && s.book.Empty():
	case s.cfg.NewAdmin:
		spec.Name = "admin-" + strings.ToLower(rand.Text()[:8])
	default:
		return nil
	}
	s.firstToken, _, err = s.book.Create(ctx, &spec)
	return err
}

// FirstToken returns the token of the admin that New has created: at the first start of a server
// that other machines can reach, or with Config.NewAdmin. Otherwise it is "". The token cannot be
// recovered later.
func (s *Server) FirstToken() string { return s.firstToken }

// Guarded reports whether clients must log in.
func (s *Server) Guarded() bool { return s.book.Guarded() }

// encrypted returns the listener with TLS, if configured, for clients that name one of some protocols,
// or none.
func (s *Server) encrypted(ln net.Listener, protocols []string) net.Listener {
	if s.certificates == nil {
		return ln
	}
	return s.certificates.listener(ln, protocols)
}

// HTTPAddr returns the address of the HTTP API, host:port.
func (s *Server) HTTPAddr() string { return s.httpLn.Addr().String() }

// MQTTAddr returns the address of the MQTT broker, host:port.
func (s *Server) MQTTAddr() string { return s.mqttLn.Addr().String() }

// Run serves until ctx ends, and then shuts down gracefully, within Config.DrainTimeout: it stops
// accepting, commits and acknowledges what it has accepted, and closes the store. It returns nil
// after a complete shutdown.
func (s *Server) Run(ctx context.Context) error {
	if s.serving.Err() != nil {
		return fmt.Errorf("run: %w", ErrClosed)
	}
	if err := s.broker.Serve(); err != nil {
		return errors.Join(err, s.shutdown())
	}
	s.retention.Start()
	s.background.Go(s.tellAlarms)
	s.background.Go(s.serveConsole)
	if s.cfg.front != nil {
		s.background.Go(func() { (&clusterAPI{s.cfg.front, s.runtime, s.log}).keepMove(s.serving) })
	}
	failed := make(chan error, 1)
	go func() {
		failed <- s.http.Serve(s.encrypted(s.conns.listener(s.httpLn), s.cfg.TLS.httpProtocols()))
	}()
	if s.certificates != nil && s.certificates.issuer != nil {
		s.background.Go(func() { s.certificates.issuer.run(s.serving) })
	}
	s.log.LogAttrs(ctx, slog.LevelInfo, "serving",
		slog.String("http", s.HTTPAddr()), slog.String("mqtt", s.MQTTAddr()), slog.String("store", StoreName(s.cfg.Store)))
	select {
	case <-ctx.Done():
		s.log.LogAttrs(context.Background(), slog.LevelInfo, "shutting down")
		return s.shutdown()
	case err := <-failed:
		return errors.Join(fmt.Errorf("serve HTTP: %w", err), s.shutdown())
	}
}

// Close shuts down the server, whether or not it is running, and waits until that is done.
func (s *Server) Close() error { return s.shutdown() }

// drain shuts down from the outside in: it stops accepting connections and messages, then answers
// those that have arrived, and then closes the store.
func (s *Server) drain(ctx context.Context) error {
	s.end()
	s.broker.Stop()
	s.stopLayouts(ctx)
	err := s.finishRequests(ctx)
	_ = s.httpLn.Close() // again, in case it was never served
	s.bulk.wg.Wait()     // they end with s.serving
	s.background.Wait()  // likewise; requests to an authority are canceled
	s.closeConsole()
	s.retention.Close()
	s.finder.Close()
	err = errors.Join(err, s.scripts.Close(ctx), s.mappings.Close(ctx), s.alarms.Close(ctx), s.book.Close(ctx), s.saveSessions(ctx), s.runtime.Close(ctx))
	s.broker.Close(ctx)
	_, late := s.system.Shutdown(ctx)
	return errors.Join(err, late)
}

// stopLayouts lets the layouts store that their devices go offline, in half of the remaining time.
func (s *Server) stopLayouts(ctx context.Context) {
	half, cancel := pause.Half(ctx)
	defer cancel()
	s.broker.StopLayouts(half)
}

// saveSessions makes the broker save its sessions, in half of the remaining time; pending commits
// need the other half.
func (s *Server) saveSessions(ctx context.Context) error {
	half, cancel := pause.Half(ctx)
	defer cancel()
	return s.broker.Save(half)
}

// finishRequests waits for the responses to HTTP requests, for half of the remaining time: slow
// clients must not use up the time of the store.
func (s *Server) finishRequests(ctx context.Context) error {
	half, cancel := pause.Half(ctx)
	defer cancel()
	s.conns.close()
	if s.cfg.front != nil {
		s.cfg.front.finish(half)
	}
	if err := s.http.Shutdown(half); err != nil {
		_ = s.http.Close() // the error of Shutdown says more
		return fmt.Errorf("finish HTTP requests: %w", err)
	}
	return nil
}
