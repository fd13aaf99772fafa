package sealed

import (
	"cmp"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// Counted is a series in a store at one moment.
type Counted interface {
	// Ranges returns the blocks with points in a range [from, to) of times, in their order.
	Ranges(from, to int64) ([]Range, error)
	// Rows returns how many of the rows in the range are numbers, and Points how many of all points.
	Rows(from, to int64) (int, error)
	Points(from, to int64) (int, error)
}

// Range is a block, of which Numbers points are numbers.
type Range struct {
	First, Last int64 // times
	Numbers     int
	Mixed       bool // there may be rows in the range
}

// CountNumbers counts the numbers of a series in a range [from, to) of times. It uses the counts of
// blocks without rows in their range, lets the store count rows outside of blocks, and goes point
// by point where several points may have the same place: in blocks with rows in their range, and in
// the ranges apart.
func CountNumbers(c Counted, from, to int64, apart ...[2]int64) (n int, err error) {
	list, err := c.Ranges(from, to)
	if err != nil {
		return 0, err
	}
	k := counter{apart: apart}
	var whole []Range
	for _, b := range list {
		if b.Mixed || b.First < from || b.Last >= to {
			k.by(max(b.First, from), min(b.Last+1, to))
		} else {
			whole = append(whole, b)
		}
	}
	// A block that is partly counted apart is counted apart as a whole.
	for grown := true; grown; {
		grown = false
		k.apart = union(k.apart)
		for _, b := range whole {
			if at, ok := k.overlapped(b.First, b.Last+1); ok && (b.First < at[0] || b.Last >= at[1]) {
				k.by(b.First, b.Last+1)
				grown = true
			}
		}
	}
	for _, b := range whole {
		if _, ok := k.overlapped(b.First, b.Last+1); !ok {
			n += b.Numbers
		}
	}
	for _, r := range k.apart {
		rows, err := k.rows(c, from, r[0])
		if err != nil {
			return 0, err
		}
		points, err := c.Points(r[0], r[1])
		if err != nil {
			return 0, err
		}
		n += rows + points
		from = r[1]
	}
	rows, err := k.rows(c, from, to)
	return n + rows, err
}

// counter has the ranges to count point by point, in order once they are joined.
type counter struct{ apart [][2]int64 }

// by adds a range.
func (k *counter) by(from, to int64) { k.apart = append(k.apart, [2]int64{from, to}) }

func (k *counter) rows(c Counted, from, to int64) (int, error) {
	if from >= to {
		return 0, nil
	}
	return c.Rows(from, to)
}

// overlapped returns the range to count apart that [from, to) has a part in.
func (k *counter) overlapped(from, to int64) (r [2]int64, ok bool) {
	i, found := slices.BinarySearchFunc(k.apart, from, func(r [2]int64, ts int64) int { return cmp.Compare(r[0], ts) })
	if !found {
		i--
	}
	for ; i < len(k.apart) && (i < 0 || k.apart[i][0] < to); i++ {
		if i >= 0 && k.apart[i][1] > from {
			return k.apart[i], true
		}
	}
	return r, false
}

// union sorts ranges and joins those that overlap.
func union(list [][2]int64) [][2]int64 {
	slices.SortFunc(list, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	var joined [][2]int64
	for _, r := range list {
		if n := len(joined); n > 0 && r[0] <= joined[n-1][1] {
			joined[n-1][1] = max(joined[n-1][1], r[1])
		} else {
			joined = append(joined, r)
		}
	}
	return joined
}

// AddKeys adds the usage of each key to the totals of u. Its SealedBytes has the times that blocks
// share already.
func AddKeys(u *entity.Usage) {
	for _, k := range u.Keys {
		u.Values, u.Sealed, u.SealedBytes = u.Values+k.Values, u.Sealed+k.Sealed, u.SealedBytes+k.SealedBytes
	}
}
