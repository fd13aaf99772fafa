package mapping

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

// numbers hands out the sequences of outputs that are Again. A target takes a sequence that is not
// greater than the last one for a repetition and ignores it, so sequences increase over all runs of
// the service. They are counted in blocks, and a document tells the next run which blocks are used
// up. A clock would do only if it never went back, and many small machines start in 1970.
//
// The zero value hands out none before a block is reserved.
type numbers struct {
	last     uint64 // that was handed out
	reserved uint64 // the end of the block, as the document has it
}

// numberBlock is how many sequences are reserved at once. The unused part of a block is lost at the
// end of a run, which 63 bits can afford.
const numberBlock = 1 << 16

// reservation is the body of the document.
type reservation struct {
	Used uint64 `json:"used"`
}

// number returns the next sequence of an output that is Again.
func (s *Service) number(ctx context.Context) (uint64, error) {
	if s.numbers.last == s.numbers.reserved {
		if err := s.reserve(ctx); err != nil {
			return 0, fmt.Errorf("number what mappings write again: %w", err)
		}
	}
	s.numbers.last++
	return s.numbers.last, nil
}

// reserve makes a block of sequences this run's own.
func (s *Service) reserve(ctx context.Context) error {
	var stored reservation
	doc, err := s.rt.Doc(ctx, stateKind, numbersID)
	if err == nil {
		err = json.Unmarshal(doc.Body, &stored)
	}
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	n := numbers{stored.Used, stored.Used + numberBlock}
	body, err := json.Marshal(reservation{n.reserved})
	if err != nil {
		return err
	}
	if _, err := s.rt.PutDoc(ctx, stateKind, numbersID, body, ""); err != nil {
		return err
	}
	s.numbers = n
	return nil
}
