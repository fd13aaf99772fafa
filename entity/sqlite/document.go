package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/document"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
)

// update runs f in a separate transaction on the writer's connection, between two commits.
func (s *Store) update(ctx context.Context, f func(tx *sql.Tx) error) error {
	s.begin()
	defer s.writing.Unlock()
	return s.updateLocked(ctx, f)
}

// updateLocked is like update. REQUIRES: s.writing held.
func (s *Store) updateLocked(ctx context.Context, f func(tx *sql.Tx) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // see Commit
	return s.withRoom(func() error {
		if err := s.w.Durable(ctx); err != nil {
			return err
		}
		tx, err := s.w.Conn.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if err := f(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
		if err = tx.Commit(); err != nil {
			// A COMMIT that failed may have left the transaction open, although package sql
			// considers it ended.
			_, _ = s.w.Conn.ExecContext(ctx, "ROLLBACK")
		}
		return err
	})
}

const docColumns = "SELECT version, updated, body FROM doc WHERE kind = ? AND id = ?"

// Doc returns a document. See [entity.Store].
func (s *Store) Doc(ctx context.Context, kind, id string) (entity.Doc, error) {
	return scanDoc(s.queries.doc.QueryRowContext(ctx, kind, id), kind, id)
}

func scanDoc(row *sql.Row, kind, id string) (entity.Doc, error) {
	d := entity.Doc{Kind: kind, ID: id}
	err := row.Scan(&d.Version, &d.Updated, &d.Body)
	if errors.Is(err, sql.ErrNoRows) {
		err = entity.ErrNotFound
	}
	if err != nil {
		return entity.Doc{}, fmt.Errorf("%s %q: %w", kind, id, err)
	}
	return d, nil
}

// Docs returns a page of the documents of a kind. See [entity.Store].
func (s *Store) Docs(ctx context.Context, kind, after string, limit int) (list []entity.Doc, err error) {
	defer failure.In(&err, "list documents of kind %s", kind)
	rows, err := s.queries.docs.QueryContext(ctx, kind, after, limit)
	if err != nil {
		return nil, err
	}
	bytes := 0
	err = scan(rows, func() error {
		d := entity.Doc{Kind: kind}
		if err := rows.Scan(&d.ID, &d.Version, &d.Updated, &d.Body); err != nil {
			return err
		}
		if bytes += len(d.Body); bytes > entity.DocsBytes && len(list) > 0 {
			return errEnough
		}
		list = append(list, d)
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return list, err
}

// check checks the condition of a write in its transaction.
func check(ctx context.Context, tx *sql.Tx, kind, id, condition string) error {
	old, err := scanDoc(tx.QueryRowContext(ctx, docColumns, kind, id), kind, id)
	return document.Check(kind, id, condition, old, err)
}

// nextVersion returns a version that no document has had: the time, or the last version plus one if
// the clock has not advanced.
func nextVersion(ctx context.Context, tx *sql.Tx, now int64) (version int64, err error) {
	err = tx.QueryRowContext(ctx, `INSERT INTO meta (name, value) VALUES ('doc_version', CAST(?1 AS TEXT))
		ON CONFLICT (name) DO UPDATE SET value = CAST(max(?1, CAST(value AS INTEGER) + 1) AS TEXT)
		RETURNING CAST(value AS INTEGER)`, now).Scan(&version)
	return version, err
}

// PutDoc stores a document. See [entity.Store].
func (s *Store) PutDoc(ctx context.Context, doc entity.Doc, cond string) (_ entity.Doc, err error) {
	defer failure.In(&err, "put document")
	err = s.update(ctx, func(tx *sql.Tx) error {
		if err := check(ctx, tx, doc.Kind, doc.ID, cond); err != nil {
			return err
		}
		var err error
		doc.Updated = time.Now().UnixMilli()
		if doc.Version, err = nextVersion(ctx, tx, doc.Updated); err != nil {
			return err
		}
		if doc.Body == nil {
			doc.Body = []byte{}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO doc (kind, id, version, updated, body) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, updated = excluded.updated, body = excluded.body`,
			doc.Kind, doc.ID, doc.Version, doc.Updated, doc.Body)
		return err
	})
	return doc, err
}

// DeleteDoc removes a document. See [entity.Store].
func (s *Store) DeleteDoc(ctx context.Context, kind, id, cond string) (err error) {
	defer failure.In(&err, "delete document")
	if cond == "" {
		cond = entity.IfAny
	}
	return s.update(ctx, func(tx *sql.Tx) error {
		if err := check(ctx, tx, kind, id, cond); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "DELETE FROM doc WHERE kind = ? AND id = ?", kind, id)
		return err
	})
}

// Trim removes the oldest points of one series. See [entity.Store].
//
// Points to remove may be only in the log; or they may be in the tables too, and return from the
// log after a crash. In these cases Trim first moves everything that is committed to the tables,
// mostly concurrently with commits.
func (s *Store) Trim(ctx context.Context, id, key string, before int64, limit int) (n int, err error) {
	defer failure.In(&err, "trim the history of %q key %q", id, key)
	if err := s.settle(before); err != nil {
		return 0, err
	}
	s.begin()
	defer s.writing.Unlock()
	if before > s.tail.oldest {
		if err := s.flushTo(ctx, s.Info().LastChange); err != nil {
			return 0, err
		}
	}
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return s.trim(context.WithoutCancel(ctx), id, key, before, limit)
}
