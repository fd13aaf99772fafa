package postgres

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// steps are the statements that upgrade a schema from each version to the next; their number is the
// version that this code uses.
//
// Each put first locks the row of engine, and holds it until the commit: revisions are in the order
// of commits, and each statement of the function sees what was committed before. Rows are updated
// all the time; room in their page avoids updates of the index.
var steps = []string{`
CREATE TABLE engine (
	one     boolean PRIMARY KEY DEFAULT true CHECK (one),
	version integer NOT NULL,
	last    bigint NOT NULL DEFAULT 0 -- the revision given last
) WITH (fillfactor = 20);

CREATE TABLE entry (
	key      text COLLATE "C" PRIMARY KEY,
	value    bytea NOT NULL,
	revision bigint NOT NULL
) WITH (fillfactor = 20);

CREATE FUNCTION put(k text, v bytea, was bigint, seen bigint, OUT last bigint, OUT done boolean) LANGUAGE plpgsql AS $$
BEGIN
	done := false;
	SELECT e.last INTO STRICT last FROM engine e FOR UPDATE;
	IF last < seen THEN
		RETURN;
	END IF;
	IF was = 0 THEN
		INSERT INTO entry VALUES (k, v, last + 1) ON CONFLICT DO NOTHING;
	ELSE
		UPDATE entry SET value = v, revision = last + 1 WHERE key = k AND revision = was;
	END IF;
	IF FOUND THEN
		done := true;
		last := last + 1;
		UPDATE engine SET last = put.last;
		PERFORM pg_notify(current_schema(), '');
	END IF;
END $$;

REVOKE ALL ON engine, entry FROM PUBLIC;
REVOKE ALL ON FUNCTION put FROM PUBLIC;
`}

var migration = pgdb.Migration{
	Table: "engine", Steps: steps, Refused: pgdb.ErrServer,
	Made: func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO engine (version) VALUES ($1)", len(steps))
		return err
	},
}

// lockClass identifies the advisory lock for creating a schema ("grnc"), together with a hash of
// its name.
const lockClass = 0x67726e63

// prepare makes sure that there is a schema.
func (e *Engine) prepare(ctx context.Context, schema string, existing bool) error {
	ctx, cancel := context.WithTimeout(ctx, openWithin)
	defer cancel()
	conn, err := pgdb.Dial(ctx, e.cfg, e.timeout)
	if err != nil {
		return err
	}
	defer closeSoon(conn) // which frees the lock
	if err := pgdb.CheckServer(ctx, conn, e.log); err != nil {
		return err
	}
	if existing {
		var there bool
		if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", pgx.Identifier{schema, migration.Table}.Sanitize()).Scan(&there); err != nil || !there {
			return cmp.Or(err, ErrNoSchema)
		}
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(schema)) // it cannot fail
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1, $2)", int32(lockClass), int32(h.Sum32()&0x7fffffff)); err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	return migration.Run(ctx, conn, schema)
}
