package filter_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestThresholdsAreWhatAValueIsComparedWith(t *testing.T) {
	for text, want := range map[string][]float64{
		`a > 5`:                             {5},
		`5 < a and not (a >= 7.5 or b = 3)`: {5, 7.5},
		`a between 2 and 4 or a in (9, 8)`:  {2, 4, 8, 9},
		`exists(a) and a != 1`:              {1},
		`b > 3`:                             nil,
		`ifnull(a > 5, b = 1) and a < 50`:   {5, 50},
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got, only := f.Thresholds(&filter.Path{Root: filter.RootLatest, Name: "a"}); !only || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v, want %v", text, got, only, want)
		}
	}
	for _, text := range []string{
		`a > b`, `b < a`, `a + 1 > 5`, `age(a) > 5m`, `ts(a) > 2026-01-01`, `a = "x"`, `a = true`, `a in (1, "x")`, `a like "x"`,
		`b between a and 7`, `a between b and 7`, `a`, `a > 1 and abs(a) > 2`, `a > attributes.a`,
	} {
		f, err := filter.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, only := f.Thresholds(&filter.Path{Root: filter.RootLatest, Name: "a"}); only {
			t.Errorf("%s only compares a with numbers", text)
		}
	}
}

// one is an entity with a key.
type one struct {
	filter.View
	a value.Value
}

func (o one) Lookup(p *filter.Path) (value.Value, bool) { return o.a, p.Name == "a" }

func TestBetweenThresholdsTheAnswerIsTheSame(t *testing.T) {
	f, err := filter.Parse(`(a > 2 and a < 9007199254740993 or a in (-1, -3.5)) and not a between 10 and 20 and a != 9007199254740992`)
	if err != nil {
		t.Fatal(err)
	}
	bounds, only := f.Thresholds(&filter.Path{Root: filter.RootLatest, Name: "a"})
	if !only {
		t.Fatal("a is more than compared with numbers")
	}
	r := rand.New(rand.NewPCG(1, 2))
	answers := map[int]bool{}
	for range 5000 {
		v := value.Int(r.Int64N(60) - 20)
		switch r.IntN(3) {
		case 0:
			v = value.Int(1<<53 - 5 + r.Int64N(10))
		case 1:
			v = value.Float(float64(r.IntN(100)) / 4)
		}
		x, _ := v.Number()
		i, at := slices.BinarySearch(bounds, x)
		if at {
			continue
		}
		got := f.Match(one{a: v}, &filter.Env{})
		if was, ok := answers[i]; ok && was != got {
			t.Fatalf("%v is %v, and others with %d of %v below them are %v", v, got, i, bounds, was)
		}
		answers[i] = got
	}
}
