package server

import (
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/mqtt"
)

// Defaults of Config.
const (
	DefaultDataDir      = "greenroom-data"
	DefaultHTTP         = "127.0.0.1:8080"
	DefaultMQTT         = "127.0.0.1:1883"
	DefaultDrainTimeout = 10 * time.Second
)

// Config configures a Server. The zero value serves on the default ports.
type Config struct {
	// DataDir is the directory of the store, unless Store is set. It is created if it does not
	// exist. The default is DefaultDataDir in the working directory.
	DataDir string

	// Store is the address of the store: a directory, optionally prefixed with sqlite:, or the URL
	// of a PostgreSQL database, postgres://user:password@host/database (see package postgres). The
	// default is DataDir.
	Store string

	// SealAfter is how long an hour of history must have received no value before it is packed: see
	// [sqlite.Options] and [postgres.Options]. The default is sqlite.DefaultSealAfter.
	SealAfter time.Duration

	// ChangeLogAge is how long changes are kept, from which event streams, mappings and others
	// resume: see [sqlite.Options] and [postgres.Options]. The default is
	// sqlite.DefaultChangeLogAge.
	ChangeLogAge time.Duration

	// HTTP and MQTT are the addresses to listen on, host:port; port 0 selects a free port. A host
	// that is not a loopback address requires TLS and makes clients log in, unless Insecure is set.
	// The defaults are DefaultHTTP and DefaultMQTT.
	HTTP, MQTT string

	// TLS encrypts both HTTP and MQTT. The default of its ACME.Cache is a directory in that of the
	// store; for a store in a database, it must be set.
	TLS TLS

	// OIDC is a provider that people may log in to the dashboard with, besides tokens and
	// passwords.
	OIDC OIDC

	// Insecure permits addresses that other machines can reach without TLS, and, as long as there
	// is no principal, without credentials: everybody on the network can read and change
	// everything.
	Insecure bool

	// Hosts are additional names by which requests may address the server, besides those of the
	// certificate, loopback names and, unless the server listens on a loopback address, IP
	// addresses.
	Hosts []string

	// TrustedProxies are the addresses and networks of proxies that terminate TLS for the server.
	// For requests from them, X-Forwarded-For is the client's address, for slowing down logins and
	// for the audit log, and X-Forwarded-Proto decides whether cookies are for TLS only.
	TrustedProxies []string

	// NewAdmin creates another admin at the start, for when the tokens of the others are lost.
	// FirstToken returns its token.
	NewAdmin bool

	// Version is the version that the server reports. The default is "devel".
	Version string

	// DrainTimeout bounds a graceful shutdown. The default is DefaultDrainTimeout.
	DrainTimeout time.Duration

	// Entity configures the entity runtime. The default of its Logger is Logger.
	Entity entity.Config

	// Rates are how many bytes principals may send in a second. What they send beyond that is read
	// later.
	Rates access.Rates

	// MQTTLimits bounds the memory of the MQTT broker for subscribers.
	MQTTLimits mqtt.Limits

	// Logger logs what an operator should know. The default is slog.Default.
	Logger *slog.Logger

	// Level is the level of Logger, which the console command log level shows and sets. If it is
	// nil, the command is refused.
	Level *slog.LevelVar

	// Console is the path of a socket for the console (see package console), which only the user of
	// the process may open. If it is "", or the socket cannot be created, which is logged, the
	// console is available over HTTP only.
	Console string

	front *fronted // the Front of the server, nil if there is none
}

func (c *Config) setDefaults() {
	if c.DataDir == "" {
		c.DataDir = DefaultDataDir
	}
	if c.Store == "" {
		c.Store = "sqlite:" + c.DataDir
	}
	if c.HTTP == "" {
		c.HTTP = DefaultHTTP
	}
	if c.MQTT == "" {
		c.MQTT = DefaultMQTT
	}
	if c.Version == "" {
		c.Version = "devel"
	}
	if c.DrainTimeout <= 0 {
		c.DrainTimeout = DefaultDrainTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Entity.Logger == nil {
		c.Entity.Logger = c.Logger
	}
}
