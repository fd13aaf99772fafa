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
	"github.com/greenroom-go/greenroom/persist"
)

func TestBrokenAddressesAreRefusedWithoutTheirPassword(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"postgres://anna:s3cret@db:port/x", "postgres://anna:s3cret%zz@db/x", "postgres://anna:s3cret@db/x?search_path=a,b"} {
		_, err := Open(t.Context(), address, Options{})
		if !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestSchemasOfOthersAndOfNewerVersionsAreRefused(t *testing.T) {
	t.Parallel()
	address := pgtest.Database(t)
	conn := admin(t, address)
	exec(t, conn, "CREATE SCHEMA kitchen")
	exec(t, conn, "CREATE TABLE kitchen.recipes (name text)")
	if _, err := Open(t.Context(), address, Options{Schema: "kitchen"}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "another program") {
		t.Errorf("a schema of another program: %v", err)
	}
	one := open(t, address, Options{Schema: "one"})
	two := open(t, address+"&search_path=two", Options{})
	b := &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}}
	if err := one.Commit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if len(events(t, two, "a")) > 0 || !strings.HasSuffix(two.String(), "schema two") || one.Info() == two.Info() {
		t.Errorf("%s and %s are one journal", one, two)
	}
	exec(t, conn, "UPDATE two.journal SET version = version + 1")
	if _, err := Open(t.Context(), address, Options{Schema: "two"}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer schema: %v", err)
	}
}

// TLS and passwords are settings of the address, as for entity/postgres.
func TestPasswordsAreNeitherInErrorsNorInTheLog(t *testing.T) {
	t.Parallel()
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
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), LockWait: 50 * time.Millisecond}
	direct.User = url.UserPassword("anna", secret)
	j := open(t, direct.String(), opts)
	texts := []string{j.String()}
	overTLS := *direct
	overTLS.Host, overTLS.RawQuery = "127.0.0.1:1", "sslmode=verify-full"
	wrong := *direct
	wrong.User = url.UserPassword("anna", secret+"no")
	for _, address := range []string{overTLS.String(), wrong.String()} {
		_, err := Open(t.Context(), address, opts)
		if err == nil {
			t.Fatalf("%s was opened", address)
		}
		texts = append(texts, err.Error())
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = j.Load(ctx, []string{"a"})
	commit := j.Commit(t.Context(), &persist.Batch{Number: 1, Appends: []persist.Append{{ID: "a", Events: []persist.Payload{event("x")}}}})
	if err == nil || commit == nil {
		t.Fatal("it answers without a server")
	}
	for _, text := range append(texts, err.Error(), commit.Error(), log.String()) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it says the password: %s", text)
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
}
