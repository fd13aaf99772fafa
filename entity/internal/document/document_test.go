package document

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func TestConditionIsHeldAgainstWhatWasRead(t *testing.T) {
	there, gone, broken := entity.Doc{Kind: "k", ID: "i", Version: 7}, fmt.Errorf("k: %w", entity.ErrNotFound), errors.New("disk on fire")
	for _, tt := range []struct {
		condition string
		old       entity.Doc
		err       error
		want      error
	}{
		{"", there, nil, nil},
		{"", entity.Doc{}, gone, nil},
		{there.ETag(), there, nil, nil},
		{"other", there, nil, entity.ErrConflict},
		{there.ETag(), entity.Doc{}, gone, entity.ErrNotFound},
		{entity.IfNone, entity.Doc{}, gone, nil},
		{entity.IfNone, there, nil, entity.ErrConflict},
		{"", entity.Doc{}, broken, broken},
	} {
		err := Check("k", "i", tt.condition, tt.old, tt.err)
		if !errors.Is(err, tt.want) {
			t.Errorf("%q with version %d, %v: %v, want %v", tt.condition, tt.old.Version, tt.err, err, tt.want)
		}
		if err != nil && !errors.Is(tt.want, broken) && !strings.Contains(err.Error(), `k "i"`) {
			t.Errorf("%v does not name the document", err)
		}
	}
}
