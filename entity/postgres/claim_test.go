package postgres

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// The server before is frozen where that holds up the next one most: in a commit, after the row that counts it,
// and while it changes blocks.
func TestServersTakeTheStoreByTheirClaims(t *testing.T) {
	url := pgtest.Database(t)
	old := open(t, url, Options{Claim: 1<<40 + 5})
	commit(t, old, atTimes(1, 1))
	if _, err := old.w.Conn.Exec(t.Context(), "BEGIN; UPDATE greenroom SET commits = commits + 1"); err != nil {
		t.Fatal(err)
	}
	blocks, err := old.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx, err := blocks.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := old.lockBlocks(t.Context(), tx, true); err != nil {
		t.Fatal(err)
	}

	next := open(t, url, Options{Claim: 1<<40 + 7})
	commit(t, next, atTimes(2, 2))
	select {
	case <-old.TakenOver():
		t.Error("the server before knows that without having asked")
	default:
	}
	if err := next.changeBlocks(t.Context(), true, noChange); err != nil {
		t.Errorf("the next server changes blocks: %v", err)
	}

	for what, write := range map[string]func() error{
		"a commit":   func() error { return old.Commit(t.Context(), atTimes(2, 3)) },
		"a document": func() error { _, err := old.PutDoc(t.Context(), entity.Doc{Kind: "k", ID: "i"}, ""); return err },
		"a deletion": func() error { return old.DeleteDoc(t.Context(), "k", "i", "") },
		"an item": func() error {
			return old.PutItems(t.Context(), []entity.Item{{Kind: "k", Key: "i", Body: []byte("b")}})
		},
		"a time":      func() error { return old.SaveSeen(t.Context(), []entity.SeenAt{{Entity: "a", Seen: 9}}) },
		"blocks":      func() error { return old.changeBlocks(t.Context(), true, noChange) },
		"a partition": func() error { return old.ahead(t.Context(), time.Now().AddDate(5, 0, 0)) },
	} {
		old.w.Used = time.Time{} // long enough ago that it asks before it writes
		if err := write(); !errors.Is(err, ErrTakenOver) {
			t.Errorf("%s of the server before: %v, want %v", what, err, ErrTakenOver)
		}
	}
	select {
	case <-old.TakenOver():
	default:
		t.Error("the server before does not say that another one has taken the store")
	}
	if got := times(t, next, "a", "t"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("the times are %v", got)
	}
	blocks.Release()
	closeStore(t, old)

	if _, err := Open(t.Context(), url, Options{Claim: 1<<40 + 6}); !errors.Is(err, ErrTakenOver) {
		t.Errorf("a server with a lower claim: %v, want %v", err, ErrTakenOver)
	}
	commit(t, next, atTimes(3, 4))
	again := open(t, url, Options{Claim: 1<<40 + 7})
	closeStore(t, next)
	commit(t, again, atTimes(4, 5))
	closeStore(t, again)
}

func TestServersWithAndWithoutAClaimKeepEachOtherOut(t *testing.T) {
	url := pgtest.Database(t)
	for claim := range uint64(4) {
		s := open(t, url, Options{Claim: claim % 2 * 5 * (claim + 1)}) // 0, 10, 0, 20
		other := Options{LockWait: 50 * time.Millisecond}
		if claim%2 == 0 {
			other.Claim = 100
		}
		if _, err := Open(t.Context(), url, other); !errors.Is(err, ErrInUse) {
			t.Errorf("claim %d beside %d: %v, want %v", other.Claim, s.opts.Claim, err, ErrInUse)
		}
		commit(t, s, atTimes(claim+1, int64(claim)))
		closeStore(t, s)
	}
}

// TestAServerWhoseConnectionSurvivesKnowsThatTheStoreWasTaken although the next one's changes are in its way.
func TestAServerWhoseConnectionSurvivesKnowsThatTheStoreWasTaken(t *testing.T) {
	url := pgtest.Database(t)
	old := open(t, url, Options{Claim: 1})
	commit(t, old, atTimes(1, 1))
	if _, err := old.w.Conn.Exec(t.Context(), "BEGIN; INSERT INTO change SELECT (jsonb_populate_record(change, '{\"first\":2}')).* FROM change; UPDATE greenroom SET epoch = epoch + 1, commits = commits + 1, last_change = 2; COMMIT"); err != nil {
		t.Fatal(err)
	}
	if err := old.Commit(t.Context(), atTimes(2, 2)); !errors.Is(err, ErrTakenOver) {
		t.Errorf("a commit: %v, want %v", err, ErrTakenOver)
	}
	closeStore(t, old)
}

func noChange(pgx.Tx) error { return nil }
