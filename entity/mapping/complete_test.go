package mapping

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/filter"
)

func vocabulary() filter.Vocabulary {
	return filter.Vocabulary{
		Paths: []filter.Path{{Root: filter.RootLatest, Name: "power"}, {Root: filter.RootAttributes, Name: "/limit"}},
		IDs: func(prefix string) []string {
			return slices.DeleteFunc([]string{"floor", "meter-1"}, func(id string) bool { return !strings.HasPrefix(id, prefix) })
		},
	}
}

func TestCompletionOfAStatement(t *testing.T) {
	v := vocabulary()
	for text, want := range map[string]string{
		"":                                     "insert",
		"ins":                                  "insert",
		"insert into ":                         `"floor" "meter-1"`,
		"insert into floor ":                   "select",
		"insert into floor select ":            `not ( exists power attributes.limit`,
		"insert into floor select power / att": "attributes.limit",
		"insert into floor select su":          "sum(",
		"insert into floor select sum(m.power) o":                          "over",
		"insert into floor select sum(m.power) / power a":                  "as",
		"insert into floor select sum(m.power) as power f":                 "from",
		"insert into floor select sum(m.power) as power from li":           "like",
		`insert into floor select sum(m.power) as power from like "m-%" a`: "as",
		`insert into floor select sum(m.power) as power from me`:           `"meter-1"`,
		"insert floor ": "",
	} {
		c := Complete(text, len(text), v)
		var got []string
		for _, item := range c.Items {
			got = append(got, item.Text)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\n gives %s\n want %s", text, strings.Join(got, " "), want)
		}
	}
}

func FuzzComplete(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, len(text)/2)
	}
	for _, e := range expressions {
		text := "insert into e select " + e.expression + " as p from like 'm-%' as m"
		f.Add(text, len(text)/2)
	}
	v := vocabulary()
	f.Fuzz(func(t *testing.T, text string, offset int) {
		c := Complete(text, offset, v)
		if c.From < 0 || c.From > c.To || c.To > len(text) || len(c.Items) > filter.MaxSuggestions {
			t.Fatalf("%q at %d: %+v", text, offset, c)
		}
		for _, s := range c.Items {
			put := text[:c.From] + s.Text
			r := filter.NewReader(put)
			(&parser{Reader: r, cut: true}).statement()
			var at *filter.Error
			if errors.As(r.Err(), &at) && at.Offset < len(put) && !strings.Contains(at.Text, "more than") && !strings.Contains(at.Text, "deeper") && !strings.Contains(at.Text, "in no order") {
				t.Errorf("%q: the suggestion %q is refused: %v", text, s.Text, at)
			}
		}
	})
}
