package mapping

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity"
)

// The memory taken by the parts of a mapping, in bytes, including the engine's own for them,
// rounded to the sizes of the allocator. A test compares the sums with the heap.
const (
	mappingSize = 512
	fieldSize   = 640
	sourceSize  = 288
	lineSize    = 32  // of a source that is one value
	latestSize  = 192 // of one over the latest values of a group
	windowSize  = 288 // of one over a window
	memberSize  = 32  // of a path
	groupSize   = 400
	listedSize  = 80  // of an entity in a list
	entitySize  = 480 // of an entity that is looked at
	keySize     = 112 // of a key of one
	useSize     = 32  // of a source that looks at such a key
)

// canonical returns the text in which a statement is stored, and the statement as it is read from it,
// which keeps nothing else alive: names of a statement that was read from a longer text are parts of
// that one. The error wraps [entity.ErrInvalid].
func (s *Statement) canonical() (string, *Statement, error) {
	text := s.String()
	if len(text) > MaxStatementBytes {
		return "", nil, fmt.Errorf("statement: %w: the canonical form has %d bytes; at most %d are allowed", entity.ErrInvalid, len(text), MaxStatementBytes)
	}
	kept, err := Parse(text)
	return text, kept, err
}

// watchedKey is a key that a statement watches, of an entity or of the members of a group.
type watchedKey struct{ group, entity, key string }

// bytes returns how much memory a mapping with the statement takes, an estimate that is off by at most
// a factor of two. Not included are the values of its sources, and the members that patterns and
// relations give to groups. It may be called on nil.
func (s *Statement) bytes() int {
	if s == nil {
		return 0
	}
	size := mappingSize + len(s.String())
	entities := make(map[string]bool)
	keys := make(map[watchedKey]bool)
	ofMember := make(map[string]int) // by group: what its uses take for each member
	for i := range s.Select {
		f := &s.Select[i]
		size += fieldSize + f.expression.Bytes()
		for j := range f.Sources {
			src := &f.Sources[j]
			size += src.bytes()
			use := useSize
			if k := (watchedKey{src.Group, src.Entity, src.watchKey()}); !keys[k] {
				keys[k] = true
				use += keySize
			}
			if src.Group != "" {
				ofMember[src.Group] += use
				continue
			}
			size += use
			entities[src.Entity] = true
		}
	}
	for i := range s.From {
		g := &s.From[i]
		size += groupSize + len(g.List)*(listedSize+entitySize+ofMember[g.Alias])
		if g.like != nil {
			size += g.like.Bytes()
		}
	}
	return size + entitySize*len(entities)
}

// bytes returns how much memory the source takes, without what looks at its key.
func (s *Source) bytes() int {
	size := sourceSize + len(s.String()) + len(s.pointer) + memberSize*len(s.Path)
	switch {
	case s.windowed():
		size += windowSize
	case s.Group != "":
		size += latestSize
	default:
		size += lineSize
	}
	return size
}
