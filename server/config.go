package server

import (
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/mqtt"
)

// Defaults of Config.
const (
	DefaultDataDir      = "greenroom-data"
	DefaultHTTP         = "127.0.0.1:8080"
	DefaultMQTT         = "127.0.0.1:1883"
	DefaultDrainTimeout = 10 * time.Second
)

// Config sets up a Server. The zero value serves on the default ports.
type Config struct {
	// DataDir is the directory of the store where Store names none, made when it
	// does not exist. Defaults to DefaultDataDir in the working directory.
	DataDir string

	// Store is where everything is kept: a directory, as it is or after sqlite:,
	// or the URL of a PostgreSQL database, postgres://user:password@host/database
	// (see package postgres). Defaults to DataDir.
	Store string

	// SealAfter is how long no value must have come for an hour of the history before that hour is
	// packed: see [sqlite.Options] and [postgres.Options]. Defaults to sqlite.DefaultSealAfter.
	SealAfter time.Duration

	// ChangeLogAge is how long changes are kept from which event streams, mappings and others
	// that follow resume: see [sqlite.Options] and [postgres.Options]. Defaults to
	// sqlite.DefaultChangeLogAge.
	ChangeLogAge time.Duration

	// HTTP and MQTT are the addresses to listen on, host:port; the port 0 takes a
	// free one. A host that is not a loopback address needs TLS, and who comes must
	// log in, or Insecure. Default to DefaultHTTP and DefaultMQTT.
	HTTP, MQTT string

	// TLS encrypts both HTTP and MQTT. Its ACME.Cache defaults to a directory within
	// that of the store, and is needed where the store is a database elsewhere.
	TLS TLS

	// OIDC is where people may log in to the dashboard, beside with a token or a password.
	OIDC OIDC

	// Insecure allows addresses that other machines reach without TLS, and without
	// credentials as long as there is no principal: everybody on the way can read and
	// change everything.
	Insecure bool

	// Hosts are further names by which requests may address the server, besides those
	// of the certificate, loopback names, and, on other than loopback addresses, IP
	// addresses.
	Hosts []string

	// TrustedProxies are the addresses and networks of proxies that encrypt in place of the
	// server: of what comes from there, X-Forwarded-For says from where it is, for slowing down
	// logins and the audit log, and X-Forwarded-Proto whether cookies are for TLS only.
	TrustedProxies []string

	// NewAdmin makes a further admin at the start, for who has lost the token of the
	// others. Its token is FirstToken.
	NewAdmin bool

	// Version is what the server says it is. Defaults to "devel".
	Version string

	// DrainTimeout bounds a graceful shutdown. Defaults to DefaultDrainTimeout.
	DrainTimeout time.Duration

	// Entity sets up the entity runtime. Its Logger defaults to Logger.
	Entity entity.Config

	// MQTTLimits bound what the MQTT broker keeps in memory for subscribers.
	MQTTLimits mqtt.Limits

	// Logger takes what an operator should know. Defaults to slog.Default.
	Logger *slog.Logger

	// Level is the level of that log, which the console's command log level shows and sets. The
	// command is refused where it is nil.
	Level *slog.LevelVar

	// Console is the path of the socket on which the console is served (see package console), to who
	// may open it: the user of the process. It is served over HTTP only where this is "", and where the socket
	// cannot be made, which is logged.
	Console string
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
