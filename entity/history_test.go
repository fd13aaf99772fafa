package entity_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// A page ends at its limit or at MaxHistoryBytes, and the pages together are the whole
// history, each value once, in both directions and over more values than are read from
// the store at once.
func TestPagesOfAHistoryAreTheWholeHistory(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	const short, long = 10_000, 600
	readings := make([]entity.Reading, 0, short)
	for i := range short {
		readings = append(readings, at(int64(1000+i), "n", entity.Int(int64(i))))
	}
	s.write("e", readings...)
	text := strings.Repeat("x", entity.MaxTextBytes-8)
	for i := range long {
		s.write("e", at(int64(1000+i), "text", entity.String(fmt.Sprintf("%06d", i)+text)))
	}
	for _, c := range []struct {
		key        string
		limit, all int
		descending bool
	}{
		{"n", 100_000, short, false},
		{"n", 100_000, short, true},
		{"n", 4096, short, false},
		{"n", 999, short, true},
		{"text", 100_000, long, false},
		{"text", 100_000, long, true},
	} {
		q := entity.HistoryQuery{ID: "e", Key: c.key, Limit: c.limit, Descending: c.descending}
		n, pages := 0, 0
		for {
			page, next, err := s.History(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			bytes := 0
			for _, p := range page {
				want := int64(1000 + n)
				if c.descending {
					want = int64(1000 + c.all - 1 - n)
				}
				if p.TS != want {
					t.Fatalf("%+v: point %d is of %d, want %d", c, n, p.TS, want)
				}
				n++
				bytes += len(p.Value.Text())
			}
			if len(page) > c.limit || bytes > entity.MaxHistoryBytes+entity.MaxTextBytes {
				t.Errorf("%+v: a page of %d points and %d bytes", c, len(page), bytes)
			}
			if next == "" {
				break
			}
			q.Cursor = next
		}
		if n != c.all {
			t.Errorf("%+v: %d points in %d pages, want %d", c, n, pages, c.all)
		}
		if c.key == "text" && pages < 3 {
			t.Errorf("%+v: %d pages, want the bytes to end them", c, pages)
		}
	}
}
