package server

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/greenroom-go/greenroom/server/access"
)

// Somebody who knows the secret of a device has it in the grant that an admin has made for what is claimed.
func TestADeviceIsClaimedByWhoKnowsItsSecret(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	alice := s.as(s.principal(`{"name":"alice","grants":[{"role":"operator","filter":"attributes.claimedBy = \"alice\""}]}`))
	bob := s.as(s.principal(`{"name":"bob","grants":[{"role":"operator","filter":"attributes.claimedBy = \"bob\""}]}`))
	device := s.dial311("device", asUser(tokens["room-1"]))
	claim := func(who *running, id, secret string) int {
		t.Helper()
		resp, _ := who.do("POST", "/v1/entities/"+id+"/claim", `{"secret":"`+secret+`"}`, "Content-Type", mediaJSON)
		return resp.StatusCode
	}
	same(t, "without an offer", claim(alice, "room-1", "label"), http.StatusNotFound)
	await(t, device.Publish("v1/devices/me/claim", 1, false, `{"secretKey":"label","durationMs":60000}`))
	if _, text := s.do("GET", "/v1/claims", ""); !strings.HasPrefix(text, `{"offers":[{"entity":"room-1","until_ms":`) || strings.Contains(text, "label") {
		t.Errorf("the offers are %s", text)
	}
	same(t, "with a wrong secret", claim(alice, "room-1", "table"), http.StatusNotFound)
	same(t, "of another entity", claim(alice, "room-2", "label"), http.StatusNotFound)
	same(t, "without a login", claim(s.as(""), "room-1", "label"), http.StatusUnauthorized)
	if resp, _ := alice.do("GET", "/v1/entities/room-1", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("before: %s", resp.Status)
	}
	same(t, "with the secret", claim(alice, "room-1", "label"), http.StatusNoContent)
	eventually(t, "the grant", func() bool {
		resp, _ := alice.do("PATCH", "/v1/entities/room-1/attributes/desired", `{"on":true}`, "Content-Type", "application/merge-patch+json")
		return resp.StatusCode == http.StatusOK
	})
	same(t, "the offers then", s.document("/v1/claims"), `{"offers":[]}`)
	same(t, "a second time", claim(alice, "room-1", "label"), http.StatusNotFound)
	await(t, device.Publish("v2/c", 1, false, `{"secretKey":"label"}`))
	same(t, "of what somebody has", claim(bob, "room-1", "label"), http.StatusConflict)
	if _, text := s.do("GET", "/v1/audit?limit=10", ""); !strings.Contains(text, `"who":"alice","from":"127.0.0.1","action":"claimEntity","what":"/v1/entities/room-1/claim"`) {
		t.Errorf("the audit log: %s", text)
	}

	// Over HTTP, by a gateway, and what is no offer.
	s.as("").send(200, "POST", "/api/v1/"+tokens["room-1"]+"/claim", mediaJSON, `{"secretKey":"other"}`)
	for _, body := range []string{`{}`, `{"secretKey":""}`, `{"secretKey":"x","durationMs":-1}`, `{"secretKey":"x","durationMs":9223372036854775807}`, `{"secretKey":1}`} {
		s.as("").send(400, "POST", "/api/v1/"+tokens["room-1"]+"/claim", mediaJSON, body)
	}
	before := s.refusedOver("forbidden")
	await(t, device.Publish("v1/gateway/claim", 1, false, `{"room-2":{"secretKey":"x"}}`))
	same(t, "for others", s.refusedOver("forbidden"), before+1)
	gateway := s.dial311("gw", asUser(s.principal(`{"name":"gw","grants":[{"role":"device","filter":"id like \"room-%\""}]}`)))
	await(t, gateway.Publish("v1/gateway/claim", 1, false, `{"room-2":{"secretKey":"behind"},"room-1":{"secretKey":"behind"}}`))
	same(t, "of a device behind a gateway", claim(bob, "room-2", "behind"), http.StatusNoContent)
	for range access.FreeFailures {
		claim(bob, "room-1", "guess")
	}
	same(t, "after too many guesses", claim(bob, "room-1", "behind"), http.StatusTooManyRequests)
	open := start(t, "")
	open.post("room-1", `{"t":1}`)
	same(t, "where nobody has to log in", claim(open, "room-1", "x"), http.StatusBadRequest)
}

func TestOneOfManyGetsAnEntityThatIsClaimed(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	a := &claimAPI{runtime: s.runtime}
	for round := range 10 {
		id := fmt.Sprint("pump-", round)
		if round%2 == 0 { // of the others there is nothing yet
			s.post(id, `{"t":1}`)
		}
		var got atomic.Int64
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				if a.give(t.Context(), id, fmt.Sprint("person-", i)) == nil {
					got.Add(1)
				}
			})
		}
		wg.Wait()
		same(t, id+" has", got.Load(), 1)
	}
}
