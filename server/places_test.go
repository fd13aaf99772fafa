package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server/access"
)

// login returns who has a token.
func (r *running) login(token string) *access.Principal {
	r.t.Helper()
	who, err := r.book.Login(r.t.Context(), &access.Attempt{Token: token})
	if err != nil {
		r.t.Fatal(err)
	}
	return who
}

func TestOnePrincipalLeavesPlacesForTheStreamsOfOthers(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	guest := s.login(tokens["guest"])
	var leave func()
	for range maxStreamsOfOne {
		var err error
		if leave, err = s.streams.places.enter(guest); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/v1/stream", "/v1/stream/alarms"} {
		resp, body := s.as(tokens["guest"]).do("GET", path, "")
		if resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, fmt.Sprint(maxStreamsOfOne)+` streams of \"guest\"`) {
			t.Errorf("%s beyond the share: %s %s", path, resp.Status, body)
		}
	}
	s.open("/v1/stream") // of the admin
	leave()
	s.as(tokens["guest"]).open("/v1/stream")
	same(t, "streams", s.streams.places.len(), maxStreamsOfOne+1)
}

// present reports whether a request with the cookie is in a session.
func (s *sessions) present(text string) bool {
	r := &http.Request{Header: http.Header{"Cookie": {s.cookie + "=" + text}}}
	return s.find(r) != nil
}

func TestOnePrincipalLogsOutNobodyElse(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	list := newSessions("1", nil, nil)
	begin := func(name string) string {
		text, ok := list.begin(t.Context(), s.login(tokens[name]))
		if !ok {
			t.Fatalf("%s gets no session", name)
		}
		return text
	}
	admin, oldest, used := begin("admin"), begin("guest"), ""
	for i := range maxSessionsOfOne {
		if text := begin("guest"); i == 0 {
			used = text
		}
	}
	same(t, "the oldest one of who has its share", list.present(oldest), false)
	same(t, "the next one, which is used now", list.present(used), true)
	same(t, "sessions", list.len(), 1+maxSessionsOfOne)

	for _, name := range []string{"viewer", "keeper"} {
		for range maxSessionsOfOne {
			begin(name)
		}
	}
	for range maxSessionsOfOne - 1 {
		begin("operator")
	}
	same(t, "sessions", list.len(), MaxSessions)
	begin("elsewhere") // for which one of those ends who have most
	begin("admin")
	same(t, "sessions", list.len(), MaxSessions)
	same(t, "that of who has one", list.present(admin), true)
	list.mu.Lock()
	shares := 0
	for _, own := range list.of {
		shares += own.Len()
	}
	most := list.of[s.login(tokens["operator"])].Len()
	list.mu.Unlock()
	same(t, "those of all", shares, MaxSessions)
	same(t, "those of who has not most", most, maxSessionsOfOne-1)
	list.drop(sha256.Sum256([]byte(admin)))
	same(t, "one that has ended", list.present(admin), false)
}

// Who has shown nothing yet can have only little held in memory.
func TestWhatStrangersSendIsSmall(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	fits := `{"token":"` + strings.Repeat("x", maxPublicBodyBytes-12) + `"}`
	if resp, text := s.do("POST", "/v1/session", fits, "Content-Type", mediaJSON); resp.StatusCode >= 500 || resp.StatusCode == http.StatusRequestEntityTooLarge {
		t.Errorf("%d bytes: %s %s", len(fits), resp.Status, text)
	}
	s.send(413, "POST", "/v1/session", typeJSONHeader, fits+" ")
	for _, o := range s.operations {
		if o.needs == public && o.limit > maxPublicBodyBytes {
			t.Errorf("%s takes %d bytes of strangers", o.id, o.limit)
		}
	}
}
