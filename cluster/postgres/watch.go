package postgres

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgdb"
)

// watch is a call of Watch. One goroutine, the reader, reads for all of them.
type watch struct {
	prefix string
	see    func(cluster.Entry)
	from   int64 // owned by the reader; up to which revision it has seen all
	begun  bool  // guarded by Engine.mu; the reader knows it
}

// Watch implements cluster.Engine. It survives broken connections.
func (e *Engine) Watch(prefix string, see func(cluster.Entry)) (stop func()) {
	w := &watch{prefix: prefix, see: see}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return func() {}
	}
	e.watches = append(e.watches, w)
	if e.wake != nil {
		e.wake()
	}
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watches = slices.DeleteFunc(e.watches, func(o *watch) bool { return o == w })
	}
}

// read reads for the watches until ctx ends.
func (e *Engine) read(ctx context.Context) {
	for said := ""; ctx.Err() == nil; {
		began := time.Now()
		err := e.readOn(ctx)
		if ctx.Err() != nil {
			return
		}
		if text := err.Error(); text != said || time.Since(began) > pollEvery { // once for each time that the server is away
			e.log.Warn("watches of a cluster are begun anew", slog.String("error", text))
			said = text
		}
		_ = pause.For(ctx, watchAgain) // the loop looks at ctx
	}
}

// readOn reads on a separate connection as long as that works.
func (e *Engine) readOn(ctx context.Context) error {
	dialing, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	conn, err := e.dial(dialing)
	if err != nil {
		return err
	}
	defer closeSoon(conn)
	if _, err := conn.Exec(dialing, "LISTEN "+pgdb.Identifier(e.channel)); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		if err := e.look(ctx, conn); err != nil {
			return err
		}
		if err := e.wait(ctx, conn); err != nil {
			return err
		}
	}
}

// wait waits for a notification, a new watch, or the time to poll.
func (e *Engine) wait(ctx context.Context, conn *pgx.Conn) error {
	waiting, wake := context.WithTimeout(ctx, pollEvery)
	defer wake()
	e.mu.Lock()
	fresh := slices.ContainsFunc(e.watches, func(w *watch) bool { return !w.begun })
	e.wake = wake
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.wake = nil
	}()
	if fresh {
		return nil
	}
	_, err := conn.WaitForNotification(waiting)
	if waiting.Err() != nil && !conn.IsClosed() {
		return ctx.Err()
	}
	return err
}

// look passes the watches what they have not seen.
func (e *Engine) look(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, e.timeout)
	defer cancel()
	e.mu.Lock()
	watches := slices.Clone(e.watches)
	for _, w := range watches {
		w.begun = true
	}
	e.mu.Unlock()
	if len(watches) == 0 {
		return conn.Ping(ctx)
	}
	from := slices.MinFunc(watches, func(a, b *watch) int { return int(min(max(a.from-b.from, -1), 1)) }).from
	last, entries, err := e.newer(ctx, conn, from)
	if err != nil {
		return err
	}
	for _, at := range entries {
		for _, w := range watches {
			if at.Revision > cluster.Revision(w.from) && strings.HasPrefix(at.Key, w.prefix) && e.watched(w) {
				w.see(at)
			}
		}
	}
	for _, w := range watches {
		w.from = last
	}
	return nil
}

// newer returns the entries with revisions after from, in order, and the last revision of all.
func (e *Engine) newer(ctx context.Context, conn *pgx.Conn, from int64) (last int64, entries []cluster.Entry, err error) {
	seen := e.seen.Load()
	rows, err := conn.Query(ctx, "SELECT last, key, value, revision FROM engine LEFT JOIN entry ON revision > $1 ORDER BY revision", from)
	if err != nil {
		return 0, nil, err
	}
	var key *string
	var value []byte
	var revision *int64
	if _, err := pgx.ForEachRow(rows, []any{&last, &key, &value, &revision}, func() error {
		if key != nil {
			entries = append(entries, cluster.Entry{Key: *key, Value: value, Revision: cluster.Revision(*revision)})
		}
		return nil
	}); err != nil {
		return 0, nil, err
	}
	return last, entries, e.saw(last, seen)
}

// watched reports whether a watch was not stopped.
func (e *Engine) watched(w *watch) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.watches, w)
}
