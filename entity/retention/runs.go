package retention

import (
	"cmp"
	"iter"
	"math"
	"slices"
)

// maxRuns bounds the runs of chunks of one step. Beyond it those with the least between
// them become one, and what is between them is looked for in vain.
const maxRuns = 16_384

// chunkRun is numbers of chunks that follow each other: from the first up to the second,
// which is not in it.
type chunkRun [2]int64

// chunkRuns are in order and apart from each other.
type chunkRuns []chunkRun

// at returns the first run that ends behind n.
func (c chunkRuns) at(n int64) int {
	i, _ := slices.BinarySearchFunc(c, n, func(r chunkRun, n int64) int {
		if r[1] <= n {
			return -1
		}
		return 1
	})
	return i
}

// next returns the least number that is in a run and not less than n, and MaxInt64 if
// there is none.
func (c chunkRuns) next(n int64) int64 {
	if i := c.at(n); i < len(c) {
		return max(n, c[i][0])
	}
	return math.MaxInt64
}

// between yields the numbers in the runs from one to another, which is included.
func (c chunkRuns) between(from, to int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for n := c.next(from); n <= to && n < math.MaxInt64; n = c.next(n + 1) {
			if !yield(n) {
				return
			}
		}
	}
}

// backward yields the numbers in the runs from one back to the first.
func (c chunkRuns) backward(from int64) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		for _, run := range slices.Backward(c) {
			for n := min(from, run[1]-1); n >= run[0]; n-- {
				if !yield(n) {
					return
				}
			}
		}
	}
}

// from returns the runs without what is before n.
func (c chunkRuns) from(n int64) chunkRuns {
	rest := slices.Clone(c[c.at(n):])
	if len(rest) > 0 {
		rest[0][0] = max(rest[0][0], n)
	}
	return rest
}

// until returns the runs without n and what is behind it.
func (c chunkRuns) until(n int64) chunkRuns {
	rest := slices.Clone(c[:c.at(n)])
	if i := len(rest); i < len(c) && c[i][0] < n {
		rest = append(rest, chunkRun{c[i][0], n})
	}
	return rest
}

// with returns the runs and one more.
func (c chunkRuns) with(run chunkRun) chunkRuns {
	i, end := c.at(run[0]-1), 0 // also the one that ends where this one begins
	for end = i; end < len(c) && c[end][0] <= run[1]; end++ {
		run = chunkRun{min(run[0], c[end][0]), max(run[1], c[end][1])}
	}
	c = slices.Replace(c, i, end, run)
	if len(c) <= maxRuns {
		return c
	}
	least := 1
	for i := 2; i < len(c); i++ {
		if cmp.Less(c[i][0]-c[i-1][1], c[least][0]-c[least-1][1]) {
			least = i
		}
	}
	c[least-1][1] = c[least][1]
	return slices.Delete(c, least, least+1)
}
