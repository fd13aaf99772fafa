package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/server"
	"github.com/greenroom-go/greenroom/server/access"
)

type serveOptions struct {
	data, store, http, mqtt string
	console                 string
	demo                    bool

	tls      server.TLS
	oidc     server.OIDC
	secret   string // name of a file
	hosts    []string
	proxies  []string
	insecure bool
	newAdmin bool
	check    bool // only check the configuration

	hot, window int64 // MiB
	idleAfter   time.Duration
	sealAfter   time.Duration
	logAge      time.Duration // of the change log

	timeout, grace time.Duration // of presences

	deviceRate, gatewayRate int64 // KiB/s

	joining joinOptions
}

// maxMiB is beyond any machine, while its bytes still fit into an int64.
const maxMiB = 1 << 30

// entities returns the configuration of the entity runtime.
func (o *serveOptions) entities() (c entity.Config, err error) {
	var failed []error
	for _, size := range []struct {
		flag string
		mib  int64
	}{{"hot-mib", o.hot}, {"window-mib", o.window}} {
		if size.mib < 1 || size.mib > maxMiB {
			failed = append(failed, usagef("--%s must be an integer from 1 to %d, not %d", size.flag, maxMiB, size.mib))
		}
	}
	for _, wait := range []struct {
		flag string
		d    time.Duration
		zero string // what 0 means, "" if it is refused
	}{
		{"idle-after", o.idleAfter, "to disable it"},
		{"seal-after", o.sealAfter, ""},
		{"change-log-age", o.logAge, ""},
		{"presence-timeout", o.timeout, "for no timeout"},
		{"presence-grace", o.grace, "for no grace"},
	} {
		switch {
		case wait.zero == "" && wait.d <= 0:
			failed = append(failed, usagef("--%s must be positive, not %v", wait.flag, wait.d))
		case wait.d < 0:
			failed = append(failed, usagef("--%s must be positive, or 0 %s, not %v", wait.flag, wait.zero, wait.d))
		}
	}
	return entity.Config{
		HotBytes: o.hot << 20, WindowBytes: o.window << 20,
		IdleAfter: orNone(o.idleAfter), PresenceTimeout: orNone(o.timeout), PresenceGrace: orNone(o.grace),
	}, errors.Join(failed...)
}

// rates returns how much principals may send.
func (o *serveOptions) rates() (r access.Rates, err error) {
	var failed []error
	for _, rate := range []struct {
		flag string
		kib  int64
		to   *int64
	}{{"device-rate-kib", o.deviceRate, &r.Device}, {"gateway-rate-kib", o.gatewayRate, &r.Gateway}} {
		switch {
		case rate.kib < 0 || rate.kib > access.MaxRate>>10:
			failed = append(failed, usagef("--%s must be an integer from 1 to %d, or 0 for any number, not %d", rate.flag, int64(access.MaxRate>>10), rate.kib))
		case rate.kib == 0:
			*rate.to = -1
		default:
			*rate.to = rate.kib << 10
		}
	}
	return r, errors.Join(failed...)
}

// socket returns the path of the console's socket, "" for none.
func (o *serveOptions) socket() string {
	switch o.console {
	case "off":
		return ""
	case "":
		return server.ConsoleSocket(cmp.Or(o.store, o.data))
	default:
		return o.console
	}
}

// orNone turns 0 into the negative duration that means none in a Config of package entity.
func orNone(d time.Duration) time.Duration {
	if d == 0 {
		return -1
	}
	return d
}

// provider checks the options of the OpenID Connect provider, and reads its secret.
func (o *serveOptions) provider() error {
	if !o.oidc.Enabled() {
		return nil
	}
	failed := each(o.oidc.Check())
	if o.secret != "" {
		text, err := os.ReadFile(o.secret)
		if err != nil {
			failed = append(failed, usagef("--oidc-secret-file: %w", err))
		}
		o.oidc.Secret = strings.TrimSpace(string(text))
	}
	return errors.Join(failed...)
}

