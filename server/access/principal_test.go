package access

import (
	"context"
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// TestWhatGrantsCover has each kind of grant against entities of every sort, and one
// that does not exist.
func TestWhatGrantsCover(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open func() *entity.Runtime) {
		rt := open()
		for id, attributes := range map[string]string{"hall-3-pump": `{"building":"A"}`, "meter": `{"building":"B"}`, "me": `{}`} {
			edits := entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Body: []byte(attributes)}}}
			if _, err := rt.Edit(t.Context(), id, edits); err != nil {
				t.Fatal(err)
			}
		}
		ids := []string{"hall-3-pump", "meter", "me", "hall-3-new", "new"}
		for _, tt := range []struct {
			grant Grant
			want  map[Action]string // a letter for each of ids: y or n
		}{
			{Grant{Role: Admin}, map[Action]string{Read: "yyyyy", Report: "yyyyy", Write: "yyyyy", Manage: "yyyyy", Receive: "nnnnn"}},
			{Grant{Role: Operator}, map[Action]string{Read: "yyyyy", Report: "yyyyy", Write: "yyyyy", Manage: "nnnnn", Receive: "nnnnn"}},
			{Grant{Role: Viewer}, map[Action]string{Read: "yyyyy", Report: "nnnnn", Write: "nnnnn", Manage: "nnnnn", Receive: "nnnnn"}},
			{Grant{Role: Device}, map[Action]string{Read: "nnynn", Report: "nnynn", Write: "nnnnn", Manage: "nnnnn", Receive: "nnynn"}},
			{Grant{Role: Device, Filter: `id like "hall-3-%"`}, map[Action]string{Read: "ynnyn", Report: "ynnyn", Write: "nnnnn", Manage: "nnnnn", Receive: "ynnyn"}},
			{Grant{Role: Operator, Filter: `attributes.building = "A"`}, map[Action]string{Read: "ynnnn", Report: "ynnnn", Write: "ynnnn", Manage: "nnnnn"}},
			{Grant{Role: Viewer, Filter: `type is "Meter"`}, map[Action]string{Read: "nnnnn", Report: "nnnnn", Write: "nnnnn", Manage: "nnnnn"}},
		} {
			p, err := newPrincipal("me", &record{Grants: []Grant{tt.grant}})
			if err != nil {
				t.Fatalf("%+v: %v", tt.grant, err)
			}
			for action, want := range tt.want {
				got := ""
				for _, id := range ids {
					switch err := p.May(t.Context(), rt, action, id); {
					case err == nil:
						got += "y"
					case errors.Is(err, ErrForbidden):
						got += "n"
					default:
						t.Errorf("%+v %v %s: %v", tt.grant, action, id, err)
					}
				}
				if got != want {
					t.Errorf("%+v may %v: %s, want %s of %v", tt.grant, action, got, want, ids)
				}
			}
		}
	})
}

func TestADecisionOutlivesAMoveByASecondAtMost(t *testing.T) {
	t.Parallel()
	p, err := newPrincipal("team", &record{Grants: []Grant{{Role: Viewer, Filter: `type is "Meter"`}}})
	if err != nil {
		t.Fatal(err)
	}
	looked := &counting{}
	for range 3 {
		if err := p.May(t.Context(), looked, Read, "a"); !errors.Is(err, ErrForbidden) {
			t.Fatal(err)
		}
	}
	if looked.n != 1 {
		t.Errorf("it looked %d times, want once", looked.n)
	}
	for q, d := range p.decisions {
		d.until = d.until.Add(-MovedWithin)
		p.decisions[q] = d
	}
	if err := p.May(t.Context(), looked, Read, "a"); !errors.Is(err, ErrForbidden) || looked.n != 2 {
		t.Errorf("after a second: %v, it looked %d times, want twice", err, looked.n)
	}
}

type counting struct{ n int }

func (c *counting) View(context.Context, string, func(entity.View) error) error {
	c.n++
	return entity.ErrNotFound
}

func TestFiltersOfGrantsAreTheirUnion(t *testing.T) {
	t.Parallel()
	p, err := newPrincipal("me", &record{Grants: []Grant{{Role: Device}, {Role: Viewer, Filter: `type is "Meter"`}}})
	if err != nil {
		t.Fatal(err)
	}
	for action, want := range map[Action]string{
		Read:   `(id = "me") or (type is "Meter")`,
		Report: `(id = "me")`,
		Write:  `id = ""`,
	} {
		if got := p.Filter(action); got != want {
			t.Errorf("Filter(%v) = %s, want %s", action, got, want)
		}
	}
}
