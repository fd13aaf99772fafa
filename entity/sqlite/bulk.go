package sqlite

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
)

// bulk is an INSERT of any number of rows as few statements with many rows each,
// prepared once for each of a few sizes. Rows one by one cost 1.3 times as much.
type bulk struct {
	head, tail string
	width      int // parameters of a row
	stmts      [len(bulkSizes)]driver.Stmt
}

var bulkSizes = [...]int{256, 64, 16, 4, 1}

// maxBulkWidth bounds bulk.width, and with it the buffer of parameters.
const maxBulkWidth = 7

// parameters is a reusable buffer of statement parameters.
type parameters [256 * maxBulkWidth]driver.NamedValue

func newParameters() *parameters {
	p := new(parameters)
	for i := range p {
		p[i].Ordinal = i + 1
	}
	return p
}

// exec inserts n rows; fill sets the parameters of row i.
func (b *bulk) exec(ctx context.Context, conn driver.ConnPrepareContext, params *parameters, n int, fill func(i int, row []driver.NamedValue)) error {
	for done, size := 0, 0; done < n; {
		if bulkSizes[size] > n-done {
			size++
			continue
		}
		stmt, err := b.prepare(ctx, conn, size)
		if err != nil {
			return err
		}
		args := params[:bulkSizes[size]*b.width]
		for i := range bulkSizes[size] {
			fill(done+i, args[i*b.width:(i+1)*b.width])
		}
		if _, err := stmt.(driver.StmtExecContext).ExecContext(ctx, args); err != nil {
			return err
		}
		done += bulkSizes[size]
	}
	return nil
}

func (b *bulk) prepare(ctx context.Context, conn driver.ConnPrepareContext, size int) (driver.Stmt, error) {
	if b.stmts[size] != nil {
		return b.stmts[size], nil
	}
	row := "(?" + strings.Repeat(",?", b.width-1) + ")"
	sql := b.head + " VALUES " + row + strings.Repeat(","+row, bulkSizes[size]-1) + " " + b.tail
	stmt, err := conn.PrepareContext(ctx, sql)
	if err == nil {
		b.stmts[size] = stmt
	}
	return stmt, err
}

func (b *bulk) close() error {
	var errs []error
	for i, stmt := range b.stmts {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
		b.stmts[i] = nil
	}
	return errors.Join(errs...)
}
