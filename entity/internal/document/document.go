// Package document is what the stores share of their documents.
package document

import (
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

// Check reports what keeps a document of that kind and id from being written under a condition
// (see [entity.CheckCondition]). old and err are what reading it has given, within the
// transaction that is to write it; an err other than [entity.ErrNotFound] is returned.
func Check(kind, id, condition string, old entity.Doc, err error) error {
	etag := ""
	if err == nil {
		etag = old.ETag()
	} else if !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	if err := entity.CheckCondition(condition, etag); err != nil {
		return fmt.Errorf("%s %q: %w", kind, id, err)
	}
	return nil
}
