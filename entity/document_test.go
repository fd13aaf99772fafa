package entity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// An error about a condition says what it was about, and never names IfAny or IfNone as if it were a
// version.
func TestAConditionThatDoesNotHoldSaysWhy(t *testing.T) {
	for _, test := range []struct {
		condition, etag string
		err             error
		text            string
	}{
		{entity.IfAny, "", entity.ErrNotFound, "there is none, and the condition is that there be one"},
		{entity.IfNone, "3k", entity.ErrConflict, `it exists, with the version "3k"`},
		{"3k", "", entity.ErrNotFound, `there is none of the version "3k"`},
		{"3k", "3l", entity.ErrConflict, `the version is "3l", not "3k"; read it again`},
		{entity.IfAny, "3k", nil, ""},
		{entity.IfNone, "", nil, ""},
		{"", "", nil, ""},
		{"", "3k", nil, ""},
		{"3k", "3k", nil, ""},
	} {
		err := entity.CheckCondition(test.condition, test.etag)
		if !errors.Is(err, test.err) || err != nil && !strings.Contains(err.Error(), test.text) {
			t.Errorf("condition %q of the version %q: %v, want %v: %s", test.condition, test.etag, err, test.err, test.text)
		}
	}
}
