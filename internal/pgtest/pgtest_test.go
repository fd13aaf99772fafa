package pgtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func query(t *testing.T, url, sql string) (answer string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if err := conn.QueryRow(t.Context(), sql).Scan(&answer); err != nil {
		t.Fatal(err)
	}
	return answer
}

func TestEachTestHasADatabaseOfItsOwnOnADurableServer(t *testing.T) {
	a, b := Database(t), Database(t)
	if a == b {
		t.Errorf("both are %s", a)
	}
	for setting, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "server_encoding": "UTF8", "listen_addresses": ""} {
		if got := query(t, a, "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	if got := query(t, b, "SELECT count(*)::text FROM pg_tables WHERE schemaname = 'public'"); got != "0" {
		t.Errorf("a new database has %s tables", got)
	}
}

func TestServerThatCrashedRecoversWhatWasCommitted(t *testing.T) {
	s := Start(t)
	url := s.Database(t)
	if got := query(t, url, "WITH made AS (SELECT 1) SELECT 'ready' FROM made"); got != "ready" {
		t.Fatal(got)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'yes' AS here"); err != nil {
		t.Fatal(err)
	}
	if err := s.Crash(); err != nil {
		t.Fatal(err)
	}
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the server answers after its crash")
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	if got := query(t, url, "SELECT here FROM kept"); got != "yes" {
		t.Errorf("kept %q", got)
	}
	if !strings.Contains(s.lastLog(), "not properly shut down") {
		t.Errorf("it did not recover:\n%s", s.lastLog())
	}
}

// The process that is started here is this test binary: it starts a server and
// dies without a word.
func TestServerAndItsDirectoryGoWithTheTestBinary(t *testing.T) {
	if os.Getenv("GREENROOM_TEST_DIE") != "" {
		s, err := shared()
		fail(t, err)
		os.Stdout.WriteString("dir=" + s.dir + "\n")
		os.Exit(0) // no cleanup runs
	}
	Database(t) // or the test is skipped
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "GREENROOM_TEST_DIE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, dir, _ := strings.Cut(string(out), "dir=")
	dir = strings.TrimSpace(dir)
	if !strings.HasPrefix(filepath.Base(dir), "greenroom-pg-") {
		t.Fatalf("the other binary says %s", out)
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); ; <-tick.C {
		if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is still there", dir)
		}
	}
}

func TestBinariesAreSaidToBeMissingWhereTheVariableIsWrong(t *testing.T) {
	t.Setenv(binVariable, t.TempDir())
	if _, err := findBinaries(); err == nil || !strings.Contains(err.Error(), binVariable) {
		t.Errorf("find: %v", err)
	}
}

func TestNewestInstallIsTaken(t *testing.T) {
	for dir, want := range map[string]int{"/usr/lib/postgresql/15/bin": 15, "/usr/pgsql-9/bin": 9, "/usr/local/bin": 0} {
		if got := major(dir); got != want {
			t.Errorf("%s: %d, want %d", dir, got, want)
		}
	}
}
