package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity/postgres"
)

// scratch is a place for the data of servers that a command starts: a new directory, or a new
// schema of a database.
type scratch struct {
	name   string   // for messages
	store  string   // its address, with the password
	dir    string   // "" for a schema
	args   []string // of serve
	env    []string // for secrets, which the command line would reveal
	remove func() error
}

// newScratch creates a scratch: in the database at store, or below the directory data.
func newScratch(data, store, what string) (scratch, error) {
	if store != "" {
		return schemaScratch(store, fmt.Sprintf("greenroom_%s_%016x", what, rand.Uint64()))
	}
	dir, err := os.MkdirTemp(data, "greenroom-"+what+"-")
	if err != nil {
		return scratch{}, err
	}
	return scratch{name: dir, store: dir, dir: dir, args: []string{"--data", dir}, remove: func() error { return os.RemoveAll(dir) }}, nil
}

// dropPatience bounds dropping a schema: the database may need a moment to notice that a client was
// killed.
const dropPatience = time.Minute

// schemaScratch returns a schema, which the first server creates.
func schemaScratch(store, schema string) (scratch, error) {
	u, err := url.Parse(store)
	if err != nil {
		return scratch{}, errors.New("--store must be of the form postgres://user@host/database") // the error is omitted, because it may contain a password
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	s := scratch{store: u.String(), remove: func() error { return dropSchema(u.String(), schema) }}
	shown := *u
	if password, ok := u.User.Password(); ok {
		shown.User = url.User(u.User.Username())
		s.env = []string{"PGPASSWORD=" + password}
	}
	s.name, s.args = postgres.Redact(shown.String()), []string{"--store", shown.String()}
	return s, nil
}

func dropSchema(address, schema string) error {
	ctx, cancel := context.WithTimeout(context.Background(), dropPatience)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return fmt.Errorf("remove the schema %s: %w", schema, err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{schema}.Sanitize()+" CASCADE"); err != nil {
		return fmt.Errorf("remove the schema %s: %w", schema, err)
	}
	return nil
}
