package sqlite

import (
	"errors"
	"os"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestUsageCountsRowsAndBlocks(t *testing.T) {
	dir := t.TempDir()
	if _, err := ReadUsage(t.Context(), dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("of nothing: %v", err)
	}
	s := open(t, dir, Options{SealAfter: -1})
	defer closeStore(t, s)
	fill(t, s, 4000)
	if err := s.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	b := &entity.Batch{First: s.Info().LastChange + 1, Entities: []entity.BatchEntity{{ID: "b", Created: 1, Edited: true, Type: "pump", Revision: 1}}}
	b.Records = []entity.Record{
		{Edit: &entity.Edit{Revision: 1, Typed: true, Type: "pump"}},
		{Seq: 1, Reading: entity.Reading{TS: 1, Values: []entity.Sample{{Key: "t", Value: value.Int(1)}}}},
	}
	if err := errors.Join(s.Commit(t.Context(), b), moveAll(s)); err != nil {
		t.Fatal(err)
	}
	u, err := ReadUsage(t.Context(), dir) // while the store is open
	if err != nil {
		t.Fatal(err)
	}
	if u.Values != 8001 || u.Sealed != 8000 || u.Blocks != 2 || u.SealedBytes < 4000 || u.SealedBytes > 24_000 || u.File < u.SealedBytes || u.Log == 0 {
		t.Errorf("%+v", u)
	}
	if len(u.Keys) != 2 || u.Keys[0].Name != "t" || u.Keys[0].Values != 4001 || u.Keys[0].Sealed != 4000 || u.Keys[1].Values != 4000 {
		t.Errorf("keys %+v", u.Keys)
	}
	if len(u.Types) != 2 || u.Types[0].Name != "" || u.Types[0].Sealed != 8000 || u.Types[1].Name != "pump" || u.Types[1].Values != 1 {
		t.Errorf("types %+v", u.Types)
	}
}
