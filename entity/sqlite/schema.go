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
	// applicationID marks the database as one of Greenroom ("GRNR").
	applicationID = 0x47524e52
	// schemaVersion is the version that this code reads and writes.
	schemaVersion = 11
)

// ErrSchema means that the directory holds a database that this version cannot
// use: it belongs to a newer version or to another program. Nothing was changed.
var ErrSchema = errors.New("database not usable by this version")

// The schema. Values are stored in columns of type ANY, which SQLite does not convert; kind
// distinguishes bools from integers and JSON from text.
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

-- key has the keys of telemetry and whatever other names come again and again:
-- paths of attributes, types of relations, sources.
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
-- to first + n - 1 in data (package changelog).
CREATE TABLE change (
	first     INTEGER PRIMARY KEY,
	n         INTEGER NOT NULL,
	committed INTEGER NOT NULL,
	data      BLOB NOT NULL
) STRICT;
`

// schema2 is what version 2 adds.
const schema2 = `
ALTER TABLE entity ADD COLUMN type TEXT;
ALTER TABLE entity ADD COLUMN revision INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entity_type ON entity (type, id) WHERE type IS NOT NULL;

CREATE TABLE attribute (
	entity  INTEGER NOT NULL,
	section INTEGER NOT NULL,
	path    INTEGER NOT NULL, -- of key
	ts      INTEGER NOT NULL,
	kind    INTEGER NOT NULL,
	value   ANY NOT NULL,
	PRIMARY KEY (entity, section, path)
) STRICT, WITHOUT ROWID;

