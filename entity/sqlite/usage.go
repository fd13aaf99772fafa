package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/greenroom-go/greenroom/internal/sqlitedb"
)

// Usage says what a store contains and what that takes.
type Usage struct {
	// File is the size of the database file with its WAL, and Free how much of it is free
	// for what comes. Log is the size of the change log.
	File, Free, Log int64
	// Values counts the values of the history in the tables, and Sealed how many of them are in
	// Blocks, which take SealedBytes, without the tables around them. A value that a later one
	// in a row has replaced is counted until that is folded in.
	Values, Sealed, Blocks, SealedBytes int64
	// Keys and Types say it for each key and each type of entity, by name. The times that
	// blocks share are in SealedBytes alone.
	Keys, Types []PartUsage
}

// PartUsage is the part of a key, or of a type of entity: the name is empty for entities without one.
type PartUsage struct {
	Name                        string
	Values, Sealed, SealedBytes int64
}

// ReadUsage reads the usage of the store in a directory, which a server may be using. It reads all
// rows of the history. Readings of the last seconds may be in the change log only. It fails with
// ErrSchema for a store of another version.
func ReadUsage(ctx context.Context, dir string) (u Usage, err error) {
	path, err := filepath.Abs(filepath.Join(dir, databaseName))
	if err != nil {
		return u, err
	}
	for _, suffix := range []string{"", "-wal"} {
		info, err := os.Stat(path + suffix)
		if suffix != "" && errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return u, err
		}
		u.File += info.Size()
	}
	db, err := sql.Open("sqlite", sqlitedb.DSN(path, "deferred", "busy_timeout(5000)", "query_only(1)"))
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
	return u, u.read(ctx, conn)
}

func (u *Usage) read(ctx context.Context, conn *sql.Conn) (err error) {
	err = conn.QueryRowContext(ctx, `SELECT (SELECT freelist_count * page_size FROM pragma_freelist_count, pragma_page_size),
			(SELECT coalesce(sum(length(data)), 0) FROM change), (SELECT count(*) FROM block), (SELECT coalesce(sum(length(data)), 0) FROM stamp)`).
		Scan(&u.Free, &u.Log, &u.Blocks, &u.SealedBytes)
	if err != nil {
		return err
	}
	if u.Keys, err = parts(ctx, conn, "SELECT k.name", "JOIN key k ON k.num = p.key GROUP BY p.key ORDER BY k.name"); err != nil {
		return err
	}
	for _, k := range u.Keys {
		u.Values, u.Sealed, u.SealedBytes = u.Values+k.Values, u.Sealed+k.Sealed, u.SealedBytes+k.SealedBytes
	}
	u.Types, err = parts(ctx, conn, "SELECT coalesce(e.type, '')", "JOIN entity e ON e.num = p.entity GROUP BY e.type ORDER BY 1")
	return err
}

// parts sums up what rows and blocks have.
func parts(ctx context.Context, conn *sql.Conn, name, by string) (list []PartUsage, err error) {
	rows, err := conn.QueryContext(ctx, name+`, sum(p.open) + sum(p.sealed), sum(p.sealed), sum(p.bytes) FROM (
			SELECT entity, key, count(*) AS open, 0 AS sealed, 0 AS bytes FROM telemetry GROUP BY entity, key
			UNION ALL SELECT entity, key, 0, sum(n), sum(length(data) + coalesce(length(times), 0)) FROM block GROUP BY entity, key
		) p `+by)
	if err != nil {
		return nil, err
	}
	err = scan(rows, func() error {
		var p PartUsage
		err := rows.Scan(&p.Name, &p.Values, &p.Sealed, &p.SealedBytes)
		list = append(list, p)
		return err
	})
	return list, err
}
