package server

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/entity/sqlite"
)

// databaseFile is the name of a SQLite store's file.
const databaseFile = "greenroom.db"

// BackupInfo describes a backup.
type BackupInfo struct {
	Identity   string    // of the store, see entity.StoreInfo
	Entities   int64     // the number of entities
	LastChange uint64    // the sequence of its newest change
	Copied     time.Time // when it was made; zero if the file does not say
}

// String returns a phrase for messages.
func (i BackupInfo) String() string {
	text := fmt.Sprintf("store %s with %d entities, up to change %d", i.Identity, i.Entities, i.LastChange)
	if !i.Copied.IsZero() {
		text += ", copied at " + i.Copied.UTC().Format(time.RFC3339)
	}
	return text
}

// Backup writes a consistent copy of the store at an address (see Config.Store) to a file, which
// must not exist. A server may use the store meanwhile. The copy contains everything that the
// server had acknowledged when Backup was called, and later changes up to some moment. It is one
// file, which is synced and checked after it was written.
//
// Backup supports only SQLite stores; for PostgreSQL the error says how to use its own tools.
func Backup(ctx context.Context, store, to string) (info BackupInfo, err error) {
	a, err := parseStore(store)
	switch {
	case err != nil:
		return info, err
	case a.dir == "":
		return info, postgresBackup(a.url, "%s is copied by PostgreSQL's own program, also while a server runs on it: pg_dump --format=custom --schema=%s --file=%s --dbname=%s", to)
	}
	from := filepath.Join(a.dir, databaseFile)
	if _, err := os.Stat(from); err != nil {
		return info, fmt.Errorf("%w: %s has no store: %w", ErrBackup, a.dir, err)
	}
	if _, err := os.Lstat(to); err == nil {
		return info, fmt.Errorf("%w: the file must not exist yet, but %s does", ErrBackup, to)
	}
	part := to + ".part"
	if err := os.Remove(part); err != nil && !errors.Is(err, os.ErrNotExist) {
		return info, fmt.Errorf("backup: %w", err)
	}
	defer func() { _ = os.Remove(part) }() // it has been renamed if all went well
	if err := sqlite.Copy(ctx, a.dir, part); err != nil {
		return info, err
	}
	if err := execSQLite(ctx, part, "INSERT OR REPLACE INTO meta (name, value) VALUES ('copied', ?)", strconv.FormatInt(time.Now().UnixMilli(), 10)); err != nil {
		return info, fmt.Errorf("note in %s what it is of: %w", part, err)
	}
	if info, err = inspectBackup(ctx, part); err != nil {
		return info, err
	}
	return info, settleFile(part, to)
}

// Restore copies a backup to the directory of a store, which must not exist, and opens it once to
// check it. No server may use the directory. The restored store differs from the one that was
// backed up: it has its own identity, so that cursors for changes that the backup does not contain
// are not accepted.
func Restore(ctx context.Context, from, store string) (info BackupInfo, err error) {
	a, err := parseStore(store)
	switch {
	case err != nil:
		return info, err
	case a.dir == "":
		return info, postgresBackup(a.url, "a copy by pg_dump is restored to %s, which must have no schema %s yet, by PostgreSQL's own program: pg_restore --exit-on-error %s --dbname=%s", from)
	}
	to := filepath.Join(a.dir, databaseFile)
	for _, companion := range []string{"", "-wal", "-journal"} { // SQLite would apply them to the backup
		if _, err := os.Lstat(to + companion); err == nil {
			return info, fmt.Errorf("%w: the directory must be new or empty, but %s has a store, or a part of one", ErrBackup, a.dir)
		}
	}
	if info, err = inspectBackup(ctx, from); err != nil {
		return info, err
	}
	if err := os.MkdirAll(a.dir, 0o750); err != nil {
		return info, fmt.Errorf("restore: %w", err)
	}
	part := to + ".part"
	if err := copyFile(from, part); err != nil {
		return info, fmt.Errorf("restore: %w", err)
	}
	if err := execSQLite(ctx, part, "UPDATE meta SET value = ? WHERE name = 'identity'", rand.Text()); err != nil {
		return info, fmt.Errorf("%w: %s is no backup of a store: %w", ErrBackup, from, errors.Join(err, os.Remove(part)))
	}
	if err := execSQLite(ctx, part, "DELETE FROM meta WHERE name = 'copied'"); err != nil {
		return info, fmt.Errorf("restore: %w", err)
	}
	if err := sqlite.Unmark(a.dir); err != nil { // the mark of a store whose other files are gone
		return info, fmt.Errorf("restore: %w", err)
	}
	if err := settleFile(part, to); err != nil {
		return info, err
	}
	s, err := sqlite.Open(ctx, a.dir, sqlite.Options{})
	if err != nil {
		return info, fmt.Errorf("%w: %s is no backup of a store: %w", ErrBackup, from, errors.Join(err, os.Remove(to)))
	}
	return info, s.Close()
}