// validate completes the options. It returns the configuration of the entity runtime, and all that is
// wrong with the options.
func (o *serveOptions) validate() (c entity.Config, failed []error) {
	add := func(err error) { failed = append(failed, each(err)...) }
	if o.store != "" && o.data != "" {
		add(usagef("only one of --data and --store may be given"))
	}
	if err := server.CheckStore(cmp.Or(o.store, server.DefaultDataDir)); err != nil {
		add(usagef("--store: %w", err))
	}
	open := o.insecure || o.tls.Enabled()
	add(server.CheckAddress("--http", o.http, open))
	add(server.CheckAddress("--mqtt", o.mqtt, open))
	add(o.joining.check(o))
	if o.tls.Enabled() {
		add(o.tls.Check())
	}
	add(server.CheckProxies(o.proxies))
	add(o.provider())
	c, err := o.entities()
	add(err)
	_, err = o.rates()
	add(err)
	if o.demo && (o.tls.Enabled() || o.newAdmin) {
		add(usagef("--demo must not be given with --tls-cert or --new-admin: it publishes by itself, without them"))
	}
	return c, failed
}

const serveLong = `Serve MQTT, HTTP and the dashboard in one process.

Devices publish readings to the MQTT topic e/{id}/telemetry, where {id} names
the entity, as JSON: {"temperature":21.5}, or with the time of the measurement
in milliseconds {"ts":1451649600512,"values":{"temperature":21.5}}, or an array
of either. With QoS 1, readings are acknowledged once they are on disk.

Every flag can also be set in a TOML file, --config, by its name with _ instead of
-, or in the environment: GREENROOM_DATA for --data. A flag takes precedence over
the environment, and the environment over the file.

Without --data or --store, readings are kept in ./` + server.DefaultDataDir + `; with --demo, in
a temporary directory that is removed at the end.

Everybody on this machine may do everything until greenroom token create creates the
first token; from then on, clients must log in. An address that other machines can
reach needs --tls-cert and --tls-key, or --acme, and clients must log in from the
start: the first run prints the token of an admin, once.

--store postgres://user@host/database keeps readings in PostgreSQL 14 or newer, in
the schema ` + postgres.DefaultSchema + ` or the one named by ?search_path=. Everybody on this
machine can see a password on the command line; put it into the environment
variable PGPASSWORD or into the file named by PGPASSFILE instead.

--join makes the server a node of a cluster: servers with the same --store in
PostgreSQL, of which one owns the store, and the others forward to it what clients
send. If the owner ends, another node takes over. The nodes find each other in the
database; see greenroom cluster.

On SIGTERM or Ctrl-C the server writes out what it has accepted and stops; a
second signal stops it at once.`

const serveExample = `  greenroom serve --demo
  greenroom serve --data /var/lib/greenroom --http 127.0.0.1:9090
  greenroom serve --store 'postgres://greenroom@db.example.org/plant?sslmode=verify-full'
  greenroom serve --store postgres:///plant --join 10.0.0.1:7401 --node n1`

func newServe() *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Serve MQTT, HTTP and the dashboard.",
		Long:    serveLong,
		Example: serveExample,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := configure(cmd)
			entities, failed := o.validate()
			if c.unread {
				failed = nil // what is in the file may have been right
			}
			for _, err := range failed {
				c.failed = append(c.failed, c.locate(err))
			}
			if len(c.failed) > 0 {
				return &mistakes{c.failed}
			}
			if o.check {
				if len(c.others) > 0 {
					fmt.Fprintf(cmd.ErrOrStderr(), "greenroom: variables of the environment that set nothing: %s\n", strings.Join(c.others, ", "))
				}
				fmt.Fprintln(cmd.OutOrStdout(), "the configuration is valid")
				return nil
			}
			return serve(cmd.Context(), o, entities, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	o.addFlags(f)
	o.addTLSFlags(f)
	o.addOIDCFlags(f)
	o.addEntityFlags(f)
	_ = f.MarkHidden(checkFlag) // the flag exists
	return cmd
}

