package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// ReadUsage reads the usage of the store in a directory, which a server may be using. It reads all
// rows of the history. Readings of the last seconds may be only in the change log. It fails with
// ErrSchema for a store of another version.
func ReadUsage(ctx context.Context, dir string) (u entity.Usage, err error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return u, err
	}
	if u.File, err = fileSize(path); err != nil {
		return u, err
	}
	db, err := openReader(path)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	conn, err := db.Conn(ctx)
	if err != nil {
		return u, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	mark, err := sqlitedb.ReadMark(ctx, conn)
	if err != nil {
		return u, err
	}
	if mark.Application != applicationID || mark.Version != schemaVersion {
		return u, fmt.Errorf("%w: %s has the schema version %d, and this program reads %d; start a server on it once", ErrSchema, dir, mark.Version, schemaVersion)
	}
	return u, readUsage(ctx, conn, &u)
}

// Usage returns what the store contains and how much space that takes. See [entity.Store].
func (s *Store) Usage(ctx context.Context) (u entity.Usage, err error) {
	defer failure.In(&err, "read the usage")
	if u.File, err = fileSize(s.path); err != nil {
		return u, err
	}
	err = s.snapshot(ctx, func(conn *sql.Conn) error { return readUsage(ctx, conn, &u) })
	return u, err
}

// fileSize returns the size of a database with its WAL.
func fileSize(path string) (n int64, err error) {
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		if suffix != "" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		n += info.Size()
	}
	return n, nil
}

func readUsage(ctx context.Context, conn *sql.Conn, u *entity.Usage) (err error) {
	err = conn.QueryRowContext(ctx, `SELECT (SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size),
			(SELECT coalesce(sum(length(data)), 0) FROM change), (SELECT count(*) FROM block), (SELECT coalesce(sum(length(data)), 0) FROM stamp)`).
		Scan(&u.Free, &u.Log, &u.Blocks, &u.SealedBytes)
	if err != nil {
		return err
	}
	if u.Keys, err = parts(ctx, conn, "SELECT k.name", "JOIN key k ON k.num = p.key GROUP BY p.key ORDER BY k.name"); err != nil {
		return err
	}
	sealed.AddKeys(u)
	u.Types, err = parts(ctx, conn, "SELECT coalesce(e.type, '')", "JOIN entity e ON e.num = p.entity GROUP BY e.type ORDER BY 1")
	return err
}

// parts sums up the usage of rows and blocks.
func parts(ctx context.Context, conn *sql.Conn, name, by string) (list []entity.PartUsage, err error) {
	rows, err := conn.QueryContext(ctx, name+`, sum(p.open) + sum(p.sealed), sum(p.sealed), sum(p.bytes) FROM (
			SELECT entity, key, count(*) AS open, 0 AS sealed, 0 AS bytes FROM telemetry GROUP BY entity, key
			UNION ALL SELECT entity, key, 0, sum(n), sum(length(data) + coalesce(length(times), 0)) FROM block GROUP BY entity, key
		) p `+by)
	if err != nil {
		return nil, err
	}
	err = scan(rows, func() error {
		var p entity.PartUsage
		err := rows.Scan(&p.Name, &p.Values, &p.Sealed, &p.SealedBytes)
		list = append(list, p)
		return err
	})
	return list, err
}
