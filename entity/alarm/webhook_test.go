package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// hooked is a server that takes deliveries.
type hooked struct {
	*httptest.Server
	t      *testing.T
	mu     sync.Mutex
	secret string
	answer func(n int, ev *Event) int // the status for the nth request; 0 ends the connection
	got    []Event                    // those taken
	ids    []string                   // of all requests
	told   chan struct{}
}

func newHooked(t *testing.T, answer func(n int, ev *Event) int) *hooked {
	h := &hooked{t: t, answer: answer, told: make(chan struct{}, 1000)}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *hooked) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	id, stamp := r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp")
	if err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" ||
		r.Header.Get("webhook-signature") != sign(h.secret, id, stamp, body) {
		h.t.Errorf("%s %v %s, %v", r.Method, r.Header, body, err)
	}
	var ev Event
	if err := json.Unmarshal(body, &ev); err != nil {
		h.t.Errorf("%s: %v", body, err)
	}
	h.ids = append(h.ids, id)
	status := h.answer(len(h.ids), &ev)
	switch {
	case status == 0:
		panic(http.ErrAbortHandler)
	case status < 300:
		h.got = append(h.got, ev)
	case status < 400:
		w.Header().Set("Location", h.URL+"/elsewhere")
	}
	w.WriteHeader(status)
	fmt.Fprint(w, strings.Repeat("x", 100_000))
	h.told <- struct{}{}
}

// taken waits until n deliveries were taken, and says which.
func (h *hooked) taken(n int) string {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	for {
		h.mu.Lock()
		var list []string
		for _, ev := range h.got {
			list = append(list, fmt.Sprint(ev.Alarm.Entity, ":", ev.Kind))
		}
		h.mu.Unlock()
		if len(list) >= n {
			return strings.Join(list, " ")
		}
		select {
		case <-h.told:
		case <-ctx.Done():
			h.t.Fatalf("only %v were taken", list)
		}
	}
}

func (p *plant) hook(h *hooked, name string) {
	p.t.Helper()
	_, secret, err := p.PutWebhook(p.t.Context(), name, h.URL, false, "")
	if err != nil || !strings.HasPrefix(secret, secretPrefix) {
		p.t.Fatal(secret, err)
	}
	h.mu.Lock()
	h.secret = secret
	h.mu.Unlock()
}

// until waits until a webhook has numbers of deliveries that wait, and of dead letters.
func (p *plant) until(name string, queued, dead int64) {
	p.t.Helper()
	for range 20_000 {
		w, err := p.Webhook(name)
		if err != nil {
			p.t.Fatal(err)
		}
		if w.Queued == queued && w.Dead == dead {
			return
		}
		if err := pause.For(p.t.Context(), 5*time.Millisecond); err != nil {
			p.t.Fatal(err)
		}
	}
	w, _ := p.Webhook(name)
	p.t.Fatalf("%+v, want %d that wait and %d dead", w, queued, dead)
}