// addFlags adds the flags that are about no single part of the server.
func (o *serveOptions) addFlags(f *pflag.FlagSet) {
	f.StringVar(&o.data, "data", "", "data directory (default ./"+server.DefaultDataDir+"; with --demo a temporary one)")
	f.StringVar(&o.store, "store", "", "where to keep readings: a directory, or postgres://user@host/database")
	f.StringVar(&o.http, "http", server.DefaultHTTP, "address of the HTTP API and the dashboard; port 0 chooses a free port")
	f.StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker; port 0 chooses a free port")
	f.StringVar(&o.console, "console", "", "socket of the console, or off (default console.sock in the data directory, and off if the store is a database); a node of a cluster has a console while it owns the store")
	f.String(configFlag, "", "TOML file that sets flags, such as http = \"127.0.0.1:8080\"")
	f.StringSliceVar(&o.proxies, "trusted-proxies", nil, "addresses or networks of proxies whose X-Forwarded-For and X-Forwarded-Proto are trusted")
	f.StringSliceVar(&o.hosts, "hosts", nil, "further host names by which requests may address the server")
	f.BoolVar(&o.insecure, "insecure", false, "let other machines connect without TLS, and without credentials until there is a principal: anyone on the network path can read and change everything")
	f.BoolVar(&o.newAdmin, "new-admin", false, "create another admin and print its token, if all others are lost")
	f.BoolVar(&o.check, checkFlag, false, "only check the configuration")
	f.BoolVar(&o.demo, "demo", false, "publish generated readings of two rooms")
	f.StringVar(&o.joining.join, "join", "", "be a node of the cluster of servers with this --store, in PostgreSQL; the others reach it at this address, such as 127.0.0.1:7401")
	f.StringVar(&o.joining.node, "node", "", "name of this node, unique in the cluster (default the address of --join)")
}

func (o *serveOptions) addTLSFlags(f *pflag.FlagSet) {
	f.StringVar(&o.tls.Cert, "tls-cert", "", "file with the certificate of the server, in PEM; read again when it changes")
	f.StringVar(&o.tls.Key, "tls-key", "", "file with the key of the certificate, in PEM")
	f.StringSliceVar(&o.tls.ACME.Hosts, "acme", nil, "host names for which an authority issues the certificate (ACME); it must be able to reach --http at their port 443, and you agree to its terms")
	f.StringVar(&o.tls.ACME.Email, "acme-email", "", "address to which the authority of --acme reports problems")
	f.StringVar(&o.tls.ACME.Directory, "acme-directory", server.DefaultACMEDirectory, "URL of the authority of --acme")
	f.StringVar(&o.tls.ACME.CA, "acme-ca", "", "file with the CA certificates, in PEM, for the authority's server, if the system does not trust it")
	f.StringVar(&o.tls.ACME.Cache, "acme-cache", "", "directory for the certificates of --acme (default acme in the data directory)")
	f.StringVar(&o.tls.ClientCA, "client-ca", "", "file with the CA certificates, in PEM, that sign the certificates of clients")
}

func (o *serveOptions) addOIDCFlags(f *pflag.FlagSet) {
	f.StringVar(&o.oidc.Issuer, "oidc-issuer", "", "URL of an OpenID Connect provider with which people can log in to the dashboard")
	f.StringVar(&o.oidc.Client, "oidc-client", "", "name by which the provider knows this server")
	f.StringVar(&o.secret, "oidc-secret-file", "", "file with the client secret for the provider")
	f.StringVar(&o.oidc.Claim, "oidc-claim", server.DefaultOIDCClaim, "claim with the name of the principal")
	f.StringVar(&o.oidc.CA, "oidc-ca", "", "file with the CA certificates, in PEM, for the provider, if the system does not trust it")
	f.StringVar(&o.oidc.URL, "url", "", "URL by which browsers reach the server behind a proxy, such as https://plant.example")
}

func (o *serveOptions) addEntityFlags(f *pflag.FlagSet) {
	f.Int64Var(&o.hot, "hot-mib", entity.DefaultHotBytes>>20, "memory for live entities, in MiB; the least recently used are evicted")
	f.DurationVar(&o.idleAfter, "idle-after", entity.DefaultIdleAfter, "evict entities idle longer than this; 0 disables")
	f.DurationVar(&o.timeout, "presence-timeout", entity.DefaultPresenceTimeout, "how long a device without a connection may be silent before it goes offline, unless its type sets that; 0 means forever")
	f.DurationVar(&o.grace, "presence-grace", entity.DefaultPresenceGrace, "how long after losing its connection a device goes offline, unless its type sets that")
	f.DurationVar(&o.sealAfter, "seal-after", sqlite.DefaultSealAfter, "pack an hour of history once no value has arrived for it for this long")
	f.DurationVar(&o.logAge, "change-log-age", sqlite.DefaultChangeLogAge, "keep changes this long, in at most 64 MiB, so that streams and mappings can resume after a pause")
	usual := access.DefaultRates()
	f.Int64Var(&o.deviceRate, "device-rate-kib", usual.Device>>10, "how many KiB per second a device that reports for itself may send; the rest is read later; 0 means no limit (the default is 512 for each processor)")
	f.Int64Var(&o.gatewayRate, "gateway-rate-kib", usual.Gateway>>10, "the same for each gateway, person and service that is not an admin (the default is 2048 for each processor)")
	f.Int64Var(&o.window, "window-mib", entity.DefaultWindowBytes>>20, "memory for readings that are not on disk yet, in MiB; devices wait while it is full")
}

