package storetest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/internal/sealed"
)

// CheckDamagedBlock checks a store after the block of a series that has its points from from to to was
// damaged: the errors of History and Check name the series and these times, and the points after it are
// as before, when the series had all. It is for stores with blocks, which Run does not know.
func CheckDamagedBlock(t *testing.T, s interface {
	entity.Store
	Check(ctx context.Context) error
}, id, key string, from, to int64, all []entity.Point,
) {
	t.Helper()
	_, read := s.History(t.Context(), id, key, entity.Place{}, entity.Place{TS: entity.MaxTS}, 10, false)
	for _, err := range []error{read, s.Check(t.Context())} {
		if !sealed.Unreadable(err) {
			t.Fatalf("%v, want the error of a block", err)
		}
		for _, part := range []string{fmt.Sprintf("%q", id), fmt.Sprintf("%q", key), fmt.Sprintf("from %d to %d", from, to)} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("the error does not say %s: %v", part, err)
			}
		}
	}
	rest, err := s.History(t.Context(), id, key, entity.Place{TS: to + 1}, entity.Place{TS: entity.MaxTS}, math.MaxInt32, false)
	if err != nil || len(rest) == 0 || rest[0] != all[len(all)-len(rest)] {
		t.Errorf("the rest has %d points, %v", len(rest), err)
	}
}
