package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// binVariable names the directory of initdb and pg_ctl, where they are not found
// otherwise.
const binVariable = "GREENROOM_POSTGRES_BIN"

// installs are where the packages of the systems put initdb and pg_ctl, which
// few of them have in the path: Debian and Ubuntu, Red Hat, Homebrew on both
// kinds of Mac, FreeBSD.
var installs = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/opt/homebrew/opt/postgresql@*/bin",
	"/usr/local/opt/postgresql@*/bin",
	"/usr/local/bin",
}

// findBinaries returns the directory of initdb and pg_ctl, the newest one where
// there are several.
func findBinaries() (string, error) {
	if runtime.GOOS == "windows" {
		return "", fmt.Errorf("these tests start PostgreSQL on a unix system only")
	}
	if dir := os.Getenv(binVariable); dir != "" {
		if !complete(dir) {
			return "", fmt.Errorf("%s is %s, which has not initdb, pg_ctl, pg_dump and psql", binVariable, dir)
		}
		return dir, nil
	}
	if initdb, err := exec.LookPath("initdb"); err == nil {
		// The programs are beside each other where they really are.
		if initdb, err = filepath.EvalSymlinks(initdb); err == nil && complete(filepath.Dir(initdb)) {
			return filepath.Dir(initdb), nil
		}
	}
	var found []string
	for _, pattern := range installs {
		dirs, err := filepath.Glob(pattern)
		if err != nil {
			return "", err
		}
		for _, dir := range dirs {
			if complete(dir) {
				found = append(found, dir)
			}
		}
	}
	if len(found) == 0 {
		return "", fmt.Errorf("initdb and pg_ctl are not installed; `make setup` installs them on Debian and Ubuntu, and %s names their directory elsewhere", binVariable)
	}
	return slices.MaxFunc(found, func(a, b string) int { return major(a) - major(b) }), nil
}

func complete(dir string) bool {
	for _, name := range []string{"initdb", "pg_ctl", "pg_dump", "psql"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.IsDir() {
			return false
		}
	}
	return true
}

// major is the last number in a path such as /usr/lib/postgresql/15/bin, 0 for
// none.
func major(dir string) int {
	digits := strings.FieldsFunc(dir, func(r rune) bool { return r < '0' || r > '9' })
	if len(digits) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(digits[len(digits)-1]) // digits only; too many of them sort first
	return n
}
