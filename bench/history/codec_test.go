package history

import (
	"encoding/binary"
	"encoding/csv"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/greenroom-go/greenroom/entity/block"
	"github.com/greenroom-go/greenroom/entity/value"
)

// points are a series of numbers.
type points struct {
	ts     []int64
	values []float64
}

// codec packs points, up to block.MaxRows of them, and returns how many bytes they take
// and a function that unpacks them.
type codec struct {
	name string
	pack func(p points) (size int, unpack func() (ts []int64, values []float64))
}

// BenchmarkCodecs packs and unpacks series in each way, the times with them:
//
//	cd bench && go test -run '^$' -bench Codecs ./history
//
// An operation is to unpack a block.
func BenchmarkCodecs(b *testing.B) {
	all := inputs(b)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, c := range codecs {
			b.Run(name+"/"+c.name, func(b *testing.B) { measure(b, c, all[name]) })
		}
	}
}

func measure(b *testing.B, c codec, list []points) {
	size, n := 0, 0
	var unpack []func() ([]int64, []float64)
	began := time.Now()
	for _, p := range list {
		for at := 0; at < len(p.ts); at += block.MaxRows {
			end := min(at+block.MaxRows, len(p.ts))
			one, f := c.pack(points{p.ts[at:end], p.values[at:end]})
			ts, values := f()
			for i, v := range values {
				if ts[i] != p.ts[at+i] || math.Float64bits(v) != math.Float64bits(p.values[at+i]) {
					b.Fatalf("point %d is (%d, %v), not (%d, %v)", at+i, ts[i], v, p.ts[at+i], p.values[at+i])
				}
			}
			size, n = size+one, n+end-at
			unpack = append(unpack, f)
		}
	}
	packed := time.Since(began)
	for b.Loop() {
		for _, f := range unpack {
			f()
		}
	}
	b.ReportMetric(float64(size)/float64(n), "bytes/value")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/value")
	b.ReportMetric(float64(packed.Nanoseconds())/float64(n), "pack-ns/value")
}

// inputs are the recording and series as they occur.
func inputs(b *testing.B) map[string][]points {
	const n = 20_000
	rng := rand.New(rand.NewPCG(20, 4))
	all := map[string][]points{"recording": recording(b)}
	add := func(name string, at func(i int) (int64, float64)) {
		var p points
		for i := range n {
			ts, v := at(i)
			p.ts, p.values = append(p.ts, ts), append(p.values, v)
		}
		all[name] = []points{p}
	}
	second := func(i int) int64 { return 1_700_000_000_000 + int64(i)*1000 }
	walk, level, counter, at := 20.0, 20.0, 0.0, second(0)
	add("constant", func(i int) (int64, float64) { return second(i), 21.5 })
	add("counter", func(i int) (int64, float64) { counter += float64(rng.IntN(1000)); return second(i), counter })
	add("mostly-zero", func(i int) (int64, float64) {
		if rng.IntN(50) > 0 {
			return second(i), 0
		}
		return second(i), math.Round(rng.Float64()*1000) / 10
	})
	add("walk", func(i int) (int64, float64) { walk += rng.NormFloat64(); return second(i), walk })
	add("walk-2-digits", func(i int) (int64, float64) {
		level += rng.NormFloat64() / 10
		return second(i), math.Round(level*100) / 100
	})
	add("walk-2-digits-jitter", func(i int) (int64, float64) {
		at += 980 + rng.Int64N(40)
		level += rng.NormFloat64() / 10
		return at, math.Round(level*100) / 100
	})
	return all
}

func recording(b *testing.B) (list []points) {
	b.Helper()
	f, err := os.Open("../../testdata/occupancy/occupancy-training.csv")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		b.Fatal(err)
	}
	list = make([]points, len(rows[0])-1)
	for _, row := range rows[1:] {
		at, err := time.Parse(time.DateTime, row[0])
		if err != nil {
			b.Fatal(err)
		}
		for i, text := range row[1:] {
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				b.Fatal(err)
			}
			list[i].ts, list[i].values = append(list[i].ts, at.UnixMilli()), append(list[i].values, v)
		}
	}
	return list
}

var codecs = []codec{
	{"block", packBlock}, {"gorilla", packGorilla}, {"decimal-delta-zstd", packDelta}, {"alp", packALP}, {"zstd", packPlain},
}

