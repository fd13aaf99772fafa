package postgres

import (
	"errors"
	"log/slog"
	"net/url"
	"strings"
	"testing"

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
	conn := pgtest.Connect(t, address)
	pgtest.Exec(t, conn, "CREATE SCHEMA kitchen")
	pgtest.Exec(t, conn, "CREATE TABLE kitchen.recipes (name text)")
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
	pgtest.Exec(t, conn, "UPDATE two.journal SET version = version + 1")
	if _, err := Open(t.Context(), address, Options{Schema: "two"}); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "newer") {
		t.Errorf("a newer schema: %v", err)
	}
}

// TLS and passwords are settings of the address, as for entity/postgres.
func TestPasswordsAreNeitherInErrorsNorInTheLog(t *testing.T) {
	t.Parallel()
	direct, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	opts := Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	direct.User = url.UserPassword("greenroom", "s3cret&/?")
	texts := []string{open(t, direct.String(), opts).String()}
	overTLS, nowhere, nobody := *direct, *direct, *direct
	overTLS.Host, overTLS.RawQuery = "127.0.0.1:1", "sslmode=sometimes"
	nowhere.Host, nowhere.RawQuery = "127.0.0.1:1", "sslmode=verify-full"
	nobody.Path = "/nothing"
	for _, address := range []url.URL{overTLS, nowhere, nobody} {
		_, err := Open(t.Context(), address.String(), opts)
		if err == nil {
			t.Fatalf("%s was opened", address.Redacted())
		}
		texts = append(texts, err.Error())
	}
	for _, text := range append(texts, log.String()) {
		if strings.Contains(text, "s3cret") {
			t.Errorf("it says the password: %s", text)
		}
	}
	if !strings.Contains(texts[0], "greenroom@") {
		t.Errorf("the name is %s", texts[0])
	}
}
