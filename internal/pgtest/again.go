package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// againVariable is set in a process that Again has started.
const againVariable = "GREENROOM_TEST_ON_POSTGRES"

// Again runs tests of this test binary once more, in a process of its own in which
// Address returns databases: tests that were written for any store run on
// PostgreSQL. Each of the names must be a test that passes or skips.
func Again(t *testing.T, names ...string) {
	t.Helper()
	if OnPostgres() {
		t.Skip("runs others, and is not to be run by itself")
	}
	if _, err := findBinaries(); err != nil {
		fail(t, skip{err})
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^("+strings.Join(names, "|")+")$")
	cmd.Env = append(os.Environ(), againVariable+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("on PostgreSQL: %v\n%s", err, out)
	}
	for _, name := range names {
		if !strings.Contains(string(out), "--- PASS: "+name+" (") && !strings.Contains(string(out), "--- SKIP: "+name+" (") {
			t.Errorf("%s did not run on PostgreSQL, or failed", name)
		}
	}
	if t.Failed() {
		t.Logf("%s", out)
	}
}

// OnPostgres reports whether this process was started by Again.
func OnPostgres() bool { return os.Getenv(againVariable) != "" }

var addresses struct {
	sync.Mutex
	database string
	of       map[string]string
}

// Address returns the URL of the store that takes the place of a directory: the same
// one for the same directory. Each is a schema, which its first user makes, of one
// database: a database costs five times as much. It returns "" in a process that Again
// has not started. It is safe for concurrent use.
func Address(tb testing.TB, dir string) string {
	tb.Helper()
	if !OnPostgres() {
		return ""
	}
	addresses.Lock()
	defer addresses.Unlock()
	if addresses.of == nil {
		addresses.of, addresses.database = make(map[string]string), Database(tb)
	}
	if addresses.of[dir] == "" {
		addresses.of[dir] = fmt.Sprintf("%s&search_path=test%d", addresses.database, len(addresses.of)+1)
	}
	return addresses.of[dir]
}
