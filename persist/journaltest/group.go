package journaltest

import (
	"context"
	"time"

	"github.com/greenroom-go/greenroom/persist"
)

// group commits what askers wait for to a journal, together: a store of groupcommit.
type group struct {
	journal persist.Journal
	batches uint64 // so far
}

// asked is an append that somebody waits for.
type asked struct {
	append  persist.Append
	durable chan error // whether it was refused
}

// Commit commits the appends as one batch.
func (g *group) Commit(ctx context.Context, items []*asked) (int, func(), error) {
	g.batches++
	b := &persist.Batch{Number: g.batches, Time: time.Now().UnixMilli(), Appends: make([]persist.Append, len(items))}
	for i, item := range items {
		b.Appends[i] = item.append
	}
	if err := g.journal.Commit(ctx, b); err != nil {
		return 0, nil, err
	}
	return len(items), func() {
		for i, item := range items {
			item.durable <- b.Appends[i].Err
		}
	}, nil
}

// Refuse answers the appends with an error.
func (g *group) Refuse(items []*asked, err error) {
	for _, item := range items {
		item.durable <- err
	}
}
