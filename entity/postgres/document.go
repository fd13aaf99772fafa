package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/document"
	"github.com/greenroom-go/greenroom/entity/internal/failure"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

const docColumns = "SELECT version, updated, body FROM doc WHERE kind = $1 AND id = $2"

// scanDoc scans a document, or returns ErrNotFound.
func scanDoc(row pgx.Row, kind, id string) (entity.Doc, error) {
	d := entity.Doc{Kind: kind, ID: id}
	err := row.Scan(&d.Version, &d.Updated, &d.Body)
	if errors.Is(err, pgx.ErrNoRows) {
		err = entity.ErrNotFound
	}
	if err != nil {
		return entity.Doc{}, fmt.Errorf("%s %q: %w", kind, id, err)
	}
	return d, nil
}

// Doc returns a document. See [entity.Store].
func (s *Store) Doc(ctx context.Context, kind, id string) (doc entity.Doc, err error) {
	if pgdb.Impossible(id) {
		return entity.Doc{}, fmt.Errorf("%s %q: %w", kind, id, entity.ErrNotFound)
	}
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		doc, err = scanDoc(conn.QueryRow(ctx, docColumns, kind, id), kind, id)
		return err
	})
	return doc, err
}

// Docs returns a page of the documents of a kind. See [entity.Store].
func (s *Store) Docs(ctx context.Context, kind, after string, limit int) (list []entity.Doc, err error) {
	defer failure.In(&err, "list documents of kind %s", kind)
	err = s.read(ctx, func(conn *pgxpool.Conn) error {
		// The sum is over what the server reads anyway; what is beyond it is not sent.
		rows, err := conn.Query(ctx, `SELECT id, version, updated, body FROM (
				SELECT *, sum(length(body)) OVER (ORDER BY id) AS bytes, row_number() OVER (ORDER BY id) AS place
				FROM (SELECT id, version, updated, body FROM doc WHERE kind = $1 AND id > $2 ORDER BY id LIMIT $3) AS page
			) AS sums WHERE bytes <= $4 OR place = 1 ORDER BY id`, kind, after, limit, entity.DocsBytes)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (entity.Doc, error) {
			d := entity.Doc{Kind: kind}
			err := row.Scan(&d.ID, &d.Version, &d.Updated, &d.Body)
			return d, err
		})
		return err
	})
	return list, err
}

// check checks the condition of a write in its transaction.
func check(ctx context.Context, tx pgx.Tx, kind, id, condition string) error {
	old, err := scanDoc(tx.QueryRow(ctx, docColumns, kind, id), kind, id)
	return document.Check(kind, id, condition, old, err)
}

// PutDoc stores a document. See [entity.Store].
func (s *Store) PutDoc(ctx context.Context, doc entity.Doc, condition string) (_ entity.Doc, err error) {
	defer failure.In(&err, "put document")
	err = s.update(ctx, func(ctx context.Context, w *writer) error {
		return w.transact(ctx, func(tx pgx.Tx) error { return w.putDoc(ctx, tx, &doc, condition) })
	})
	return doc, err
}

func (w *writer) putDoc(ctx context.Context, tx pgx.Tx, doc *entity.Doc, condition string) error {
	if err := check(ctx, tx, doc.Kind, doc.ID, condition); err != nil {
		return err
	}
	// All documents share a counter, so that a version is never reused, not even that of a deleted
	// document.
	if err := tx.QueryRow(ctx, "UPDATE greenroom SET last_doc = last_doc + 1 RETURNING last_doc").Scan(&doc.Version); err != nil {
		return err
	}
	doc.Updated = time.Now().UnixMilli()
	if doc.Body == nil {
		doc.Body = []byte{}
	}
	_, err := tx.Exec(ctx, `INSERT INTO doc (kind, id, version, updated, body) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (kind, id) DO UPDATE SET version = excluded.version, updated = excluded.updated, body = excluded.body`,
		doc.Kind, doc.ID, doc.Version, doc.Updated, doc.Body)
	return err
}

// DeleteDoc removes a document. See [entity.Store].
func (s *Store) DeleteDoc(ctx context.Context, kind, id, condition string) (err error) {
	defer failure.In(&err, "delete document")
	if condition == "" {
		condition = entity.IfAny
	}
	if pgdb.Impossible(id) {
		return fmt.Errorf("%s %q: %w", kind, id, entity.ErrNotFound)
	}
	return s.update(ctx, func(ctx context.Context, w *writer) error {
		return w.transact(ctx, func(tx pgx.Tx) error {
			if err := check(ctx, tx, kind, id, condition); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "DELETE FROM doc WHERE kind = $1 AND id = $2", kind, id)
			return err
		})
	})
}
