package mapping

import (
	"context"
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
	h.writeOnes(1)
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
	h.writeOnes(2)
	h.is("b", "y", 2, 36)
	h.close()
	h = build(t, dir, options)
	h.put("a", statementOf("a", 1)) // and by name it would come first
	if got := h.inForce(); got != "a b c" {
		t.Errorf("in the end in force are %q", got)
	}
}

// endingReader ends a context when it is asked first, and fails once it has ended.
type endingReader struct {
	Reader
	end func()
}

func (r *endingReader) Entities(ctx context.Context, ids []string, f func(id string, v View)) error {
	r.end()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return r.Reader.Entities(ctx, ids, f)
}

// failedReader fails as long as err is not nil.
type failedReader struct {
	Reader
	err error
}

func (r *failedReader) Entities(ctx context.Context, ids []string, f func(id string, v View)) error {
	if r.err != nil {
		return r.err
	}
	return r.Reader.Entities(ctx, ids, f)
}

// writeOnes has each key that statements of statementOf read be 1, and waits for what is computed.
func (h *house) writeOnes(ts int64) {
	h.t.Helper()
	var values []entity.Sample
	for i := range 40 {
		values = append(values, sample(fmt.Sprint("x", i), 1))
	}
	h.write("a", ts, values...)
	h.sync(1)
}

func TestAMappingThatCannotBePutInForceAgainIsTriedAgain(t *testing.T) {
	dir := t.TempDir()
	size := mustParse(t, statementOf("x", 6)).bytes()
	h := build(t, dir, houseOptions{})
	for _, name := range []string{"a", "b", "c"} {
		h.put(name, statementOf(name, 6))
	}
	h.close()
	h = build(t, dir, houseOptions{mappings: Config{most: size + size/2}})
	swap := func(r Reader) {
		if err := h.do(t.Context(), func(context.Context, *follower) error { h.reader = r; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	whole := h.reader
	swap(&failedReader{whole, entity.ErrFailed})
	if err := h.Delete(t.Context(), "a", ""); err != nil {
		t.Fatal(err)
	}
	if got := h.inForce(); got != "" {
		t.Errorf("after a failed read in force are %q", got)
	}
	swap(whole)
	h.put("d", "insert into d select a.x0 as y")
	if got := h.inForce(); got != "b d" {
		t.Errorf("in force are %q", got)
	}
	// Nor does it matter whether who deletes one waits.
	ctx, end := context.WithCancel(t.Context())
	swap(&endingReader{whole, end})
	_ = h.Delete(ctx, "b", "")
	swap(whole)
	if got := h.inForce(); got != "c d" {
		t.Errorf("in force are %q", got)
	}
	h.writeOnes(1)
	h.is("c", "y", 1, 36)
}
