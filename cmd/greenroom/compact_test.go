package main

import (
	"os"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
)

func TestCompactMakesAStoreSmallerAndInfoSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	b := &entity.Batch{First: 1, Entities: []entity.BatchEntity{{ID: "room", Created: 1}}}
	const n = 3000
	for i := range int64(n) {
		b.Records = append(b.Records, entity.Record{Seq: uint64(i + 1), Reading: entity.Reading{TS: i * 1000, Values: []entity.Sample{{Key: "temperature", Value: value.Float(float64(i%90) / 4)}}}})
	}
	if err := s.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if out, _ := command(t, 0, "info", "--data", dir); !strings.Contains(out, "temperature") || !strings.Contains(out, "3000") || !strings.Contains(out, "0 in 0 blocks") {
		t.Errorf("info before:\n%s", out)
	}
	size := func() int64 {
		info, err := os.Stat(dir + "/greenroom.db")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	if out, _ := command(t, 0, "compact", "--data", dir); !strings.Contains(out, "0 sealed") || !strings.Contains(out, "3000 sealed") {
		t.Errorf("compact:\n%s", out)
	}
	if after := size(); after >= before {
		t.Errorf("the file has %d bytes, and had %d", after, before)
	}
	if out, _ := command(t, 0, "info", "--data", dir); !strings.Contains(out, "3000 in 1 blocks") {
		t.Errorf("info after:\n%s", out)
	}
	for _, name := range []string{"info", "compact"} {
		if _, out := command(t, exitFailed, name, "--data", t.TempDir()); !strings.Contains(out, "no such file") {
			t.Errorf("%s of nothing:\n%s", name, out)
		}
	}
}