// packBlock is entity/block.
func packBlock(p points) (int, func() ([]int64, []float64)) {
	var c block.Columns
	for i, ts := range p.ts {
		c.Append(ts, 0, value.Float(p.values[i]))
	}
	b, err := packer.Encode(&c)
	if err != nil {
		panic(err)
	}
	values := make([]float64, len(p.ts))
	return len(b.Values) + len(b.Times), func() ([]int64, []float64) {
		if _, err := unpacker.Decode(b, &c); err != nil {
			panic(err)
		}
		for i, u := range c.Bits {
			values[i] = math.Float64frombits(u)
		}
		return c.TS, values
	}
}

// packGorilla is the XOR chunk of Prometheus.
func packGorilla(p points) (int, func() ([]int64, []float64)) {
	c := chunkenc.NewXORChunk()
	a, err := c.Appender()
	if err != nil {
		panic(err)
	}
	for i, ts := range p.ts {
		a.Append(ts, p.values[i])
	}
	ts, values := make([]int64, len(p.ts)), make([]float64, len(p.ts))
	var it chunkenc.Iterator
	return len(c.Bytes()), func() ([]int64, []float64) {
		it = c.Iterator(it)
		for i := 0; it.Next() != chunkenc.ValNone; i++ {
			ts[i], values[i] = it.At()
		}
		return ts, values
	}
}

var (
	packer   block.Encoder
	unpacker block.Decoder

	compressor, _   = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
	decompressor, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
)

// packPlain compresses the plain columns.
func packPlain(p points) (int, func() ([]int64, []float64)) {
	var plain []byte
	for _, ts := range p.ts {
		plain = binary.LittleEndian.AppendUint64(plain, uint64(ts))
	}
	for _, v := range p.values {
		plain = binary.LittleEndian.AppendUint64(plain, math.Float64bits(v))
	}
	packed := compressor.EncodeAll(plain, nil)
	ts, values := make([]int64, len(p.ts)), make([]float64, len(p.ts))
	return len(packed), func() ([]int64, []float64) {
		plain, _ = decompressor.DecodeAll(packed, plain[:0])
		for i := range ts {
			ts[i] = int64(binary.LittleEndian.Uint64(plain[8*i:]))
			values[i] = math.Float64frombits(binary.LittleEndian.Uint64(plain[8*(len(ts)+i):]))
		}
		return ts, values
	}
}

// packDelta is the idea of VictoriaMetrics: integers by a power of ten, the differences, or
// those of these for counters and times, as varints, and zstd. Unlike theirs it loses
// nothing: floats that are no decimals stay as they are.
func packDelta(p points) (int, func() ([]int64, []float64)) {
	whole, power, ok := decimals(p.values)
	if !ok {
		for i, v := range p.values {
			whole[i] = int64(math.Float64bits(v))
		}
	}
	order := 1
	if slices.IsSorted(whole) {
		order = 2
	}
	times, values := pack(p.ts, 2), pack(whole, order)
	ts, floats := make([]int64, len(p.ts)), make([]float64, len(p.ts))
	return len(times) + len(values), func() ([]int64, []float64) {
		unpack(times, ts, 2)
		unpack(values, whole, order)
		for i, x := range whole {
			if ok {
				floats[i] = float64(x) / math.Pow10(power)
			} else {
				floats[i] = math.Float64frombits(uint64(x))
			}
		}
		return ts, floats
	}
}

// decimals returns the values as integers that are divided by a power of ten.
func decimals(values []float64) (whole []int64, power int, ok bool) {
	whole = make([]int64, len(values))
	for ; power <= 18; power++ {
		ok = true
		for i, v := range values {
			x := math.RoundToEven(v * math.Pow10(power))
			if ok = math.Abs(x) < 1<<53 && math.Float64bits(float64(int64(x))/math.Pow10(power)) == math.Float64bits(v); !ok {
				break
			}
			whole[i] = int64(x)
		}
		if ok {
			return whole, power, true
		}
	}
	return whole, 0, false
}

func pack(v []int64, order int) []byte {
	d := slices.Clone(v)
	for o := 1; o <= order; o++ {
		for i := len(d) - 1; i >= o; i-- {
			d[i] -= d[i-1]
		}
	}
	var plain []byte
	for _, x := range d {
		plain = binary.AppendVarint(plain, x)
	}
	return compressor.EncodeAll(plain, nil)
}

func unpack(packed []byte, v []int64, order int) {
	plain, _ := decompressor.DecodeAll(packed, nil)
	for i := range v {
		x, n := binary.Varint(plain)
		v[i], plain = x, plain[n:]
	}
	for o := order; o > 0; o-- {
		for i := o; i < len(v); i++ {
			v[i] += v[i-1]
		}
	}
}

