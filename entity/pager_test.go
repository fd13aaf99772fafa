package entity

import (
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func TestPagesOfLargeEntitiesAreSmall(t *testing.T) {
	t.Parallel()
	small, large := Stored{ID: "a"}, Stored{ID: "b"}
	for range 30 {
		large.Latest = append(large.Latest, Latest{Value: value.String(strings.Repeat("x", 60_000))})
	}
	p := newPager(1000)
	for _, tt := range []struct {
		page []Stored
		next int
	}{
		{nil, 16},
		{[]Stored{small, small}, 64},
		{[]Stored{small}, 256},
		{[]Stored{small}, 1000},
		{[]Stored{small, large}, 9}, // of 1.8 MB
		{[]Stored{small}, 9},
	} {
		if p.took(tt.page); p.limit() != tt.next {
			t.Errorf("after %d entities: %d, want %d", len(tt.page), p.limit(), tt.next)
		}
	}
}
