package postgres

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity/internal/changelog"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// steps are the statements that upgrade a schema from each version to the next; their number is the
// version that this code uses.
//
// A value is in one of four columns, while the others are null: number, whole, text, or json for
// any other kind (true, false, objects, arrays, and strings with a zero character, which text
// cannot contain). Names are compared bytewise. origin is the sequence of the source in eight
// bytes, followed by its name.
var steps = []string{`
CREATE TABLE greenroom (
	one         boolean PRIMARY KEY DEFAULT true CHECK (one),
	version     integer NOT NULL,
	identity    text NOT NULL,
	epoch       bigint NOT NULL DEFAULT 0, -- one more with each server that opens the store
	commits     bigint NOT NULL DEFAULT 0, -- one more with each commit
	last_change bigint NOT NULL DEFAULT 0,
	log_bytes   bigint NOT NULL DEFAULT 0,
	entities    bigint NOT NULL DEFAULT 0,
	last_entity bigint NOT NULL DEFAULT 0, -- the last number given
	last_key    bigint NOT NULL DEFAULT 0,
	last_doc    bigint NOT NULL DEFAULT 0  -- the last version given
);

-- fold is the id in lower case where that differs, for searching.
CREATE TABLE entity (
	num      integer PRIMARY KEY,
	id       text COLLATE "C" NOT NULL UNIQUE,
	fold     text COLLATE "C",
	type     text COLLATE "C",
	created  bigint NOT NULL,
	revision bigint NOT NULL DEFAULT 0
);
CREATE INDEX entity_type ON entity (type, id) WHERE type IS NOT NULL;

CREATE TABLE key (
	num  integer PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE
);

-- Rows are updated all the time: room in their page keeps the index out of it.
CREATE TABLE latest (
	ts     bigint NOT NULL,
	seq    bigint NOT NULL,
	entity integer NOT NULL,
	key    integer NOT NULL,
	number double precision,
	whole  bigint,
	text   text COLLATE "C",
	json   text COLLATE "C",
	origin bytea,
	PRIMARY KEY (entity, key)
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- The order of the columns saves padding.
CREATE TABLE telemetry (
	ts     bigint NOT NULL, -- milliseconds since the epoch
	entity integer NOT NULL,
	key    integer NOT NULL,
	number double precision,
	whole  bigint,
	text   text COLLATE "C",
	json   text COLLATE "C",
	origin bytea,
	PRIMARY KEY (entity, key, ts)
) PARTITION BY RANGE (ts);

-- span has the partitions of telemetry: lo <= ts < hi, each named by lo.
CREATE TABLE span (
	lo bigint PRIMARY KEY,
	hi bigint NOT NULL CHECK (lo < hi)
);

-- doomed has the numbers of deleted entities whose telemetry is still to be
-- removed. Numbers are never given again.
CREATE TABLE doomed (
	num integer PRIMARY KEY
);

CREATE TABLE attribute (
	ts      bigint NOT NULL,
	entity  integer NOT NULL,
	section smallint NOT NULL,
	path    text COLLATE "C" NOT NULL,
	number  double precision,
	whole   bigint,
	text    text COLLATE "C",
	json    text COLLATE "C",
	PRIMARY KEY (entity, section, path)
);

CREATE TABLE relation (
	source     integer NOT NULL,
	target     integer NOT NULL,
	type       text COLLATE "C" NOT NULL,
	properties text COLLATE "C",
	PRIMARY KEY (source, type, target)
);
CREATE INDEX relation_target ON relation (target);

-- applied has the last sequence of each source that computes readings of an
-- entity.
CREATE TABLE applied (
	n      bigint NOT NULL,
	entity integer NOT NULL,
	source bytea NOT NULL,
	PRIMARY KEY (entity, source)
) WITH (fillfactor = 80);

-- change has one row for each commit, with its changes from the sequence first
-- to first + n - 1 in data. It is not compressed: it lives for a short time.
CREATE TABLE change (
	first     bigint PRIMARY KEY,
	n         bigint NOT NULL,
	committed bigint NOT NULL,
	data      bytea NOT NULL
);
ALTER TABLE change ALTER COLUMN data SET STORAGE EXTERNAL;

CREATE TABLE doc (
	kind    text COLLATE "C" NOT NULL,
	id      text COLLATE "C" NOT NULL,
	version bigint NOT NULL,
	updated bigint NOT NULL,
	body    bytea NOT NULL,
	PRIMARY KEY (kind, id)
);

-- For people with SQL; nothing here uses it.
CREATE VIEW reading AS
	SELECT e.id AS entity, k.name AS key, t.ts, to_timestamp(t.ts / 1000.0) AS time,
		coalesce(t.number, t.whole) AS number, t.text, t.json
	FROM telemetry t JOIN entity e ON e.num = t.entity JOIN key k ON k.num = t.key;
`, `
-- Readings that came without a time are rows of their own: seq is the entity's of such a
-- reading, 0 for one with a time of its own. It makes the indexes of all partitions anew.
ALTER TABLE telemetry ADD COLUMN seq bigint NOT NULL DEFAULT 0;
ALTER TABLE telemetry DROP CONSTRAINT telemetry_pkey;
ALTER TABLE telemetry ADD PRIMARY KEY (entity, key, ts, seq);
`, `
-- generation has the random names of the changes from first on, up to the next one's:
-- each server that opens the store and commits begins one.
CREATE TABLE generation (
	first bigint PRIMARY KEY,
	id    text NOT NULL
);
INSERT INTO generation SELECT 0, left(identity, 8) FROM greenroom;
`, `
-- command has the commands of entities: data is all of it (package changelog), due when
-- it expires or times out, null for one that has ended, and ended when that was. key is
-- that of idempotency.
CREATE TABLE command (
	due    bigint,
	ended  bigint,
	entity integer NOT NULL,
	state  smallint NOT NULL,
	id     text COLLATE "C" NOT NULL,
	key    text COLLATE "C",
	data   bytea NOT NULL,
	PRIMARY KEY (entity, id)
);
CREATE INDEX command_open ON command (entity) INCLUDE (due) WHERE due IS NOT NULL;
CREATE INDEX command_key ON command (entity, key) WHERE key IS NOT NULL;
`, `
-- item has what parts of the program keep for themselves.
CREATE TABLE item (
	kind text COLLATE "C" NOT NULL,
	key  bytea NOT NULL,
	body bytea NOT NULL,
	PRIMARY KEY (kind, key)
);
`, `
-- presence has the bits of the state (entity.Presence), since when that began, and seen
-- when the device was last heard of.
ALTER TABLE entity ADD COLUMN since bigint NOT NULL DEFAULT 0;
ALTER TABLE entity ADD COLUMN seen bigint NOT NULL DEFAULT 0;
ALTER TABLE entity ADD COLUMN presence smallint NOT NULL DEFAULT 0;
ALTER TABLE entity SET (fillfactor = 80);
CREATE INDEX entity_online ON entity (id) WHERE presence & 3 = 1;
`, `
-- block has parts of series, packed (entity/block): n points from the place (first, first_seq) to
-- (last, last_seq), numbers of them numbers. The times are in the column times or in the row stamp,
-- the rest is in data; both are packed already. Blocks of a series do not overlap; a row of telemetry
-- in the same place as a point of a block came later. The rows of the telemetry are sealed in the
-- background, while the store is in use (seal.go).
CREATE TABLE block (
	num       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	first     bigint NOT NULL,
	first_seq bigint NOT NULL,
	last      bigint NOT NULL,
	last_seq  bigint NOT NULL,
	stamp     bigint,
	entity    integer NOT NULL,
	key       integer NOT NULL,
	n         integer NOT NULL,
	numbers   integer NOT NULL,
	times     bytea,
	data      bytea NOT NULL
);
ALTER TABLE block ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX block_place ON block (entity, key, first, first_seq);
CREATE INDEX block_stamp ON block (stamp) WHERE stamp IS NOT NULL;

-- stamp has the times of blocks of an entity: several may have the same. hash is FNV-1a of data in
-- 64 bits.
CREATE TABLE stamp (
	num    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	hash   bigint NOT NULL,
	entity integer NOT NULL,
	data   bytea NOT NULL
);
ALTER TABLE stamp ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE INDEX stamp_hash ON stamp (entity, hash);

-- computed has the origins of points in blocks.
CREATE TABLE computed (
	ts     bigint NOT NULL,
	seq    bigint NOT NULL,
	entity integer NOT NULL,
	key    integer NOT NULL,
	origin bytea NOT NULL,
	PRIMARY KEY (entity, key, ts, seq)
);

COMMENT ON VIEW reading IS 'What is not sealed yet: older readings are packed in the table block.';
`, `
-- claim is the largest Options.Claim with which the store was opened.
ALTER TABLE greenroom ADD COLUMN claim bigint NOT NULL DEFAULT 0;
`}

var migration = pgdb.Migration{
	Table: "greenroom", Steps: steps, Refused: ErrSchema,
	Made: func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `WITH made AS (INSERT INTO greenroom (version, identity) VALUES ($1, $2))
			INSERT INTO generation VALUES (0, $3)`, len(steps), rand.Text(), changelog.NewGeneration())
		return err
	},
}
