package layout

import (
	"context"

	"github.com/greenroom-go/greenroom/entity"
)

// By returns a Runtime that acts on behalf of a principal, so that limits per sender apply: see
// entity.Once.By.
func By(rt Runtime, name string) Runtime { return sender{rt, name} }

type sender struct {
	Runtime
	name string
}

// IngestOnce commits readings.
func (s sender) IngestOnce(ctx context.Context, id string, once entity.Once, readings []entity.Reading, size int, done func(error)) error {
	once.By = s.name
	return s.Runtime.IngestOnce(ctx, id, once, readings, size, done)
}

// Edit changes attributes and relations.
func (s sender) Edit(ctx context.Context, id string, edits entity.Edits) (entity.Edited, error) {
	edits.By = s.name
	return s.Runtime.Edit(ctx, id, edits)
}
