package mapping

import (
	"context"
	"encoding/json"
	"testing"
)

// replaceBehind makes a late reading that changes all of n sums, and once that is seen, and none of them is computed,
// calls replace with the durable statement that comes in the place of that of the sums.
func replaceBehind(t *testing.T, h *house, n int, replace func(ctx context.Context, f *follower, in Installed) error) {
	t.Helper()
	longPast(t, h, n)
	h.sync(1)
	kept := mustParse(t, "insert into s select a.x + 1 as next, b.y + a.x as sum")
	body, err := json.Marshal(stored{kept.String(), language})
	if err != nil {
		t.Fatal(err)
	}
	err = h.do(t.Context(), func(ctx context.Context, f *follower) error {
		h.write("b", 1, sample("y", 1000))
		for len(f.backlog.rests) == 0 {
			if err := f.apply(f.feed.drain(<-f.feed.changes)); err != nil {
				return err
			}
		}
		if err := f.save(ctx); err != nil {
			return err
		}
		doc, err := h.rt.PutDoc(ctx, docKind, "sum", body, "")
		if err != nil {
			return err
		}
		return replace(ctx, f, Installed{Mapping: Mapping{"sum", doc.Version, kept}, ETag: doc.ETag()})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What late readings have left is computed by the mapping that comes in the place of the one that they were late for.
func TestAMappingComputesWhatTheOneBeforeHasLeft(t *testing.T) {
	const n = 50
	h := build(t, t.TempDir(), houseOptions{})
	replaceBehind(t, h, n, func(ctx context.Context, f *follower, in Installed) error { return f.install(ctx, in) })
	h.sync(1)
	h.checkSums(n)
	if l := h.points("s", "next"); len(l) != 1 {
		t.Errorf("there are %d values of what no mapping had before, want the one of now", len(l))
	}
}

// The same where the process ends once the new statement is durable.
func TestAMappingComputesWhatTheOneBeforeHasLeftOverACrash(t *testing.T) {
	const n = 50
	dir := t.TempDir()
	h := build(t, dir, houseOptions{})
	replaceBehind(t, h, n, func(context.Context, *follower, Installed) error {
		h.store.stuck.Store(true)
		return nil
	})
	h.crash()
	h = build(t, dir, houseOptions{})
	h.sync(1)
	h.checkSums(n)
}
