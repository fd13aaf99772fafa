package mapping

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity/filter"
)

func TestCompletionOfAStatement(t *testing.T) {
	v := filter.Vocabulary{
		Paths: []filter.Path{{Root: filter.RootLatest, Name: "power"}, {Root: filter.RootAttributes, Name: "/limit"}},
		IDs: func(prefix string) []string {
			return slices.DeleteFunc([]string{"floor", "meter-1"}, func(id string) bool { return !strings.HasPrefix(id, prefix) })
		},
	}
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
		`insert into floor select sum(m.power) as power from like "m-*" a`: "as",
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
