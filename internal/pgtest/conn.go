package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Connect returns a connection of somebody else to a database, which ends with the test.
func Connect(tb testing.TB, url string) *pgx.Conn {
	tb.Helper()
	conn, err := pgx.Connect(tb.Context(), url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close(context.WithoutCancel(tb.Context())) }) // it may have been broken on purpose
	return conn
}

// Exec executes a statement.
func Exec(tb testing.TB, conn *pgx.Conn, sql string, args ...any) {
	tb.Helper()
	if _, err := conn.Exec(tb.Context(), sql, args...); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
}

// Ask returns the one value that a query finds.
func Ask[T any](tb testing.TB, conn *pgx.Conn, sql string, args ...any) (answer T) {
	tb.Helper()
	if err := conn.QueryRow(tb.Context(), sql, args...).Scan(&answer); err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return answer
}
