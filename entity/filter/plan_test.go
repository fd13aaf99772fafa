package filter

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// describe writes a plan in a line: type in {"a" "b"}; id in ["a", "b").
func describe(p Plan) string {
	if p.Never {
		return "never"
	}
	var parts []string
	for _, b := range p.Bounds {
		s := b.Path.String()
		if b.TS {
			s = "ts(" + s + ")"
		}
		if b.Exists() {
			parts = append(parts, s)
			continue
		}
		if len(b.Values) > 0 {
			var list []string
			for _, v := range b.Values {
				list = append(list, string(appendLiteral(nil, v)))
			}
			parts = append(parts, s+" in {"+strings.Join(list, " ")+"}")
			continue
		}
		low, high := "[", "]"
		if b.LowOpen {
			low = "("
		}
		if b.HighOpen {
			high = ")"
		}
		ends := func(v value.Value) string {
			if v.Kind() == 0 {
				return "-"
			}
			return string(appendLiteral(nil, v))
		}
		parts = append(parts, s+" in "+low+ends(b.Low)+", "+ends(b.High)+high)
	}
	for _, id := range p.Is {
		parts = append(parts, "is "+id)
	}
	for _, e := range p.Edges {
		parts = append(parts, fmt.Sprint(e.Type, " ", e.Direction, " ", e.ID))
	}
	return strings.Join(parts, "; ")
}

// plans are filters and what an index is told about them.
var plans = map[string]string{
	``:      ``,
	`false`: `never`,

	`a > 5`:                         `a in (5, -]`,
	`a > 5 and a <= 7.5`:            `a in (5, 7.5]`,
	`a > 5 and a >= 5`:              `a in (5, -]`,
	`a >= 5 and a > 5 and a < 9`:    `a in (5, 9)`,
	`a < 9 and a <= 9 and a < 12`:   `a in [-, 9)`,
	`a > 5 and a > 7 and a > 6`:     `a in (7, -]`,
	`a < 5 and a < 3 and a < 4`:     `a in [-, 3)`,
	`a > 5 and a < 3`:               `never`,
	`a > 5 and a <= 5`:              `never`,
	`a >= 5 and a <= 5`:             `a in [5, 5]`,
	`a > 5 and a < "x"`:             `never`,
	`a > 5 and a > "x"`:             `never`,
	`a between 1 and 3`:             `a in [1, 3]`,
	`a between 3 and 1`:             `never`,
	`a not between 1 and 3`:         `a`,
	`a between b and 3`:             `a in [-, 3]; b`,
	`a != 5`:                        `a`,
	`a = b`:                         `a; b`,
	`not a = 5`:                     ``,
	`exists a and not exists b`:     `a`,
	`a in (1, 2, 3) and a > 1`:      `a in {2 3}`,
	`a > 1 and a in (1, 2, 3)`:      `a in {2 3}`,
	`a in (1, 2) and a in (2.0, 3)`: `a in {2}`,
	`a in (1, 2) and a = "x"`:       `never`,
	`a = true`:                      `a in {true}`,
	`type = "x" and type in ("a")`:  `never`,
	`type = "x" and type is "y"`:    `type in {"x"}; is y`,
	`type is not "y"`:               `type`,
	`id = "b" or id in ("a", "b")`:  `id in {"b" "a"}`,
	`a > 5 or a >= 5`:               `a in [5, -]`,
	`a > 7 or a > 5`:                `a in (5, -]`,
	`a < 3 or a <= 3`:               `a in [-, 3]`,
	`a < 3 or a <= 2`:               `a in [-, 3)`,
	`a between 1 and 3 or a = 9`:    `a in [1, 9]`,
	`a in (5, 3, 9) or a < 4`:       `a in [-, 9]`,
	`a in (5, "x") or a < 4`:        `a`,
	`a > 5 or a < 3`:                `a`,
	`a > 5 or a > "x"`:              `a`,
	`a > 5 or b > 5`:                ``,
	`a > 5 or a != 1`:               `a`,
	`(a > 5 or false) and b = 1`:    `a in (5, -]; b in {1}`,
	`(a > 5 and a < 3) or a = 1`:    `a in {1}`,
	`a = 1 and (b = 2 or b = 3)`:    `a in {1}; b in {2 3}`,
	`(a = 1 and c = 1) or (b = 2 and a = 3 and type is "t")`: `a in {1 3}`,

	`id prefix "ab"`:            `id in ["ab", "ac")`,
	`id prefix ""`:              `id in ["", -]`,
	"id prefix \"a\U0010ffff\"": "id in [\"a\U0010ffff\", \"b\")",
	"id prefix \"\ud7ff\"":      "id in [\"\ud7ff\", \"\ue000\")",
	"id prefix \"\U0010ffff\"":  "id in [\"\U0010ffff\", -]",
	`id like "ab%c"`:            `id in ["ab", "ac")`,
	`id like "ab_c"`:            `id in ["ab", "ac")`,
	`id like "abc"`:             `id in {"abc"}`,
	`id like "%abc"`:            `id`,
	`id iprefix "ab"`:           `id`,
	`id not prefix "ab"`:        `id`,
	`a contains 5`:              `a`,

	`age(a) < 5m`:                         `ts(a) in (2026-01-01T11:55:00Z, -]`,
	`age(a) >= 1h and ts(a) > 2026-01-01`: `ts(a) in (2026-01-01, 2026-01-01T11:00:00Z]`,
	`age(a) in (1h, 2h)`:                  `ts(a) in {2026-01-01T11:00:00Z 2026-01-01T10:00:00Z}`,
	`age(created) < 1h`:                   `created in (2026-01-01T11:00:00Z, -]`,
	`created > now - 1d and a = 1`:        `a in {1}; created in (2025-12-31T12:00:00Z, -]`,
	`a > now`:                             `a`, // it may be a string that is a time
	`a in (2026-01-01)`:                   `a`,
	`a in (2026-01-01, 5)`:                `a`,
	`now > 2026-01-01`:                    ``,
	`5 between a and b`:                   ``,

	`related contains from "x" and related contains from "x"`:      `contains from x`,
	`related any to (id = "x")`:                                    ` to x`,
	`related contains from (a = 1)`:                                ``,
	`not related contains from "x"`:                                ``,
	`(related a to "x" and b = 1) or (b = 2 and related a to "x")`: `b in {1 2}; a to x`,
}

func TestPlan(t *testing.T) {
	for text, want := range plans {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := describe(f.Plan(noon)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
