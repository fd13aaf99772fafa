package value

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkSum is a change of one of the numbers in a sum.
func BenchmarkSum(b *testing.B) {
	values := make([]Value, 1024)
	r := rand.New(rand.NewPCG(1, 11))
	for i := range values {
		values[i] = Float(r.Float64() * 1000)
	}
	b.Run("exact", func(b *testing.B) {
		var s Sum
		i := 0
		for b.Loop() {
			s.Remove(values[i%1024])
			s.Add(values[(i+1)%1024])
			i++
		}
	})
	b.Run("control running float", func(b *testing.B) {
		sum, i := 0.0, 0
		for b.Loop() {
			sum -= values[i%1024].Float()
			sum += values[(i+1)%1024].Float()
			i++
		}
		_ = sum
	})
	b.Run("rounded result", func(b *testing.B) {
		var s Sum
		for _, v := range values {
			s.Add(v)
		}
		for b.Loop() {
			s.Value()
		}
	})
}
