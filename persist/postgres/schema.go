package postgres

import (
	"context"
	"crypto/rand"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// steps are what brings a schema from one version to the next; their number is the version
// of the schema that this code reads and writes. Names are compared by bytes.
var steps = []string{`
CREATE TABLE journal (
	one      boolean PRIMARY KEY DEFAULT true CHECK (one),
	version  integer NOT NULL,
	identity text NOT NULL
);

-- part has the counters of a partition: the last position, and how many ids there are. A
-- commit that writes to it locks the row. It is updated all the time, in its page.
CREATE TABLE part (
	num      smallint PRIMARY KEY,
	position bigint NOT NULL DEFAULT 0,
	actors   bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 20);
INSERT INTO part (num) SELECT * FROM generate_series(0, 63);

-- process has a row for each opening of the journal: the number of its last batch.
CREATE TABLE process (
	num   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	batch bigint NOT NULL DEFAULT 0,
	used  timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 20);

CREATE TABLE type (
	num  integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE
);

-- actor.num is the place in the partition times 64, and the partition.
CREATE TABLE actor (
	num    bigint PRIMARY KEY,
	last   bigint NOT NULL,
	erased bigint NOT NULL,
	sent   bigint NOT NULL,
	id     text COLLATE "C" NOT NULL UNIQUE
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- event has an erasure as well: it has no type. The order of the columns saves padding.
CREATE TABLE event (
	actor    bigint NOT NULL,
	number   bigint NOT NULL,
	position bigint NOT NULL,
	time     bigint NOT NULL,
	sum      bigint NOT NULL,
	type     integer,
	part     smallint NOT NULL,
	data     bytea NOT NULL,
	PRIMARY KEY (actor, number)
);
CREATE UNIQUE INDEX event_feed ON event (part, position);

CREATE TABLE state (
	actor  bigint PRIMARY KEY,
	number bigint NOT NULL,
	sum    bigint NOT NULL,
	type   integer NOT NULL,
	data   bytea NOT NULL
) WITH (fillfactor = 80);

CREATE TABLE snapshot (
	actor  bigint NOT NULL,
	number bigint NOT NULL,
	sum    bigint NOT NULL,
	type   integer NOT NULL,
	data   bytea NOT NULL,
	PRIMARY KEY (actor, number)
);

CREATE TABLE outbox (
	actor    bigint NOT NULL,
	number   bigint NOT NULL,
	position bigint NOT NULL,
	time     bigint NOT NULL,
	sum      bigint NOT NULL,
	type     integer NOT NULL,
	part     smallint NOT NULL,
	receiver text COLLATE "C" NOT NULL,
	data     bytea NOT NULL,
	PRIMARY KEY (actor, number)
);
CREATE UNIQUE INDEX outbox_part ON outbox (part, position);

CREATE TABLE seen (
	actor  bigint NOT NULL,
	number bigint NOT NULL,
	sender text COLLATE "C" NOT NULL,
	PRIMARY KEY (actor, sender)
) WITH (fillfactor = 80);

CREATE TABLE reminder (
	actor bigint NOT NULL,
	at    bigint NOT NULL,
	sum   bigint NOT NULL,
	type  integer NOT NULL,
	part  smallint NOT NULL,
	key   text COLLATE "C" NOT NULL,
	data  bytea NOT NULL,
	PRIMARY KEY (actor, key)
);
CREATE INDEX reminder_due ON reminder (part, at);

CREATE TABLE claim (
	shard text COLLATE "C" PRIMARY KEY,
	epoch bigint NOT NULL
);

CREATE TABLE cursor (
	position   bigint NOT NULL,
	part       smallint NOT NULL,
	projection text COLLATE "C" NOT NULL,
	PRIMARY KEY (projection, part)
) WITH (fillfactor = 50);
`}

var migration = pgdb.Migration{
	Table: "journal", Steps: steps, Refused: ErrSchema,
	Made: func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO journal (version, identity) VALUES ($1, $2)", len(steps), rand.Text())
		return err
	},
}
