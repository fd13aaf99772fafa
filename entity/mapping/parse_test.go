package mapping

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
)

func mustParse(t testing.TB, text string) *Statement {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return s
}

// canonical are statements and how they are printed.
var canonical = []struct{ text, want string }{
	{
		"insert into entity3 select\n\tentity1.property1 as property1,\n\tentity2.property2.name as property2,\n\tentity1.property1 + entity2.property3 as property3",
		"insert into entity3 select entity1.property1 as property1, entity2.property2.name as property2, entity1.property1 + entity2.property3 as property3",
	},
	{"INSERT INTO e SELECT a.x;", "insert into e select a.x as x"},
	{"insert into e select a.x.y.z", "insert into e select a.x.y.z as z"},
	{"insert into e select (a.x+-b.y)*2.50 as p", "insert into e select (a.x + -b.y) * 2.5 as p"},
	{"insert into e select a.x == 1 and not (b.y <> 'it''s') as p", "insert into e select a.x = 1 and not b.y != \"it's\" as p"},
	{"insert into e select a.x>1 ? a.x^2 : null as p", "insert into e select a.x > 1 ? a.x ** 2 : null as p"},
	{"insert into e select a.x <-3 as p", "insert into e select a.x < -3 as p"},
	{"insert into e select a.x && !b.y || true as p", "insert into e select a.x and not b.y or true as p"},
	{`insert into "room-12" select "meter 1"."total power" as "p q"`, "insert into `room-12` select `meter 1`.`total power` as `p q`"},
	{"insert into `from` select `select`.as as `null`", "insert into `from` select select.as as `null`"},
	{`insert into "plain" select "a"."x" as "y"`, "insert into plain select a.x as y"},
	{"insert into e select Avg(a.x) over last 10 as p", "insert into e select avg(a.x) over last 10 as p"},
	{"insert into e select avg(a.x) over 90m - min(a.x) over 1w as p", "insert into e select avg(a.x) over 1h30m - min(a.x) over 7d as p"},
	{"insert into e select max(a.x, b.y, 3) as p", "insert into e select max(a.x, b.y, 3) as p"},
	{"insert into e select coalesce(a.x, ifnull(b.y, 1.0)) ?? 0 as p", "insert into e select coalesce(a.x, ifnull(b.y, 1.0)) ?? 0 as p"},
	{
		"insert into f select sum(m.power) as power, count(m.power) as n from like 'meter-1-%' as m",
		`insert into f select sum(m.power) as power, count(m.power) as n from like "meter-1-%" as m`,
	},
	{
		`insert into f select sum(m.p)/r.area as p, last(l.s) over 5m as s from "f-1"->contains as m, (a, "b c", d) as l, "room-1" as r`,
		"insert into f select sum(m.p) / r.area as p, last(l.s) over 5m as s from `f-1` -> contains as m, (a, `b c`, d) as l, `room-1` as r",
	},
	{"insert into f select max(m.p) as p from f <- locatedIn as m", "insert into f select max(m.p) as p from f <- locatedIn as m"},
	{
		`insert into f select sum(m.p) / f@attributes.area + g.desired."a b".c as x, count(m@reported.on) as n from like 'm%' as m`,
		"insert into f select sum(m.p) / f.attributes.area + g.desired.`a b`.c as x, count(m.reported.on) as n from like \"m%\" as m",
	},
	{"insert into e select a.x + b@attributes.y as p", "insert into e select a.x + b.attributes.y as p"},
	{"insert into 楼层 select 房间.温度 * 1e3 as 温度", "insert into 楼层 select 房间.温度 * 1000.0 as 温度"},
	{"insert into boiler select flow * attributes.factor as heat", "insert into boiler select flow * attributes.factor as heat"},
	{"insert into b select b.flow + flow + avg(flow) over 5m as x", "insert into b select b.flow + flow + avg(flow) over 5m as x"},
	{"insert into e select a.`attributes`.x + `reported` as p", "insert into e select a.`attributes`.x + `reported` as p"},
	{"insert into e select a.mode in ('on', \"auto\") and a.x between 1 and 5 ? a.x : null as p", `insert into e select a.mode in ("on", "auto") and a.x between 1 and 5 ? a.x : null as p`},
}

func TestStatementsArePrintedInOneForm(t *testing.T) {
	for _, c := range canonical {
		s := mustParse(t, c.text)
		if got := s.String(); got != c.want {
			t.Errorf("%s\n is printed %s\n       want %s", c.text, got, c.want)
		}
		if again := mustParse(t, c.want).String(); again != c.want {
			t.Errorf("%s\nread back it is printed %s", c.want, again)
		}
	}
}

