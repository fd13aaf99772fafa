package sqlite

import (
	"context"
	"os"
	"testing"

	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func TestMain(m *testing.M) {
	journaltest.Child(func(ctx context.Context, dir string) (persist.Journal, error) {
		j, err := Open(ctx, dir, Options{})
		if err != nil {
			return nil, err
		}
		go func() {
			for { // flushes are under way whenever it is killed
				_ = j.flush()
			}
		}()
		return j, nil
	})
	os.Exit(m.Run())
}

func TestKilledProcessLosesNothingThatWasDurable(t *testing.T) {
	t.Parallel() // it waits for another process
	dir := t.TempDir()
	journaltest.Kill(t, dir, soaktest.Rounds(t, 2, 50), func(t *testing.T) persist.Journal { return open(t, dir) })
}
