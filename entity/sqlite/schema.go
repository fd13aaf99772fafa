package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
)

const (
	// applicationID marks a database of ours ("GRNR").
	applicationID = 0x47524e52
	// schemaVersion is what this code reads and writes.
	schemaVersion = 1
)

// ErrSchema says that the directory holds a database that this version cannot
// use: one of a newer version, or of another program. Nothing was changed.
var ErrSchema = errors.New("database not usable by this version")

// The schema. Values have no declared type that converts (ANY), so that what is
// read is what was written; kind tells bools from integers and JSON from text.
const schema = `
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- fold is the id in lower case where that differs, for searching.
CREATE TABLE entity (
	num     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	fold    TEXT,
	created INTEGER NOT NULL
) STRICT;

CREATE TABLE key (
	num  INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE latest (
	entity INTEGER NOT NULL,
	key    INTEGER NOT NULL,
	ts     INTEGER NOT NULL,
	seq    INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	value  ANY NOT NULL,
	PRIMARY KEY (entity, key)
) STRICT, WITHOUT ROWID;

-- hour has each hour (ts / 3600000) that has telemetry of anybody.
CREATE TABLE hour (
	hour INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE telemetry (
	hour   INTEGER NOT NULL,
	entity INTEGER NOT NULL,
	key    INTEGER NOT NULL,
	ts     INTEGER NOT NULL,
	kind   INTEGER NOT NULL,
	value  ANY NOT NULL,
	PRIMARY KEY (hour, entity, key, ts)
) STRICT, WITHOUT ROWID;

-- change has one row for each commit, with its changes from the sequence first
-- to first + n - 1 in data (changelog.go).
CREATE TABLE change (
	first     INTEGER PRIMARY KEY,
	n         INTEGER NOT NULL,
	committed INTEGER NOT NULL,
	data      BLOB NOT NULL
) STRICT;
`

// migrate brings the database to this version's schema, in one transaction.
func migrate(ctx context.Context, conn *sql.Conn) (err error) {
	var app, version, tables int64
	for query, dst := range map[string]*int64{
		"PRAGMA application_id":              &app,
		"PRAGMA user_version":                &version,
		"SELECT count(*) FROM sqlite_schema": &tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(dst); err != nil {
			return fmt.Errorf("read the schema version: %w", err)
		}
	}
	switch {
	case app == applicationID && version == schemaVersion:
		return nil
	case app == applicationID && version > schemaVersion:
		return fmt.Errorf("%w: its schema has version %d and this program knows %d; use a newer greenroom", ErrSchema, version, schemaVersion)
	case app != 0 || version != 0 || tables != 0:
		return fmt.Errorf("%w: it is not a database of greenroom", ErrSchema)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error that led here says more
		}
	}()
	if _, err := tx.ExecContext(ctx, schema); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('identity', ?)", rand.Text()); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	pragmas := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", applicationID, schemaVersion)
	if _, err := tx.ExecContext(ctx, pragmas); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	return nil
}
