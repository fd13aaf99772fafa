package mapping

import (
	"fmt"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// statementOf is a statement that takes about n times as much memory as one with n of 1.
func statementOf(into string, n int) string {
	sources := make([]string, 6*n)
	for i := range sources {
		sources[i] = fmt.Sprint("a.x", i)
	}
	return "insert into " + into + " select " + strings.Join(sources, " + ") + " as y"
}

// inForce returns which mappings are not refused, by name.
func (h *house) inForce() string {
	h.t.Helper()
	list, err := h.List(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, in := range list {
		if in.Problem == "" {
			names = append(names, in.Name)
		}
	}
	return strings.Join(names, " ")
}

// Which mappings a store has room for that has too many is decided once: at the next start those that
// were refused take the room of no other.
func TestAMappingWithoutRoomTakesThePlaceOfNoOther(t *testing.T) {
	dir := t.TempDir()
	size := func(n int) int { return mustParse(t, statementOf("x", n)).bytes() }
	h := build(t, dir, houseOptions{})
	h.put("a", statementOf("a", 6))
	h.put("b", statementOf("b", 6))
	h.put("c", statementOf("c", 1))
	h.close()
	options := houseOptions{mappings: Config{most: size(3) + size(6) + size(1)/2}}
	h = build(t, dir, options)
	if got := h.inForce(); got != "a c" {
		t.Fatalf("in force are %q", got)
	}
	h.put("a", statementOf("a", 3)) // the rest is too little for b
	h.put("d", statementOf("d", 3))
	if got := h.inForce(); got != "a c d" {
		t.Fatalf("in force are %q", got)
	}
	for range 2 {
		h.close()
		h = build(t, dir, options)
		if got := h.inForce(); got != "a c d" {
			t.Fatalf("after a restart in force are %q", got)
		}
	}
	var values []entity.Sample
	for i := range 40 {
		values = append(values, sample(fmt.Sprint("x", i), 1))
	}
	h.write("a", 1, values...)
	h.sync(1)
	h.is("d", "y", 1, 18)
	if err := h.Delete(t.Context(), "d", ""); err != nil {
		t.Fatal(err)
	}
	if got := h.inForce(); got != "a c" {
		t.Fatalf("without d in force are %q", got)
	}
	if err := h.Delete(t.Context(), "a", ""); err != nil { // which leaves room for b
		t.Fatal(err)
	}
	if got := h.inForce(); got != "b c" {
		t.Fatalf("without a and d in force are %q", got)
	}
	h.sync(1)
	h.is("b", "y", 1, 36)
	h.write("a", 2, values...)
	h.sync(1)
	h.is("b", "y", 2, 36)
	h.close()
	h = build(t, dir, options)
	h.put("a", statementOf("a", 1)) // and by name it would come first
	if got := h.inForce(); got != "a b c" {
		t.Errorf("in the end in force are %q", got)
	}
}
