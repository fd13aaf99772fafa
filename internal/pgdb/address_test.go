package pgdb

import (
	"errors"
	"testing"
)

func TestSchemaIsNamedByTheSearchPath(t *testing.T) {
	for path, want := range map[string]string{"": "usual", "plant": "plant", `"Plant 7"`: "Plant 7", `"a""b"`: `a"b`, ` x `: "x"} {
		got, err := schemaOf(path, "usual")
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", path, got, err, want)
		}
	}
	if _, err := schemaOf("$user", "usual"); !errors.Is(err, ErrAddress) {
		t.Errorf("$user: %v", err)
	}
}
