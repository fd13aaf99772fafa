package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// commanded makes a batch of records of commands.
func (k *kit) commanded(list ...entity.Command) *entity.Batch {
	b := &entity.Batch{First: k.next, Committed: 1_700_000_000_000 + int64(k.next)}
	at := make(map[string]int)
	for _, c := range list {
		place, ok := at[c.Entity]
		if !ok {
			place = len(b.Entities)
			at[c.Entity] = place
			b.Entities = append(b.Entities, entity.BatchEntity{ID: c.Entity, Created: 1000})
		}
		b.Records = append(b.Records, entity.Record{Entity: place, Reading: entity.Reading{TS: 5000}, Command: &c})
	}
	return b
}

// commands returns the commands of a.
func (k *kit) commands(q entity.CommandsQuery) []entity.Command {
	k.t.Helper()
	if q.Limit == 0 {
		q.Limit = 10_000
	}
	list, err := k.store.Commands(k.t.Context(), "a", q)
	if err != nil {
		k.t.Fatalf("commands of a: %v", err)
	}
	return list
}

// command is one with all that a command can have.
func command(id, command string, state entity.CommandState) entity.Command {
	c := entity.Command{
		ID: command, Entity: id, Name: "open the door é", Request: entity.ParseJSON([]byte(`{"angle":[1,2.5,null]}`)), Key: "key of " + command, By: "somebody",
		Parallel: true, State: state, Created: 10, Expires: 90, Timeout: 30, Sent: 20, Attempts: 2,
	}
	if state >= entity.CommandDelivered {
		c.Delivered, c.Progress = 40, value.Int(50)
	}
	if state.Ended() {
		c.Ended, c.Result, c.Error = 60, value.String("nul\x00 é"), "too narrow"
	}
	return c
}

func commandsAreKept(t *testing.T, k *kit) {
	k.commit(k.batch(given{id: "a", seq: 1, ts: 1, values: one("t", value.Int(1))}, given{id: "b", seq: 1, ts: 1, values: one("t", value.Int(1))}))
	all := []entity.Command{}
	for state := entity.CommandQueued; state <= entity.CommandCanceled; state++ {
		all = append(all, command("a", fmt.Sprintf("id-%d", state), state))
	}
	k.commit(k.commanded(append(slices.Clone(all), command("b", "id-1", entity.CommandQueued))...))
	newest := slices.Clone(all)
	slices.Reverse(newest)
	for _, what := range []string{"committed", "reopened"} {
		if got := k.commands(entity.CommandsQuery{}); !reflect.DeepEqual(got, newest) {
			t.Errorf("%s:\n got %+v\nwant %+v", what, got, newest)
		}
		if got := k.load("a"); !reflect.DeepEqual(got.Commands, all[:3]) || len(got.Latest) != 1 || got.Revision != 0 {
			t.Errorf("%s: loaded %+v", what, got)
		}
		list, err := k.store.Entities(t.Context(), entity.ListQuery{IDs: []string{"a", "b"}, Limit: 10})
		if err != nil || len(list) != 2 || len(list[0].Commands) != 3 || len(list[1].Commands) != 1 {
			t.Errorf("%s: listed %+v, %v", what, list, err)
		}
		open, err := k.store.OpenCommands(t.Context())
		if err != nil || !slices.Equal(open, []entity.OpenCommands{{Entity: "a", Due: 70}, {Entity: "b", Due: 90}}) {
			t.Errorf("%s: open are %+v, %v", what, open, err)
		}
		k.reopen()
	}
	if _, err := k.store.Commands(t.Context(), "nobody", entity.CommandsQuery{Limit: 1}); !errors.Is(err, entity.ErrNotFound) {
		t.Errorf("commands of nobody: %v", err)
	}
}

