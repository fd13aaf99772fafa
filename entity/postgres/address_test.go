package postgres

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestRedactShowsNoPassword(t *testing.T) {
	for address, want := range map[string]string{
		"postgres://anna:s3cret@db:5432/x?sslmode=disable":   "postgres://anna@db:5432/x?sslmode=disable",
		"postgresql://anna:s3cret@db/x":                      "postgresql://anna@db/x",
		"postgres://db/x?user=anna&password=s3cret":          "postgres://db/x?user=anna",
		"postgres://db/x?sslpassword=s3cret&sslkey=k":        "postgres://db/x?sslkey=k",
		"postgres://db/x?pass%77ord=s3cret":                  "postgres://db/x",
		"postgres://db/x#s3cret":                             "postgres://db/x",
		"postgres://anna@db/x":                               "postgres://anna@db/x",
		"postgres://anna:s3cret@d b:x/":                      "postgres://…",
		"postgres://anna:s3/cret@db/x":                       "postgres://…",
		"postgres://anna:s3cret%zz@db/x":                     "postgres://…",
		"postgres://db/x?password=s3cret;%zz":                "postgres://…",
		"host=db user=anna password=s3cret":                  "postgres://…",
		"mysql://anna:s3cret@db/x":                           "postgres://…",
		"postgres://anna:s3cret@[::1/x":                      "postgres://…",
		"postgres://anna:s3cret@db:5432/x?search_path=plant": "postgres://anna@db:5432/x?search_path=plant",
	} {
		if got := Redact(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestBrokenAddressesAreRefusedWithoutTheirPassword(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for _, tt := range []struct{ address, says string }{
		{"postgres://anna:s3cret@db:port/x", "percent-encoded"},
		{"postgres://anna:s3/cret@db/x", "percent-encoded"},
		{"postgres://anna:s3cret%zz@db/x", "percent-encoded"},
		{"postgres://anna:s3cret@db/x?sslmode=sometimes", "percent-encoded"},
		{"postgres://db/x?sslmode=sometimes", "sslmode"},
		{"postgres://db/x?pool_max_conns=none", "none"},
		{"postgres://anna:s3cret@db/x?search_path=a,b", "one schema"},
		{"postgres://anna:s3cret@db/x?search_path=%22$user%22,public", "one schema"},
		{"postgres://anna:s3cret@db/x?search_path=pg_catalog", "belongs to PostgreSQL"},
		{"postgres://anna:s3cret@db/x?search_path=" + strings.Repeat("x", 64), "63 bytes"},
	} {
		_, err := Open(ctx, tt.address, Options{})
		if !errors.Is(err, ErrAddress) || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "s3") || strings.Contains(err.Error(), "cret") {
			t.Errorf("%s: %v, want %q", tt.address, err, tt.says)
		}
	}
}

func TestPasswordsAreNeitherInErrorsNorInTheLogNorOnTheScreen(t *testing.T) {
	const secret = "s3cret&/?"
	server := pgtest.Start(t)
	if err := server.AddUser("anna", secret); err != nil {
		t.Fatal(err)
	}
	direct, err := url.Parse(server.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Exec("ALTER DATABASE " + strings.Trim(direct.Path, "/") + " OWNER TO anna"); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), LockWait: 50 * time.Millisecond}
	direct.User = url.UserPassword("anna", secret)
	s := open(t, direct.String(), opts)
	defer closeStore(t, s)
	commit(t, s, atTimes(1, 1))
	texts := []string{s.String()}
	fails := func(address string, opts Options) {
		t.Helper()
		_, err := Open(t.Context(), address, opts)
		if err == nil {
			t.Fatalf("%s was opened", address)
		}
		texts = append(texts, err.Error())
	}
	fails(direct.String(), opts) // in use
	direct.User = url.UserPassword("anna", secret+"no")
	fails(direct.String(), opts)
	direct.User = url.UserPassword("anna", secret)
	nobody := *direct
	nobody.RawQuery = "host=127.0.0.1&port=1"
	fails(nobody.String(), opts)
	nobody = *direct
	nobody.Path = "/nothing"
	fails(nobody.String(), opts)
	if err := server.Crash(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		err := s.Commit(t.Context(), atTimes(2, 2))
		if err == nil {
			t.Fatal("committed without a server")
		}
		texts = append(texts, err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = s.Load(ctx, "a")
	if err == nil {
		t.Fatal("loaded without a server")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	for _, text := range append(texts, err.Error(), log.String()) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it says the password: %s", text)
		}
	}
	if !strings.Contains(s.String(), "anna@") {
		t.Errorf("the name is %s", s)
	}
}