// postgresBackup returns an error that says how to use PostgreSQL's tools: with the name of the
// store, its schema, the file and the address, quoted for a shell.
func postgresBackup(address, format, file string) error {
	dbname, schema, err := postgres.Tools(address)
	if err != nil {
		return err
	}
	return fmt.Errorf("%w: "+format, ErrBackup, StoreName(address), shellWord(schema), shellWord(file), shellWord(dbname))
}

// shellWord quotes a string that a POSIX shell would not accept as one word.
func shellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("_-./:@", r)
	}
	if s != "" && strings.TrimFunc(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// openSQLite opens a database file for one statement.
func openSQLite(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if path = filepath.ToSlash(path); path[0] != '/' {
		path = "/" + path
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"mode": {"rw"}, "_pragma": {"busy_timeout(10000)"}}.Encode()}
	return sql.Open("sqlite", u.String())
}

func execSQLite(ctx context.Context, path, statement string, args ...any) error {
	db, err := openSQLite(path)
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, statement, args...)
	return errors.Join(err, db.Close())
}

// inspectBackup returns a description of the backup in a file, and checks the file.
func inspectBackup(ctx context.Context, path string) (info BackupInfo, err error) {
	if err := checkSQLite(ctx, path); err != nil {
		return info, err
	}
	db, err := openSQLite(path)
	if err != nil {
		return info, err
	}
	var copied sql.NullInt64
	err = db.QueryRowContext(ctx, `SELECT (SELECT value FROM meta WHERE name = 'identity'), (SELECT count(*) FROM entity),
		coalesce((SELECT first + n - 1 FROM change ORDER BY first DESC LIMIT 1), 0), (SELECT value FROM meta WHERE name = 'copied')`).
		Scan(&info.Identity, &info.Entities, &info.LastChange, &copied)
	if err = errors.Join(err, db.Close()); err != nil {
		return info, fmt.Errorf("%w: %s is no backup of a store: %w", ErrBackup, path, err)
	}
	if copied.Valid {
		info.Copied = time.UnixMilli(copied.Int64)
	}
	return info, nil
}

// checkSQLite checks that a file is a sound database.
func checkSQLite(ctx context.Context, path string) error {
	db, err := openSQLite(path)
	if err != nil {
		return err
	}
	var found string
	err = db.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&found)
	if err = errors.Join(err, db.Close()); err == nil && found != "ok" {
		err = errors.New(found)
	}
	if err != nil {
		return fmt.Errorf("%w: %s is not sound: %w", ErrBackup, path, err)
	}
	return nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o640)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// settleFile renames a file durably.
func settleFile(part, to string) error {
	sync := func(path string) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	}
	if err := sync(part); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := os.Rename(part, to); err != nil {
		return fmt.Errorf("backup: %w", err)
	}
	if err := sync(filepath.Dir(to)); err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("backup: %w", err)
	}
	return nil
}