func commandsAreAskedFor(t *testing.T, k *kit) {
	var all []entity.Command
	for i := range 6 {
		all = append(all, command("a", fmt.Sprintf("id-%d", i), []entity.CommandState{entity.CommandQueued, entity.CommandDone, entity.CommandFailed}[i%3]))
	}
	k.commit(k.commanded(all...))
	for want, q := range map[string]entity.CommandsQuery{
		"id-5 id-4":                {Limit: 2},
		"id-3 id-2":                {Limit: 2, Before: "id-4"},
		"id-4 id-1":                {States: []entity.CommandState{entity.CommandDone}},
		"id-4 id-3 id-1 id-0":      {States: []entity.CommandState{entity.CommandDone, entity.CommandQueued}},
		"id-3":                     {ID: "id-3"},
		"":                         {ID: "id-9"},
		"id-2":                     {Key: "key of id-2"},
		" ":                        {Key: "key of id-2", States: []entity.CommandState{entity.CommandDone}},
		"  ":                       {Key: "k\x00"},
		"id-5 id-4 id-3 id-2 id-1": {Before: "", Limit: 5},
	} {
		var ids []string
		for _, c := range k.commands(q) {
			ids = append(ids, c.ID)
		}
		if got := strings.Join(ids, " "); got != strings.TrimSpace(want) {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
}

func stepsOfACommandReplaceIt(t *testing.T, k *kit) {
	c := command("a", "id-1", entity.CommandQueued)
	k.commit(k.commanded(c))
	sent, done := command("a", "id-1", entity.CommandSent), command("a", "id-1", entity.CommandDone)
	b := k.commanded(sent, done)
	k.commit(b)
	if got := k.commands(entity.CommandsQuery{}); !reflect.DeepEqual(got, []entity.Command{done}) || len(k.load("a").Commands) != 0 {
		t.Errorf("after two steps in one batch: %+v", got)
	}
	log, err := k.store.Changes(t.Context(), 0, 10)
	if err != nil || len(log) != 3 {
		t.Fatalf("the log has %d changes, %v", len(log), err)
	}
	for i, want := range []entity.Command{c, sent, done} {
		if got := log[i]; got.Command == nil || !reflect.DeepEqual(*got.Command, want) || got.Edit != nil || got.Values != nil || got.Entity != "a" {
			t.Errorf("change %d: %+v", i+1, got)
		}
	}
	if open, err := k.store.OpenCommands(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open are %+v, %v", open, err)
	}
}

func endedCommandsAreBounded(t *testing.T, k *kit) {
	const most = entity.MaxEndedCommands
	waiting, long := command("a", "00000", entity.CommandQueued), command("a", "00001", entity.CommandDelivered)
	k.commit(k.commanded(waiting, long))
	done := func(id string, at int64) entity.Command {
		c := command("a", id, entity.CommandDone)
		c.Ended = at
		return c
	}
	for from := 0; from < 2*most; from += most / 4 {
		var list []entity.Command
		for i := range most / 4 {
			list = append(list, done(fmt.Sprintf("%05d", from+i+2), int64(1000+from+i)))
		}
		if from+most/4 == 2*most {
			list = append(list, done(long.ID, 1000+2*most))
		}
		k.commit(k.commanded(list...))
	}
	kept := k.commands(entity.CommandsQuery{})
	if len(kept) < most+1 || len(kept) > most+most/10+1 || kept[0].ID != fmt.Sprintf("%05d", 2*most+1) {
		t.Fatalf("%d commands are kept, the newest is %s", len(kept), kept[0].ID)
	}
	if oldest := kept[len(kept)-2:]; oldest[0].ID != long.ID || oldest[0].State != entity.CommandDone || oldest[1].ID != waiting.ID {
		t.Errorf("the oldest are %s and %s: the one that ended last, or the open one, was deleted", oldest[0].ID, oldest[1].ID)
	}
}

func commandsGoWithTheirEntity(t *testing.T, k *kit) {
	k.commit(k.edit("a", "", entity.Edit{Revision: 1, Created: true}))
	k.commit(k.commanded(command("a", "id-1", entity.CommandQueued), command("a", "id-2", entity.CommandDone)))
	b := k.edit("a", "", entity.Edit{Revision: 2, Deleted: true})
	also := command("a", "id-3", entity.CommandQueued)
	b.Records = append([]entity.Record{{Command: &also}}, b.Records...)
	k.commit(b)
	if open, err := k.store.OpenCommands(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open are %+v, %v", open, err)
	}
	k.commit(k.edit("a", "", entity.Edit{Revision: 1, Created: true}))
	k.reopen()
	if got := k.commands(entity.CommandsQuery{}); len(got) != 0 {
		t.Errorf("one of the same id has %+v", got)
	}
}
