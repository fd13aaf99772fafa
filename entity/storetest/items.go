package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

func itemsAreKept(t *testing.T, k *kit) {
	ctx := t.Context()
	put := func(items ...entity.Item) {
		t.Helper()
		if err := k.store.PutItems(ctx, items); err != nil {
			t.Fatalf("put: %v", err)
		}
	}
	keys := func(q entity.ItemsQuery) string {
		t.Helper()
		list, err := k.store.Items(ctx, q)
		if err != nil {
			t.Fatalf("%+v: %v", q, err)
		}
		var keys []string
		for _, it := range list {
			if it.Kind != q.Kind {
				t.Errorf("item %+v of kind %s", it, q.Kind)
			}
			keys = append(keys, it.Key+"="+string(it.Body))
		}
		return strings.Join(keys, " ")
	}
	item := func(kind, key, body string) entity.Item {
		return entity.Item{Kind: kind, Key: key, Body: []byte(body)}
	}
	if got := keys(entity.ItemsQuery{Kind: "k", Limit: 10}); got != "" {
		t.Errorf("a new store has %s", got)
	}
	long := strings.Repeat("\xff", entity.MaxItemKeyBytes)
	put(item("k", "b", "2"), item("k", "a\x00z", "1"), item("k", "a", "0"), item("l", "b", "other"), item("k", "\xff", "4"),
		item("k", "c", ""), item("k", "b", "3"), item("k", long, "5"))
	all := []string{"a=0", "a\x00z=1", "b=3", "c=", "\xff=4", long + "=5"}
	for range 2 {
		for _, tt := range []struct {
			q    entity.ItemsQuery
			want []string
		}{
			{entity.ItemsQuery{Limit: 10}, all},
			{entity.ItemsQuery{Limit: 2}, all[:2]},
			{entity.ItemsQuery{From: "a\x00", Limit: 2}, all[1:3]},
			{entity.ItemsQuery{From: "a\x00", To: "c", Limit: 10}, all[1:3]},
			{entity.ItemsQuery{From: "c", To: "b", Limit: 10}, nil},
			{entity.ItemsQuery{To: "c", Limit: 2, Descending: true}, []string{all[2], all[1]}},
		} {
			tt.q.Kind = "k"
			if got := keys(tt.q); got != strings.Join(tt.want, " ") {
				t.Errorf("%+v: %q, want %q", tt.q, got, tt.want)
			}
		}
		k.reopen()
	}
	put(entity.Item{Kind: "k", Key: "b"}, entity.Item{Kind: "k", Key: "never"}, item("k", "d", "new"), entity.Item{Kind: "k", Key: "d"}, item("l", "b", "again"))
	want := slices.Delete(slices.Clone(all), 2, 3)
	if got := keys(entity.ItemsQuery{Kind: "k", Limit: 10}); got != strings.Join(want, " ") {
		t.Errorf("after a removal: %q, want %q", got, want)
	}
	if got := keys(entity.ItemsQuery{Kind: "l", Limit: 10}); got != "b=again" {
		t.Errorf("of the other kind: %q", got)
	}
}
