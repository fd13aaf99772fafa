package block

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity/value"
)

// recording returns the columns of ../../testdata/occupancy by their names.
func recording(t testing.TB) (names []string, all []Columns) {
	t.Helper()
	f, err := os.Open("../../testdata/occupancy/occupancy-training.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	names = rows[0][1:]
	all = make([]Columns, len(names))
	for _, row := range rows[1:] {
		at, err := time.Parse(time.DateTime, row[0])
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range row[1:] {
			all[i].Append(at.UnixMilli(), 0, number(t, text))
		}
	}
	return names, all
}

// number reads a number as a reading has it: an integer stays one.
func number(t testing.TB, text string) value.Value {
	t.Helper()
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return value.Int(i)
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return value.Float(f)
}

// shapes are series of n points as they occur, and some that are hard.
func shapes(n int) map[string]*Columns {
	rng := rand.New(rand.NewPCG(20, 1))
	all := make(map[string]*Columns)
	add := func(name string, at func(i int) (int64, value.Value)) {
		c := new(Columns)
		for i := range n {
			ts, v := at(i)
			c.Append(ts, 0, v)
		}
		all[name] = c
	}
	second := func(i int) int64 { return 1_700_000_000_000 + int64(i)*1000 }
	walk, counter, level := 20.0, int64(0), 20.0
	add("constant", func(i int) (int64, value.Value) { return second(i), value.Float(21.5) })
	add("walk", func(i int) (int64, value.Value) { walk += rng.NormFloat64(); return second(i), value.Float(walk) })
	add("walk-2-digits", func(i int) (int64, value.Value) {
		level += rng.NormFloat64() / 10
		return second(i), value.Float(math.Round(level*100) / 100)
	})
	add("counter", func(i int) (int64, value.Value) { counter += rng.Int64N(1000); return second(i), value.Int(counter) })
	add("switch", func(i int) (int64, value.Value) { return second(i), value.Bool(i/300%2 == 1) })
	add("state", func(i int) (int64, value.Value) {
		return second(i), value.String([]string{"idle", "running", "stopped"}[rng.IntN(3)])
	})
	add("json", func(i int) (int64, value.Value) {
		return second(i), value.JSON(fmt.Sprintf(`{"n":%d,"ok":true}`, rng.IntN(100)))
	})
	add("random-bits", func(i int) (int64, value.Value) {
		return second(i), value.Float(math.Float64frombits(rng.Uint64() &^ (1 << 62)))
	})
	at := int64(1_700_000_000_000)
	add("jitter", func(i int) (int64, value.Value) {
		at += 980 + rng.Int64N(40)
		return at, value.Float(math.Round(20+10*math.Sin(float64(i)/200)*10) / 10)
	})
	add("mixed", func(i int) (int64, value.Value) {
		switch rng.IntN(5) {
		case 0:
			return second(i), value.Int(rng.Int64())
		case 1:
			return second(i), value.Bool(true)
		case 2:
			return second(i), value.String("error " + strconv.Itoa(i))
		case 3:
			return second(i), value.JSON("[]")
		default:
			return second(i), value.Float(rng.Float64())
		}
	})
	return all
}

// pieces cuts columns into blocks of MaxRows.
func pieces(c *Columns) (list []Columns) {
	for from := 0; from < c.Len(); from += MaxRows {
		list = append(list, c.Slice(from, min(from+MaxRows, c.Len())))
	}
	return list
}
