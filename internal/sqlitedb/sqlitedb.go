// Package sqlitedb is what the stores on SQLite share: the lock of a directory, a look at the
// files of a database, the connection that writes with its inserts of many rows, and
// checkpoints.
package sqlitedb

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// DSN is the address of a database for the driver "sqlite", whose transactions begin as
// lock says: deferred, immediate or exclusive.
func DSN(path, lock string, pragmas ...string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/data
	}
	u := url.URL{Scheme: "file", Path: path} // a '?' or a '%' would mean something else
	q := url.Values{"_pragma": pragmas, "_txlock": {lock}}
	u.RawQuery = q.Encode()
	return u.String()
}

// Unlock ends a lock and closes its file.
func Unlock(f *os.File) error { return errors.Join(unlockFile(f), f.Close()) }

// Lock opens a file, and makes it if need be, with a lock that ends with the process,
// however it ends, or by Unlock. It returns nil if another process has it.
func Lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, err
	}
	if free, err := lockFile(f); err != nil || !free {
		_ = f.Close() // nothing was written to it
		return nil, err
	}
	return f, nil
}
