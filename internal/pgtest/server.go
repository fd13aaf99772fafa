package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds what the server is waited for.
const patience = time.Minute

// superuser is the name of the role that the tests connect as.
const superuser = "greenroom"

// Server is a PostgreSQL server in a directory of its own. Its methods are safe
// for concurrent use where they say so.
type Server struct {
	bin, dir  string
	as        account
	databases atomic.Int64
	watchdog  *os.File // the server ends when this is closed
}

// shared is the server of the whole test binary.
var shared = sync.OnceValues(func() (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, skip{err}
	}
	return newServer(bin)
})

// skip is an error for which a test is skipped.
type skip struct{ error }

// Database returns the URL of an empty database of the test's own, which goes
// with the test binary. The server is started with the first call. It is safe for
// concurrent use.
func Database(tb testing.TB) string {
	tb.Helper()
	s, err := shared()
	fail(tb, err)
	return s.Database(tb)
}

// Start returns a running server of the test's own, which ends with the test.
func Start(tb testing.TB) *Server {
	tb.Helper()
	bin, err := findBinaries()
	if err != nil {
		fail(tb, skip{err})
	}
	s, err := newServer(bin)
	fail(tb, err)
	tb.Cleanup(func() {
		if err := s.ctl("stop", "-m", "immediate"); err != nil {
			tb.Logf("stop PostgreSQL: %v", err) // crashed and not started again
		}
		_ = s.watchdog.Close() // which removes the directory
	})
	return s
}

func fail(tb testing.TB, err error) {
	tb.Helper()
	if reason, ok := err.(skip); ok { //nolint:errorlint // it is never wrapped
		tb.Skipf("NOT TESTED with PostgreSQL: %v", reason.error)
	}
	if err != nil {
		tb.Fatalf("start PostgreSQL: %v", err)
	}
}

// newServer makes a server and starts it.
func newServer(bin string) (_ *Server, err error) {
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	// Not the directory of a test: the path of a socket has a hundred bytes.
	dir, err := os.MkdirTemp("", "greenroom-pg-")
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, as: as}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(dir) // the error that led here says more
		}
	}()
	if err := as.own(dir); err != nil {
		return nil, err
	}
	// Unsynced, for what initdb writes is not worth it; the server itself syncs.
	if err := s.command("initdb", "-D", s.data(), "-U", superuser, "-A", "trust", "-E", "UTF8", "--locale=C", "-N", "--no-instructions"); err != nil {
		return nil, err
	}
	if err := s.Restart(); err != nil {
		return nil, err
	}
	s.watchdog, err = s.watch()
	return s, err
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }
func (s *Server) log() string  { return filepath.Join(s.dir, "log") }

// command runs a program of PostgreSQL as its user.
func (s *Server) command(name string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, name), args...)
	cmd.Dir = s.dir // the user may not be allowed to where the test is
	s.as.apply(cmd)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s\n%s", name, err, out, s.lastLog())
	}
	return nil
}

func (s *Server) ctl(action string, args ...string) error {
	return s.command("pg_ctl", append([]string{action, "-D", s.data(), "-l", s.log(), "-w", "-t", fmt.Sprint(int(patience.Seconds()))}, args...)...)
}

// lastLog is the end of the server's log.
func (s *Server) lastLog() string {
	text, _ := os.ReadFile(s.log()) // there is none before the first start
	return string(text[max(0, len(text)-4000):])
}

// Restart starts a server that was stopped or has crashed, and waits until it
// answers.
func (s *Server) Restart() error {
	return s.ctl("start", "-o", fmt.Sprintf("-c listen_addresses='' -c unix_socket_directories='%s'", s.dir))
}

// Stop shuts the server down; connections are broken off.
func (s *Server) Stop() error { return s.ctl("stop", "-m", "fast") }

