package entity

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Sample is one value of a reading, under its key.
type Sample struct {
	Key   string
	Value value.Value
}

// Reading has the values measured for an entity at one moment.
//
// A reading belongs to the runtime once it has been given to [Runtime.Ingest]: the caller must not
// change it or its Values afterwards.
type Reading struct {
	// TS is when it was measured, in milliseconds since the Unix epoch.
	TS int64
	// Values has at least one sample. If a key occurs twice the later one wins.
	Values []Sample
	// Number is the device's own number for the reading, 0 for none. A number that the entity has
	// recently accepted marks a repetition, which is not stored again.
	Number uint64
	// Arrived says that the device gave no time. TS is then when the reading arrived: the runtime
	// sets it, by a clock that does not go back. All such readings are kept, in the order of their
	// arrival, even if TS is the same; of two readings with a time of their own, the later replaces
	// the earlier.
	Arrived bool
}

// AppendJSON appends the reading, with its time, in the form that [ParseReadings] reads.
func (r *Reading) AppendJSON(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"ts":`...), r.TS, 10)
	return append(AppendSamples(append(dst, `,"values":`...), r.Values), '}')
}

// AppendSamples appends samples as a JSON object.
func AppendSamples(dst []byte, samples []Sample) []byte {
	dst = append(dst, '{')
	for i := range samples {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = samples[i].Value.AppendJSON(append(value.AppendQuoted(dst, samples[i].Key), ':'))
	}
	return append(dst, '}')
}

// Place is the place of a value in the history of a key: by time and, for readings with the same
// time of arrival, by their sequence. Seq is 0 for a reading with a time of its own.
type Place struct {
	TS  int64 // milliseconds since the epoch
	Seq uint64
}

// Compare orders places: it returns -1, 0 or 1.
func (p Place) Compare(o Place) int {
	return cmp.Or(cmp.Compare(p.TS, o.TS), cmp.Compare(p.Seq, o.Seq))
}

// AllOf returns the range [first, end) of all values with from <= TS < to.
func AllOf(from, to int64) (first, end Place) { return Place{TS: from}, Place{TS: to} }

// footprint returns roughly how many bytes a delivery of these readings occupies until it is
// settled.
func footprint(readings []Reading) int64 {
	const delivery, reading, sample = 192, 56, 48
	n := int64(delivery + reading*len(readings))
	for i := range readings {
		n += int64(sample * len(readings[i].Values))
		for j := range readings[i].Values {
			n += int64(len(readings[i].Values[j].Key) + len(readings[i].Values[j].Value.Text()))
		}
	}
	return n
}

// checkReadings returns an error if readings cannot be ingested. It checks, for readings made by a
// program, what ParseReadings guarantees for those it parses.
func checkReadings(readings []Reading) error {
	switch n := len(readings); {
	case n == 0:
		return fmt.Errorf("readings: %w: there are none", ErrInvalid)
	case n > MaxReadings:
		return fmt.Errorf("readings: %w: %d; at most %d are allowed", ErrInvalid, n, MaxReadings)
	}
	for i := range readings {
		if err := readings[i].check(); err != nil {
			return fmt.Errorf("reading %d: %w", i, err)
		}
	}
	return nil
}

func (r *Reading) check() error {
	if r.TS < MinTS || r.TS > MaxTS {
		return fmt.Errorf("ts: %w: must be milliseconds since the epoch, from %d to %d, not %d", ErrInvalid, MinTS, MaxTS, r.TS)
	}
	if n := len(r.Values); n == 0 || n > MaxReadingKeys {
		return fmt.Errorf("values: %w: %d keys; 1 to %d are allowed", ErrInvalid, n, MaxReadingKeys)
	}
	for i := range r.Values {
		s := &r.Values[i]
		if err := CheckKey(s.Key); err != nil {
			return err
		}
		if err := checkValue(s.Value); err != nil {
			return fmt.Errorf("key %q: %w", s.Key, err)
		}
	}
	return nil
}

func checkValue(v value.Value) error {
	switch v.Kind() {
	case value.KindInt, value.KindBool:
		return nil
	case value.KindFloat:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("value: %w: %v is no measurement; leave the key out", ErrInvalid, f)
		}
		return nil
	case value.KindString:
		if !utf8.ValidString(v.Text()) {
			return fmt.Errorf("value: %w: a string that is not UTF-8", ErrInvalid)
		}
	case value.KindJSON:
	default:
		return fmt.Errorf("value: %w: the zero Value; it was not set, or made from invalid JSON", ErrInvalid)
	}
	if len(v.Text()) > MaxTextBytes {
		return fmt.Errorf("value: %w: %d bytes; at most %d are allowed", ErrInvalid, len(v.Text()), MaxTextBytes)
	}
	return nil
}
