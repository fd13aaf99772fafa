package text

import "testing"

func TestShortenCutsBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"aäb", 2, "a…"},
		{"aäb", 3, "aä…"},
		{"€", 1, "…"},
		{"a\xff\xffb", 2, "a…"},
	} {
		if got := Shorten(tt.text, tt.limit); got != tt.want {
			t.Errorf("Shorten(%q, %d) is %q, want %q", tt.text, tt.limit, got, tt.want)
		}
	}
}
