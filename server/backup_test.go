package server

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestBackupOfARunningServerIsRestored(t *testing.T) {
	t.Parallel()
	if pgtest.OnPostgres() {
		t.Skip("PostgreSQL has its own tools for this")
	}
	dir := t.TempDir()
	s := start(t, dir)
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"room","attributes":{"floor":3}}`)
	s.send(201, "PUT", "/v1/mappings/m", "text/plain", "insert into b select room.n * 2 as twice")
	for i := range 50 {
		s.post("room", fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, i, i))
	}
	// It goes on meanwhile.
	stop, writing := make(chan struct{}), sync.WaitGroup{}
	writing.Go(func() {
		for i := 50; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.post("room", fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, i, i))
			}
		}
	})
	file := filepath.Join(t.TempDir(), "copy.db")
	info, err := Backup(t.Context(), dir, file)
	if err != nil || info.Identity == "" || info.Entities != 2 || info.LastChange < 51 || time.Since(info.Copied) > time.Hour {
		t.Errorf("copied %+v, %v", info, err)
	}
	close(stop)
	writing.Wait()
	if _, err := Backup(t.Context(), dir, file); !errors.Is(err, ErrBackup) {
		t.Errorf("over a file that exists: %v", err)
	}
	if _, err := Restore(t.Context(), file, dir); !errors.Is(err, ErrBackup) {
		t.Errorf("over a store that exists: %v", err)
	}
	restored := t.TempDir()
	if err := os.WriteFile(filepath.Join(restored, "greenroom.open"), nil, 0o600); err != nil { // of a store that was lost
		t.Fatal(err)
	}
	if again, err := Restore(t.Context(), file, restored); err != nil || again != info {
		t.Fatalf("restored %+v, %v; the backup is of %+v", again, err, info)
	}
	third, err := Backup(t.Context(), restored, filepath.Join(t.TempDir(), "copy.db"))
	if err != nil || third.Identity == info.Identity || third.LastChange != info.LastChange {
		t.Errorf("the restored store is %+v, %v; want another identity than %+v", third, err, info)
	}
	r := start(t, restored)
	same(t, "attributes", r.document("/v1/entities/room/attributes/attributes"), `{"floor":3}`)
	var page struct{ Points []struct{ TS, Value int } }
	r.get("/v1/entities/room/telemetry/n?limit=100000", &page)
	if len(page.Points) < 50 {
		t.Errorf("%d readings", len(page.Points))
	}
	for i, p := range page.Points {
		if p.TS != i || p.Value != i {
			t.Errorf("reading %d is %+v", i, p)
		}
	}
	for _, query := range []string{ // of what is in the copy, whatever was written meanwhile
		"agg=avg,p50,count,rate&step=7ms&from=0&to=50", "points=10&from=0&to=49", "agg=last&step=30ms&from=10&to=50&fill=previous",
	} {
		var before, after map[string]any
		s.get("/v1/entities/room/telemetry/n?"+query, &before)
		r.get("/v1/entities/room/telemetry/n?"+query, &after)
		if len(before) == 0 || !reflect.DeepEqual(before, after) {
			t.Errorf("%s is %v on the restored store, and %v on that of the backup", query, after, before)
		}
	}
	var found struct{ Entities []struct{ ID string } }
	r.get("/v1/entities?q="+url.QueryEscape("attributes.floor = 3"), &found)
	if len(found.Entities) != 1 || found.Entities[0].ID != "room" {
		t.Errorf("a search finds %v, want the room", found.Entities)
	}
	// A stream that had seen more than the copy has is told that it cannot go on here.
	ahead := s.open("/v1/stream")
	s.post("room", `{"ts":2000000,"values":{"n":5}}`)
	ahead.mustBe("change", `{"n":5}`)
	for range 20 { // more changes than the first store has
		r.post("other", `{"n":1}`)
	}
	resumed := r.open("/v1/stream", "Last-Event-ID", ahead.id)
	resumed.mustBe("reset", "the backup that this one was restored from")

	r.post("room", `{"ts":1000000,"values":{"n":4}}`)
	if err := r.mappings.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	same(t, "the mapping goes on", r.latest("b"), "map[twice:8]")
}

func TestWhatIsNoBackupIsNotRestored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "nonsense")
	if err := os.WriteFile(file, []byte("this is no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, failed := range []func() (BackupInfo, error){
		func() (BackupInfo, error) { return Restore(t.Context(), file, filepath.Join(dir, "a")) },
		func() (BackupInfo, error) {
			return Restore(t.Context(), filepath.Join(dir, "missing"), filepath.Join(dir, "b"))
		},
		func() (BackupInfo, error) { return Restore(t.Context(), file, "postgres://localhost/x") },
		func() (BackupInfo, error) {
			return Backup(t.Context(), filepath.Join(dir, "c"), filepath.Join(dir, "copy"))
		},
		func() (BackupInfo, error) {
			return Backup(t.Context(), "postgres://localhost/x", filepath.Join(dir, "copy"))
		},
	} {
		if _, err := failed(); !errors.Is(err, ErrBackup) {
			t.Errorf("the error is %v", err)
		}
	}
}

// What backup and restore say about PostgreSQL is run as it stands.
func TestBackupSaysWhatPostgreSQLDoes(t *testing.T) {
	t.Parallel()
	if pgtest.OnPostgres() {
		t.Skip("it is about PostgreSQL on either")
	}
	pg := pgtest.Start(t)
	address := pg.Database(t) + "&pool_max_conns=4&search_path=plant"
	s, err := New(t.Context(), Config{Store: address, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, s, &logBuffer{})
	r.post("room", `{"ts":1000,"values":{"n":7}}`)
	file := filepath.Join(t.TempDir(), "joe's copy")
	other := pg.Database(t) + "&search_path=plant"
	obey := func(_ BackupInfo, err error) {
		t.Helper()
		if !errors.Is(err, ErrBackup) {
			t.Fatalf("the error is %v", err)
		}
		_, line, _ := strings.Cut(err.Error(), "program: ")
		if _, rest, ok := strings.Cut(err.Error(), "runs on it: "); ok {
			line = rest
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
		cmd.Env = append(os.Environ(), "PATH="+pg.Programs()+string(os.PathListSeparator)+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	obey(Backup(t.Context(), address, file))
	obey(Restore(t.Context(), file, other))
	again, err := New(t.Context(), Config{Store: other, HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "what was copied", run(t, again, &logBuffer{}).latest("room"), "map[n:7]")

	_, secret := Backup(t.Context(), "postgres://joe:s3cret@host/d?sslmode=disable", "a b.db")
	if want := "pg_dump --format=custom --schema=greenroom --file='a b.db' --dbname='postgres://joe@host/d?sslmode=disable'"; !strings.HasSuffix(secret.Error(), want) {
		t.Errorf("it says %v, want %s", secret, want)
	}
}
