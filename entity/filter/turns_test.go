package filter

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// longAge is the longest that can be written, four times.
const longAge = "2305843009213693951ms + 2305843009213693951ms + 2305843009213693951ms + 2305843009213693951ms"

func TestTurnsTellWhenAnAnswerChangesByItself(t *testing.T) {
	t.Parallel()
	of := new(thing).set("t", value.Float(1), 100).set("since", value.Time(90), 0).set("due", value.Float(103.5), 0).set("at", value.String("1970-01-01T00:00:50Z"), 0)
	for text, want := range map[string]int64{
		`age(t) > 10ms`:                                110, // then they are equal
		`age(t) >= 10ms`:                               110,
		`10ms < age(t)`:                                110,
		`age(t) < 5ms or age(t) > 20ms`:                105,
		`not (age(t) between 3ms and 8ms)`:             103,
		`age(t) in (4ms, 9ms)`:                         104,
		`now > ts(t) + 30ms`:                           130,
		`now - 15ms > since`:                           105,
		`age(t) + age(t) > 7ms`:                        104,
		`t > 5 and age(t) > 10ms`:                      110,
		`ifnull(t > 5, true) and now - ts(t) > 10ms`:   110,
		`(age(t) > 10ms ? 1 : 2) = 1`:                  110,
		`-age(t) < -6ms`:                               106,
		`age(t) < -1ms`:                                math.MaxInt64, // never again
		`now >= due`:                                   104,           // a number
		`now >= at`:                                    50_000,        // a string
		`age(u) > 10ms`:                                math.MaxInt64,
		longAge + ` < age(t)`:                          math.MaxInt64,
		`age(t) + age(t) > ` + longAge:                 100 + (math.MaxInt64-3+1)/2,
		`-age(t) - 2305843009213693951ms > ` + longAge: math.MaxInt64, // the difference is beyond 64 bits
		`t > 5`: math.MaxInt64,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		turns, ok := f.Turns()
		if !ok {
			t.Errorf("%s: it is not known when", text)
			continue
		}
		if got := turns.Next(of, &Env{Now: 100}); got != want {
			t.Errorf("%s: turns at %d, want %d", text, got, want)
		}
	}
	for _, text := range []string{
		`(now > since ? age(t) : 5ms) > 3ms`, `(age(t) ?? 5ms) > 3ms`,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.Turns(); ok {
			t.Errorf("%s: it is known when", text)
		}
	}
}

// TestNothingTurnsBeforeItsTime compares Next with the answers of each millisecond.
func TestNothingTurnsBeforeItsTime(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	spans := []string{"age(a)", "age(b)", "now - ts(a)", "(age(a) - 5ms)", "(age(b) + age(a))", "-age(b)", "12ms", "3ms", "(now - ts(b) - age(a))"}
	signs := []string{"<", "<=", ">", ">=", "=", "!="}
	turned := 0
	for range 2000 {
		pick := func(list []string) string { return list[r.IntN(len(list))] }
		var parts []string
		for range 1 + r.IntN(3) {
			part := fmt.Sprintf("%s %s %s", pick(spans), pick(signs), pick(spans))
			if r.IntN(4) == 0 {
				part = fmt.Sprintf("not (%s between %s and %s)", pick(spans), pick(spans), pick(spans))
			}
			parts = append(parts, part)
		}
		f, err := Parse(strings.Join(parts, pick([]string{" and ", " or "})))
		if err != nil {
			continue // two sides that are the same are refused, for instance
		}
		turns, ok := f.Turns()
		if !ok {
			t.Fatalf("%s: it is not known when", f)
		}
		of := new(thing).set("a", value.Int(1), 90+r.Int64N(30))
		if r.IntN(4) > 0 {
			of.set("b", value.Int(1), 90+r.Int64N(30))
		}
		for now := int64(100); now < 160; {
			next := turns.Next(of, &Env{Now: now})
			if next <= now {
				t.Fatalf("%s: at %d it turns at %d", f, now, next)
			}
			is := f.Match(of, &Env{Now: now})
			for now++; now < min(next, 160); now++ {
				if f.Match(of, &Env{Now: now}) != is {
					t.Fatalf("%s: it turns at %d, not at %d", f, now, next)
				}
			}
			if now < 160 && f.Match(of, &Env{Now: now}) != is {
				turned++
			}
		}
	}
	if turned < 500 {
		t.Errorf("only %d answers have changed", turned)
	}
}
