package block

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/internal/wire"
	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

// same says where two lists of points differ, "" for nowhere. Values are compared to the bit.
func same(got, want *Columns) string {
	if got.Len() != want.Len() {
		return fmt.Sprintf("%d points, not %d", got.Len(), want.Len())
	}
	for i := range want.Len() {
		if got.TS[i] != want.TS[i] || got.SeqAt(i) != want.SeqAt(i) || got.Value(i) != want.Value(i) {
			return fmt.Sprintf("point %d is (%d, %d, %s %s), not (%d, %d, %s %s)", i, got.TS[i], got.SeqAt(i), got.KindAt(i), got.Value(i),
				want.TS[i], want.SeqAt(i), want.KindAt(i), want.Value(i))
		}
	}
	return ""
}

// roundTrip packs points, unpacks them, and compares.
func roundTrip(t *testing.T, e *Encoder, d *Decoder, c *Columns) Block {
	t.Helper()
	b, err := e.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	var got Columns
	h, err := d.Decode(b, &got)
	if err != nil {
		t.Fatal(err)
	}
	if text := same(&got, c); text != "" {
		t.Fatal(text)
	}
	checkHeader(t, &h, c)
	if alone, err := ReadHeader(b.Values); err != nil || alone.Count != h.Count || alone.Numbers != h.Numbers {
		t.Fatalf("the header alone is %+v, %v", alone, err)
	}
	return b
}

