package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
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
	"github.com/greenroom-go/greenroom/server/mqtt"
	"github.com/greenroom-go/greenroom/server/refusal"
	"github.com/greenroom-go/greenroom/server/script"
	"github.com/greenroom-go/greenroom/server/template"
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
