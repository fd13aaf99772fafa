package pgdb

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// IsURL reports whether the address of a store is one of PostgreSQL.
func IsURL(address string) bool {
	return strings.HasPrefix(address, "postgres://") || strings.HasPrefix(address, "postgresql://")
}

// Redact returns the URL of a store for a log or a screen: without passwords,
// and with nothing at all of what cannot be parsed.
func Redact(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "postgres://…"
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return "postgres://…"
	}
	for name := range q {
		if strings.Contains(strings.ToLower(name), "password") {
			q.Del(name)
		}
	}
	u.RawQuery, u.Fragment, u.RawFragment = q.Encode(), "", ""
	return u.String()
}

// Options are what a store asks of its connections.
type Options struct {
	Schema         string // the one of the address if empty, and then DefaultSchema
	DefaultSchema  string
	Readers        int // the pool_max_conns of the address if 0, and then DefaultReaders
	DefaultReaders int
	Timeout        time.Duration // of a query
}

// Parse reads an address, and returns the schema that it names as well. What goes wrong
// is told without the address: nothing shows reliably where in a broken one the password
// is.
func Parse(address string, o Options) (cfg *pgxpool.Config, schema string, err error) {
	cfg, err = pgxpool.ParseConfig(address)
	if err != nil {
		if strings.Contains(address, "@") || strings.Contains(strings.ToLower(address), "password") {
			return nil, "", fmt.Errorf("%w: postgres://user:password@host:port/database is the form; in the password, all but letters and digits is percent-encoded", ErrAddress)
		}
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return nil, "", fmt.Errorf("%w: %w", ErrAddress, err)
	}
	params := cfg.ConnConfig.RuntimeParams
	if o.Schema == "" {
		if o.Schema, err = schemaOf(params["search_path"], o.DefaultSchema); err != nil {
			return nil, "", err
		}
	}
	if err := checkSchema(o.Schema); err != nil {
		return nil, "", err
	}
	if o.Readers > 0 {
		cfg.MaxConns = int32(min(o.Readers, 1000))
	} else if !strings.Contains(address, "pool_max_conns") {
		cfg.MaxConns = int32(o.DefaultReaders)
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	if cfg.ConnConfig.ValidateConnect == nil { // of several hosts, the one that can be written to
		cfg.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	params["search_path"] = Identifier(o.Schema)
	for name, value := range map[string]string{
		"application_name":                    whoWeAre(),
		"client_encoding":                     "UTF8",
		"default_transaction_isolation":       "read committed", // what a statement by itself is written for
		"jit":                                 "off",            // compiling takes longer than these queries
		"statement_timeout":                   Milliseconds(o.Timeout),
		"lock_timeout":                        Milliseconds(o.Timeout),
		"idle_in_transaction_session_timeout": Milliseconds(o.Timeout),
		// So that the server notices within half a minute that we are gone, and
		// gives the lock free. Its own default is two hours.
		"tcp_keepalives_idle":     "15",
		"tcp_keepalives_interval": "5",
		"tcp_keepalives_count":    "3",
	} {
		if _, ok := params[name]; !ok {
			params[name] = value
		}
	}
	return cfg, o.Schema, nil
}

// schemaOf returns the one schema of a search path, the usual one for none.
func schemaOf(path, usual string) (string, error) {
	path = strings.TrimSpace(path)
	if path == "" {
		return usual, nil
	}
	if quoted, ok := strings.CutPrefix(path, `"`); ok && strings.HasSuffix(quoted, `"`) {
		path = strings.ReplaceAll(strings.TrimSuffix(quoted, `"`), `""`, `"`)
	} else if strings.ContainsAny(path, `,$"`) {
		return "", fmt.Errorf("%w: search_path must name one schema, not %q", ErrAddress, path)
	}
	return path, nil
}

func checkSchema(name string) error {
	switch {
	case name == "" || len(name) > 63 || !utf8.ValidString(name) || strings.ContainsRune(name, 0):
		return fmt.Errorf("%w: the name of a schema must have 1 to 63 bytes of UTF-8, not be %.64q", ErrAddress, name)
	case strings.HasPrefix(name, "pg_") || name == "information_schema":
		return fmt.Errorf("%w: schema %q belongs to PostgreSQL", ErrAddress, name)
	}
	return nil
}

// Name says where a store is, without the password, for logs.
func Name(cfg *pgxpool.Config, schema string) string {
	c := cfg.ConnConfig
	return fmt.Sprintf("postgres://%s@%s:%d/%s schema %s", c.User, c.Host, c.Port, c.Database, schema)
}

// Identifier quotes a name for SQL.
func Identifier(name string) string { return pgx.Identifier{name}.Sanitize() }

// whoWeAre is what an administrator sees among the server's connections.
func whoWeAre() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	return fmt.Sprintf("greenroom %.40s %d", host, os.Getpid())
}

// Milliseconds is a duration as a setting of PostgreSQL, at least one.
func Milliseconds(d time.Duration) string { return strconv.FormatInt(max(1, d.Milliseconds()), 10) }
