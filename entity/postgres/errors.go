package postgres

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/greenroom-go/greenroom/entity"
)

var (
	// ErrInUse says that another server holds the lock of the schema.
	ErrInUse = errors.New("store in use by another server")

	// ErrTakenOver says that another server has opened the schema while this one
	// was disconnected. What this one knows of it is out of date: it must be
	// opened again.
	ErrTakenOver = errors.New("store taken over by another server")

	// ErrSchema says that the schema cannot be used by this version: a newer
	// version wrote it, or another program. Nothing was changed.
	ErrSchema = errors.New("schema not usable by this version")

	// ErrServer says that the PostgreSQL server is too old, or set up in a way in
	// which it cannot be used.
	ErrServer = errors.New("PostgreSQL server not usable")

	// ErrAddress says that the address of the store is not understood. The text
	// never has the password in it.
	ErrAddress = errors.New("address of the store not understood")
)

// Codes of PostgreSQL's errors.
const (
	codeUniqueViolation = "23505"
	codeOutOfRange      = "22003"
	codeDivisionByZero  = "22012"
	codeNoLock          = "55P03"
	codeStarting        = "57P03" // the server is starting up, or shutting down
	codeDiskFull        = "53100"
)

// code returns the SQLSTATE of an error, "" where it has none.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// roomless makes an error that says that the server's disk is full an entity.ErrFull.
func roomless(err error) error {
	if code(err) == codeDiskFull {
		return fmt.Errorf("%w: %w", entity.ErrFull, err)
	}
	return err
}

// disconnected reports whether an error is one of the connection, and not of what
// was asked: the server has gone, and may come back.
func disconnected(err error) bool {
	if c := code(err); c != "" {
		return c[:2] == "08" || c == codeStarting || c == "57P01" || c == "57P02"
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
}
