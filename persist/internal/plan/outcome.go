package plan

import (
	"fmt"

	"github.com/greenroom-go/greenroom/persist"
)

// Outcome is the outcome of a batch. The zero value is that of none.
type Outcome struct {
	Session uint64 // of the batch
	Number  uint64
	Attempt uint64        // of the writer, by which the database shows whether it was committed
	Refused map[int]error // by the batch's appends
}

// Commit commits a batch by calling write, which sets o. If o is the outcome of this batch, it was
// committed before and write is not called. Commit sets the errors of the batch's appends.
func (o *Outcome) Commit(b *persist.Batch, write func() error) error {
	switch same := b.Session == o.Session; {
	case same && b.Number < o.Number:
		return fmt.Errorf("batch %d comes after batch %d", b.Number, o.Number)
	case !same || b.Number > o.Number:
		if err := write(); err != nil {
			return err
		}
	}
	for i := range b.Appends {
		b.Appends[i].Err = o.Refused[i]
	}
	return nil
}
