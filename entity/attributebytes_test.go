package entity_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func TestTheAttributesOfAnEntityAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	rt := open(t, t.TempDir(), entity.Config{})
	text := strings.Repeat("x", 60_000)
	const each = 10
	edit := func(i int) error {
		patch := fmt.Appendf(nil, `{"a%d":{"0":%q`, i, text)
		for j := 1; j < each; j++ {
			patch = fmt.Appendf(patch, `,"%d":%q`, j, text)
		}
		_, err := rt.Edit(t.Context(), "a", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: append(patch, "}}"...)}}})
		return err
	}
	n := 0
	var err error
	for ; err == nil && n < 20; n++ {
		err = edit(n)
	}
	if !errors.Is(err, entity.ErrInvalid) || n-1 != entity.MaxAttributeBytes/each/60_005 {
		t.Fatalf("after %d edits of 600 kB: %v", n, err)
	}
	if _, err := rt.Edit(t.Context(), "a", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(`{"a0":null}`)}}}); err != nil {
		t.Fatalf("to remove some: %v", err)
	}
	if err := edit(0); err != nil {
		t.Errorf("to set them again: %v", err)
	}
}
