package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

const (
	// applicationID marks a database of ours ("GRNJ").
	applicationID = 0x47524e4a
	// schemaVersion is what this code reads and writes.
	schemaVersion = 2
)

// ErrSchema says that the directory holds a database that this version cannot use: one of a newer
// version, or of another program. Nothing was changed.
var ErrSchema = errors.New("journal not usable by this version")

// erasingTable is what version 2 adds to version 1.
const erasingTable = `
-- erasing has whose events are being removed: those with numbers below that one, which no reader
-- shows any more. They are complete in place and feed when head.flushed has come to the position.
CREATE TABLE erasing (
	actor    INTEGER PRIMARY KEY,
	part     INTEGER NOT NULL,
	below    INTEGER NOT NULL,
	position INTEGER NOT NULL
) STRICT;
`

const schema = erasingTable + `
CREATE TABLE meta (
	name  TEXT PRIMARY KEY,
	value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- head is one row: the last position that was given, and which batch of which opening of
-- the journal was committed last.
CREATE TABLE head (
	position INTEGER NOT NULL,
	session  TEXT NOT NULL,
	batch    INTEGER NOT NULL,
	flushed  INTEGER NOT NULL -- up to which position place, feed and actor.last are complete
) STRICT;

-- type has the names of payloads.
CREATE TABLE type (
	num  INTEGER PRIMARY KEY,
	name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE actor (
	num    INTEGER PRIMARY KEY,
	id     TEXT NOT NULL UNIQUE,
	last   INTEGER NOT NULL,
	erased INTEGER NOT NULL,
	sent   INTEGER NOT NULL
) STRICT;

-- event has an erasure as well: it has no type.
CREATE TABLE event (
	position INTEGER PRIMARY KEY,
	part     INTEGER NOT NULL,
	actor    INTEGER NOT NULL,
	number   INTEGER NOT NULL,
	time     INTEGER NOT NULL,
	type     INTEGER,
	sum      INTEGER NOT NULL,
	data     BLOB NOT NULL
) STRICT;

-- place has where the events of an actor are, and feed those of a partition. Of events after
-- head.flushed they have some or none.
CREATE TABLE place (
	actor    INTEGER NOT NULL,
	number   INTEGER NOT NULL,
	position INTEGER NOT NULL,
	PRIMARY KEY (actor, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE feed (
	part     INTEGER NOT NULL,
	position INTEGER NOT NULL,
	PRIMARY KEY (part, position)
) STRICT, WITHOUT ROWID;

CREATE TABLE state (
	actor  INTEGER PRIMARY KEY,
	number INTEGER NOT NULL,
	type   INTEGER NOT NULL,
	sum    INTEGER NOT NULL,
	data   BLOB NOT NULL
) STRICT;

CREATE TABLE snapshot (
	actor  INTEGER NOT NULL,
	number INTEGER NOT NULL,
	type   INTEGER NOT NULL,
	sum    INTEGER NOT NULL,
	data   BLOB NOT NULL,
	UNIQUE (actor, number)
) STRICT;

CREATE TABLE outbox (
	part     INTEGER NOT NULL,
	position INTEGER NOT NULL,
	actor    INTEGER NOT NULL,
	number   INTEGER NOT NULL,
	time     INTEGER NOT NULL,
	receiver TEXT NOT NULL,
	type     INTEGER NOT NULL,
	sum      INTEGER NOT NULL,
	data     BLOB NOT NULL,
	PRIMARY KEY (part, position),
	UNIQUE (actor, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE seen (
	actor  INTEGER NOT NULL,
	sender TEXT NOT NULL,
	number INTEGER NOT NULL,
	PRIMARY KEY (actor, sender)
) STRICT, WITHOUT ROWID;

CREATE TABLE reminder (
	actor INTEGER NOT NULL,
	key   TEXT NOT NULL,
	part  INTEGER NOT NULL,
	at    INTEGER NOT NULL,
	type  INTEGER NOT NULL,
	sum   INTEGER NOT NULL,
	data  BLOB NOT NULL,
	PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX reminder_due ON reminder (part, at);

CREATE TABLE claim (
	shard TEXT PRIMARY KEY,
	epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE cursor (
	projection TEXT NOT NULL,
	part       INTEGER NOT NULL,
	position   INTEGER NOT NULL,
	PRIMARY KEY (projection, part)
) STRICT, WITHOUT ROWID;

INSERT INTO head (position, session, batch, flushed) VALUES (0, '', 0, 0);
`

// errEmpty is the ErrSchema of an empty database.
var errEmpty = fmt.Errorf("%w: it is empty", ErrSchema)

// errOlder is in the ErrSchema of a database that migrate makes one of this version.
var errOlder = errors.New("its schema is of an older version")

// check refuses a database that is not ours.
func check(mark sqlitedb.Mark) error {
	switch {
	case mark.Application == applicationID && mark.Version == schemaVersion:
		return nil
	case mark.Application == applicationID && mark.Version < schemaVersion:
		return fmt.Errorf("%w: %w: version %d, and this program's is %d; open it for writing once", ErrSchema, errOlder, mark.Version, schemaVersion)
	case mark.Application == applicationID:
		return fmt.Errorf("%w: its schema has version %d and this program knows %d; use a newer one", ErrSchema, mark.Version, schemaVersion)
	case mark != sqlitedb.Mark{}:
		return fmt.Errorf("%w: it is not a journal", ErrSchema)
	}
	return errEmpty
}

// migrate makes the schema in an empty database, and that of this version in one of an older version.
func migrate(ctx context.Context, conn *sql.Conn) error {
	mark, err := sqlitedb.ReadMark(ctx, conn)
	if err != nil {
		return err
	}
	older := false
	if err := check(mark); errors.Is(err, errOlder) {
		older = true
	} else if !errors.Is(err, errEmpty) {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	defer tx.Rollback() //nolint:errcheck // it has been committed, or the error that led here says more
	statements := schema
	if older {
		statements = erasingTable
	}
	if _, err := tx.ExecContext(ctx, statements); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	if err := (sqlitedb.Mark{Application: applicationID, Version: schemaVersion}).Set(ctx, tx); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	if older {
		return tx.Commit()
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('identity', ?)", rand.Text()); err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	return tx.Commit()
}
