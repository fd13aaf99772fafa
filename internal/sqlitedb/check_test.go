package sqlitedb

import (
	"database/sql"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// crashed returns the files of a database as a crash leaves them: some pages are in the
// database only, others in its WAL only.
func crashed(t *testing.T) (db, wal []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "x.db")
	conn, err := sql.Open("sqlite", DSN(path, "immediate", "journal_mode(WAL)", "wal_autocheckpoint(0)"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetMaxOpenConns(1)
	for _, statement := range []string{
		"CREATE TABLE a (n INTEGER PRIMARY KEY, b BLOB)",
		"WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < 100) INSERT INTO a SELECT n, zeroblob(1000) FROM i",
		"PRAGMA wal_checkpoint(TRUNCATE)",
		"UPDATE a SET b = zeroblob(900) WHERE n < 3",
		"WITH RECURSIVE i(n) AS (SELECT 101 UNION ALL SELECT n + 1 FROM i WHERE n < 150) INSERT INTO a SELECT n, zeroblob(1000) FROM i",
	} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	if db, err = os.ReadFile(path); err == nil {
		wal, err = os.ReadFile(path + "-wal")
	}
	if err != nil || len(db) < 20*4096 || len(wal) < 10*4096 {
		t.Fatalf("%d and %d bytes, %v", len(db), len(wal), err)
	}
	return db, wal
}

func TestFilesOfWhichAPartIsMissingAreDamaged(t *testing.T) {
	t.Parallel()
	db, wal := crashed(t)
	flipped := append([]byte(nil), wal...)
	flipped[len(flipped)-100] ^= 1
	for name, tt := range map[string]struct {
		db, wal []byte // nil for a file that is missing
		damaged bool
		rows    int // that SQLite finds
	}{
		"both whole":                       {db, wal, false, 150},
		"half a database":                  {db[:len(db)/2], wal, true, 0},
		"a database without its last page": {db[:len(db)-4096], wal, true, 0},
		"a database without its last byte": {db[:len(db)-1], wal, true, 0},
		"half a database without a WAL":    {db[:len(db)/2], nil, true, 0},
		"an empty database":                {[]byte{}, wal, true, 0},
		"no database":                      {nil, wal, true, 0},
		"a WAL that a crash has torn":      {db, wal[:len(wal)-10], false, 100},
		"a WAL whose last commit is torn":  {db, flipped, false, 100},
		"a WAL that was never written":     {db, []byte{}, false, 100},
		"nothing":                          {nil, nil, false, 0},
		"an empty database alone":          {[]byte{}, nil, false, 0},
	} {
		path := filepath.Join(t.TempDir(), "x.db")
		for suffix, content := range map[string][]byte{"": tt.db, "-wal": tt.wal} {
			if content == nil {
				continue
			}
			if err := os.WriteFile(path+suffix, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := CheckFiles(path, Known{})
		if errors.Is(err, ErrDamaged) != tt.damaged || err != nil && !tt.damaged {
			t.Errorf("%s: %v; want damaged %v", name, err, tt.damaged)
		}
		if tt.rows == 0 {
			continue
		}
		conn, err := sql.Open("sqlite", DSN(path, "deferred"))
		if err != nil {
			t.Fatal(err)
		}
		var rows int
		if err := conn.QueryRowContext(t.Context(), "SELECT count(*) FROM a").Scan(&rows); err != nil || rows != tt.rows {
			t.Errorf("%s: SQLite finds %d rows, %v, want %d", name, rows, err, tt.rows)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A checkpoint that a crash has broken off leaves a database that lacks pages which its
// WAL has.
func TestPagesThatTheWALHasMayBeMissing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	conn, err := sql.Open("sqlite", DSN(path, "immediate", "journal_mode(WAL)", "wal_autocheckpoint(0)"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetMaxOpenConns(1)
	for _, statement := range []string{"CREATE TABLE a (b BLOB)", "INSERT INTO a VALUES (zeroblob(100000))"} {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "PRAGMA wal_checkpoint(FULL)"); err != nil {
		t.Fatal(err)
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(t.TempDir(), "half.db")
	for file, content := range map[string][]byte{half: db[:len(db)/2], half + "-wal": wal} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckFiles(half, Known{}); err != nil {
		t.Error(err)
	}
}

// SQLite never writes the page at 1 GiB: a database that has just grown beyond it has it
// neither in its file nor in its WAL.
func TestThePageOfTheLocksMayBeMissing(t *testing.T) {
	t.Parallel()
	db, _ := crashed(t)
	path := filepath.Join(t.TempDir(), "x.db")
	whole := binary.BigEndian.Uint32(db[28:])
	for _, page := range []uint32{1<<30/4096 + 1, 1<<30/4096 + 2} {
		// The file ends before that page, and the header says that it is the last.
		binary.BigEndian.PutUint32(db[28:], page)
		if err := os.WriteFile(path, db, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, 1<<30); err != nil { // sparse
			t.Fatal(err)
		}
		if err := CheckFiles(path, Known{}); errors.Is(err, ErrDamaged) != (page > 1<<30/4096+1) {
			t.Errorf("page %d is missing, of %d before: %v", page, whole, err)
		}
	}
}
