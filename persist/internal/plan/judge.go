package plan

import (
	"fmt"

	"github.com/greenroom-go/greenroom/persist"
)

// Judge decides which appends of a batch are refused, and returns the errors by index. It calls
// accept with each append that is not refused, in order, before it examines the next. last returns
// the number of an id, including what was accepted so far, and epoch that of a shard, 0 if it was
// never claimed.
func Judge(b *persist.Batch, last, epoch func(name string) uint64, accept func(a *persist.Append)) (refused map[int]error) {
	refused = make(map[int]error)
	wrong := make(map[string]error) // by id
	for i := range b.Appends {
		a := &b.Appends[i]
		number, err := last(a.ID), wrong[a.ID]
		if err == nil {
			err = check(a, number, epoch)
		}
		if err != nil {
			wrong[a.ID], refused[i] = err, err
			continue
		}
		accept(a)
	}
	return refused
}

// check returns the error with which an append is refused, given the last number of its id.
func check(a *persist.Append, last uint64, epoch func(shard string) uint64) error {
	if a.Shard != "" {
		if epoch := epoch(a.Shard); a.Epoch < epoch {
			return fmt.Errorf("append to %q: epoch %d of shard %q has come after %d: %w", a.ID, epoch, a.Shard, a.Epoch, persist.ErrFenced)
		}
	}
	if a.After != last {
		return fmt.Errorf("append to %q after number %d: its number is %d: %w", a.ID, a.After, last, persist.ErrConflict)
	}
	return nil
}
