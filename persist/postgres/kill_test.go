package postgres

import (
	"context"
	"os"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/internal/soaktest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

func TestMain(m *testing.M) {
	journaltest.Child(func(ctx context.Context, address string) (persist.Journal, error) {
		return Open(ctx, address, Options{})
	})
	os.Exit(m.Run())
}

func TestKilledProcessLosesNothingThatWasDurable(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	journaltest.Kill(t, url, soaktest.Rounds(t, 1, 50), func(t *testing.T) persist.Journal { return open(t, url, Options{}) })
}
