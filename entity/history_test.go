package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// A page ends at its limit or at MaxHistoryBytes, and the pages together are the whole
// history, each value once, in both directions and over more values than are read from
// the store at once.
func TestPagesOfAHistoryAreTheWholeHistory(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	const short, long = 5000, 600
	readings := make([]entity.Reading, 0, short)
	for i := range short {
		readings = append(readings, at(int64(1000+i), "n", value.Int(int64(i))))
	}
	s.write("e", readings...)
	text := strings.Repeat("x", entity.MaxTextBytes-8)
	for i := range long {
		s.write("e", at(int64(1000+i), "text", value.String(fmt.Sprintf("%06d", i)+text)))
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

func TestTrimRemovesWhatIsOlderAndKeepsTheLatest(t *testing.T) {
	s := open(t, t.TempDir(), entity.Config{})
	const n = 12_000 // more than one page
	var readings []entity.Reading
	for i := range int64(n) {
		readings = append(readings, at(i, "t", value.Int(i)))
	}
	s.write("a", readings[:n/2]...)
	s.write("a", readings[n/2:]...)
	if got, err := s.Trim(t.Context(), "a", "t", n-3); err != nil || got != n-3 {
		t.Errorf("trimmed %d, %v", got, err)
	}
	if got := s.history("a", "t"); len(got) != 3 || got[0].TS != n-3 {
		t.Errorf("left are %v", got)
	}
	if got, err := s.Trim(t.Context(), "a", "t", entity.MaxTS+1); err != nil || got != 3 {
		t.Errorf("trimmed %d, %v", got, err)
	}
	if l := s.latest("a", "t"); l.TS != n-1 {
		t.Errorf("latest %+v", l)
	}
	if _, err := s.Trim(t.Context(), "a/b", "t", 1); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("a bad id: %v", err)
	}
}
