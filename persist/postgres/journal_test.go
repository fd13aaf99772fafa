package postgres

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func open(t testing.TB, url string, opts Options) *Journal {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	j, err := Open(t.Context(), url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return j
}

// die ends a journal as the end of its process would.
func die(j *Journal) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed = true
	_ = j.w.Conn.PgConn().Conn().Close()
	j.pool.Close()
}

func TestConformance(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	var mu sync.Mutex
	schemas := map[string]string{} // of the directories that the suite names
	journaltest.Run(t, journaltest.Store{
		Open: func(t *testing.T, dir string) persist.Journal {
			mu.Lock()
			defer mu.Unlock()
			if schemas[dir] == "" {
				schemas[dir] = fmt.Sprintf("journal%d", len(schemas))
			}
			return open(t, url, Options{Schema: schemas[dir], Readers: 2})
		},
		Crash:  func(_ *testing.T, j persist.Journal, _ string) { die(j.(*Journal)) },
		Shared: true,
	})
}
