package block

import (
	"testing"
)

// BenchmarkDecode unpacks a block of each shape:
//
//	go test -run '^$' -bench Decode ./entity/block
func BenchmarkDecode(b *testing.B) {
	each(b, func(b *testing.B, c *Columns) {
		var e Encoder
		packed, err := e.Encode(c)
		if err != nil {
			b.Fatal(err)
		}
		var d Decoder
		var into Columns
		for b.Loop() {
			if _, err := d.Decode(packed, &into); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(len(packed.Values))/float64(c.Len()), "bytes/value")
		b.ReportMetric(float64(len(packed.Times))/float64(c.Len()), "bytes/time")
	})
}

// BenchmarkEncode packs a block of each shape.
func BenchmarkEncode(b *testing.B) {
	each(b, func(b *testing.B, c *Columns) {
		var e Encoder
		for b.Loop() {
			if _, err := e.Encode(c); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func each(b *testing.B, f func(b *testing.B, c *Columns)) {
	run := func(name string, c *Columns) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			f(b, c)
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.Len()), "ns/value")
		})
	}
	names, all := recording(b)
	for i := range all {
		one := all[i].Slice(0, MaxRows)
		run(names[i], &one)
	}
	for name, c := range shapes(MaxRows) {
		run(name, c)
	}
}
