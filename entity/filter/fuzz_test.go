package filter

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func addTexts(f *testing.F, add func(text string)) {
	f.Helper()
	for _, m := range matches {
		add(m.text)
	}
	for _, text := range []string{
		`(`, `a = "`, "`", `a in (1,`, `related contains to (`, `now - `, `2026-01-01T`, `1h30`, `-`, `"\u00`, `a.`, `attributes.`,
		`a > 5 and (b <`, `type is not "x" or `, `exists (`, `age(`, "\xff", "é = 'é'", `a not `, `a between 1 and `,
	} {
		add(text)
	}
}

func FuzzParse(f *testing.F) {
	addTexts(f, func(text string) { f.Add(text) })
	v := room()
	f.Fuzz(func(t *testing.T, text string) {
		first, err := Parse(text)
		if err != nil {
			var at *Error
			if !errors.As(err, &at) || at.Offset < 0 || at.Offset > len(text) || at.Column < 1 || at.Text == "" || !utf8.ValidString(strings.ToValidUTF8(text, "")) {
				t.Fatalf("%q: error %v", text, err)
			}
			return
		}
		second, err := Parse(first.String())
		if err != nil || second.String() != first.String() || dump(second.root) != dump(first.root) {
			t.Fatalf("%q is %s, which reads back as %v, %v", text, first, second, err)
		}
		e := Env{Now: noon, MaxVisits: 1000}
		got := first.Match(v, &e)
		if e.Err() != nil {
			return
		}
		written, _, _ := parse(text)
		if want := (model{noon}).is(written, v); got != want {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
		if got && !satisfies(first.Plan(noon), v) {
			t.Errorf("%q matches, and its plan leaves it out: %+v", text, first.Plan(noon))
		}
	})
}

func FuzzComplete(f *testing.F) {
	addTexts(f, func(text string) { f.Add(text, len(text)/2) })
	v := vocabulary()
	f.Fuzz(func(t *testing.T, text string, offset int) {
		c := Complete(text, offset, v)
		if c.From < 0 || c.From > c.To || c.To > len(text) || len(c.Items) > MaxSuggestions {
			t.Fatalf("%q at %d: %+v", text, offset, c)
		}
		for _, s := range c.Items {
			checkSuggestion(t, text, c, s)
		}
	})
}

// checkSuggestion puts a suggestion in place and looks whether the grammar takes
// it there: what it complains about must come after it.
func checkSuggestion(t *testing.T, text string, c Completion, s Suggestion) {
	t.Helper()
	put := text[:c.From] + s.Text
	_, err := Parse(put)
	var at *Error
	if errors.As(err, &at) && at.Offset < len(put) && !strings.Contains(at.Text, "more than") && !strings.Contains(at.Text, "at most") &&
		!strings.Contains(at.Text, "deeper") && !strings.Contains(at.Text, "cannot be compared") && !strings.Contains(at.Text, "not known") && !strings.Contains(at.Text, "in no order") && !strings.Contains(at.Text, "no unit") {
		t.Errorf("%q: the suggestion %q is refused: %v", text, s.Text, err)
	}
}
