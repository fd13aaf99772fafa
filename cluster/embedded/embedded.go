// Package embedded runs a NATS server with JetStream in the process, for programs that should not
// need an installed NATS:
//
//	server, err := embedded.Start(embedded.Config{Dir: "data/nats"})
//	nc, err := server.Connect(ctx)
//	engine, err := nats.Open(ctx, nc, nats.Config{})
//	node, err := cluster.Join(sys, cluster.Config{Engine: engine, …})
//
// It serves journals of package persist/jetstream as well. With one server, the cluster waits while
// that one is unavailable. Three, each in a process of its own, are a cluster of servers that
// survives the loss of any of them:
//
//	embedded.Start(embedded.Config{
//		Name: "n1", Dir: "data/nats", Addr: "10.0.0.1:4222", RouteAddr: "10.0.0.1:6222", Secret: secret,
//		Routes: []string{"10.0.0.1:6222", "10.0.0.2:6222", "10.0.0.3:6222"},
//	})
//
// and then nats.Config{Replicas: 3}. Further processes connect to the three by their addresses. Connections are
// not encrypted: across networks that are not yours, run NATS servers with TLS, and connect to them.
//
// It is a package of its own, since it makes a program about 15 MB larger.
package embedded

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/greenroom-go/greenroom/internal/pause"
)

const (
	readyWithin = 30 * time.Second // for a server that listens
	readyTick   = 20 * time.Millisecond
	askWithin   = time.Second // for an answer, which a server that is not ready may never give
	routeUser   = "greenroom"
)

// The folders within Config.Dir. A server that finds streams that its cluster does not know deletes them.
const (
	singleDir  = "nats-single"
	clusterDir = "nats-cluster"
)

// Config configures a server. Dir is required.
type Config struct {
	// Dir is the folder in which it keeps its streams. No other server may use it.
	Dir string
	// Addr is the address for clients in other processes; port 0 chooses a free port. By default
	// there is none, and [Server.Connect] is the only way to connect; a server with Routes needs an
	// address, by default a free port of the loopback address. Without Secret it must be a loopback
	// address.
	Addr string
	// Secret is what clients and the other servers have to know. It is sent unencrypted.
	Secret string

	// Routes are the addresses of all servers of a cluster, possibly including this one; by default
	// there is one server. They are the RouteAddr of the servers, which must have different names.
	Routes []string
	// RouteAddr is the address for the other servers. It is required if there are Routes. Without
	// Secret it must be a loopback address.
	RouteAddr string
	// RouteTLS encrypts the connections to the other servers, at both ends; it must authenticate
	// the other end.
	RouteTLS *tls.Config
	// Name is the name of the server among them, which must not change. It is required if there are
	// Routes.
	Name string

	// Unsynced makes the server acknowledge messages before they are on the disk. Acknowledged
	// messages are lost if the power fails or, with replicas, if it fails for most servers. A
	// cluster's map may be lost, see package cluster/nats; a journal must not.
	Unsynced bool

	// Log gets the server's warnings and errors; it defaults to slog.Default.
	Log *slog.Logger
}

// Server is a NATS server in this process. [Start] makes one. It is safe for concurrent use.
type Server struct {
	s      *server.Server
	name   string
	secret string
}

// Start starts a server, and waits until it listens. It does not wait for the other servers of a cluster; Connect
// does.
//
// It fails if the Config is not valid, if an address is in use, and if Dir is that of a single server and this is
// one of a cluster, or the reverse.
func Start(cfg Config) (*Server, error) {
	o, err := cfg.options()
	if err != nil {
		return nil, fmt.Errorf("start a NATS server: %w", err)
	}
	s, err := server.NewServer(o)
	if err != nil {
		return nil, fmt.Errorf("start a NATS server: %w", err)
	}
	log := &logger{Logger: cmp.Or(cfg.Log, slog.Default())}
	s.SetLoggerV2(log, false, false, false)
	s.Start()
	for began := time.Now(); !s.ReadyForConnections(readyTick); {
		if why := log.why(); why != "" || time.Since(began) > readyWithin {
			s.Shutdown()
			s.WaitForShutdown()
			return nil, fmt.Errorf("start a NATS server at %q: %s", cfg.Addr, cmp.Or(why, "it is not ready"))
		}
	}
	return &Server{s: s, name: cfg.Name, secret: cfg.Secret}, nil
}

