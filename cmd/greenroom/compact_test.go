package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestCompactMakesAStoreSmallerAndInfoSaysSo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	commitTemperatures(t, s)
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

// commitTemperatures commits 3000 values and closes the store.
func commitTemperatures(t *testing.T, s entity.Store) {
	t.Helper()
	b := &entity.Batch{First: 1, Entities: []entity.BatchEntity{{ID: "room", Created: 1}}}
	for i := range int64(3000) {
		b.Records = append(b.Records, entity.Record{Seq: uint64(i + 1), Reading: entity.Reading{TS: i * 1000, Values: []entity.Sample{{Key: "temperature", Value: value.Float(float64(i%90) / 4)}}}})
	}
	if err := errors.Join(s.Commit(t.Context(), b), s.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestCompactAndInfoOfAStoreInPostgreSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.Database(t)
	if _, out := command(t, exitFailed, "info", "--store", url); !strings.Contains(out, "there is no store") {
		t.Errorf("info of nothing:\n%s", out)
	}
	s, err := postgres.Open(t.Context(), url, postgres.Options{SealAfter: -1})
	if err != nil {
		t.Fatal(err)
	}
	commitTemperatures(t, s)
	if out, _ := command(t, 0, "info", "--store", url); !strings.Contains(out, "temperature") || !strings.Contains(out, "3000") || !strings.Contains(out, "0 in 0 blocks") {
		t.Errorf("info before:\n%s", out)
	}
	if out, _ := command(t, 0, "compact", "--store", url); !strings.Contains(out, "0 sealed") || !strings.Contains(out, "3000 sealed") {
		t.Errorf("compact:\n%s", out)
	}
	if out, _ := command(t, 0, "info", "--store", url); !strings.Contains(out, "3000 in 1 blocks") {
		t.Errorf("info after:\n%s", out)
	}
	if _, out := command(t, exitUsage, "info", "--store", url, "--data", "x"); !strings.Contains(out, "only one of") {
		t.Errorf("info of two stores:\n%s", out)
	}
	if _, out := command(t, exitUsage, "compact", "--store", "x"); !strings.Contains(out, "--store must be") {
		t.Errorf("compact of a file:\n%s", out)
	}
}
