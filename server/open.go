package server

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/alarm"
	"github.com/greenroom-go/greenroom/entity/mapping"
	"github.com/greenroom-go/greenroom/entity/retention"
	"github.com/greenroom-go/greenroom/entity/search"
	"github.com/greenroom-go/greenroom/internal/intake"
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

// opening is a server that New is opening, and how to undo what it has opened so far.
type opening struct {
	*Server
	undo []func(context.Context)
}

// open is like New, with the caller's store.
func open(ctx context.Context, cfg Config, openStore func() (entity.Store, error)) (_ *Server, err error) {
	o := opening{Server: newServer(cfg)}
	defer func() {
		if err != nil {
			o.abort(ctx)
		}
	}()
	if err := o.openNetwork(ctx); err != nil {
		return nil, err
	}
	if err := o.openRuntime(ctx, openStore); err != nil {
		return nil, err
	}
	if err := o.openServices(ctx); err != nil {
		return nil, err
	}
	if err := o.openLogins(ctx); err != nil {
		return nil, err
	}
	if err := o.openBroker(ctx); err != nil {
		return nil, err
	}
	if err := o.openAPI(); err != nil {
		return nil, err
	}
	// Do this last: nobody would see the token of a server that fails to start.
	if err := o.makeAdmin(ctx); err != nil {
		return nil, err
	}
	return o.Server, nil
}

// newServer returns a server that has nothing open.
func newServer(cfg Config) *Server {
	s := &Server{
		cfg: cfg, log: cfg.Logger, refusals: refusal.NewCounter(cfg.Logger), conns: newHTTPConns(MaxHTTPConnections),
		bodies: intake.New(maxBodies), making: intake.New(maxMaking), answers: intake.New(maxAnswers),
	}
	s.shutdown = sync.OnceValue(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), cfg.DrainTimeout)
		defer cancel()
		return s.drain(ctx)
	})
	s.serving, s.end = context.WithCancel(context.Background())
	return s
}

// opened notes how to close what has just been opened.
func (o *opening) opened(undo func(context.Context)) { o.undo = append(o.undo, undo) }

// abort closes what is open, the last first.
func (o *opening) abort(ctx context.Context) {
	o.end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.cfg.DrainTimeout)
	defer cancel()
	for _, undo := range slices.Backward(o.undo) {
		undo(ctx)
	}
}

// openNetwork reads the certificates and opens the listeners.
func (o *opening) openNetwork(ctx context.Context) (err error) {
	if o.proxies, err = parseProxies(o.cfg.TrustedProxies); err != nil {
		return err
	}
	o.conns.proxies = o.proxies
	if tls := &o.cfg.TLS; tls.Enabled() {
		if tls.ACME.Cache, err = o.cfg.acmeCache(); err != nil {
			return err
		}
		if o.certificates, err = newCertificates(*tls, o.log); err != nil {
			return err
		}
	}
	if err := o.listen(ctx); err != nil {
		return err
	}
	o.opened(func(context.Context) {
		_ = o.httpLn.Close()
		_ = o.mqttLn.Close()
	})
	return nil
}

// openRuntime opens the store and starts the entities.
func (o *opening) openRuntime(ctx context.Context, openStore func() (entity.Store, error)) error {
	store, err := openStore()
	if err != nil {
		return err
	}
	o.system = actor.NewSystem("greenroom", actor.WithLogger(o.log))
	o.opened(func(ctx context.Context) { _, _ = o.system.Shutdown(ctx) })
	if o.runtime, err = entity.Open(ctx, o.system, store, o.cfg.Entity); err != nil {
		_ = store.Close() // the error that led here says more
		return err
	}
	o.opened(func(ctx context.Context) { _ = o.runtime.Close(ctx) })
	return nil
}

