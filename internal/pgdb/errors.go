package pgdb

import (
	"errors"
	"io"
	"net"

	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// ErrServer says that the PostgreSQL server is too old, or set up in a way in
	// which it cannot be used.
	ErrServer = errors.New("PostgreSQL server not usable")

	// ErrAddress says that the address of the store is not understood. The text
	// never has the password in it.
	ErrAddress = errors.New("address of the store not understood")
)

// Codes of PostgreSQL's errors.
const (
	CodeUniqueViolation = "23505"
	CodeDivisionByZero  = "22012"
	CodeNoLock          = "55P03"
	CodeStarting        = "57P03" // the server is starting up, or shutting down
	CodeDiskFull        = "53100"
)

// Code returns the SQLSTATE of an error, "" where it has none.
func Code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// disconnected reports whether an error is one of the connection, and not of what
// was asked: the server has gone, and may come back.
func disconnected(err error) bool {
	if c := Code(err); c != "" {
		return c[:2] == "08" || c == CodeStarting || c == "57P01" || c == "57P02"
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, pgconn.ErrConnClosed)
}
