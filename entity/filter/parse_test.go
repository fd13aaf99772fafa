package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCanonicalForm(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   `true`,
		`  AND1=1`:                           `AND1 = 1`,
		`A = 1 AND B = 2 Or NOT c = 3`:       `A = 1 and B = 2 or not c = 3`,
		`((a=1)) and ((b=2) and c=3)`:        `a = 1 and b = 2 and c = 3`,
		`(a=1 or b=2) and c=3`:               `(a = 1 or b = 2) and c = 3`,
		`a=1 or (b=2 and c=3)`:               `a = 1 or b = 2 and c = 3`,
		`not (a=1)`:                          `not a = 1`,
		`not(a=1 or b=2)`:                    `not (a = 1 or b = 2)`,
		`a in(1,2.0,-3,1e3,"x",'y')`:         `a in (1, 2.0, -3, 1000.0, "x", "y")`,
		`a = 1e300`:                          `a = 1e+300`,
		`5 >= a`:                             `a <= 5`,
		`Presence.online and presence = 1`:   `presence.online and presence = 1`,
		"`presence.online` = presence.since": "`presence.online` = presence.since",
		"`Presence.x` = 1":                   "`Presence.x` = 1",
		`'a\'b"' = a`:                        `a = "a'b\""`,
		`a = "\u00e9\n"`:                     `a = "é\n"`,
		`age(a) < 90m`:                       `age(a) < 1h30m`,
		`age(a) < 0s or age(a) < -36h`:       `age(a) < 0s or age(a) < -1d12h`,
		`TS(a) > 2026-01-01T01:00+01:00`:     `ts(a) > 2026-01-01`,
		`created > 2026-01-01T00:00:00.25z`:  `created > 2026-01-01T00:00:00.25Z`,
		`created > 86400000`:                 `created > 1970-01-02`,
		`created > NOW-5m`:                   `created > now - 5m`,
		`created > now - 0s`:                 `created > now`,
		`2026-01-01 < now`:                   `now > 2026-01-01`,
		"`a.b` = 1 and a.b = 1":              `a.b = 1 and a.b = 1`,
		"`type` = 1 and Type = 'x'":          "`type` = 1 and type = \"x\"",
		"`a``b c` = 1":                       "`a``b c` = 1",
		"attributes.`a/b`.`c~d`.type = 1":    "attributes.`a/b`.`c~d`.type = 1",
		"`battery-level` > 5":                "`battery-level` > 5",
		`a == 1 && !(b <> 'x') || c`:         `a = 1 and not b != "x" or c`,
		`a = 'it''s' or a = "a""b"`:          `a = "it's" or a = "a\"b"`,
		`a * ( 9 / 5 ) + 32 > 2 ^ 3`:         `a * (9 / 5) + 32 > 2 ** 3`,
		`(a - b) - c > a - (b - c)`:          `a - b - c > a - (b - c)`,
		`-a ** 2 < (-a) ** 2 ** 3`:           `-a ** 2 < (-a) ** 2 ** 3`,
		`-(-3) < - - a`:                      `-(-a) > 3`,
		`(a ?? 0) + 1 > a ?? (b ?? 2)`:       `a ?? 0 + 1 > a ?? (b ?? 2)`,
		`(a > 1 ? b : c) = 5`:                `(a > 1 ? b : c) = 5`,
		`ABS(a) + Max(a,b, 2) > 1`:           `abs(a) + max(a, b, 2) > 1`,
		`created + 1h > now - 5m - 5m`:       `created + 1h > now - 10m`,
		`now - created > 1.5h`:               `now - created > 1h30m`,
		`a > -9223372036854775808`:           `a > -9223372036854775808`,
		`(a) and (not b)`:                    `a and not b`,
		`exists ( Attributes )`:              `exists attributes`,
		`type IS NOT 'x'`:                    `type is not "x"`,
		`related ANY to ANY`:                 `related any to any`,
		"related `any` to (id='x')":          "related `any` to (id = \"x\")",
		`related contains from 'x'`:          `related contains from "x"`,
		"related `is a` from any":            "related `is a` from any",
		`a not between 1 and 2 and b = 1`:    `a not between 1 and 2 and b = 1`,
		`Ünal = "ß"`:                         `Ünal = "ß"`,
	} {
		f, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := f.String(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// refused are texts that are no filters, and what is said about them.
var refused = []struct {
	text   string
	column int
	say    string
}{
	{`id`, 3, `expected an operator such as =, <, in or like after 'id', found the end`},
	{`5`, 2, `expected an operator`},
	{`a b`, 3, `expected an operator such as =, <, in or like after 'a', found 'b'`},
	{`(a b)`, 4, `expected an operator`},
	{`power - 5`, 10, `expected an operator`},
	{`battery-level > 5`, 1, "battery-level could be a name or a difference: write `battery-level` or battery - level"},
	{`attributes.set-point > 5`, 12, "write `set-point` or set - point"},
	{`id + 1 > 2`, 4, `'+' has no meaning for a string and an integer`},
	{`a * created > 2`, 3, `'*' has no meaning for a value and a time`},
	{`-id = 1`, 1, `'-' has no meaning for a string`},
	{`abs(id) = 1`, 5, `abs takes numbers, and this is a string`},
	{`abs(a, b) = 1`, 1, `abs is called with 2 arguments: write abs(x)`},
	{`abs() = 1`, 1, `abs is called with 0 arguments`},
	{`atan2(a) + 1 = 1`, 1, `atan2 is called with 1 argument: write atan2(y, x)`},
	{`len(a) = 1`, 1, `there is no function len; there are abs, `},
	{`sum(a) = 1`, 1, `sum is over many values, which mappings have and filters do not`},
	{`a < b < c`, 7, `a < b and b < c`},
	{`a ? b = 1`, 10, `expected ':'`},
	{`power + 1 ? b : c`, 11, `expected an operator`},
	{`a = null`, 5, `not exists`},
	{`a@b = 1`, 1, `'@' has no meaning here`},
	{`9223372036854775808 = a`, 1, `64 bits`},
	{`(temperature > )`, 16, `expected a value after '>', found ')'`},
	{`a = 1 b = 2`, 7, `expected 'and', 'or' or the end after '1', found 'b'`},
	{`(a = 1`, 7, `expected ')' after '1', found the end`},
	{`a = 1)`, 6, `found ')'`},
	{`a in [1]`, 6, `'[' is written '('`},
	{`a = "x`, 5, `no closing "`},
	{"a = `x", 5, `no closing backquote`},
	{`a = "\x"`, 6, `backslash`},
	{"a = \"\x01\"", 6, `\u0001`},
	{"a = \"\xff\"", 6, `not UTF-8`},
	{"\xff", 1, `not UTF-8`},
	{`a = 1.`, 5, `number must be`},
	{`a = 1.2.3`, 5, `number must be`},
	{`a = 12ab`, 5, `duration must be`},
	{`age(a) < 5m1h`, 10, `duration must be`},
	{`a = 99999999999999999999`, 5, `64 bits`},
	{`a = 1e999`, 5, `floats of 64 bits`},
	{`created > 2026-13-01`, 11, `time must be`},
	{`created > 2026-01-01T25:00Z`, 11, `time must be`},
	{`created > 2026-02-30`, 11, `time must be`},
	{`created > "2026-01-01"`, 11, `without quotes`},
	{`created = 99999999999999999`, 11, `milliseconds`},
	{`ä = "ö" und`, 9, `found 'und'`},
	{`prefix = 1`, 1, "a name like this is written `prefix` in backquotes"},
	{`type = 5`, 8, `type is a string and 5 an integer`},
	{`id < now`, 6, `a string and now a time`},
	{`a > 5m`, 5, `has no unit`},
	{`age(a) > 5`, 10, `90s, 5m or 1h30m`},
	{`age(a) > b`, 10, `has no unit`},
	{`a < true`, 5, `in no order`},
	{`a between 1 or 2`, 13, `expected 'and'`},
	{`a in ()`, 7, `expected a value`},
	{`a in (b)`, 7, `values only`},
	{`a in 1`, 6, `expected '('`},
	{`a is "x"`, 3, `about the type`},
	{`type is 5`, 9, `the id of a type as a string`},
	{`a not = 1`, 7, `another operator that is a word`},
	{`a not 1`, 7, `another operator that is a word`},
	{`a like 5`, 8, `needs a string`},
	{`a like b`, 8, `needs a string, not b`},
	{`a like "x\\"`, 8, `backslash in a pattern`},
	{`id contains 5`, 13, `needs a string`},
	{`created like "2%"`, 9, `about strings`},
	{`"a" like "b"`, 5, `on its left`},
	{`desired = 1`, 1, `whole document`},
	{`type.x = 1`, 1, `nothing below`},
	{`attributes. = 1`, 12, `expected a name after '.'`},
	{"attributes.`` = 1", 13, `empty`},
	{`ts(id) > now`, 4, `not known`},
	{`ts(created) > now`, 4, `not known`},
	{`age(reported) > 5m`, 5, `not known`},
	{`age a > 5m`, 5, `expected '('`},
	{`exists`, 7, `expected a path`},
	{`exists 5`, 8, `expected a path`},
	{`relation.a = 1`, 1, `only inside of related`},
	{`related contains to (exists relation)`, 29, `name a property`},
	{`related "contains" to any`, 9, `without quotes`},
	{`related a.b to any`, 9, `expected a type of relation`},
	{`related contains any`, 18, `expected 'to' or 'from'`},
	{`related contains to b`, 21, `the id of an entity as a string`},
	{`related contains to ""`, 21, `the id of an entity as a string`},
	{`a = $b`, 5, `backquotes`},
	{`a = 5b`, 5, `duration must be`},
	{`a = 5_x`, 5, `no number`},
}

func TestErrorsNameThePlaceAndTheRemedy(t *testing.T) {
	for _, e := range refused {
		_, err := Parse(e.text)
		var at *Error
		if !errors.As(err, &at) || !errors.Is(err, ErrSyntax) {
			t.Errorf("%s: error %v", e.text, err)
			continue
		}
		if at.Column != e.column || !strings.Contains(at.Text, e.say) {
			t.Errorf("%s:\n got column %d: %s\nwant column %d: … %s …", e.text, at.Column, at.Text, e.column, e.say)
		}
		if at.Offset < 0 || at.Offset > len(e.text) {
			t.Errorf("%s: offset %d", e.text, at.Offset)
		}
	}
}

func TestWhatIsTooLargeIsRefused(t *testing.T) {
	within := map[string]string{
		"parentheses": strings.Repeat("(", MaxDepth-1) + "a = 1" + strings.Repeat(")", MaxDepth-1),
		"not":         strings.Repeat("not ", MaxDepth-1) + "a = 1",
		"conditions":  strings.Repeat("a=1 or ", MaxConditions-1) + "a=1",
		"items":       "a in (" + strings.Repeat("1,", MaxItems-1) + "1)",
		"related":     "related a to (related a to (related a to (b = 1)))",
		"bytes":       `a = "` + strings.Repeat("x", MaxBytes-6) + `"`,
	}
	for name, text := range within {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s, just within the limit: %v", name, err)
		}
	}
	beyond := map[string]string{
		"nested deeper":    strings.Repeat("(", 100_000),
		"nested":           "not " + within["not"],
		"conditions":       within["conditions"] + " or a=1",
		"values":           "a in (" + strings.Repeat("1,", MaxItems) + "1)",
		"related inside":   "related a to (related a to (related a to (related a to (b = 1))))",
		"bytes":            within["bytes"] + " ",
		"canonical form":   "a=" + strings.Repeat("1 or a=", MaxConditions-1) + `"` + strings.Repeat("x", MaxBytes-7*MaxConditions-1) + `"`,
		"integers of 64":   "a = " + strings.Repeat("9", 10_000),
		"a duration must ": "age(a) < 9223372036854775807ms",
		"control characte": "a = \"\t\"",
	}
	beyond["nested deeper"] = beyond["nested deeper"][:MaxBytes]
	for say, text := range beyond {
		if _, err := Parse(text); !errors.Is(err, ErrSyntax) || !strings.Contains(err.Error(), say) {
			t.Errorf("%s: error %v", say, err)
		}
	}
}

// The kind of what is computed was found anew for each operator, by looking at all operands before it:
// eight times as many took sixty times as long.
func TestALongExpressionIsReadOnce(t *testing.T) {
	read := func(terms int) time.Duration {
		text := "a" + strings.Repeat(" + a", terms-1)
		least := time.Hour
		for range 5 {
			began := time.Now()
			r := NewReader(text)
			if x := r.Expression(func(*Reader, Reference) (int, string) { return 0, "a" }); x == nil {
				t.Fatalf("%d terms: %v", terms, r.Err())
			}
			least = min(least, time.Since(began))
		}
		return least
	}
	var few, many time.Duration
	for range 20 { // beside others a run may take any time
		if few, many = read(60), read(480); many < 24*few {
			return
		}
	}
	t.Errorf("480 terms take %v, 60 take %v", many, few)
}

func TestMessagesStayShort(t *testing.T) {
	for _, text := range []string{"a = " + strings.Repeat("é", 5000) + " 1", "a = " + strings.Repeat("9", 5000), strings.Repeat("x", 5000) + " y"} {
		if _, err := Parse(text); err == nil || len(err.Error()) > 300 {
			t.Errorf("error %v", err)
		}
	}
}

func TestWordsAreThoseOfTheGrammar(t *testing.T) {
	for _, w := range words {
		if _, err := Parse("`" + w + "` = 1"); err != nil {
			t.Errorf("%s in backquotes is no key: %v", w, err)
		}
		key := Path{Name: w}
		if got := key.String(); got != "`"+w+"`" {
			t.Errorf("the key %s is written %s", w, got)
		}
		if got := fmt.Sprint(Path{Root: RootAttributes, Name: "/" + w}); got != "attributes."+w {
			t.Errorf("the leaf %s is written %s", w, got)
		}
	}
}
