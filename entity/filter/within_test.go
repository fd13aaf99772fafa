package filter

import (
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity/value"
)

// watched notes what is looked at.
type watched struct {
	*thing
	seen []string
}

func (w *watched) Lookup(p *Path) (value.Value, bool) {
	w.seen = append(w.seen, p.Root.String()+" "+p.Name)
	return w.thing.Lookup(p)
}

func TestAFilterWithinAnotherLooksAtNothingElseOfOthers(t *testing.T) {
	t.Parallel()
	hall := RootAttributes.String() + " /hall"
	for _, tt := range []struct{ scope, written string }{
		{`attributes.hall = 3`, `id like "secret%"`}, // which costs less
		{`attributes.hall = 3`, `id = "a" and type = "Pump"`},
		{`attributes.hall = 3 or attributes.hall = 4`, `id = "a"`},
		{`attributes.hall = 3 and attributes.hall > 2`, `id = "a" or type = "Pump"`},
		{`attributes.hall = 3`, ``},
		{`attributes.hall = 3`, `1 = 1`},
	} {
		scope, err := Parse(tt.scope)
		if err != nil {
			t.Fatal(err)
		}
		written, err := Parse(tt.written)
		if err != nil {
			t.Fatal(err)
		}
		both, err := written.Within(scope)
		if err != nil {
			t.Fatal(err)
		}
		slots := 0
		for name, f := range map[string]*Filter{"as made": both, "bound": both.Bind(func(Path) int { slots++; return slots })} {
			v := &watched{thing: &thing{id: "secret-1", typ: "Pump", values: map[string]value.Value{hall: value.Int(5)}}}
			if f.Match(v, &Env{}) {
				t.Errorf("%s, %s: %q matches an entity of another hall", name, tt.written, f)
			}
			if slices.ContainsFunc(v.seen, func(s string) bool { return s != hall }) || len(v.seen) == 0 {
				t.Errorf("%s, %s: %q has looked at %q", name, tt.written, f, v.seen)
			}
			for _, id := range []string{"secret-1", "a", "b"} {
				v := &thing{id: id, typ: "Pump", values: map[string]value.Value{hall: value.Int(3)}}
				if got, want := f.Match(v, &Env{}), scope.Match(v, &Env{}) && written.Match(v, &Env{}); got != want {
					t.Errorf("%s, %s: %q matches %s: %v, want %v", name, tt.written, f, id, got, want)
				}
			}
		}
	}
}

func TestAFilterWithinAnotherIsNoWiderThanThat(t *testing.T) {
	t.Parallel()
	scope, err := Parse(`id = "mine" or id = "ours"`)
	if err != nil {
		t.Fatal(err)
	}
	written, err := Parse(`id = "theirs" or 1 = 1`)
	if err != nil {
		t.Fatal(err)
	}
	both, err := written.Within(scope)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{"mine": true, "ours": true, "theirs": false} {
		if got := both.Match(&thing{id: id}, &Env{}); got != want {
			t.Errorf("%q matches %s: %v, want %v", both, id, got, want)
		}
	}
}