func TestAWebhookIsToldOfEachTransitionInOrder(t *testing.T) {
	t.Parallel()
	p := build(t)
	fails := 0
	h := newHooked(t, func(_ int, ev *Event) int { // each fails in another way at first
		if ev.Alarm.Entity == "m" && fails < 4 {
			fails++
			return []int{500, 302, 0, 429}[fails-1]
		}
		return 204
	})
	p.hook(h, "ops")
	if _, err := p.PutRule(t.Context(), Rule{Name: "hot", Raise: "t > 80", Severity: Major, Webhooks: []string{"none"}}, ""); !errors.Is(err, entity.ErrInvalid) {
		t.Errorf("a rule with a webhook that is not there: %v", err)
	}
	p.put(Rule{Name: "hot", Raise: "t > 80", Webhooks: []string{"ops"}})
	p.at("m", 1, "t", 90)
	p.sync()
	if _, err := p.Acknowledge(t.Context(), p.alarms("m")[0].ID, "ann", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", 2, "t", 10)
	p.at("n", 2, "t", 90)
	p.sync()
	got := h.taken(4)
	if strings.ReplaceAll(strings.ReplaceAll(got, " n:raised", ""), "n:raised ", "") != "m:raised m:acknowledged m:cleared" {
		t.Errorf("told of %s", got)
	}
	p.until("ops", 0, 0)
	if s := p.Stats(); s.Delivered != 4 || s.Failed != 4 || s.Dead != 0 {
		t.Errorf("%+v", s)
	}
	if err := p.DeleteWebhook(t.Context(), "ops", ""); !errors.Is(err, ErrInUse) {
		t.Errorf("delete a webhook of a rule: %v", err)
	}
}

func TestWhatIsShelvedIsNotTold(t *testing.T) {
	t.Parallel()
	p := build(t)
	h := newHooked(t, func(int, *Event) int { return 200 })
	p.hook(h, "ops")
	p.put(Rule{Name: "hot", Raise: "t > 80", Webhooks: []string{"ops"}})
	p.at("m", 1, "t", 90)
	p.sync()
	if _, err := p.Shelve(t.Context(), p.alarms("m")[0].ID, time.Minute, "ann", ""); err != nil {
		t.Fatal(err)
	}
	p.at("m", 2, "t", 10)
	p.at("m", 3, "t", 90)
	p.sync()
	p.tick(61)
	// The alarm that is not shelved any more is another one, so that it may be told first.
	if got := h.taken(3); got != "m:raised m:shelved m:unshelved" && got != "m:raised m:unshelved m:shelved" {
		t.Errorf("told of %s", got)
	}
}

func TestDeliveriesThatAreGivenUpAreDeadLetters(t *testing.T) {
	t.Parallel()
	p := build(t)
	var mu sync.Mutex
	status := 500
	h := newHooked(t, func(int, *Event) int {
		mu.Lock()
		defer mu.Unlock()
		return status
	})
	p.hook(h, "ops")
	p.put(Rule{Name: "hot", Raise: "t > 80", Webhooks: []string{"ops"}})
	p.at("m", 1, "t", 90)
	p.at("n", 1, "t", 90)
	p.sync()
	p.until("ops", 0, 2)
	p = p.restart() // they are kept
	list, more, err := p.DeadLetters(t.Context(), "ops", 0, 10)
	if err != nil || more || len(list) != 2 || list[0].Attempts != MaxAttempts || !strings.Contains(list[0].Error, "500") || len(list[0].Error) > 600 {
		t.Fatalf("%+v, %v, %v", list, more, err)
	}
	h.mu.Lock()
	tries := map[string]int{}
	for _, id := range h.ids {
		tries[id]++
	}
	h.mu.Unlock()
	if len(tries) != 2 || tries[list[0].ID] != MaxAttempts {
		t.Errorf("tried %v", tries)
	}
	mu.Lock()
	status = 200
	mu.Unlock()
	if err := p.RetryDead(t.Context(), "ops", list[0].Seq); err != nil {
		t.Fatal(err)
	}
	h.taken(1)
	if err := p.DiscardDead(t.Context(), "ops", list[1].Seq); err != nil {
		t.Fatal(err)
	}
	if err := p.DiscardDead(t.Context(), "ops", list[1].Seq); !errors.Is(err, ErrNotFound) {
		t.Errorf("discard twice: %v", err)
	}
	p.until("ops", 0, 0)
	mu.Lock()
	status = http.StatusGone // who says that is not asked again
	mu.Unlock()
	p.at("m", 2, "t", 10)
	p.sync()
	p.until("ops", 0, 1)
	if err := p.DeleteRule(t.Context(), "hot", ""); err != nil {
		t.Fatal(err)
	}
	if err := p.DeleteWebhook(t.Context(), "ops", ""); err != nil {
		t.Fatal(err)
	}
	items, err := p.rt.Items(t.Context(), entity.ItemsQuery{Kind: deadKind})
	if err != nil || len(items) > 0 || len(p.Webhooks()) > 0 {
		t.Errorf("left of a deleted webhook: %v, %v, %v", items, p.Webhooks(), err)
	}
}

// What waits for a webhook that cannot be reached survives a restart and does not hold up
// another webhook.
func TestASlowWebhookHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	p := build(t)
	held := make(chan struct{})
	slow := newHooked(t, func(int, *Event) int {
		select {
		case <-held:
		case <-t.Context().Done():
		}
		return 200
	})
	quick := newHooked(t, func(int, *Event) int { return 200 })
	p.hook(slow, "slow")
	p.hook(quick, "quick")
	p.put(Rule{Name: "hot", Raise: "t > 80", Webhooks: []string{"slow", "quick"}})
	for i := range 50 {
		p.at(fmt.Sprintf("m%d", i), 1, "t", 90)
	}
	quick.taken(50)
	if w, err := p.Webhook("slow"); err != nil || w.Queued != 50 {
		t.Errorf("%+v, %v", w, err)
	}
	close(held)
	p = p.restart()
	slow.taken(50)
	p.until("slow", 0, 0)
}

