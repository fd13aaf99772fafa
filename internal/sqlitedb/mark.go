package sqlitedb

import (
	"context"
	"database/sql"
	"fmt"
)

// Mark says whose a database is. That of an empty one is zero.
type Mark struct {
	Application, Version int64 // as its owner has set them: application_id and user_version
	Tables               int64 // and indexes and views
}

// ReadMark returns the mark of a database.
func ReadMark(ctx context.Context, conn *sql.Conn) (m Mark, err error) {
	for query, dst := range map[string]*int64{
		"PRAGMA application_id":              &m.Application,
		"PRAGMA user_version":                &m.Version,
		"SELECT count(*) FROM sqlite_schema": &m.Tables,
	} {
		if err := conn.QueryRowContext(ctx, query).Scan(dst); err != nil {
			return Mark{}, fmt.Errorf("read the schema version: %w", err)
		}
	}
	return m, nil
}

// Set sets the application and the version.
func (m Mark) Set(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d", m.Application, m.Version))
	return err
}
