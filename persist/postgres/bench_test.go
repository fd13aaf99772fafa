package postgres

import (
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/journaltest"
)

// BenchmarkErase erases an id with 100 000 events of 100 bytes: all commits of the process wait for it.
func BenchmarkErase(b *testing.B) {
	const events, each = 100_000, 10_000
	j := open(b, pgtest.Database(b), Options{})
	batch, last := uint64(0), uint64(0)
	commit := func(a persist.Append) {
		batch++
		if err := j.Commit(b.Context(), &persist.Batch{Number: batch, Appends: []persist.Append{a}}); err != nil {
			b.Fatal(err)
		}
	}
	list := slices.Repeat([]persist.Payload{{Type: "e", Data: make([]byte, 100)}}, each)
	for range b.N {
		b.StopTimer()
		for range events / each {
			commit(persist.Append{ID: "large", After: last, Events: slices.Clone(list)})
			last += each
		}
		b.StartTimer()
		commit(persist.Append{ID: "large", After: last, Erase: true})
		last++
	}
}

func BenchmarkDurable(b *testing.B) {
	journaltest.BenchmarkDurable(b, func(b *testing.B) persist.Journal { return open(b, pgtest.Database(b), Options{}) })
}