func TestWebhooksAreChecked(t *testing.T) {
	t.Parallel()
	p := build(t)
	for _, u := range []string{"", "ftp://x/y", "/path", "https://", "http://u:p@x/", "https://x/" + strings.Repeat("y", MaxURLBytes), "file:///etc/passwd", "gopher://x"} {
		if _, _, err := p.PutWebhook(t.Context(), "ops", u, false, ""); !errors.Is(err, entity.ErrInvalid) {
			t.Errorf("%q: %v", u, err)
		}
	}
	w, first, err := p.PutWebhook(t.Context(), "ops", "https://example.invalid/a", false, entity.IfNone)
	if err != nil {
		t.Fatal(err)
	}
	if _, again, err := p.PutWebhook(t.Context(), "ops", "https://example.invalid/b", false, w.ETag); err != nil || again != "" {
		t.Errorf("the secret is told again: %q, %v", again, err)
	}
	if _, other, err := p.PutWebhook(t.Context(), "ops", "https://example.invalid/b", true, ""); err != nil || other == "" || other == first {
		t.Errorf("rotated: %q, %v", other, err)
	}
	if _, _, err := p.PutWebhook(t.Context(), "ops", "https://example.invalid/b", true, w.ETag); !errors.Is(err, entity.ErrConflict) {
		t.Errorf("an old version: %v", err)
	}
	if d := retryAfter(1, 0.5); d != 5*time.Second {
		t.Errorf("the first wait is %v", d)
	}
	if d := retryAfter(50, 0.5); d != time.Hour {
		t.Errorf("the 50th wait is %v", d)
	}
}

// The secret, the ID, the time and the body are those of the examples of Standard Webhooks.
func TestSignaturesAreThoseOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	got := sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signature %s, want %s", got, want)
	}
}

func TestAWebhookHasNothingOfOneThatHadItsName(t *testing.T) {
	t.Parallel()
	p := build(t)
	held := make(chan struct{})
	h := newHooked(t, func(int, *Event) int { <-held; return 500 })
	p.hook(h, "ops")
	p.put(Rule{Name: "hot", Raise: "t > 80", Webhooks: []string{"ops"}})
	for i := range 20 {
		p.at(fmt.Sprint("m", i), 1, "t", 90)
	}
	p.sync()
	p.put(Rule{Name: "hot", Raise: "t > 80"})
	close(held) // what is under way ends while the webhook is deleted
	if err := p.DeleteWebhook(t.Context(), "ops", ""); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{deliveryKind, deadKind} {
		if n, err := countItems(t.Context(), p.rt, kind, part("ops")); err != nil || n > 0 {
			t.Errorf("%d of %s are left, %v", n, kind, err)
		}
	}
	other := newHooked(t, func(int, *Event) int { return 200 })
	p.hook(other, "ops")
	p.put(Rule{Name: "cold", Raise: "t < 0", Webhooks: []string{"ops"}})
	for i := range 20 { // those of the former one go on
		p.at(fmt.Sprint("m", i), 2, "t", 20)
	}
	p.sync()
	p.at("n", 2, "t", -1)
	if got := other.taken(1); got != "n:raised" {
		t.Errorf("told of %s", got)
	}
	p.until("ops", 0, 0)
	// One that is changed is still the same one, also after a start.
	now, err := p.Webhook("ops")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.PutWebhook(t.Context(), "ops", now.URL, false, now.ETag); err != nil {
		t.Fatal(err)
	}
	p = p.restart()
	p.at("n", 3, "t", 20)
	if got := other.taken(2); got != "n:raised n:cleared" {
		t.Errorf("told of %s", got)
	}
}
