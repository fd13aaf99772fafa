package server

import (
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server/refusal"
)

func TestARequestIsRefusedWhenItsPrincipalHasSentTooMuch(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	slow := s.as(s.principal(`{"name":"slow","grants":[{"role":"device"}],"rate_kib":1}`))
	fast := s.as(s.principal(`{"name":"fast","grants":[{"role":"device"}]}`))
	post := func(who *running, id string) (int, string, string) {
		resp, text := who.do("POST", "/v1/entities/"+id+"/telemetry", `{"t":1}`, "Content-Type", mediaJSON)
		return resp.StatusCode, resp.Header.Get("Retry-After"), text
	}
	if status, _, text := post(slow, "slow"); status >= 300 {
		t.Fatal(status, text)
	}
	// Each costs two seconds: it waits for the end of the first at most for one.
	status, after, text := post(slow, "slow")
	if status != http.StatusTooManyRequests || after == "" || !strings.Contains(text, "1 KiB in a second") {
		t.Errorf("beyond its rate: %d, Retry-After %q, %s", status, after, text)
	}
	if resp, text := slow.do("GET", "/v1/entities/slow", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("what it reads: %s %s", resp.Status, text)
	}
	for range 3 {
		if status, _, text := post(fast, "fast"); status >= 300 {
			t.Errorf("another principal: %d %s", status, text)
		}
	}
	same(t, "refused", s.refusals.Counts()[refusal.Key{Source: refusal.HTTP, Cause: refusal.CauseRate}], uint64(1))
	if _, text := s.do("GET", "/v1/principals/slow", ""); !strings.Contains(text, `"rate_kib":1`) {
		t.Errorf("the principal: %s", text)
	}
}
