package storetest

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// CheckShortened checks a store whose change log has lost the oldest of so many changes
// to its limit: what is gone is told from what there is, which is all there. It returns
// what the store says of itself. It is for stores that have such a limit, which Run
// cannot know.
func CheckShortened(t *testing.T, s entity.Store, changes uint64) entity.StoreInfo {
	t.Helper()
	info := s.Info()
	if info.LastChange != changes || info.FirstChange < 2 {
		t.Fatalf("info %+v", info)
	}
	if _, err := s.Changes(t.Context(), info.FirstChange-2, 10); !errors.Is(err, entity.ErrCursorExpired) {
		t.Errorf("changes that are gone: %v, want ErrCursorExpired", err)
	}
	all, err := s.Changes(t.Context(), info.FirstChange-1, int(changes))
	if err != nil || uint64(len(all)) != info.LastChange-info.FirstChange+1 {
		t.Errorf("%d changes are kept, %v; info %+v", len(all), err, info)
	}
	return info
}
