package pgdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Migration is what makes a schema, and brings it from one version to the next.
type Migration struct {
	Table   string   // has the version in its one row; a schema without it must be empty
	Steps   []string // their number is the version
	Refused error    // what a schema is refused with that is newer, or of another program
	// Made is called when the steps have made a schema, and fills Table.
	Made func(ctx context.Context, tx pgx.Tx) error
}

// Run brings the schema to the last version, in one transaction. Nobody else may do so
// at the same time.
func (m *Migration) Run(ctx context.Context, conn *pgx.Conn, schema string) error {
	var exists, ours bool
	var relations int
	err := conn.QueryRow(ctx, `SELECT count(n) > 0, coalesce(bool_or(c.relname = $2), false), count(c)
		FROM pg_namespace n LEFT JOIN pg_class c ON c.relnamespace = n.oid WHERE n.nspname = $1`, schema, m.Table).Scan(&exists, &ours, &relations)
	if err != nil {
		return fmt.Errorf("look at the schema: %w", err)
	}
	version := 0
	if ours {
		if err := conn.QueryRow(ctx, "SELECT version FROM "+m.Table).Scan(&version); err != nil {
			return fmt.Errorf("read the schema's version: %w", err)
		}
	}
	switch {
	case version == len(m.Steps):
		return nil
	case version > len(m.Steps):
		return fmt.Errorf("%w: %q has the version %d and this program knows %d; use a newer greenroom", m.Refused, schema, version, len(m.Steps))
	case !ours && relations > 0:
		return fmt.Errorf("%w: %q has tables of another program; name another schema with search_path", m.Refused, schema)
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	if err := m.upgrade(ctx, tx, schema, exists, version); err != nil {
		return errors.Join(fmt.Errorf("bring the schema %q from version %d to %d: %w", schema, version, len(m.Steps), err), tx.Rollback(ctx))
	}
	return tx.Commit(ctx)
}

func (m *Migration) upgrade(ctx context.Context, tx pgx.Tx, schema string, exists bool, version int) error {
	if !exists {
		if _, err := tx.Exec(ctx, "CREATE SCHEMA "+Identifier(schema)); err != nil {
			return err
		}
	}
	for _, step := range m.Steps[version:] {
		if _, err := tx.Exec(ctx, step); err != nil {
			return err
		}
	}
	if version > 0 {
		_, err := tx.Exec(ctx, "UPDATE "+m.Table+" SET version = $1", len(m.Steps))
		return err
	}
	return m.Made(ctx, tx)
}
