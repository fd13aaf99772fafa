package filter

import (
	"fmt"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// slotted is an entity as a runtime may keep it: values in slots, found by the
// number that Bind gave to a path.
type slotted struct {
	id, typ string
	values  [4]value.Value
	times   [4]int64
}

func (s *slotted) Lookup(p *Path) (value.Value, bool) {
	switch p.Root {
	case RootID:
		return value.String(s.id), true
	case RootType:
		return value.String(s.typ), true
	default:
		v := s.values[p.Slot]
		return v, v.Kind() != 0
	}
}

func (s *slotted) Time(p *Path) (int64, bool)       { return s.times[p.Slot], true }
func (s *slotted) Is(id string) bool                { return s.typ == id }
func (s *slotted) Related(r *Relation, e *Env) bool { return false }

// fleet makes entities of which about every tenth satisfies all of the filter,
// and most satisfy some conditions, so that few are settled by the first.
func fleet(n int) []slotted {
	things := make([]slotted, n)
	for i := range things {
		things[i] = slotted{id: fmt.Sprintf("meter-%07d", i), typ: "meter"}
		things[i].values = [4]value.Value{value.Float(float64(i%100) / 10), value.Int(int64(i % 7)), value.Bool(i%3 != 0), value.String([]string{"ok", "warn", "fault"}[i%3])}
		things[i].times = [4]int64{noon - int64(i%400)*1000, noon, noon, noon}
	}
	return things
}

var slots = map[string]int{"power": 0, "/floor": 1, "occupied": 2, "status": 3}

const fiveConditions = `type = "meter" and power > 2.5 and attributes.floor in (1, 2, 3, 4, 5) and age(power) < 5m and status != "fault"`

// BenchmarkMatch looks at a million entities in each round:
//
//	go test -run '^$' -bench Match -benchtime 10x ./entity/filter
func BenchmarkMatch(b *testing.B) {
	things := fleet(1_000_000)
	for _, bench := range []struct{ name, text string }{
		{"one", `power > 9.5`},
		{"five", fiveConditions},
		{"text", `id icontains "99" and status like "%ar%"`},
		{"or", `status = "fault" or power > 9 and occupied = true or attributes.floor = 6`},
	} {
		f, err := Parse(bench.text)
		if err != nil {
			b.Fatal(err)
		}
		f = f.Bind(func(p Path) int { return slots[p.Name] })
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			found := 0
			for b.Loop() {
				e := Env{Now: noon}
				for i := range things {
					if f.Match(&things[i], &e) {
						found++
					}
				}
			}
			if found == 0 {
				b.Error("nothing matches")
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(things)), "ns/entity")
		})
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(fiveConditions); err != nil {
			b.Fatal(err)
		}
	}
}
