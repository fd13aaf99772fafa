package server

import (
	"io"
	"math"
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
	if resp, text := slow.do("GET", "/v1/entities/slow", ""); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("without a body: %s %s", resp.Status, text)
	}
	for range 3 {
		if status, _, text := post(fast, "fast"); status >= 300 {
			t.Errorf("another principal: %d %s", status, text)
		}
	}
	same(t, "refused", s.refusals.Counts()[refusal.Key{Source: refusal.HTTP, Cause: refusal.CauseRate}], uint64(1)) // those without a body are no messages
	if _, text := s.do("GET", "/v1/principals/slow", ""); !strings.Contains(text, `"rate_kib":1`) {
		t.Errorf("the principal: %s", text)
	}
}

// owed returns how long a principal would have to wait, in milliseconds.
func (s *running) owed(name string) int64 {
	s.t.Helper()
	who, ok := s.book.Find(name)
	if !ok {
		s.t.Fatalf("no principal %s", name)
	}
	wait, _ := s.book.Charge(who, 0, math.MaxInt64)
	return wait.Milliseconds()
}

func TestTheBodyOfARequestIsPaidAsFarAsItIsRead(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	send := func(name string, length int64, body io.Reader) (status int) {
		t.Helper()
		who := s.as(s.principal(`{"name":"` + name + `","grants":[{"role":"device"}],"rate_kib":1}`))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+"/v1/entities/"+name+"/telemetry", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Authorization", "Bearer "+who.token)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	text := `{"t":1` + strings.Repeat(" ", 30<<10) + "}"
	if status := send("chunked", -1, strings.NewReader(text)); status >= 300 {
		t.Errorf("a body of unknown length: %d", status)
	}
	if got := s.owed("chunked"); got < 25_000 {
		t.Errorf("30 KiB of unknown length at 1 KiB a second: %d ms are owed", got)
	}
	if status := send("absurd", math.MaxInt64, endless{}); status != http.StatusRequestEntityTooLarge {
		t.Errorf("a body that is endless: %d", status)
	}
	if got := s.owed("absurd"); got < 25_000 || got > 4<<20 {
		t.Errorf("a body that says that it is endless: %d ms are owed, want as much as is read at most", got)
	}
}

func TestTheRateOfAPrincipalIsChecked(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for _, rate := range []string{"-1", "1073741825", "18014398509481984", "9223372036854775807", `"much"`, "1.5"} {
		resp, text := s.do("POST", "/v1/principals", `{"name":"admin","grants":[{"role":"admin"}],"rate_kib":`+rate+`}`, "Content-Type", mediaJSON)
		if resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "rate_kib must") {
			t.Errorf("%s: %s %s", rate, resp.Status, text)
		}
	}
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = ' '
	}
	return len(p), nil
}
