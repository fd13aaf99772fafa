package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/sqlite"
)

// sealed makes a payload of CBOR.
func sealed(t *testing.T, id string, number uint64, value any) persist.Payload {
	t.Helper()
	data, err := cbor.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	p := persist.Payload{Type: "shop.Added", Data: data}
	p.Seal(id, number)
	return p
}

func TestJournalIsListedShownVerifiedAndExported(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	j, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	state := sealed(t, "user/7", 1, "paid")
	commit := func(number uint64, appends ...persist.Append) {
		t.Helper()
		if err := j.Commit(t.Context(), &persist.Batch{Number: number, Time: 1_700_000_000_000, Appends: appends}); err != nil {
			t.Fatal(err)
		}
	}
	commit(1,
		persist.Append{
			ID: "cart-42", Events: []persist.Payload{sealed(t, "cart-42", 1, map[string]int{"apples": 3}), {}},
			Send: []persist.Message{{Number: 1, To: "stock", Payload: persist.Payload{Type: "t"}}}, Seen: []persist.Seen{{From: "user/7", Number: 4}},
			Reminders: []persist.ReminderEdit{{Key: "expire", At: 1_700_000_100_000, Payload: persist.Payload{Type: "shop.Expire", Data: []byte("x=1")}}},
		},
		persist.Append{ID: "user/7", State: &state},
		persist.Append{ID: "gone", Events: []persist.Payload{sealed(t, "gone", 1, 1)}},
	)
	commit(2, persist.Append{ID: "gone", After: 1, Erase: true})

	list, _ := command(t, 0, "journal", "list", "--journal", dir)
	want := "cart-42\tnumber 2, 1 messages sent, 1 senders seen, 1 reminders\ngone\tnumber 2, erased up to 2\nuser/7\tnumber 1, state of 5 bytes at 1\n"
	if list != want {
		t.Errorf("list:\n%s\nwant:\n%s", list, want)
	}
	if some, _ := command(t, 0, "journal", "list", "--journal", dir, "--after", "cart-42", "--limit", "1"); !strings.HasPrefix(some, "gone\t") || strings.Count(some, "\n") != 1 {
		t.Errorf("some: %s", some)
	}
	show, _ := command(t, 0, "journal", "show", "--journal", dir, "--id", "cart-42")
	for _, part := range []string{"1\t2023-11-14T22:13:20.000Z\tshop.Added\t{\"apples\": 3}\n", "\n2\t2023-11-14T22:13:20.000Z\t\n", "reminder \"expire\"\t2023-11-14T22:15:00.000Z\tshop.Expire\tx=1\n"} {
		if !strings.Contains(show, part) {
			t.Errorf("show does not have %q:\n%s", part, show)
		}
	}
	if verified, _ := command(t, 0, "journal", "verify", "--journal", dir); verified != "3 ids, 2 events, 1 states, 0 snapshots, 1 messages to be delivered\n" {
		t.Errorf("verify: %s", verified)
	}
	file := filepath.Join(t.TempDir(), "journal.ndjson")
	command(t, 0, "journal", "export", "--journal", dir, "--file", file)
	exported, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(exported)), "\n")
	var first actorJSON
	var event eventJSON
	if len(lines) != 5 || json.Unmarshal([]byte(lines[0]), &first) != nil || json.Unmarshal([]byte(lines[1]), &event) != nil {
		t.Fatalf("export:\n%s", exported)
	}
	if first.Actor != "cart-42" || first.Last != 2 || first.Seen["user/7"] != 4 || event.Event != "cart-42" || event.Number != 1 || event.Type != "shop.Added" {
		t.Errorf("export: %+v, %+v", first, event)
	}

	broken := sealed(t, "cart-42", 3, "another")
	broken.Data[1] ^= 1
	commit(3, persist.Append{ID: "cart-42", After: 2, Events: []persist.Payload{broken}})
	if out, _ := command(t, 1, "journal", "verify", "--journal", dir); !strings.Contains(out, "cart-42: event 3 is damaged") {
		t.Errorf("verify of a damaged event: %s", out)
	}
	if out, _ := command(t, 0, "journal", "show", "--journal", dir, "--id", "cart-42", "--after", "2"); !strings.Contains(out, "DAMAGED") {
		t.Errorf("show of a damaged event: %s", out)
	}

	command(t, 2, "journal", "list")
	command(t, 2, "journal", "show", "--journal", dir)
	command(t, 2, "journal", "list", "--journal", dir, "--limit", "-1")
	command(t, 1, "journal", "show", "--journal", dir, "--id", "nobody")
	command(t, 1, "journal", "list", "--journal", filepath.Join(dir, "nothing"))
	command(t, 1, "journal", "export", "--journal", dir, "--file", file)
}