// checkHeader checks that the header says what the points come to.
func checkHeader(t *testing.T, h *Header, c *Columns) {
	t.Helper()
	want, numbers := series.NewSummary(false), 0
	for i := range c.Len() {
		if v := c.Value(i); v.IsNumber() {
			numbers++
			if err := want.Add(series.Point{TS: c.TS[i], Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if h.Count != c.Len() || h.Numbers != numbers || h.First != c.TS[0] || h.Last != c.TS[c.Len()-1] {
		t.Errorf("header %+v of %d points with %d numbers from %d to %d", h, c.Len(), numbers, c.TS[0], c.TS[c.Len()-1])
	}
	if h.Summary == nil {
		if want.IsExact() {
			t.Error("there is no summary")
		}
		return
	}
	for _, f := range []series.Func{series.Count, series.Min, series.Max, series.First, series.Last, series.Sum, series.Avg, series.Rate} {
		if got, want := h.Summary.Value(f), want.Value(f); got != want {
			t.Errorf("%s is %s, not %s", f, got, want)
		}
	}
}

func TestPointsComeBackToTheBit(t *testing.T) {
	var e Encoder
	var d Decoder
	for _, n := range []int{1, 2, 3, 127, 128, 129, 1000, MaxRows} {
		for name, c := range shapes(n) {
			t.Run(fmt.Sprintf("%s-%d", name, n), func(t *testing.T) { roundTrip(t, &e, &d, c) })
		}
	}
	names, all := recording(t)
	for i := range all {
		t.Run(names[i], func(t *testing.T) {
			for _, p := range pieces(&all[i]) {
				roundTrip(t, &e, &d, &p)
			}
		})
	}
}

func TestHardNumbersComeBackToTheBit(t *testing.T) {
	floats := []float64{
		0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, -math.SmallestNonzeroFloat64, 2.2250738585072011e-308, math.MaxFloat64, -math.MaxFloat64,
		0.1, 0.1 + 0.2, 1.0 / 3, 1e22, 1e23, 1 << 53, 1<<53 + 2, 9007199254740993, 123456789.12345678, 0.000001, 23.18, 1e-18, 5e-19, math.Pi,
	}
	ints := []int64{0, -1, 1, math.MinInt64, math.MaxInt64, math.MinInt64 + 1, 1 << 53, -(1 << 53)}
	var e Encoder
	var d Decoder
	for i := range floats { // alone, then among decimals, then all together
		for _, among := range []int{0, 100} {
			c := new(Columns)
			for j := range among {
				c.Append(int64(j), 0, value.Float(float64(j)/10))
			}
			c.Append(int64(among), 0, value.Float(floats[i]))
			roundTrip(t, &e, &d, c)
		}
	}
	c := new(Columns)
	for i, f := range floats {
		c.Append(int64(i), 0, value.Float(f))
	}
	roundTrip(t, &e, &d, c)
	for i, x := range ints {
		c.Append(math.MaxInt64-100+int64(i), math.MaxUint64, value.Int(x))
	}
	roundTrip(t, &e, &d, c)
	c = new(Columns)
	for i, x := range ints {
		c.Append(math.MinInt64+int64(i), 0, value.Int(x))
	}
	roundTrip(t, &e, &d, c)
}

func TestRandomPointsComeBackToTheBit(t *testing.T) {
	var e Encoder
	var d Decoder
	for seed := range uint64(300) {
		roundTrip(t, &e, &d, random(rand.New(rand.NewPCG(seed, 2))))
	}
}

// random returns points of a random shape: few or many distinct values of one or more
// kinds, with or without sequences.
func random(rng *rand.Rand) *Columns {
	c := new(Columns)
	kinds, distinct, arrived := 1+rng.IntN(5), 1+rng.IntN(200), rng.IntN(3) == 0
	first := rng.IntN(5)
	var values []value.Value
	for range distinct {
		switch (first + rng.IntN(kinds)) % 5 {
		case 0:
			values = append(values, value.Float(math.Round(rng.Float64()*1e4)/math.Pow10(rng.IntN(6))))
		case 1:
			values = append(values, value.Int(rng.Int64()>>rng.IntN(64)))
		case 2:
			values = append(values, value.Bool(rng.IntN(2) == 0))
		case 3:
			values = append(values, value.String(strings.Repeat("é", rng.IntN(5))))
		default:
			values = append(values, value.JSON(fmt.Sprintf("[%d]", rng.IntN(9))))
		}
	}
	ts, seq := rng.Int64N(1<<41), uint64(0)
	for range 1 + rng.IntN(700) {
		switch {
		case arrived && rng.IntN(2) == 0:
			seq += 1 + rng.Uint64N(5)
		default:
			ts += 1 + rng.Int64N(1000)
			seq = 0
		}
		c.Append(ts, seq, values[rng.IntN(len(values))])
	}
	return c
}

func TestRecordingIsSmall(t *testing.T) {
	_, all := recording(t)
	var e Encoder
	values, times, n := 0, 0, 0
	for i := range all {
		for _, p := range pieces(&all[i]) {
			b, err := e.Encode(&p)
			if err != nil {
				t.Fatal(err)
			}
			values, times, n = values+len(b.Values), times+len(b.Times), n+p.Len()
		}
	}
	got := float64(values+times) / float64(n)
	t.Logf("%.3f bytes a value, %.3f of them for times", got, float64(times)/float64(n))
	if got > 1.15 {
		t.Errorf("the recording takes %.3f bytes a value; it took 1.11", got)
	}
}

// TestEqualTimesAreEqualBytes is what a store relies on that keeps times once.
func TestEqualTimesAreEqualBytes(t *testing.T) {
	all := shapes(1000)
	var e Encoder
	a, errA := e.Encode(all["walk"])
	b, errB := e.Encode(all["mixed"])
	if errA != nil || errB != nil || !bytes.Equal(a.Times, b.Times) {
		t.Errorf("times of %d and %d bytes, %v, %v", len(a.Times), len(b.Times), errA, errB)
	}
}

func TestSumBeyondTheFloatsHasNoSummary(t *testing.T) {
	c := new(Columns)
	for i, f := range []float64{math.MaxFloat64, math.MaxFloat64, -math.MaxFloat64} {
		c.Append(int64(i), 0, value.Float(f))
	}
	part := c.Slice(0, 2)
	var e Encoder
	var d Decoder
	for _, one := range []struct {
		c       *Columns
		summary bool
	}{{c, true}, {&part, false}} {
		h, err := ReadHeader(roundTrip(t, &e, &d, one.c).Values)
		if err != nil || (h.Summary != nil) != one.summary {
			t.Errorf("%d points: summary %v, %v", one.c.Len(), h.Summary, err)
		}
	}
}

func TestWhatIsNoBlockIsRefused(t *testing.T) {
	points := func(f func(c *Columns)) *Columns {
		c := new(Columns)
		f(c)
		return c
	}
	for name, c := range map[string]*Columns{
		"nothing":        {},
		"too many":       shapes(MaxRows + 1)["counter"],
		"no value":       points(func(c *Columns) { c.Append(1, 0, value.Value{}) }),
		"a time of time": points(func(c *Columns) { c.Append(1, 0, value.Time(1)) }),
		"order":          points(func(c *Columns) { c.Append(2, 0, value.Int(1)); c.Append(1, 0, value.Int(1)) }),
		"twice":          points(func(c *Columns) { c.Append(1, 7, value.Int(1)); c.Append(1, 7, value.Int(2)) }),
		"kind and kinds": {TS: []int64{1}, Kind: value.KindInt, Kinds: []value.Kind{value.KindInt}, Bits: []uint64{1}},
		"no kinds":       {TS: []int64{1}, Bits: []uint64{1}},
		"no texts":       {TS: []int64{1}, Kind: value.KindString, Bits: []uint64{0}},
		"no bits":        {TS: []int64{1}, Kind: value.KindInt},
		"few sequences":  {TS: []int64{1, 2}, Seq: []uint64{1}, Kind: value.KindInt, Bits: []uint64{1, 2}},
		"long": points(func(c *Columns) {
			for i := range 17 {
				c.Append(int64(i), 0, value.String(strings.Repeat(string(rune('a'+i)), 64<<10)))
			}
		}),
	} {
		var e Encoder
		if _, err := e.Encode(c); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDamageIsFound changes each bit of a block, and cuts it everywhere.
func TestDamageIsFound(t *testing.T) {
	var e Encoder
	b, err := e.Encode(shapes(50)["mixed"])
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	into := new(Columns)
	refused := func(what string, at int, bad Block) {
		_, err := d.Decode(bad, into)
		if !errors.Is(err, ErrDamaged) || into.Len() != 0 {
			t.Errorf("%s at %d: %v, %d points", what, at, err, into.Len())
		}
	}
	for i := range len(b.Values) * 8 {
		bad := Block{slices.Clone(b.Values), b.Times}
		bad.Values[i/8] ^= 1 << (i % 8)
		refused("values", i/8, bad)
	}
	for i := range len(b.Times) * 8 {
		bad := Block{b.Values, slices.Clone(b.Times)}
		bad.Times[i/8] ^= 1 << (i % 8)
		refused("times", i, bad)
	}
	for i := range b.Values {
		refused("cut", i+1, Block{b.Values[:i], b.Times})
	}
	refused("no times", 1, Block{b.Values, nil})
}

func TestLaterVersionIsNotDamage(t *testing.T) {
	var e Encoder
	b, err := e.Encode(shapes(50)["mixed"])
	if err != nil {
		t.Fatal(err)
	}
	b.Values[0] = version + 1
	binary.LittleEndian.PutUint32(b.Values[headerSum:], checksumOfHeader(b.Values[:endOf(t, b)]))
	var d Decoder
	if _, err := d.Decode(b, new(Columns)); !errors.Is(err, ErrVersion) {
		t.Errorf("decode: %v", err)
	}
	if _, err := ReadHeader(b.Values); !errors.Is(err, ErrVersion) {
		t.Errorf("read the header: %v", err)
	}
	// A header has a summary, so a new encoding of these is a new version of blocks.
	if summary, _ := series.NewSummary(false).AppendBinary(nil); summary[0] != 1 || version != 1 {
		t.Errorf("version %d of blocks has summaries of version %d", version, summary[0])
	}
}

func endOf(t *testing.T, b Block) int {
	t.Helper()
	end, whole := headerEnd(b.Values)
	if !whole {
		t.Fatal("a block without a header")
	}
	return end
}

func TestHeaderIsReadWithoutTheColumns(t *testing.T) {
	var e Encoder
	c := shapes(300)["walk"]
	b, err := e.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	end := endOf(t, b)
	h, err := ReadHeader(b.Values[:end])
	if err != nil {
		t.Fatal(err)
	}
	checkHeader(t, &h, c)
	for i := range end {
		if _, err := ReadHeader(b.Values[:i]); !errors.Is(err, ErrDamaged) {
			t.Errorf("the first %d bytes of %d: %v", i, end, err)
		}
	}
}

// TestHeaderThatLiesIsDamaged encodes a header that does not count the numbers.
func TestHeaderThatLiesIsDamaged(t *testing.T) {
	var e Encoder
	b, err := e.Encode(shapes(4)["counter"])
	if err != nil {
		t.Fatal(err)
	}
	h, err := ReadHeader(b.Values)
	if err != nil {
		t.Fatal(err)
	}
	columns := b.Values[endOf(t, b):]
	h.Numbers, h.Summary = 0, nil
	lie := appendHeader(make([]byte, prefix), &h)
	end := len(lie)
	lie = append(lie, columns...)
	seal(lie, b.Times, end)
	var d Decoder
	if _, err := d.Decode(Block{lie, b.Times}, new(Columns)); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}

// TestExceptionsAreThoseOfTheColumn gives a column of one float more exceptions than it has
// values.
func TestExceptionsAreThoseOfTheColumn(t *testing.T) {
	for _, distances := range [][]uint64{{0, 0}, {1}, {0, 1}} {
		data := binary.AppendUvarint([]byte{0}, uint64(len(distances)))
		for _, distance := range distances {
			data = binary.LittleEndian.AppendUint64(binary.AppendUvarint(data, distance), math.Float64bits(1.5))
		}
		var e Encoder
		data = e.ints(data, []int64{3})
		r := reader{Reader: wire.Reader{Data: data}, d: new(Decoder)}
		if r.floats(make([]uint64, 1)); !r.Failed {
			t.Errorf("exceptions at the distances %d were read", distances)
		}
	}
}

func TestTimesWithoutSequencesAreEqualBytes(t *testing.T) {
	c := new(Columns)
	for i, seq := range []uint64{0, 0, 7} {
		c.Append(int64(i), seq, value.Int(int64(i)))
	}
	part, plain := c.Slice(0, 2), new(Columns)
	plain.Append(0, 0, value.Float(0.5))
	plain.Append(1, 0, value.Float(1.5))
	var e Encoder
	var d Decoder
	if a, b := roundTrip(t, &e, &d, &part), roundTrip(t, &e, &d, plain); !bytes.Equal(a.Times, b.Times) {
		t.Errorf("times %x and %x", a.Times, b.Times)
	}
}

func TestWhatIsAppendedToASliceIsItsOwn(t *testing.T) {
	c := new(Columns)
	for i := range 4 {
		c.Append(int64(i), uint64(i), value.String(fmt.Sprint(i)))
	}
	c.Append(4, 4, value.Int(4))
	want := c.Value(2)
	var e Encoder
	var d Decoder
	for _, n := range []int{0, 2} {
		part := c.Slice(0, n)
		part.Append(100, 1, value.Float(0.5))
		part.Append(101, 0, value.Float(1.5))
		roundTrip(t, &e, &d, &part)
	}
	if c.TS[2] != 2 || c.SeqAt(2) != 2 || c.Value(2) != want {
		t.Errorf("point 2 became (%d, %d, %s)", c.TS[2], c.SeqAt(2), c.Value(2))
	}
}

var update = flag.Bool("update", false, "write testdata/v1.bin anew")

// TestFirstVersionIsRead reads what the first release has written. The file never changes;
// a later version gets one of its own.
func TestFirstVersionIsRead(t *testing.T) {
	const file = "testdata/v1.bin"
	var want []*Columns
	all := shapes(300)
	for _, name := range []string{"constant", "walk", "walk-2-digits", "counter", "switch", "state", "json", "jitter", "mixed"} {
		want = append(want, all[name])
	}
	for seed := range uint64(10) {
		want = append(want, random(rand.New(rand.NewPCG(seed, 3))))
	}
	if *update {
		var e Encoder
		var data []byte
		for _, c := range want {
			b, err := e.Encode(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, piece := range [][]byte{b.Values, b.Times} {
				data = append(binary.AppendUvarint(data, uint64(len(piece))), piece...)
			}
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	next := func() []byte {
		n, size := binary.Uvarint(data)
		piece := data[size:][:n]
		data = data[size:][n:]
		return piece
	}
	var d Decoder
	var got Columns
	for i, c := range want {
		b := Block{Values: next()}
		b.Times = next()
		h, err := d.Decode(b, &got)
		if err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		if text := same(&got, c); text != "" {
			t.Errorf("block %d: %s", i, text)
		}
		checkHeader(t, &h, c)
	}
	if len(data) > 0 {
		t.Errorf("%d bytes are left", len(data))
	}
}

func TestDecodingTakesNoMemoryForNumbers(t *testing.T) {
	var e Encoder
	b, err := e.Encode(shapes(MaxRows)["walk-2-digits"])
	if err != nil {
		t.Fatal(err)
	}
	var d Decoder
	var c Columns
	allocs := testing.AllocsPerRun(100, func() {
		if _, err := d.Decode(b, &c); err != nil {
			t.Fatal(err)
		}
	})
	if allocs > 20 { // the summary of the header
		t.Errorf("%v allocations for a block of %d values", allocs, MaxRows)
	}
}

// FuzzDecode decodes bytes with a right checksum: the decoder fails or finds points, which
// then come back from a block of their own.
func FuzzDecode(f *testing.F) {
	var e Encoder
	for _, c := range shapes(200) {
		b, err := e.Encode(c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b.Values, b.Times)
	}
	f.Fuzz(func(t *testing.T, values, times []byte) {
		end, whole := headerEnd(values)
		if !whole {
			return
		}
		values = slices.Clone(values)
		seal(values, times, end)
		var d Decoder
		var c Columns
		h, err := d.Decode(Block{values, times}, &c)
		if err != nil {
			if !errors.Is(err, ErrDamaged) || c.Len() != 0 {
				t.Fatalf("%v, %d points", err, c.Len())
			}
			return
		}
		if h.Count != c.Len() {
			t.Fatalf("%d points, and the header says %d", c.Len(), h.Count)
		}
		for i := range c.Len() {
			if f, ok := c.Value(i).Number(); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
				t.Fatalf("point %d is %v", i, f)
			}
		}
		var e Encoder
		again, err := e.Encode(&c)
		if err != nil {
			t.Fatal(err)
		}
		var got Columns
		if _, err := d.Decode(again, &got); err != nil {
			t.Fatal(err)
		}
		if text := same(&got, &c); text != "" {
			t.Fatal(text)
		}
	})
}
