package main

import (
	"bufio"
	"context"
	"io"
	"net/url"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// The whole way of the readings, and the kills, on the other store.
func TestProgramOnPostgres(t *testing.T) {
	pgtest.Again(t,
		"TestNoAcknowledgedReadingIsLostOrDoubledByKill",
		"TestNothingOfAllKindsIsLostOrDoubledByKill",
		"TestReplayOfASmallFileIsWhatTheServerHas",
		"TestTheRealDataThroughMosquittoPub",
		"TestTheDemoGoesOnWhereItWas",
	)
}

func TestServeSaysWhichStoreItServesWithoutThePassword(t *testing.T) {
	t.Parallel()
	address, err := url.Parse(pgtest.Database(t))
	if err != nil {
		t.Fatal(err)
	}
	address.User = url.UserPassword(address.User.Username(), "s3cret") // the test's server asks for none
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	code := make(chan int, 1)
	var errs strings.Builder
	go func() {
		c := run(ctx, []string{"serve", "--store", address.String(), "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"}, write, &errs)
		write.Close()
		code <- c
	}()
	var out strings.Builder
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		out.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), " data ") {
			cancel()
		}
	}
	if c := <-code; c != 0 {
		t.Errorf("exit code %d: %s", c, &errs)
	}
	if !strings.Contains(out.String(), "data       postgres://") || strings.Contains(out.String()+errs.String(), "s3cret") {
		t.Errorf("it says:\n%s%s", &out, &errs)
	}
}

func TestStoresThatCannotBeAreSaidOnOneLineWithoutAPassword(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"--store mysql://a:s3cret@h/d", exitUsage, "postgres://user@host/database"},
		{"--store postgres://a:s3cret@h/d --data x", exitUsage, "--data and --store"},
		{"--store postgres://a:s3cret@127.0.0.1:1/d", exitFailed, "connection refused"},
		{"--store postgres://a:s3/cret@127.0.0.1:1/d", exitFailed, "percent-encoded"},
		{"--store postgres://a:s3cret@127.0.0.1:1/d?search_path=a,b", exitFailed, "one schema"},
	} {
		args := append([]string{"serve", "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"}, strings.Fields(tt.args)...)
		_, errs := command(t, tt.code, args...)
		if !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 || strings.ContainsRune(errs, '\t') || strings.Contains(errs, "cret") {
			t.Errorf("serve %s: %q, want one line with %q", tt.args, errs, tt.says)
		}
	}
}