// packALP is the idea of ALP: decimals as integers less the least of them, in as many bits
// as the greatest needs, in groups of 1024, and exceptions beside them; the times the same
// way, as differences.
func packALP(p points) (int, func() ([]int64, []float64)) {
	type vector struct {
		power  int
		packed []byte
		odd    map[int]float64
		n      int
	}
	var vectors []vector
	size := 0
	for values := range slices.Chunk(p.values, 1024) {
		best := vector{packed: make([]byte, 8*len(values)+1)}
		cost := math.MaxInt
		for power := 0; power <= 18; power++ {
			v := vector{power: power, odd: make(map[int]float64), n: len(values)}
			whole := make([]int64, len(values))
			last := int64(0)
			for i, f := range values {
				x := math.RoundToEven(f * math.Pow10(power))
				if math.Abs(x) < 1<<53 && math.Float64bits(float64(int64(x))/math.Pow10(power)) == math.Float64bits(f) {
					last = int64(x)
				} else {
					v.odd[i] = f
				}
				whole[i] = last
			}
			v.packed = packBits(whole)
			if c := len(v.packed) + 10*len(v.odd); c < cost {
				cost, best = c, v
			}
		}
		size += 1 + min(cost, 8*len(values))
		vectors = append(vectors, best)
	}
	var times [][]byte
	first := p.ts[0]
	before := first
	for ts := range slices.Chunk(p.ts, 1024) {
		d := make([]int64, len(ts))
		for i, x := range ts {
			d[i], before = x-before, x
		}
		times = append(times, packBits(d))
		size += len(times[len(times)-1])
	}
	ts, values := make([]int64, len(p.ts)), make([]float64, len(p.ts))
	whole := make([]int64, 1024)
	return size, func() ([]int64, []float64) {
		at, now := 0, first
		for i, v := range vectors {
			unpackBits(times[i], whole[:v.n])
			for j, d := range whole[:v.n] {
				now += d
				ts[at+j] = now
			}
			unpackBits(v.packed, whole[:v.n])
			divisor := math.Pow10(v.power)
			for j, x := range whole[:v.n] {
				values[at+j] = float64(x) / divisor
			}
			for j, f := range v.odd {
				values[at+j] = f
			}
			at += v.n
		}
		return ts, values
	}
}

func packBits(v []int64) []byte {
	least := slices.Min(v)
	width := bits.Len64(uint64(slices.Max(v) - least))
	dst := append(binary.AppendVarint(nil, least), byte(width))
	var acc uint64
	have := 0
	for _, x := range v {
		u := uint64(x - least)
		acc |= u << have
		if have+width >= 64 {
			dst = binary.LittleEndian.AppendUint64(dst, acc)
			acc = u >> (64 - have) // nothing for 0: Go shifts by 64
			have -= 64
		}
		have += width
	}
	for ; have > 0; have -= 8 {
		dst = append(dst, byte(acc))
		acc >>= 8
	}
	return dst
}

func unpackBits(data []byte, v []int64) {
	least, n := binary.Varint(data)
	width := int(data[n])
	data = data[n+1:]
	mask := uint64(1)<<width - 1
	for i := range v {
		at := i * width
		var u uint64
		if at>>3+8 <= len(data) {
			u = binary.LittleEndian.Uint64(data[at>>3:]) >> (at & 7)
			if at&7+width > 64 {
				u |= uint64(data[at>>3+8]) << (64 - at&7)
			}
		} else {
			var last [8]byte
			copy(last[:], data[min(at>>3, len(data)):])
			u = binary.LittleEndian.Uint64(last[:]) >> (at & 7)
		}
		v[i] = least + int64(u&mask)
	}
}

func TestCodecsUnpackWhatTheyPacked(t *testing.T) {
	p := points{}
	rng := rand.New(rand.NewPCG(1, 1))
	for i := range 3000 {
		p.ts, p.values = append(p.ts, int64(i)*1000+rng.Int64N(900)), append(p.values, math.Round(rng.Float64()*1000)/10)
	}
	for _, c := range codecs {
		_, unpack := c.pack(p)
		if ts, values := unpack(); !slices.Equal(ts, p.ts) || !slices.Equal(values, p.values) {
			t.Errorf("%s: other points came back", c.name)
		}
	}
}
