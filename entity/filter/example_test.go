package filter_test

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"

	"github.com/greenroom-go/greenroom/entity/filter"
)

// meter is a View of something with an id and one key.
type meter struct {
	id    string
	power float64
	ts    int64
}

func (m *meter) Lookup(p *filter.Path) (value.Value, bool) {
	switch {
	case p.Root == filter.RootID:
		return value.String(m.id), true
	case p.Root == filter.RootLatest && p.Name == "power":
		return value.Float(m.power), true
	default:
		return value.Value{}, false
	}
}

func (m *meter) Time(p *filter.Path) (int64, bool) {
	return m.ts, p.Root == filter.RootLatest && p.Name == "power"
}

func (m *meter) Is(string) bool                             { return false }
func (m *meter) Related(*filter.Relation, *filter.Env) bool { return false }

func Example() {
	f, err := filter.Parse(`id prefix "meter-" AND power>5 AND age(power)<300s`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(f)
	env := filter.Env{Now: 1_000_000}
	fmt.Println(f.Match(&meter{"meter-1", 7.5, 900_000}, &env))
	fmt.Println(f.Match(&meter{"meter-2", 7.5, 600_000}, &env))
	// Output:
	// id prefix "meter-" and power > 5 and age(power) < 5m
	// true
	// false
}

func ExampleParse_error() {
	for _, text := range []string{`(temperature > )`, `room-1 = 5`, `age(power) < 300`} {
		_, err := filter.Parse(text)
		fmt.Println(err)
	}
	// Output:
	// filter: column 16: expected a value after '>', found ')'
	// filter: column 1: room-1 could be a name or a difference: write `room-1` or room - 1
	// filter: column 14: age(power) is a duration and 300 an integer: they cannot be compared; a duration is written 90s, 5m or 1h30m
}

func ExampleFilter_Plan() {
	f, err := filter.Parse(`type = "meter" and id >= "m-1" and id < "m-5" and power > 5 and power <= 9 and related contains from "floor-3"`)
	if err != nil {
		fmt.Println(err)
		return
	}
	plan := f.Plan(0)
	for _, b := range plan.Bounds {
		fmt.Println(b.Path, b.Values, b.Low, b.High)
	}
	fmt.Println(plan.Edges)
	// Output:
	// power [] 5 9
	// id [] "m-1" "m-5"
	// type ["meter"] null null
	// [{contains from floor-3}]
}

func ExampleComplete() {
	v := filter.Vocabulary{
		Paths: []filter.Path{{Name: "temperature"}, {Name: "humidity"}, {Root: filter.RootAttributes, Name: "/location/floor"}},
		Types: []string{"meter", "room"},
	}
	text := `type = "room" and tem`
	c := filter.Complete(text, len(text), v)
	fmt.Println(text[:c.From]+"|", c.Items)
	text = `type is `
	fmt.Println(filter.Complete(text, len(text), v).Items)
	// Output:
	// type = "room" and | [{temperature path}]
	// [{not word} {"meter" value} {"room" value}]
}
