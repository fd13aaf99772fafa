package postgres

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestNewerAndForeignSchemasAreRefusedAndLeftAlone(t *testing.T) {
	url := pgtest.Database(t)
	closeStore(t, open(t, url, Options{}))
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "UPDATE greenroom.greenroom SET version = version + 1")
	before := pgtest.Ask[string](t, conn, "SELECT greenroom::text FROM greenroom.greenroom")
	if _, err := Open(t.Context(), url, Options{}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "newer greenroom") {
		t.Errorf("a newer schema: %v", err)
	}
	if after := pgtest.Ask[string](t, conn, "SELECT greenroom::text FROM greenroom.greenroom"); after != before {
		t.Errorf("it was changed from %s to %s", before, after)
	}
	pgtest.Exec(t, conn, "UPDATE greenroom.greenroom SET version = version - 1")
	closeStore(t, open(t, url, Options{}))

	pgtest.Exec(t, conn, "CREATE SCHEMA kitchen")
	pgtest.Exec(t, conn, "CREATE TABLE kitchen.recipes (name text)")
	if _, err := Open(t.Context(), url, Options{Schema: "kitchen"}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a schema of another program: %v", err)
	}
	if n := pgtest.Ask[int](t, conn, "SELECT count(*) FROM pg_tables WHERE schemaname = 'kitchen'"); n != 1 {
		t.Errorf("%d tables in the other program's schema", n)
	}
}

func TestStoresOfSeveralSchemasKeepApart(t *testing.T) {
	url := pgtest.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "CREATE SCHEMA prepared") // empty
	names := []string{"prepared", `we"ird schéma; DROP`, "public", DefaultSchema}
	for i, name := range names {
		s := open(t, url, Options{Schema: name})
		defer closeStore(t, s)
		commit(t, s, atTimes(1, int64(i)))
		if got := times(t, s, "a", "t"); len(got) != 1 || got[0] != int64(i) {
			t.Errorf("%s: the times are %v", name, got)
		}
	}
	s, err := Open(t.Context(), url+"&search_path=fifth", Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer closeStore(t, s)
	if s.opts.Schema != "fifth" || s.Info().Entities != 0 {
		t.Errorf("%s: %+v", s, s.Info())
	}
}

func TestRoleWithoutRightsIsToldSo(t *testing.T) {
	url := pgtest.Database(t)
	pgtest.Exec(t, pgtest.Connect(t, url), "REVOKE CREATE ON DATABASE "+strings.TrimPrefix(strings.Split(url, "?")[0], "postgres://greenroom@/")+" FROM PUBLIC")
	pgtest.Exec(t, pgtest.Connect(t, url), "DROP ROLE IF EXISTS guest")
	pgtest.Exec(t, pgtest.Connect(t, url), "CREATE ROLE guest LOGIN")
	_, err := Open(t.Context(), strings.Replace(url, "greenroom@", "guest@", 1), Options{})
	if err == nil || !strings.Contains(err.Error(), "permission denied for database") {
		t.Errorf("a role that may not make a schema: %v", err)
	}
}

func TestCommitsWaitForTheDisk(t *testing.T) {
	url := pgtest.Database(t)
	database := strings.TrimPrefix(strings.Split(url, "?")[0], "postgres://greenroom@/")
	for setting, want := range map[string]string{"off": "on", "local": "local", "remote_apply": "remote_apply"} {
		pgtest.Exec(t, pgtest.Connect(t, url), "ALTER DATABASE "+database+" SET synchronous_commit = "+setting)
		s := open(t, url, Options{})
		if got := pgtest.Ask[string](t, s.w.Conn, "SHOW synchronous_commit"); got != want {
			t.Errorf("synchronous_commit is %s where the database says %s, want %s", got, setting, want)
		}
		closeStore(t, s)
	}
}

func TestServerWithoutFsyncIsComplainedAbout(t *testing.T) {
	server := pgtest.Start(t)
	url := server.Database(t)
	if err := server.Exec("ALTER SYSTEM SET fsync = off"); err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	closeStore(t, open(t, url, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}))
	if !strings.Contains(log.String(), "fsync off") {
		t.Errorf("the log is %q", log.String())
	}
}

func TestDatabaseOfAnotherEncodingIsRefused(t *testing.T) {
	url := pgtest.Database(t)
	conn := pgtest.Connect(t, url)
	pgtest.Exec(t, conn, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")
	defer pgtest.Exec(t, conn, "DROP DATABASE latin")
	at := strings.Index(url, "?")
	_, err := Open(t.Context(), "postgres://greenroom@/latin"+url[at:], Options{})
	if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "LATIN1") {
		t.Errorf("open: %v", err)
	}
}