// options returns the server's options.
func (cfg Config) options() (*server.Options, error) {
	if cfg.Dir == "" {
		return nil, errors.New("Config.Dir is empty: it must be a folder for the streams")
	}
	clustered := len(cfg.Routes) > 0
	if clustered && cfg.Addr == "" {
		cfg.Addr = "127.0.0.1:0" // a server that does not listen for clients waits for that before it connects to others
	}
	mine, other := singleDir, clusterDir
	if clustered {
		mine, other = other, mine
	}
	if _, err := os.Stat(filepath.Join(cfg.Dir, other)); err == nil {
		return nil, fmt.Errorf("Config.Dir has %s: it must be of its own for a server with Routes %q, since it would delete what is there", other, cfg.Routes)
	}
	o := &server.Options{
		ServerName: cfg.Name, JetStream: true, StoreDir: filepath.Join(cfg.Dir, mine), SyncAlways: !cfg.Unsynced,
		NoSigs: true, DontListen: cfg.Addr == "", Authorization: cfg.Secret,
	}
	var err error
	if cfg.Addr != "" {
		if o.Host, o.Port, err = cfg.listen("Addr", cfg.Addr); err != nil {
			return nil, err
		}
	}
	if !clustered {
		return o, nil
	}
	if cfg.Name == "" {
		return nil, errors.New("Config.Name is empty: a server with Routes must have one")
	}
	c := &o.Cluster
	c.Name, c.NoAdvertise = "greenroom", true
	c.TLSConfig = cfg.RouteTLS
	if c.Host, c.Port, err = cfg.listen("RouteAddr", cfg.RouteAddr); err != nil {
		return nil, err
	}
	user := url.User(routeUser)
	if cfg.Secret != "" {
		c.Username, c.Password, user = routeUser, cfg.Secret, url.UserPassword(routeUser, cfg.Secret)
	}
	for _, addr := range cfg.Routes {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("Config.Routes must be addresses with a port, not %q", addr)
		}
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats", User: user, Host: addr})
	}
	return o, nil
}

// listen returns the parts of an address to listen at.
func (cfg Config) listen(field, addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("%s must be an address with a port, not %q", field, addr)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("the port of %s must be a number from 0 to 65535, not %q", field, text)
	}
	ip, err := netip.ParseAddr(host)
	if local := host == "localhost" || err == nil && ip.IsLoopback(); !local && cfg.Secret == "" {
		return "", 0, fmt.Errorf("%s must be a loopback address without a Secret, not %q", field, addr)
	}
	if port = int(n); port == 0 {
		port = server.RANDOM_PORT
	}
	return host, port, nil
}

// URL returns what clients connect to, "" if the server is for this process only. They need the Secret as a token.
func (s *Server) URL() string {
	if at := s.s.Addr(); at != nil {
		return "nats://" + at.String()
	}
	return ""
}

// Connect returns a connection within the process, without a socket. It waits until JetStream is ready, which in a
// cluster of servers takes most of them, for as long as ctx lasts. The connection is the caller's to close; it ends
// with the server.
func (s *Server) Connect(ctx context.Context, opts ...nats.Option) (*nats.Conn, error) {
	opts = append([]nats.Option{nats.InProcessServer(s.s), nats.Token(s.secret), nats.MaxReconnects(-1)}, opts...)
	nc, err := nats.Connect("", opts...)
	if err != nil {
		return nil, fmt.Errorf("connect to the NATS server in this process: %w", err)
	}
	js, err := jetstream.New(nc)
	for err == nil {
		once, cancel := context.WithTimeout(ctx, askWithin)
		_, err = js.AccountInfo(once)
		cancel()
		if err == nil {
			return nc, nil
		}
		if waited := pause.For(ctx, readyTick); waited == nil {
			err = nil
		}
	}
	nc.Close()
	return nil, fmt.Errorf("connect to the NATS server in this process: JetStream is not ready: %w", err)
}

// Close ends the server and waits until it has ended. In a cluster of servers, others then lead the
// streams that it has led.
func (s *Server) Close() {
	s.s.Shutdown()
	s.s.WaitForShutdown()
}

// logger passes on what a server logs, and keeps the reason why it cannot continue.
type logger struct {
	*slog.Logger
	fatal atomic.Pointer[string]
}

func (l *logger) why() string {
	if text := l.fatal.Load(); text != nil {
		return *text
	}
	return ""
}

// The methods of server.Logger.
func (l *logger) Noticef(string, ...any)         {}
func (l *logger) Debugf(string, ...any)          {}
func (l *logger) Tracef(string, ...any)          {}
func (l *logger) Warnf(format string, v ...any)  { l.say(slog.LevelWarn, format, v) }
func (l *logger) Errorf(format string, v ...any) { l.say(slog.LevelError, format, v) }
func (l *logger) Fatalf(format string, v ...any) {
	l.fatal.CompareAndSwap(nil, new(fmt.Sprintf(format, v...)))
	l.say(slog.LevelError, format, v)
}

func (l *logger) say(level slog.Level, format string, v []any) {
	l.Log(context.Background(), level, "NATS server", slog.String("message", fmt.Sprintf(format, v...)))
}
