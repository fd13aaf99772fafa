// Package entitytest opens entity runtimes for the tests of the packages below entity.
package entitytest

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// closeTimeout bounds the shutdown at the end of a test.
const closeTimeout = 20 * time.Second

// Open opens a runtime on a new store: SQLite, or PostgreSQL in a process that
// pgtest.Again has started. It is closed at the end of the test.
func Open(tb testing.TB) *entity.Runtime {
	tb.Helper()
	return OpenOn(tb, func(s entity.Store) entity.Store { return s })
}

// OpenOn is Open with a store that is made of the new one.
func OpenOn(tb testing.TB, wrap func(entity.Store) entity.Store) *entity.Runtime {
	tb.Helper()
	dir, log := tb.TempDir(), slog.New(slog.DiscardHandler)
	var store entity.Store
	var err error
	if address := pgtest.Address(tb, dir); address != "" {
		store, err = postgres.Open(tb.Context(), address, postgres.Options{Logger: log})
	} else {
		store, err = sqlite.Open(tb.Context(), dir, sqlite.Options{})
	}
	if err != nil {
		tb.Fatal(err)
	}
	system := actor.NewSystem("test", actor.WithLogger(log))
	rt, err := entity.Open(tb.Context(), system, wrap(store), entity.Config{Logger: log})
	if err != nil {
		_ = store.Close() // the error that led here says more
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		if err := rt.Close(ctx); err != nil {
			tb.Errorf("close: %v", err)
		}
		if _, err := system.Shutdown(ctx); err != nil {
			tb.Errorf("shutdown: %v", err)
		}
	})
	return rt
}

// Post writes readings, given as JSON, to an entity.
func Post(tb testing.TB, rt *entity.Runtime, id, payload string) {
	tb.Helper()
	readings, err := entity.ParseReadings([]byte(payload), time.Now())
	if err == nil {
		err = rt.Write(tb.Context(), id, readings, len(payload))
	}
	if err != nil {
		tb.Fatalf("post to %s: %v", id, err)
	}
}