func TestStatementsInJSONAreTheSame(t *testing.T) {
	for _, c := range canonical {
		s := mustParse(t, c.text)
		data, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var again Statement
		if err := json.Unmarshal(data, &again); err != nil {
			t.Errorf("%s\n%v", data, err)
			continue
		}
		if got := again.String(); got != c.want {
			t.Errorf("%s\n means %s\n  want %s", data, got, c.want)
		}
	}
}

func TestJSONOfEachForm(t *testing.T) {
	s, err := ParseJSON([]byte(`{"into": "floor-1",
		"select": [{"as": "power", "value": "sum(m.power) + sum(n.power) over 5m + max(i.power)"}, {"value": "r.t"}],
		"from": [{"as": "m", "like": "meter-%"}, {"as": "n", "list": ["a", "b c"]}, {"as": "r", "entity": "room-1"},
			{"as": "o", "entity": "floor-1", "out": "contains"}, {"as": "i", "entity": "floor-1", "in": "locatedIn"}]}`))
	if err == nil || !strings.Contains(err.Error(), "nothing is selected from o") {
		t.Fatalf("got %v, %v; want an error about the group that is not used", s, err)
	}
	s, err = ParseJSON([]byte(`{"into": "floor-1", "select": [{"as": "power", "value": "max(i.power)"}, {"value": "r.t"}],
		"from": [{"as": "r", "entity": "room-1"}, {"as": "i", "entity": "floor-1", "in": "locatedIn"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := "insert into `floor-1` select max(i.power) as power, r.t as t from `room-1` as r, `floor-1` <- locatedIn as i"
	if got := s.String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// refused are statements with the place and a part of the error.
var refused = []struct{ text, at, want string }{
	{"", "1:1", `expected 'insert', found the end`},
	{"insert into", "1:12", "expected the id of an entity after 'into'"},
	{"insert into e", "1:14", `expected 'select' after 'e'`},
	{"insert into e select", "1:21", "expected an expression after 'select'"},
	{"insert into e select a.x + b.y", "1:31", `'as' and the key`},
	{"insert into e select a.x as", "1:28", "the key of the value"},
	{"insert into e select a.x as from b as c", "1:29", "the key of the value"},
	{"insert into e select a.x as x, as y", "1:35", "',', 'from' or the end"},
	{"insert into e select a.x as x b", "1:31", "expected ',', 'from' or the end"},
	{"insert into e select a.* ", "1:24", "expected a name after '.'"},
	{"insert into e select *", "1:22", "expected an expression"},
	{"insert into room-12 select a.x", "1:13", "room-12 could be a name or a difference: write `room-12` or room - 12"},
	{"insert into e select room-12.t as t", "1:22", "could be a name or a difference"},
	{"insert into e select a.x-b.y as t", "1:24", "write `x-b` or x - b"},
	{"insert into e select m as t from like 'a%' as m", "1:22", "a source has a key, as in m.power"},
	{"insert into e select 1 + 2 as t", "1:22", "no source"},
	{"insert into e select a.x +\n  * b.y as t", "2:3", "expected a value after '+', found '*'"},
	{"insert into e select (a.x as t", "1:27", "expected ')' after 'a.x', found 'as'"},
	{"insert into e select a.x) as t", "1:25", "found ')'"},
	{"insert into e select a.x b.y as t", "1:26", "found 'b.y'"},
	{"insert into e select a.x 5 as t", "1:26", "found '5'"},
	{"insert into e select a.x < b.y < 3 as t", "1:32", "a < b and b < c"},
	{"insert into e select foo(a.x) as t", "1:22", "there is no function foo"},
	{"insert into e select sqrt(a.x, 2) as t", "1:22", "sqrt is called with 2 arguments: write sqrt(x)"},
	{"insert into e select max(a.x) as t", "1:22", "over last 10 or over 5m"},
	{"insert into e select sum(a.x) as t", "1:22", "over last 10 or over 5m"},
	{"insert into e select sum(a.x + b.x) as t", "1:22", "is over one source"},
	{"insert into e select avg(a.x) over last 0 as t", "1:41", "must be from 1 to 10000, not 0"},
	{"insert into e select avg(a.x) over last 1000000 as t", "1:41", "must be from 1 to 10000"},
	{"insert into e select avg(a.x) over 5 as t", "1:36", "expected a window"},
	{"insert into e select avg(a.x) over 5y as t", "1:36", "a duration must"},
	{"insert into e select avg(a.x) over 9999d as t", "1:36", "a window must be from 1ms to 366d"},
	{"insert into e select m.x as t from like 'a%' as m", "1:22", "m is a group"},
	{"insert into e select sum(m.x) over last 3 as t from like 'a%' as m", "1:22", "for one entity"},
	{"insert into e select first(m.x) as t from like 'a%' as m", "1:22", "first(…) needs a window"},
	{"insert into e select sum(m.x) as t from like '' as m", "1:46", "pattern"},
	{"insert into e select sum(m.x) as t from like 'a/b' as m", "1:46", "no id looks like this"},
	{"insert into e select sum(m.x) as t from like 'a*' as m", "1:46", "must have % for any characters and _ for one, not * and ?"},
	{"insert into e select sum(m.x) as t from like 'a\\\\b' as m", "1:46", "a backslash in a pattern"},
	{"insert into e select sum(m.x) as t from (a, a) as m", "1:45", "in the list already"},
	{"insert into e select sum(m.x) as t from (a b) as m", "1:44", "',' or ')'"},
	{"insert into e select sum(m.x) as t from (a) as m, (b) as m", "1:58", "an alias already"},
	{"insert into e select sum(m.x) as t from f -> ", "1:46", "the type of a relation"},
	{"insert into e select a.x + b@other.y as t", "1:28", "there are attributes, desired and reported"},
	{"insert into e select a.x + b.attributes as t", "1:28", "a whole document"},
	{"insert into e select b@attributes.y * 2 as t", "1:22", "no time"},
	{"insert into e select avg(b@attributes.y) over 5m as t", "1:22", "no history"},
	{"insert into e select a.x as t # b", "1:31", "has no meaning"},
	{"insert into e select [a.x] as t", "1:22", "written '('"},
	{"insert into e select a.x | b.y as t", "1:26", "written 'or'"},
	{"insert into e select 'a as t", "1:22", "no closing '"},
	{"insert into e select a.x + 99999999999999999999 as t", "1:28", "beyond the integers of 64 bits"},
	{"insert into e select a.x + 1e999 as t", "1:28", "beyond the floats"},
	{"insert into e select a.x + 5m as t", "1:26", "no meaning for a value and a duration"},
	{"insert into e select a.x + now as t", "1:28", "has no place in a mapping"},
	{"insert into e select type as t", "1:22", "must be in backquotes"},
	{"insert into \"a/b\" select a.x as t", "1:13", "not allowed"},
	{"insert into e select a.x as t; insert into f select a.x as t", "1:32", "the end of the statement"},
	{"insert into e select ä.x + § as t", "1:28", "has no meaning"},
}

func TestErrorsHaveAPlaceAndSayWhatMustBe(t *testing.T) {
	for _, c := range refused {
		_, err := Parse(c.text)
		var at *SyntaxError
		if !errors.As(err, &at) || !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s\n gives %v, want a SyntaxError", c.text, err)
			continue
		}
		if !strings.HasPrefix(err.Error(), c.at+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s\n gives %v\n  want %s: …%s…", c.text, err, c.at, c.want)
		}
	}
}

func TestLimitsAreNamed(t *testing.T) {
	fields := make([]string, MaxFields+1)
	sources := make([]string, MaxSources+1)
	list := make([]string, MaxList+1)
	for i := range fields {
		fields[i] = "a.x as " + word(i)
	}
	for i := range sources {
		sources[i] = "a." + word(i)
	}
	for i := range list {
		list[i] = word(i)
	}
	for name, text := range map[string]string{
		"statement": "insert into e select a.x as x" + strings.Repeat(" ", MaxStatementBytes),
		"fields":    "insert into e select " + strings.Join(fields, ", "),
		"sources":   "insert into e select " + strings.Join(sources, " + ") + " as x",
		"nodes":     "insert into e select a.x" + strings.Repeat(" + a.x", filter.MaxTerms) + " as x",
		"long":      "insert into e select a.x" + strings.Repeat(" + 1", 4*filter.MaxTerms) + " as x",
		"nesting":   "insert into e select " + strings.Repeat("(", filter.MaxDepth+1) + "a.x" + strings.Repeat(")", filter.MaxDepth+1) + " as x",
		"minuses":   "insert into e select " + strings.Repeat("-", 3*filter.MaxTerms) + "a.x as x",
		"nots":      "insert into e select " + strings.Repeat("not ", filter.MaxDepth+2) + "a.x as x",
		"list":      "insert into e select sum(m.x) as x from (" + strings.Join(list, ", ") + ") as m",
		"path":      "insert into e select a.x" + strings.Repeat(".y", MaxPath+1) + " as x",
		"key":       "insert into e select a.x as " + strings.Repeat("k", entity.MaxKeyBytes+1),
		"id":        "insert into " + strings.Repeat("k", entity.MaxIDBytes+1) + " select a.x",
		"not UTF-8": "insert into e select a.\xff as x",
	} {
		if _, err := Parse(text); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

// word is a name for a number.
func word(i int) string {
	return "w" + string(rune('a'+i/26%26)) + string(rune('a'+i%26)) + string(rune('a'+i/676))
}

func TestFieldsAndGroupsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"insert into e select a.x as p, a.y as p":           "two fields have this key",
		"insert into e select a.x as p from like 'b%' as m": "nothing is selected from m",
		"insert into e select a.x as p from b as c":         "nothing is selected from c",
		"insert into e select a.x as \"\"":                  "the key of the value",

		"insert into e select sum(m.x) as p from \"\" -> c as m":   "the id of an entity",
		"insert into e select sum(m.x) as p from like 'a b%' as n": "m",
	} {
		if _, err := Parse(text); !errors.Is(err, entity.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n gives %v\n  want …%s…", text, err, want)
		}
	}
}

func TestJSONErrorsNameTheMember(t *testing.T) {
	for text, want := range map[string]string{
		`{"into": "e", "select": [{"as": "x", "value": "a.x +"}]}`:                                           "select[0].value: 1:6: expected a value",
		`{"into": "e", "select": [{"as": "x", "value": "a.x"}, {"as": "y", "value": "a.x, b.x"}]}`:           "select[1].value: 1:4: ",
		`{"into": "e", "select": [{"as": "x", "value": "a.x from b as c"}]}`:                                 "select[0].value: 1:5: ",
		`{"into": "e", "select": [{"value": "a.x + 1"}]}`:                                                    "select[0].as",
		`{"into": "e/", "select": [{"value": "a.x"}]}`:                                                       "insert into",
		`{"into": "e", "select": []}`:                                                                        "it has no field",
		`{"into": "e", "select": [{"value": "sum(m.x)", "as": "x"}], "from": [{"as": "m"}]}`:                 "from[0]",
		`{"into": "e", "select": [{"value": "sum(m.x)", "as": "x"}], "from": [{"as": "m", "like": "a/"}]}`:   "from[0].like",
		`{"into": "e", "select": [{"value": "sum(m.x)", "as": "x"}], "from": [{"as": "1", "like": "a%"}]}`:   "from[0].as",
		`{"into": "e", "select": [{"value": "sum(m.x)", "as": "x"}], "from": [{"as": "m", "list": ["a/"]}]}`: "from[0].list[0]",
		`{"into": "e", "select": [{"value": "sum(m.x)", "as": "x"}], "from": [{"as": "m", "out": "c"}]}`:     "from[0].entity",
		`{"into": "e", "select": [{"value": "a.x"}], "form": []}`:                                            "form",
		`{"into": "e", "select": [{"value": "a.x"}]} x`:                                                      "after",
		`[]`: "object",
		`{`:  "JSON",
		"\"" + strings.Repeat("x", MaxStatementBytes) + "\"": "at most",
	} {
		if _, err := ParseJSON([]byte(text)); !errors.Is(err, entity.ErrInvalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.200s\n gives %v\n  want …%s…", text, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, c := range canonical {
		f.Add(c.text)
	}
	for _, c := range refused {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if !errors.Is(err, entity.ErrInvalid) {
				t.Fatalf("the error does not wrap ErrInvalid: %v", err)
			}
			return
		}
		printed := s.String()
		again, err := Parse(printed)
		if err != nil {
			t.Fatalf("%q is printed %q, which is refused: %v", text, printed, err)
		}
		if got := again.String(); got != printed {
			t.Fatalf("%q is printed %q and then %q", text, printed, got)
		}
		data, err := s.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		fromJSON, err := ParseJSON(data)
		if err != nil {
			t.Fatalf("%s is refused: %v", data, err)
		}
		if got := fromJSON.String(); got != printed {
			t.Fatalf("%s means %q, want %q", data, got, printed)
		}
	})
}

func FuzzParseJSON(f *testing.F) {
	for _, c := range canonical {
		data, err := mustParse(f, c.text).MarshalJSON()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := ParseJSON(data)
		if err != nil {
			if !errors.Is(err, entity.ErrInvalid) {
				t.Fatalf("the error does not wrap ErrInvalid: %v", err)
			}
			return
		}
		if _, err := Parse(s.String()); err != nil {
			t.Fatalf("%s is printed %q, which is refused: %v", data, s, err)
		}
	})
}
