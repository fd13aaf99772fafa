package entity

import (
	"fmt"
	"math"
	"unicode/utf8"
)

// Origin says who computed a reading or an edit and from what: a mapping and the number of the
// change that caused it. The zero Origin is that of a reading from a device, and of an edit that
// somebody made.
type Origin struct {
	// Source names who computed it, 1 to MaxSourceBytes bytes of UTF-8, or "" for a device. A
	// source of the form name@version or name@version:part is a version of name. A name may have
	// any number of versions; the Seq of earlier ones may be forgotten.
	Source string
	// Seq is the source's own number for the reading or edit. For each entity it must increase: a
	// reading with a Seq that is not greater than the last one of its Source is taken for a
	// repetition, and acknowledged without being stored again.
	Seq uint64
}

// IsZero reports whether the reading came from a device.
func (o Origin) IsZero() bool { return o.Source == "" }

func (o Origin) check() error {
	switch {
	case len(o.Source) > MaxSourceBytes:
		return fmt.Errorf("source %.32q…: %w: must have at most %d bytes, not %d", o.Source, ErrInvalid, MaxSourceBytes, len(o.Source))
	case !utf8.ValidString(o.Source):
		return fmt.Errorf("source %q: %w: must be UTF-8", o.Source, ErrInvalid)
	case o.Source != "" && (o.Seq == 0 || o.Seq > math.MaxInt64):
		return fmt.Errorf("source %q: %w: its sequence must be from 1 to 2^63-1, not %d", o.Source, ErrInvalid, o.Seq)
	case o.Source == "" && o.Seq != 0:
		return fmt.Errorf("sequence %d: %w: it has no source", o.Seq, ErrInvalid)
	}
	return nil
}