CREATE TABLE relation (
	source     INTEGER NOT NULL,
	type       INTEGER NOT NULL, -- of key
	target     INTEGER NOT NULL,
	properties TEXT,
	PRIMARY KEY (source, type, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX relation_target ON relation (target);

-- applied has the last sequence of each source that computes readings of an
-- entity, and computed who computed the value that is in telemetry: seq is the
-- entity's own of that reading, n the source's.
CREATE TABLE applied (
	entity INTEGER NOT NULL,
	source INTEGER NOT NULL, -- of key
	n      INTEGER NOT NULL,
	PRIMARY KEY (entity, source)
) STRICT, WITHOUT ROWID;

CREATE TABLE computed (
	entity INTEGER NOT NULL,
	key    INTEGER NOT NULL,
	ts     INTEGER NOT NULL,
	seq    INTEGER NOT NULL,
	source INTEGER NOT NULL, -- of key
	n      INTEGER NOT NULL,
	PRIMARY KEY (entity, key, ts)
) STRICT, WITHOUT ROWID;

-- doomed has the numbers of deleted entities whose history is still to be
-- removed, from the hour on. They are not given again before that.
CREATE TABLE doomed (
	num  INTEGER PRIMARY KEY,
	hour INTEGER NOT NULL
) STRICT;

CREATE TABLE doc (
	kind    TEXT NOT NULL,
	id      TEXT NOT NULL,
	version INTEGER NOT NULL,
	updated INTEGER NOT NULL,
	body    BLOB NOT NULL,
	PRIMARY KEY (kind, id)
) STRICT, WITHOUT ROWID;
`

// schema3 is what version 3 adds: the last change that the tables contain. Before, every commit
// wrote the tables. Later changes are in the change log only (tail.go), in its
// third format.
const schema3 = `
INSERT INTO meta (name, value) SELECT 'flushed', CAST(coalesce(max(first + n - 1), 0) AS TEXT) FROM change;
`

// schema4 adds nothing. Since version 4, edits of attributes too are only in the change log
// until they are moved, which older versions do not know.
const schema4 = "SELECT 1"

// schema5 gives telemetry a sequence, so that readings that arrived without a time have rows of
// their own (entity.Place). It copies the table, because the primary key changes.
const schema5 = `
CREATE TABLE telemetry5 (
	hour   INTEGER NOT NULL,
	entity INTEGER NOT NULL,
	key    INTEGER NOT NULL,
	ts     INTEGER NOT NULL,
	seq    INTEGER NOT NULL, -- 0 for a reading with a time of its own
	kind   INTEGER NOT NULL,
	value  ANY NOT NULL,
	PRIMARY KEY (hour, entity, key, ts, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO telemetry5 SELECT hour, entity, key, ts, 0, kind, value FROM telemetry ORDER BY hour, entity, key, ts;
DROP TABLE telemetry;
ALTER TABLE telemetry5 RENAME TO telemetry;
`

// schema6 adds the generations of the changes. Cursors issued before then start
// with a part of the identity.
const schema6 = `
CREATE TABLE generation (
	first INTEGER PRIMARY KEY,
	id    TEXT NOT NULL
) STRICT;
INSERT INTO generation SELECT 0, substr(value, 1, 8) FROM meta WHERE name = 'identity';
`

// schema7 adds the commands to devices. Older versions do not know the changes in the log
// that are about them.
const schema7 = `
-- command has the commands of entities: data is all of it (package changelog), due when
-- it expires or times out, null for one that has ended, and ended when that was.
CREATE TABLE command (
	entity INTEGER NOT NULL,
	id     TEXT NOT NULL,
	state  INTEGER NOT NULL,
	key    TEXT, -- of idempotency
	due    INTEGER,
	ended  INTEGER,
	data   BLOB NOT NULL,
	PRIMARY KEY (entity, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX command_open ON command (entity, due) WHERE due IS NOT NULL;
CREATE INDEX command_key ON command (entity, key) WHERE key IS NOT NULL;
`

// schema8 adds items, in which parts of the program store data of their own.
const schema8 = `
CREATE TABLE item (
	kind TEXT NOT NULL,
	key  BLOB NOT NULL,
	body BLOB NOT NULL,
	PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
`

// schema9 adds presences: the column presence has the bits of the state (entity.Presence). Older
// versions do not know the changes in the log that are about them.
const schema9 = `
ALTER TABLE entity ADD COLUMN presence INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entity ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
ALTER TABLE entity ADD COLUMN seen INTEGER NOT NULL DEFAULT 0;
CREATE INDEX entity_online ON entity (id) WHERE presence & 3 = 1;
`

// schema10 adds blocks. Rows of telemetry are sealed in the background while the store is in
// use (seal.go). Older versions cannot read blocks.
const schema10 = `
-- block has parts of series, packed (entity/block): n points from the place (first,
-- first_seq) to (last, last_seq), numbers of them numbers. The times are in the column
-- times or in the row stamp, the rest is in data. Blocks of a series do not overlap; a row
-- of telemetry in the same place as a point of a block came later.
CREATE TABLE block (
	num       INTEGER PRIMARY KEY,
	entity    INTEGER NOT NULL,
	key       INTEGER NOT NULL,
	first     INTEGER NOT NULL,
	first_seq INTEGER NOT NULL,
	last      INTEGER NOT NULL,
	last_seq  INTEGER NOT NULL,
	n         INTEGER NOT NULL,
	numbers   INTEGER NOT NULL,
	stamp     INTEGER,
	times     BLOB,
	data      BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX block_place ON block (entity, key, first, first_seq);
CREATE INDEX block_stamp ON block (stamp) WHERE stamp IS NOT NULL;

-- stamp has the times of blocks of an entity: several may have the same. hash is FNV-1a of
-- data in 64 bits.
CREATE TABLE stamp (
	num    INTEGER PRIMARY KEY,
	entity INTEGER NOT NULL,
	hash   INTEGER NOT NULL,
	data   BLOB NOT NULL
) STRICT;
CREATE INDEX stamp_hash ON stamp (entity, hash);
`

// schema11 adds the hours of each series, so that a query examines no other hours: in fifty years
// there are half a million. They also lead to the rows that deleted entities have left. Older
// versions would not maintain them.
const schema11 = `
-- series_hour has each hour in which a series has rows of telemetry.
CREATE TABLE series_hour (
	entity INTEGER NOT NULL,
	key    INTEGER NOT NULL,
	hour   INTEGER NOT NULL,
	PRIMARY KEY (entity, key, hour)
) STRICT, WITHOUT ROWID;
INSERT INTO series_hour SELECT DISTINCT entity, key, hour FROM telemetry ORDER BY entity, key, hour;
ALTER TABLE doomed DROP COLUMN hour;
`

// migrate upgrades the database to the schema of this version.
func migrate(ctx context.Context, conn *sql.Conn) error {
	mark, err := sqlitedb.ReadMark(ctx, conn)
	if err != nil {
		return err
	}
	ours := mark.Application == applicationID
	switch {
	case ours && mark.Version == schemaVersion:
		return nil
	case ours && mark.Version > schemaVersion:
		return fmt.Errorf("%w: its schema has version %d and this program knows %d; use a newer greenroom", ErrSchema, mark.Version, schemaVersion)
	case ours && mark.Version > 0:
		return upgrade(ctx, conn, int(mark.Version))
	case mark != sqlitedb.Mark{}:
		return fmt.Errorf("%w: it is not a database of greenroom", ErrSchema)
	}
	return upgrade(ctx, conn, 0)
}

// upgrade takes the steps from a version of the schema, 0 for an empty database, to the current one.
func upgrade(ctx context.Context, conn *sql.Conn, version int) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("create the schema: %w", err)
	}
	defer func() {
		if err != nil {
			_ = tx.Rollback() // the error that led here says more
			err = fmt.Errorf("bring the schema from version %d to %d: %w", version, schemaVersion, err)
		}
	}()
	for i, step := range []string{schema, schema2, schema3, schema4, schema5, schema6, schema7, schema8, schema9, schema10, schema11}[version:] {
		if _, err := tx.ExecContext(ctx, step); err != nil {
			return err
		}
		if version+i > 0 {
			continue
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('identity', ?)", rand.Text()); err != nil {
			return err
		}
	}
	if err := (sqlitedb.Mark{Application: applicationID, Version: schemaVersion}).Set(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}
