package series

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

func FuzzSummary(f *testing.F) {
	for _, n := range []int{0, 1, 2, 64, 65, 2000} {
		s := NewSummary(n != 2)
		for i := range n {
			v := finite(math.Sin(float64(i)) * 100)
			if i%3 == 0 {
				v = value.Int(int64(i - 20))
			}
			if err := s.Add(Point{TS: int64(i) * 1000, Value: v}); err != nil {
				f.Fatal(err)
			}
		}
		data, err := s.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s, again Summary
		if err := s.UnmarshalBinary(data); err != nil {
			if !errors.Is(err, ErrEncoding) || s.Count != 0 {
				t.Fatalf("error %v, and %d points", err, s.Count)
			}
			return
		}
		encoded, err := s.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := again.UnmarshalBinary(encoded); err != nil {
			t.Fatalf("what was encoded is not decoded: %v", err)
		}
		other := NewSummary(true)
		for _, fn := range []Func{Count, Min, Max, First, Last, Sum, Avg, Rate, "p0", "p50", "p99", "p100"} {
			if got, want := again.Value(fn), s.Value(fn); got != want {
				t.Errorf("%s is %v after another round, %v before", fn, got, want)
			}
		}
		_ = other.Append(&s)
		_ = other.Append(&again)
		other.pool(&s)
		other.Value("p50")
	})
}

func TestDamagedSketchesAreRefused(t *testing.T) {
	head := func() []byte { // a summary of three points, up to its quantiles
		s := &Summary{kept: keepPercentiles}
		for i := range int64(3) {
			_ = s.Add(Point{TS: i, Value: value.Int(i)})
		}
		s.kept = 0
		data, _ := s.MarshalBinary()
		data[1] = byte(keepPercentiles)
		return append(data, encodedSketch, 1) // one is zero
	}
	var s Summary
	sound := append(head(), 1, 4, 2, 0) // one bin of positive ones, of the index 2, with two
	if err := s.UnmarshalBinary(sound); err != nil {
		t.Fatalf("a sound one: %v", err)
	}
	huge := binary.AppendUvarint(binary.AppendVarint(append(head(), 1), 1<<40), 2)
	for name, data := range map[string][]byte{
		"an index beyond the floats": append(huge, 0),
		"two of one":                 append(head(), 2, 4, 1, 0, 1),
		"a bin of none":              append(head(), 2, 4, 2, 2, 0, 0),
		"too many":                   append(head(), 1, 4, 3, 0),
		"too few":                    append(head(), 1, 4, 1, 0),
		"more bytes":                 append(head(), 1, 4, 2, 0, 0),
		"fewer bytes":                append(head(), 1, 4, 2),
		"another version":            append([]byte{2}, sound[1:]...),
		"other parts":                append([]byte{1, 8}, sound[2:]...),
		"nothing":                    {},
	} {
		if err := s.UnmarshalBinary(data); !errors.Is(err, ErrEncoding) || s.Count != 0 {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// TestRollupsOfAnEarlierVersionAreRead has a row as it was stored when sums were
// lists of partials: the encoding is one that is read for ever.
func TestRollupsOfAnEarlierVersionAreRead(t *testing.T) {
	data, err := hex.DecodeString("01070cd00f0106da0f027dc39425ad49b254010d027dc39425ad49b2540101fcffffffffffffffff01032f30b7b3a7c9ba819a9999999999b93f7dc39425ad49c254010000029a9999999999b93f7dc39425ad49c25401060106029a9999999999b93f027dc39425ad49b254022f30b7b3a7c9ba81010d027dc39425ad49b254")
	if err != nil {
		t.Fatal(err)
	}
	var s, again Summary
	if err := s.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[Func]value.Value{Sum: value.Float(2e100), Avg: value.Float(3.333333333333333e99), Rate: value.Float(4e102), Count: value.Int(6), Min: value.Int(-7)} {
		if got := s.Value(name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	written, err := s.MarshalBinary()
	if err == nil {
		err = again.UnmarshalBinary(written)
	}
	if err != nil || again.Value(Sum) != s.Value(Sum) || again.Value(Rate) != s.Value(Rate) {
		t.Errorf("written and read again: %v, %v", again.Value(Sum), err)
	}
}
