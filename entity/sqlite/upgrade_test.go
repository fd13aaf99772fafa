package sqlite

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// unpack copies a database of testdata to a directory of its own.
func unpack(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	for _, suffix := range []string{"", "-wal"} {
		in, err := os.Open(filepath.Join("testdata", name, databaseName+suffix+".gz"))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		text, err := gzip.NewReader(in)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, databaseName+suffix), body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// testdata/schema7 is what the program of commit 1ed32ec (schema 7) left when it was killed a
// moment after it had made two entities with attributes, one of the type pump with an edge to
// the other, ten readings, a document and a command.
func TestADatabaseOfAFormerVersionIsBroughtToThisOne(t *testing.T) {
	dir := unpack(t, "schema7")
	for _, reopened := range []bool{false, true} {
		t.Run(fmt.Sprint("reopened ", reopened), func(t *testing.T) {
			s := open(t, dir, Options{})
			defer closeStore(t, s)
			checkSchema7(t, s)
			if err := s.Compact(t.Context()); err != nil {
				t.Fatal(err)
			}
			checkSchema7(t, s)
		})
	}
}

func checkSchema7(t *testing.T, s *Store) {
	ctx := t.Context()
	pump, err := s.Load(ctx, "pump-1")
	if err != nil {
		t.Fatal(err)
	}
	if pump.Type != "pump" || len(pump.Attributes) != 2 || len(pump.Latest) != 2 || len(pump.Commands) != 1 || pump.Commands[0].Name != "open" {
		t.Errorf("%+v", pump)
	}
	if pump.Presence != (entity.Presence{}) {
		t.Errorf("what had no presence has %+v", pump.Presence)
	}
	for _, l := range pump.Latest {
		if l.Key == "t" && (l.TS != 1_700_000_009_000 || l.Value != value.Int(9)) {
			t.Errorf("the latest value is %+v", l)
		}
	}
	points, err := s.History(ctx, "pump-1", "t", entity.Place{}, entity.Place{TS: entity.MaxTS}, 100, false)
	if err != nil || len(points) != 10 || points[3].Value != value.Int(3) {
		t.Errorf("history %v, %v", points, err)
	}
	relations, err := s.Relations(ctx, entity.Relation{}, 10)
	if err != nil || len(relations) != 1 || relations[0].To != "hall-1" {
		t.Errorf("relations %v, %v", relations, err)
	}
	if doc, err := s.Doc(ctx, "note", "one"); err != nil || string(doc.Body) != `{"text":"kept"}` {
		t.Errorf("document %s, %v", doc.Body, err)
	}
	changes, err := s.Changes(ctx, 0, 100)
	if err != nil || len(changes) != 14 || changes[13].Command == nil {
		t.Errorf("%d changes, %v", len(changes), err)
	}
	// What came since is there, too.
	item := []entity.Item{{Kind: "test", Key: "one", Body: []byte("kept")}}
	if err := s.PutItems(ctx, item); err != nil {
		t.Fatal(err)
	}
	if list, err := s.Items(ctx, entity.ItemsQuery{Kind: "test", Limit: 10}); err != nil || len(list) != 1 {
		t.Errorf("items %v, %v", list, err)
	}
	if list, err := s.Online(ctx, "", 10); err != nil || len(list) != 0 {
		t.Errorf("online %v, %v", list, err)
	}
}
