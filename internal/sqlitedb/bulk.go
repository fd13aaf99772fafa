package sqlitedb

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// Bulk is an INSERT of any number of rows as few statements with many rows each,
// prepared once for each of a few sizes. Rows one by one cost 1.3 times as much. Set the
// exported fields. It is for one connection, and not safe for concurrent use.
type Bulk struct {
	Head  string // what comes before VALUES
	Tail  string // what comes after the rows
	Width int    // parameters of a row, up to MaxWidth

	stmts [len(bulkSizes)]driver.Stmt
}

var bulkSizes = [...]int{256, 64, 16, 4, 1}

// MaxWidth bounds Bulk.Width, and with it the buffer of parameters.
const MaxWidth = 9

// parameters is a reusable buffer of statement parameters.
type parameters [256 * MaxWidth]driver.NamedValue

// newParameters makes a buffer for all statements of a connection.
func newParameters() *parameters {
	p := new(parameters)
	for i := range p {
		p[i].Ordinal = i + 1
	}
	return p
}

// insert inserts n rows; fill sets the parameters of row i.
func (b *Bulk) insert(ctx context.Context, conn driver.ConnPrepareContext, params *parameters, n int, fill func(i int, row []driver.NamedValue)) error {
	for done, size := 0, 0; done < n; {
		if bulkSizes[size] > n-done {
			size++
			continue
		}
		stmt, err := b.prepare(ctx, conn, size)
		if err != nil {
			return err
		}
		args := params[:bulkSizes[size]*b.Width]
		for i := range bulkSizes[size] {
			fill(done+i, args[i*b.Width:(i+1)*b.Width])
		}
		if _, err := stmt.(driver.StmtExecContext).ExecContext(ctx, args); err != nil {
			return err
		}
		done += bulkSizes[size]
	}
	return nil
}

func (b *Bulk) prepare(ctx context.Context, conn driver.ConnPrepareContext, size int) (driver.Stmt, error) {
	if b.stmts[size] != nil {
		return b.stmts[size], nil
	}
	row := "(?" + strings.Repeat(",?", b.Width-1) + ")"
	sql := b.Head + " VALUES " + row + strings.Repeat(","+row, bulkSizes[size]-1) + " " + b.Tail
	stmt, err := conn.PrepareContext(ctx, sql)
	if err == nil {
		b.stmts[size] = stmt
	}
	return stmt, err
}

// close closes the statements.
func (b *Bulk) close() error {
	var errs []error
	for i, stmt := range b.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
		b.stmts[i] = nil
	}
	return errors.Join(errs...)
}
