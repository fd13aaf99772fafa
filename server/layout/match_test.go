package layout

import "testing"

func TestMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		filter, topic string
		want          bool
	}{
		{"a/b", "a/b", true},
		{"a/b", "a/c", false},
		{"a/b", "a", false},
		{"a", "a/b", false},
		{"a/+", "a/b", true},
		{"a/+", "a/", true},
		{"a/+", "a", false},
		{"a/+/c", "a/b/c", true},
		{"a/+/c", "a/b/d", false},
		{"+/b", "a/b", true},
		{"#", "a/b/c", true},
		{"a/#", "a/b/c", true},
		{"a/#", "a", true},
		{"a/#", "b", false},
		{"a/+/#", "a", false},
		{"a/b/#", "a", false},
		{"+", "a", true},
		{"", "a", false},
	} {
		if got := Matches(tt.filter, tt.topic); got != tt.want {
			t.Errorf("Matches(%q, %q) = %v", tt.filter, tt.topic, got)
		}
	}
}
