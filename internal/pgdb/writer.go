package pgdb

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Writer is the one connection with which a store writes. One goroutine at a time uses it.
type Writer struct {
	Conn *pgx.Conn // nil or closed when there is none
	Used time.Time // when it was used last
}

// Ready sees to it that there is a connection. A new one waits for a lock of the server for no
// longer than lockWait, runs no statement for longer than commitTimeout, and is given to begin,
// which finds out what there is; if that fails, there is none.
func (w *Writer) Ready(ctx context.Context, cfg *pgx.ConnConfig, lockWait, commitTimeout time.Duration, begin func(ctx context.Context) error) error {
	if Usable(ctx, w.Conn, w.Used) {
		w.Used = time.Now()
		return nil
	}
	if err := w.Close(ctx); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	cfg = cfg.Copy()
	cfg.RuntimeParams["statement_timeout"] = Milliseconds(commitTimeout)
	conn, err := Dial(ctx, cfg, lockWait)
	if err != nil {
		return err
	}
	w.Conn, w.Used = conn, time.Now()
	if err := begin(ctx); err != nil {
		// What this connection was about to find out is not known.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // the error that led here says more
		return err
	}
	return nil
}

// Close closes the connection, if there is one.
func (w *Writer) Close(ctx context.Context) error {
	if w.Conn == nil || w.Conn.IsClosed() {
		return nil
	}
	return w.Conn.Close(ctx)
}
