package server

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

func TestActorSystemsShareTheLinks(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	_, dial := b.Sessions()
	gone := func(what string) {
		t.Helper()
		conn, err := dial(t.Context(), a.LinkAddr())
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, net.ErrClosed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	gone("before a has an actor system")
	former, _ := a.Sessions()
	ln, _ := a.Sessions()
	if _, err := former.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener before: %v", err)
	}
	conn, err := dial(t.Context(), a.LinkAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	got, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	text := make([]byte, 5)
	if _, err := io.ReadFull(got, text); err != nil || string(text) != "hello" {
		t.Errorf("%q, %v", text, err)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	gone("after its end")
}
