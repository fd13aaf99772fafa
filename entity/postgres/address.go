package postgres

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// IsURL reports whether the address of a store is a PostgreSQL URL.
func IsURL(address string) bool { return pgdb.IsURL(address) }

// Redact returns the URL of a store without passwords, for a log or a screen. It omits what it
// cannot parse.
func Redact(address string) string { return pgdb.Redact(address) }

// Tools returns an address in the form for PostgreSQL's programs, such as pg_dump, and the schema
// of the store. Like that of [Redact], the URL contains no password; it also omits the parameters
// that only this package reads, because those programs refuse them. The error wraps ErrAddress.
func Tools(address string) (libpq, schema string, err error) {
	var o Options
	if _, err := parse(address, &o); err != nil {
		return "", "", err
	}
	u, err := url.Parse(Redact(address))
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", ErrAddress, err)
	}
	q := u.Query()
	for name := range q {
		if name == "search_path" || strings.HasPrefix(name, "pool_") {
			q.Del(name)
		}
	}
	u.RawQuery = q.Encode()
	return u.String(), o.Schema, nil
}

// parse parses an address, and sets the schema that it names.
func parse(address string, o *Options) (cfg *pgxpool.Config, err error) {
	cfg, o.Schema, err = pgdb.Parse(address, pgdb.Options{
		Schema: o.Schema, DefaultSchema: DefaultSchema, Readers: o.Readers, DefaultReaders: DefaultReaders, Timeout: o.QueryTimeout,
	})
	return cfg, err
}
