package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// logIn begins a session of a browser with a token, and returns its cookie.
func (n *testNode) logIn(token string) (cookie string) {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), http.MethodPost, "http://"+n.HTTPAddr()+"/v1/session", strings.NewReader(`{"token":"`+token+`"}`))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	if list := resp.Cookies(); len(list) == 1 && resp.StatusCode == http.StatusCreated {
		return list[0].Name + "=" + list[0].Value
	}
	n.t.Fatalf("%s %v", resp.Status, resp.Cookies())
	return ""
}

// TestALoginOutlivesAChangeOfOwner on whatever node it was made, unless it is ended: by who has logged in, or with
// its principal.
func TestALoginOutlivesAChangeOfOwner(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	a, b := startNode(t, store, "a"), startNode(t, store, "b")
	a.own(1, b)
	root := a.guarded()
	token := map[string]string{"root": root}
	for _, name := range []string{"alice", "bob"} {
		token[name] = a.principal(root, `{"name":"`+name+`","grants":[{"role":"viewer"}]}`)
	}
	here, there, bob, out := a.logIn(token["alice"]), b.logIn(token["alice"]), b.logIn(token["bob"]), a.logIn(token["root"])
	is := func(n *testNode, cookie, want string) {
		t.Helper()
		status, answer := n.do("GET", "/v1/session", "", "Cookie", cookie)
		if got := status == http.StatusOK; got != (want != "") || got && !strings.Contains(answer, `"name":"`+want+`"`) {
			t.Errorf("want %q: %d %s", want, status, answer)
		}
	}
	is(b, here, "alice")
	if status, answer := b.do("DELETE", "/v1/session", "", "Cookie", out, "Sec-Fetch-Site", "same-origin"); status != http.StatusNoContent {
		t.Errorf("%d %s", status, answer)
	}
	revoke := func(name string) {
		t.Helper()
		if status, answer := b.do("DELETE", "/v1/principals/"+name, "", "Authorization", "Bearer "+root); status != http.StatusNoContent {
			t.Errorf("%d %s", status, answer)
		}
	}
	revoke("bob")
	is(b, bob, "")
	a.principal(root, `{"name":"bob","grants":[{"role":"admin"}]}`) // a namesake

	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.own(2, a)
	is(a, here, "alice")
	is(b, there, "alice")
	is(a, bob, "")
	is(b, out, "")
	revoke("alice")
	is(a, here, "")
	a.own(3, b)
	is(b, there, "")
	if n := a.now.local.gate.sessions.len(); n != 0 {
		t.Errorf("%d sessions", n)
	}
	eventually(t, "the sessions to be removed", func() bool {
		docs, err := a.now.local.runtime.Docs(t.Context(), kindSession)
		return err == nil && len(docs) == 0
	})
}

// TestASessionThatIsUsedIsKept in the store, and one that has ended meanwhile does not come back.
func TestASessionThatIsUsedIsKept(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	list := s.gate.sessions
	text, ok := list.begin(t.Context(), s.login(tokens["admin"]))
	if !ok {
		t.Fatal("no session")
	}
	stored := func() (kept []string) {
		docs, err := s.runtime.Docs(t.Context(), kindSession)
		if err != nil {
			t.Fatal(err)
		}
		for i := range docs {
			kept = append(kept, docs[i].ETag())
		}
		return kept
	}
	first := stored()
	if len(first) != 1 {
		t.Fatalf("stored: %v", first)
	}
	same(t, "the session", list.present(text), true)
	same(t, "a use at once", strings.Join(stored(), ","), first[0])
	list.mu.Lock()
	var of *session
	for _, e := range list.byHash {
		of = e.Value.(*session)
		of.kept = time.Now().Add(-2 * keepEvery)
	}
	list.mu.Unlock()
	same(t, "the session", list.present(text), true)
	eventually(t, "the use to be stored", func() bool { return stored()[0] != first[0] })

	list.mu.Lock()
	etag := of.etag
	list.mu.Unlock()
	list.drop(of.hash)
	list.keep(t.Context(), of, etag)
	same(t, "what is stored of one that has ended", len(stored()), 0)
}
