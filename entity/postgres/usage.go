package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// ReadUsage reads the usage of the store at an address, which a server may be using. It reads all
// rows of the history. It fails with ErrSchema if there is no store, or one of another version.
func ReadUsage(ctx context.Context, address string) (u entity.Usage, err error) {
	o := Options{}.withDefaults()
	cfg, err := parse(address, &o)
	if err != nil {
		return u, fmt.Errorf("read the usage: %w", err)
	}
	defer failure.In(&err, "read the usage of %s", pgdb.Name(cfg, o.Schema))
	conn, err := pgdb.Dial(ctx, cfg.ConnConfig, 0)
	if err != nil {
		return u, err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		err = errors.Join(err, conn.Close(ctx))
	}()
	exists, version := false, 0
	if err := conn.QueryRow(ctx, "SELECT to_regclass('greenroom') IS NOT NULL").Scan(&exists); err != nil {
		return u, err
	}
	if !exists {
		return u, fmt.Errorf("%w: there is no store in it", ErrSchema)
	}
	if err := conn.QueryRow(ctx, "SELECT version FROM greenroom").Scan(&version); err != nil {
		return u, err
	}
	if version != len(steps) {
		return u, fmt.Errorf("%w: it has the version %d, and this program reads %d; start a server on it once", ErrSchema, version, len(steps))
	}
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return u, err
	}
	if err := readUsage(ctx, tx, &u); err != nil {
		return u, errors.Join(err, pgdb.Abort(ctx, tx))
	}
	return u, tx.Commit(ctx)
}

// Usage returns what the store contains and how much space that takes. See [entity.Store]. How much
// of it is free is not known.
func (s *Store) Usage(ctx context.Context) (u entity.Usage, err error) {
	defer failure.In(&err, "read the usage")
	err = s.snapshot(ctx, func(tx pgx.Tx) error {
		u = entity.Usage{}
		return readUsage(ctx, tx, &u)
	})
	return u, err
}

func readUsage(ctx context.Context, tx pgx.Tx, u *entity.Usage) (err error) {
	if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
		return err
	}
	err = tx.QueryRow(ctx, `SELECT (SELECT coalesce(sum(pg_total_relation_size(oid)), 0) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'),
			(SELECT log_bytes FROM greenroom), (SELECT count(*) FROM block), (SELECT coalesce(sum(octet_length(data)), 0) FROM stamp)`).
		Scan(&u.File, &u.Log, &u.Blocks, &u.SealedBytes)
	if err != nil {
		return err
	}
	if u.Keys, err = parts(ctx, tx, "SELECT k.name", "JOIN key k ON k.num = p.key GROUP BY k.name ORDER BY k.name"); err != nil {
		return err
	}
	sealed.AddKeys(u)
	u.Types, err = parts(ctx, tx, "SELECT coalesce(e.type, '')", "JOIN entity e ON e.num = p.entity GROUP BY e.type ORDER BY 1")
	return err
}

// parts sums up what rows and blocks have.
func parts(ctx context.Context, tx pgx.Tx, name, by string) ([]entity.PartUsage, error) {
	rows, err := tx.Query(ctx, name+`, (sum(p.open) + sum(p.sealed))::bigint, sum(p.sealed)::bigint, sum(p.bytes)::bigint FROM (
			SELECT entity, key, count(*) AS open, 0 AS sealed, 0 AS bytes FROM telemetry GROUP BY entity, key
			UNION ALL SELECT entity, key, 0, sum(n), sum(octet_length(data) + coalesce(octet_length(times), 0)) FROM block GROUP BY entity, key
		) p `+by)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[entity.PartUsage])
}