// openServices starts what works on the entities by itself.
func (o *opening) openServices(ctx context.Context) (err error) {
	if o.mappings, err = mapping.Open(ctx, o.runtime, mapping.Config{Logger: o.log}); err != nil {
		return err
	}
	o.opened(func(ctx context.Context) { _ = o.mappings.Close(ctx) })
	if o.alarms, err = alarm.Open(ctx, o.runtime, alarm.Config{Logger: o.log, Encode: encodeAlarmEvent}); err != nil {
		return err
	}
	o.opened(func(ctx context.Context) { _ = o.alarms.Close(ctx) })
	if o.book, err = access.Open(ctx, o.runtime, access.Config{Required: o.isOpen() && !o.cfg.Insecure, Rates: o.cfg.Rates, Logger: o.log}); err != nil {
		return err
	}
	o.opened(func(ctx context.Context) { _ = o.book.Close(ctx) })
	if o.scripts, err = script.Open(ctx, o.runtime, script.Config{May: o.scriptMay, Identity: o.scriptIdentity, Logger: o.log}); err != nil {
		return err
	}
	o.opened(func(ctx context.Context) { _ = o.scripts.Close(ctx) })
	o.finder = search.New(o.runtime, o.log)
	o.opened(func(context.Context) { o.finder.Close() })
	o.retention = retention.New(o.runtime, o.log)
	return nil
}

// openLogins reads the audit log and the sessions of people.
func (o *opening) openLogins(ctx context.Context) (err error) {
	if o.audit, err = access.OpenLog(ctx, o.runtime); err != nil {
		return err
	}
	_, particular, _ := net.SplitHostPort(o.HTTPAddr()) // it is a valid address
	if o.cfg.front != nil {
		particular = o.cfg.front.particular
	}
	o.claims = access.NewClaims(o.book)
	o.gate = &gate{o.book, o.audit, o.runtime, newSessions(particular, o.runtime, o.log), o.log}
	expired, err := o.gate.sessions.open(ctx, o.book)
	if err != nil {
		return err
	}
	o.background.Go(func() { o.gate.sessions.clear(o.serving, expired) })
	if o.cfg.OIDC.Enabled() {
		o.oidc, err = newOIDCLogin(&o.cfg.OIDC, o.gate, particular, o.log)
	}
	return err
}

// openBroker prepares the MQTT broker, with the conventions of topics that it knows.
func (o *opening) openBroker(ctx context.Context) (err error) {
	if o.templates, err = template.Open(ctx, o.runtime, o.log, takenTopics()); err != nil {
		return err
	}
	o.broker, err = mqtt.New(mqtt.Config{
		Listener: o.encrypted(o.mqttLn, mqttProtocols),
		Runtime:  o.runtime, Access: o.book, Refusals: o.refusals, Logger: o.log, Limits: o.cfg.MQTTLimits,
		Layouts: append(layouts(o.provisioner(), o.claims), template.NewLayout(o.templates), &azure.Layout{}),
		Record:  o.gate.note, LoggedIn: recognized, Keeper: o.runtime,
	})
	if err != nil {
		return err
	}
	o.opened(func(ctx context.Context) {
		o.broker.Stop()
		o.broker.Close(ctx)
	})
	return nil
}

// openAPI prepares the console and the HTTP API.
func (o *opening) openAPI() error {
	o.streams = &streamAPI{runtime: o.runtime, serving: o.serving, places: newPlaces()}
	o.bulk = &bulkAPI{runtime: o.runtime, finder: o.finder, serving: o.serving}
	o.find = &entityFinder{o.finder, &entityEncoder{o.runtime}, findTimeout, maxPageBytes}
	o.metrics = newMetrics(o.Server)
	o.openConsole()
	o.opened(func(context.Context) { o.closeConsole() })
	o.operations = o.resources()
	handler, err := o.handler()
	if err != nil {
		return err
	}
	o.http = &http.Server{
		Handler: handler, ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeAllIn,
		IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ConnState: o.conns.note, ConnContext: withConn,
		ErrorLog: slog.NewLogLogger(o.log.Handler(), slog.LevelDebug), // errors caused by clients
	}
	return nil
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
