package storetest

import (
	"reflect"
	"slices"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// presence is the change of the presence of an entity.
type presence struct {
	id string
	entity.Presence
}

// presences makes a batch of changes of presences.
func (k *kit) presences(list ...presence) *entity.Batch {
	b := &entity.Batch{First: k.next, Committed: 1_700_000_000_000 + int64(k.next)}
	at := make(map[string]int)
	for _, p := range list {
		place, ok := at[p.id]
		if !ok {
			place = len(b.Entities)
			at[p.id] = place
			b.Entities = append(b.Entities, entity.BatchEntity{ID: p.id, Created: 1000})
		}
		b.Records = append(b.Records, entity.Record{Entity: place, Reading: entity.Reading{TS: p.Since}, Presence: &p.Presence})
	}
	return b
}

func (k *kit) online(after string, limit int) []entity.OnlineEntity {
	k.t.Helper()
	list, err := k.store.Online(k.t.Context(), after, limit)
	if err != nil {
		k.t.Fatalf("online: %v", err)
	}
	return list
}

func presencesAreKept(t *testing.T, k *kit) {
	k.commit(k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))}, given{id: "b", seq: 1, ts: 1, values: one("t", value.Int(1))}))
	k.commit(k.edit("c", "Meter", entity.Edit{Revision: 1, Created: true, Typed: true, Type: "Meter"}))
	if got := k.load("a").Presence; got != (entity.Presence{}) {
		t.Errorf("before there was one it is %+v", got)
	}
	off := entity.Presence{State: entity.PresenceOffline, Since: 70, Seen: 60}
	on := entity.Presence{State: entity.PresenceOnline, Connected: true, Since: 50, Seen: 40}
	k.commit(k.presences(presence{"a", on}, presence{"b", on}, presence{"c", on}, presence{"b", off}))
	for _, what := range []string{"committed", "reopened"} {
		if a, b := k.load("a").Presence, k.load("b").Presence; a != on || b != off {
			t.Errorf("%s: they are %+v and %+v", what, a, b)
		}
		for name, q := range map[string]entity.ListQuery{"all": {}, "named": {IDs: []string{"a", "b", "c"}}, "searched": {IDs: []string{"a", "b", "c"}, Search: ""}} {
			q.Limit = 10
			list, err := k.store.Entities(t.Context(), q)
			if err != nil || len(list) != 3 || list[0].Presence != on || list[1].Presence != off || list[2].Presence != on || list[2].Type != "Meter" {
				t.Errorf("%s, %s: listed %+v, %v", what, name, list, err)
			}
		}
		a, c := entity.OnlineEntity{ID: "a", Connected: true, Seen: 40}, entity.OnlineEntity{ID: "c", Type: "Meter", Connected: true, Seen: 40}
		if got := k.online("", 10); !slices.Equal(got, []entity.OnlineEntity{a, c}) {
			t.Errorf("%s: online are %+v", what, got)
		}
		if got := append(k.online("", 1), k.online("a", 1)...); !slices.Equal(got, []entity.OnlineEntity{a, c}) || len(k.online("c", 1)) != 0 {
			t.Errorf("%s: by pages online are %+v", what, got)
		}
		k.reopen()
	}
	log, err := k.store.Changes(t.Context(), 3, 10)
	if err != nil || len(log) != 4 {
		t.Fatalf("the log has %d changes, %v", len(log), err)
	}
	for i, want := range []entity.Presence{on, on, on, off} {
		if got := log[i]; got.Presence == nil || !reflect.DeepEqual(*got.Presence, want) || got.Edit != nil || got.Values != nil || got.Command != nil || got.TS != want.Since {
			t.Errorf("change %d: %+v", i+4, got)
		}
	}
	if len(k.history("a", "t", 0, forever, 10, false)) != 1 || k.load("a").Revision != 0 {
		t.Errorf("a presence has changed something else: %+v", k.load("a"))
	}
}

func seenIsSaved(t *testing.T, k *kit) {
	k.commit(k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))}, given{id: "b", seq: 1, ts: 1, values: one("t", value.Int(1))}))
	k.commit(k.presences(presence{"a", entity.Presence{State: entity.PresenceOnline, Since: 50, Seen: 40}}))
	before := k.store.Info()
	list := []entity.SeenAt{{Entity: "a", Seen: 90}, {Entity: "nobody", Seen: 90}, {Entity: "b", Seen: 80}, {Entity: "b", Seen: 30}, {Entity: "nul\x00", Seen: 30}}
	if err := k.store.SaveSeen(t.Context(), list); err != nil {
		t.Fatalf("save: %v", err)
	}
	if err := k.store.SaveSeen(t.Context(), []entity.SeenAt{{Entity: "a", Seen: 60}}); err != nil {
		t.Fatalf("save an earlier time: %v", err)
	}
	if after := k.store.Info(); !reflect.DeepEqual(after, before) {
		t.Errorf("info is %+v, was %+v", after, before)
	}
	k.reopen()
	if got := k.load("a").Presence; got != (entity.Presence{State: entity.PresenceOnline, Since: 50, Seen: 90}) {
		t.Errorf("a is %+v", got)
	}
	if got := k.load("b").Presence; got != (entity.Presence{Seen: 80}) {
		t.Errorf("b is %+v", got)
	}
	k.commit(k.presences(presence{"a", entity.Presence{State: entity.PresenceOffline, Since: 100, Seen: 70}}))
	if got := k.load("a").Presence; got != (entity.Presence{State: entity.PresenceOffline, Since: 100, Seen: 90}) {
		t.Errorf("after an older change a is %+v", got)
	}
}

func presencesGoWithTheirEntity(t *testing.T, k *kit) {
	k.commit(k.edit("a", "", entity.Edit{Revision: 1, Created: true}))
	on := entity.Presence{State: entity.PresenceOnline, Since: 50, Seen: 40}
	k.commit(k.presences(presence{"a", on}))
	b := k.edit("a", "", entity.Edit{Revision: 2, Deleted: true})
	b.Records = append([]entity.Record{{Presence: &on}}, b.Records...)
	k.commit(b)
	if got := k.online("", 10); len(got) != 0 {
		t.Errorf("online are %+v", got)
	}
	k.commit(k.edit("a", "", entity.Edit{Revision: 1, Created: true}))
	k.reopen()
	if got := k.load("a").Presence; got != (entity.Presence{}) {
		t.Errorf("one of the same id is %+v", got)
	}
}