// visitable returns an address that people can use: that of all interfaces, 0.0.0.0 or [::], has the
// first name of the server instead.
func (o *serveOptions) visitable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if ip, bad := netip.ParseAddr(host); err != nil || bad != nil || !ip.IsUnspecified() {
		return addr
	}
	names := slices.Concat(o.tls.ACME.Hosts, o.hosts, []string{"localhost"})
	return net.JoinHostPort(names[0], port)
}

func serve(ctx context.Context, o serveOptions, entities entity.Config, stdout, stderr io.Writer) (err error) {
	level := new(slog.LevelVar)
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	where := o.data
	switch {
	case o.store != "":
		where = server.StoreName(o.store)
	case o.data == "" && o.demo:
		if o.data, err = os.MkdirTemp("", "greenroom-demo-"); err != nil {
			return fmt.Errorf("make a directory for the demo: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(o.data)) }()
		where = o.data + " (removed at the end; keep the readings with --data DIR)"
	case o.data == "":
		o.data = server.DefaultDataDir
		where = "./" + o.data
	}
	rates, err := o.rates()
	if err != nil { // it was validated
		return err
	}
	cfg := server.Config{Rates: rates, DataDir: o.data, Store: o.store, HTTP: o.http, MQTT: o.mqtt, TLS: o.tls, OIDC: o.oidc, Hosts: o.hosts, TrustedProxies: o.proxies, Insecure: o.insecure, NewAdmin: o.newAdmin, Version: version(), SealAfter: o.sealAfter, ChangeLogAge: o.logAge, Entity: entities, Logger: log, Level: level, Console: o.socket()}
	announce := func(http, mqtt string) {
		http, mqtt = o.visitable(http), o.visitable(mqtt)
		secure := ""
		if o.tls.Enabled() {
			secure = "s"
		}
		fmt.Fprintf(stdout, "Greenroom %s\n  dashboard  http%s://%s/\n  mqtt       mqtt%s://%s  publish to e/{id}/telemetry\n  data       %s\n", version(), secure, http, secure, mqtt, where)
	}
	if o.joining.join != "" {
		return serveNode(ctx, &o, cfg, func(format string, args ...any) { fmt.Fprintf(stdout, format, args...) }, func(f *server.Front) {
			announce(f.HTTPAddr(), f.MQTTAddr())
			fmt.Fprintf(stdout, "  node       %s, which the others reach at %s\n", o.joining.node, o.joining.join)
			notifyReady(ctx, log)
		})
	}
	s, err := server.New(ctx, cfg)
	if err != nil {
		return err
	}
	announce(s.HTTPAddr(), s.MQTTAddr())
	if token := s.FirstToken(); token != "" {
		fmt.Fprintf(stdout, "  admin      %s  (this token is shown only now)\n", token)
	}
	if o.insecure && !s.Guarded() {
		fmt.Fprintln(stderr, "INSECURE: nothing is encrypted, and anyone who can reach these addresses may do everything")
	} else if o.insecure && !o.tls.Enabled() {
		fmt.Fprintln(stderr, "INSECURE: nothing is encrypted; anyone on the network path can read the tokens of others")
	}
	notifyReady(ctx, log) // under systemd, the service counts as started only now
	if !o.demo {
		return s.Run(ctx)
	}
	return runWithDemo(ctx, s)
}

// runWithDemo runs the server and what publishes the demo's readings. The demo ends before the server does, so that it
// does not seem to fail.
func runWithDemo(ctx context.Context, s *server.Server) error {
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	ran := make(chan error, 1)
	go func() { ran <- s.Run(serving) }()
	demoing, stopDemo := context.WithCancel(ctx)
	defer stopDemo()
	demo := make(chan error, 1)
	go func() { demo <- serveDemo(demoing, s.MQTTAddr(), s.HTTPAddr()) }()
	select {
	case err := <-ran: // it failed, and so will the demo
		return err
	case err := <-demo:
		if ctx.Err() != nil { // it was stopped
			err = nil
		}
		stopServing()
		return errors.Join(err, <-ran)
	}
}
