package filter

import (
	"slices"
	"strings"
	"testing"
)

func vocabulary() Vocabulary {
	return Vocabulary{
		Paths:     []Path{{Name: "temperature"}, {Name: "CO2 (ppm)"}, {Root: RootAttributes, Name: "/location/floor"}, {Root: RootDesired, Name: "/mode"}},
		Types:     []string{"room", "meter"},
		Relations: []string{"contains", "any", "is a"},
		IDs: func(prefix string) []string {
			return slices.DeleteFunc([]string{"room-1", "room-2", "hall"}, func(id string) bool { return !strings.HasPrefix(id, prefix) })
		},
		Values: func(p Path, prefix string) []string {
			if p.Root == RootDesired && len(prefix) <= 3 && "eco"[:len(prefix)] == prefix {
				return []string{"eco"}
			}
			return nil
		},
	}
}

// TestCompletion has the cursor as |.
func TestCompletion(t *testing.T) {
	const operators = "= != < <= > >= in between "
	for text, want := range map[string]string{
		`|`:                             "not ( exists related temperature `CO2 (ppm)` attributes.location.floor desired.mode id type created updated age( ts(",
		`a = 1 |`:                       `and or`,
		`(a = 1 |`:                      `and or )`,
		`(a = 1) o|`:                    `or`,
		`te|`:                           `temperature`,
		`TEM|per`:                       `temperature`,
		`co|`:                           "`CO2 (ppm)` coalesce( cos(",
		"`co|":                          "`CO2 (ppm)`",
		`attributes.|`:                  `attributes.location.floor`,
		`attributes.location.fl|`:       `attributes.location.floor`,
		`not |`:                         "not ( exists related temperature `CO2 (ppm)` attributes.location.floor desired.mode id type created updated age( ts(",
		`temperature |`:                 operators + `like ilike prefix iprefix suffix isuffix contains icontains not`,
		`temperature not |`:             `in between like ilike prefix iprefix suffix isuffix contains icontains`,
		`temperature not b|`:            `between`,
		`age(temperature) |`:            operators + `not`,
		`age(temperature) > |`:          `1m 5m 1h 1d`,
		`age(|`:                         "temperature `CO2 (ppm)` attributes.location.floor desired.mode id type created updated",
		`created |`:                     operators + `not`,
		`created > |`:                   `now now - 1h`,
		`created > now |`:               `- + and or`,
		`created > now - |`:             `5m`,
		`type |`:                        operators + `like ilike prefix iprefix suffix isuffix contains icontains not is`,
		`type is |`:                     `not "room" "meter"`,
		`type is not |`:                 `"room" "meter"`,
		`type = |`:                      `"room" "meter"`,
		`type = "me|`:                   `"meter"`,
		`type = 'me|`:                   `"meter"`,
		`type = r|`:                     `"room"`,
		`id = "room-|" and a = 1`:       `"room-1" "room-2"`,
		`desired.mode = |`:              "\"eco\" true false temperature `CO2 (ppm)` attributes.location.floor desired.mode id type created updated",
		`temperature > tr|`:             `true`,
		`a between 1 |`:                 `and`,
		`a in |`:                        `(`,
		`a in (1 |`:                     `, )`,
		`id in (0 % |`:                  ``,
		`id in (-|`:                     ``,
		`id like "a" + |`:               ``,
		`created > now - 0 % |`:         ``,
		`a % (b = 1 |`:                  ``,
		`type in ("room", |`:            `"room" "meter"`,
		`related |`:                     "contains `any` `is a` any",
		`related con|`:                  `contains`,
		`related contains |`:            `from to`,
		`related contains to |`:         `"room-1" "room-2" "hall" ( any`,
		`related contains to "h|`:       `"hall"`,
		`related contains to (t|`:       `temperature type tan( ts(`,
		`related contains to (a = 1) |`: `and or`,
		`exists |`:                      "( temperature `CO2 (ppm)` attributes.location.floor desired.mode id type created updated",
		`exists (temperature |`:         `)`,
		`a = = |`:                       ``,
		`a = 1 b |`:                     ``,
		`temperature-|`:                 ``,
		`x > 1|`:                        ``,
	} {
		at := strings.IndexByte(text, '|')
		plain := text[:at] + text[at+1:]
		c := Complete(plain, at, vocabulary())
		var got []string
		for _, s := range c.Items {
			got = append(got, s.Text)
			checkSuggestion(t, plain, c, s)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s\n got %s\nwant %s", text, strings.Join(got, " "), want)
		}
	}
}

func TestCompletionReplacesTheWholeWord(t *testing.T) {
	text := `tempX > 5 and type = "room" or a = 1`
	c := Complete(text, 2, vocabulary())
	if got := text[:c.From] + c.Items[0].Text + text[c.To:]; got != `temperature > 5 and type = "room" or a = 1` {
		t.Errorf("the word becomes %s", got)
	}
	c = Complete(text, strings.Index(text, "oom"), vocabulary())
	if got := text[:c.From] + "_" + text[c.To:]; got != `tempX > 5 and type = _ or a = 1` || len(c.Items) != 1 {
		t.Errorf("the string becomes %s, with %v", got, c.Items)
	}
}

func TestCompletionIsBounded(t *testing.T) {
	v := Vocabulary{}
	for i := range 1000 {
		v.Paths = append(v.Paths, Path{Name: "k" + strings.Repeat("x", i)})
	}
	if c := Complete("k", 1, v); len(c.Items) != MaxSuggestions {
		t.Errorf("%d items", len(c.Items))
	}
	if c := Complete("é = 1", 1, v); c.From != 0 {
		t.Errorf("within a character: %+v", c)
	}
}