// Crash kills the server and all its processes, as a loss of power would, but
// for what the operating system has not written yet. Restart then recovers.
func (s *Server) Crash() error {
	text, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		return err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	var pid int
	if _, err := fmt.Sscan(first, &pid); err != nil || pid <= 1 {
		return fmt.Errorf("postmaster.pid: %q is no process", first)
	}
	if err := killAll(pid); err != nil {
		return err
	}
	// A process that nobody has waited for would look like a running server.
	return errors.Join(os.Remove(filepath.Join(s.data(), "postmaster.pid")), os.Remove(s.Socket()+".lock"))
}

// Programs returns the directory of createdb, psql and the like.
func (s *Server) Programs() string { return s.bin }

// Socket returns the path of the unix socket.
func (s *Server) Socket() string { return socketIn(s.dir) }

func socketIn(dir string) string { return filepath.Join(dir, ".s.PGSQL.5432") }

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + database, RawQuery: url.Values{"host": {s.dir}}.Encode()}
	return u.String()
}

// Database returns the URL of an empty database of the test's own. It goes with the
// server: dropping it would cost a checkpoint. It is safe for concurrent use.
func (s *Server) Database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test%d", s.databases.Add(1))
	if err := s.Exec("CREATE DATABASE " + name); err != nil {
		tb.Fatalf("make a database: %v", err)
	}
	return s.URL(name)
}

// DumpAndRestore returns the URL of another database that has what this one has, by
// pg_dump and psql, as an administrator would copy it.
func (s *Server) DumpAndRestore(tb testing.TB, address string) string {
	tb.Helper()
	from, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	restored := s.Database(tb)
	to, err := url.Parse(restored)
	if err != nil {
		tb.Fatal(err)
	}
	name := strings.Trim(from.Path, "/")
	file := filepath.Join(s.dir, name+".sql")
	if err := s.command("pg_dump", "-h", s.dir, "-U", superuser, "-f", file, name); err != nil {
		tb.Fatal(err)
	}
	if err := s.command("psql", "-h", s.dir, "-U", superuser, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, strings.Trim(to.Path, "/")); err != nil {
		tb.Fatal(err)
	}
	return restored
}

// AddUser makes a role that has to give its password, and gives it the right to
// make databases. The others need none.
func (s *Server) AddUser(name, password string) error {
	if err := s.Exec(fmt.Sprintf("CREATE ROLE %s LOGIN CREATEDB PASSWORD '%s'", pgx.Identifier{name}.Sanitize(), strings.ReplaceAll(password, "'", "''"))); err != nil {
		return err
	}
	file := filepath.Join(s.data(), "pg_hba.conf")
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := os.WriteFile(file, append([]byte("local all "+pgx.Identifier{name}.Sanitize()+" scram-sha-256\n"), old...), 0o600); err != nil {
		return err
	}
	return s.Exec("SELECT pg_reload_conf()")
}

// Exec runs a statement as the superuser, in no test's database. It is safe for
// concurrent use.
func (s *Server) Exec(sql string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return err
	}
	_, err = conn.Exec(ctx, sql)
	if closing := conn.Close(ctx); err == nil {
		err = closing
	}
	return err
}

// watch starts the shell that ends the server when the test binary has ended,
// and returns what the binary must hold open until then.
func (s *Server) watch() (*os.File, error) {
	read, write, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer read.Close()
	const script = `trap '' HUP INT QUIT TERM
read -r _
"$0" stop -D "$1/data" -m immediate -w >/dev/null 2>&1
rm -rf "$1"`
	//nolint:gosec,noctx // it outlives the test on purpose
	cmd := exec.Command("sh", "-c", script, filepath.Join(s.bin, "pg_ctl"), s.dir)
	cmd.Dir, cmd.Stdin = "/", read
	s.as.apply(cmd)
	if err := cmd.Start(); err != nil {
		_ = write.Close() // nobody reads from it
		return nil, err
	}
	go func() { _ = cmd.Wait() }() // it ends when the pipe is closed; nobody asks how
	return write, nil
}
