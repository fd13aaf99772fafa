package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// clerk does what its messages say.
type clerk struct{ entered, leave chan struct{} }

func (c *clerk) Receive(ctx *actor.Context[string], msg string) error {
	switch {
	case msg == "fail":
		return errors.New("the stamp is lost")
	case msg == "panic":
		panic("the desk burns")
	case msg == "tick":
		ctx.Every("round", 20*time.Millisecond, "nothing")
	case msg == "wait":
		close(c.entered)
		<-c.leave
	case strings.HasPrefix(msg, "spawn "):
		actor.Spawn(ctx, strings.TrimPrefix(msg, "spawn "), func() *clerk { return c })
	}
	return nil
}

func (c *clerk) Inspect() any { return map[string]any{"stamps": 3, "seal": "<wax>"} }

// question is what an asker asks a silent actor.
type question struct{ actor.Returns[int] }

// office is a system with its pages under /debug/.
type office struct {
	*testing.T
	sys *actor.System
	web *httptest.Server
}

func open(t *testing.T, cfg Config) *office {
	t.Helper()
	sys := actor.NewSystem("office", actor.WithLogger(slog.New(slog.DiscardHandler)), actor.WithBulkhead("vault", 3, 1))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	mux := http.NewServeMux()
	mux.Handle("/debug/", http.StripPrefix("/debug", Handler(sys, cfg)))
	web := httptest.NewServer(mux)
	t.Cleanup(web.Close)
	return &office{t, sys, web}
}

func (o *office) clerk(name string) (actor.Ref[string], *clerk) {
	c := &clerk{make(chan struct{}), make(chan struct{})}
	return actor.Spawn(o.sys, name, func() *clerk { return c }), c
}

// get returns the status and the body of a page.
func (o *office) get(path, accept string) (int, string) {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), http.MethodGet, o.web.URL+"/debug/"+path, nil)
	if err != nil {
		o.Fatal(err)
	}
	r.Header.Set("Accept", accept)
	return o.do(r)
}

func (o *office) do(r *http.Request) (int, string) {
	o.Helper()
	client := *o.web.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	answer, err := client.Do(r)
	if err != nil {
		o.Fatal(err)
	}
	next := "./"
	if strings.HasSuffix(r.URL.Path, "/restart") {
		next = "actor?pid="
	}
	if at := answer.Header.Get("Location"); answer.StatusCode == http.StatusSeeOther && !strings.HasPrefix(at, next) {
		o.Errorf("%s leads to %q, want %s below the prefix", r.URL, at, next)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		o.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func (o *office) json(path string, into any) {
	o.Helper()
	status, body := o.get(path, "application/json")
	if status != http.StatusOK {
		o.Fatalf("%s: %d %s", path, status, body)
	}
	if err := json.Unmarshal([]byte(body), into); err != nil {
		o.Fatalf("%s: %v in %s", path, err, body)
	}
}

// has waits until a page has all of the texts.
func (o *office) has(path string, texts ...string) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), 10*time.Second)
	defer cancel()
	for {
		status, body := o.get(path, "text/html")
		missing := slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return strings.Contains(body, text) })
		if status == http.StatusOK && len(missing) == 0 {
			return
		}
		if pause.For(ctx, 10*time.Millisecond) != nil {
			o.Fatalf("%s: %d without %q:\n%s", path, status, missing, body)
		}
	}
}

func TestThePagesShowASystem(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	ref, _ := o.clerk("clerk")
	for _, msg := range []string{"fail", "panic", "spawn <b>", "tick"} {
		ref.Tell(t.Context(), msg)
	}
	gone, _ := o.clerk("gone")
	gone.Stop()
	if _, err := o.sys.Wait(t.Context(), gone.PID()); err != nil {
		t.Fatal(err)
	}
	gone.Tell(t.Context(), "hello")

	o.has("", "/clerk", "running", "messages handled", `href="assets/inspect.css"`, `aria-current="page">Actors`)
	o.has("?path=/clerk", "<title>/clerk · office</title>", "<h1>/clerk</h1>", "&lt;b&gt;", `href="./?path=%2f"`)
	o.has("top?by=handled", "/clerk")
	o.has("top?by=rate", "Messages a second", "/clerk")
	o.has("failures", "the stamp is lost", "the desk burns", "goroutine")
	o.has("dead-letters", `<a href="actor?pid=office`, gone.PID().String()+"</a>", "no_actor", "outside")
	o.has("waits", "No handler waits")
	o.has("actor?pid="+url.QueryEscape(ref.PID().String()), "the stamp is lost", "&#34;stamps&#34;: 3", "&#34;&lt;wax&gt;&#34;", "2 restarts", "round in",
		"<title>/clerk · office</title>")
	if _, body := o.get("actor?pid="+url.QueryEscape(ref.PID().String()), "text/html"); strings.Contains(body, "<button") {
		t.Error("without Authorize there is a button")
	}
	for _, asset := range []string{"assets/inspect.css", "assets/inspect.js"} {
		if status, _ := o.get(asset, "*/*"); status != http.StatusOK {
			t.Errorf("%s: %d", asset, status)
		}
	}
}

func TestThePagesAreJSONForPrograms(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	ref, c := o.clerk("clerk")
	ref.Tell(t.Context(), "fail")
	ref.Tell(t.Context(), "wait")
	<-c.entered
	defer close(c.leave)
	ref.Tell(t.Context(), "later")

	var tree ActorTree
	o.json("", &tree)
	if tree.Actor.Path != "/" || len(tree.Children) != 2 || tree.Children[1].Path != "/clerk" {
		t.Errorf("the tree is %+v", tree)
	}
	var detail ActorDetail
	o.json("actor?pid="+url.QueryEscape(ref.PID().String()), &detail)
	if !detail.Busy || len(detail.Failures) != 1 || detail.View != nil || len(detail.Mail) != 1 || detail.Mail[0] != (Mail{"string", 1}) {
		t.Errorf("the detail is %+v", detail)
	}
	var top topPage
	o.json("top", &top)
	if top.By != "mailbox" || len(top.Actors) != 1 || top.Actors[0].PID != ref.PID().String() || top.More {
		t.Errorf("the top is %+v", top)
	}
	var failures []SystemFailure
	o.json("failures", &failures)
	if len(failures) != 1 || failures[0].PID != ref.PID() || failures[0].Message != "string" || failures[0].Error != "the stamp is lost" {
		t.Errorf("the failures are %+v", failures)
	}
	var letters []DeadLetter
	o.json("dead-letters", &letters)
	if letters == nil || len(letters) != 0 {
		t.Errorf("the dead letters are %+v", letters)
	}
}

func TestThePagesShowWhereTheTimeGoesAndWhatAnActorHandles(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	ref, _ := o.clerk("clerk")
	ref.Tell(t.Context(), "tick")
	pid := url.QueryEscape(ref.PID().String())

	var p profilePage
	for len(p.Usage) == 0 { // which turns are timed is a matter of chance
		o.json("profile?for=0.3", &p)
	}
	if u := p.Usage[0]; u.PID != ref.PID() || u.Type != "(timer round)" && u.Type != "string" || u.Samples < 1 || u.Messages < uint64(u.Samples) || p.For < 300 {
		t.Errorf("the profile is %+v", p)
	}
	o.has("profile?for=0.01", "Where the time goes", `aria-current="page">Time`)

	var r recordPage
	o.json("record?for=0.5&pid="+pid, &r)
	if len(r.Handled) == 0 || r.PID != ref.PID() {
		t.Fatalf("the recording is %+v", r)
	}
	if h := r.Handled[0]; h.Origin != "timer round" || h.Type != "string" || h.Request || h.Error != "" || !h.From.IsZero() {
		t.Errorf("the first message is %+v", h)
	}
	o.has("record?for=0.1&pid="+pid, "timer round", "handled in")
	o.has("actor?pid="+pid, `href="record?pid=`)

	for path, want := range map[string]int{
		"profile?for=x": http.StatusBadRequest, "profile?for=31": http.StatusBadRequest, "profile?for=0": http.StatusBadRequest,
		"record?pid=x": http.StatusBadRequest, "record?pid=" + url.QueryEscape("office/none#9"): http.StatusNotFound,
	} {
		if status, body := o.get(path, "text/html"); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
}

// A clerk that waits with its stack set aside is not idle, one that has got nothing has no mailbox.
func TestThePagesShowWhatActorsDo(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	fresh, _ := o.clerk("fresh")
	busy, c := o.clerk("busy")
	asked := make(chan struct{})
	silent := actor.SpawnFunc(o.sys, "silent", func(ctx *actor.Context[question], _ question) error {
		close(asked)
		<-ctx.Done()
		return nil
	})
	defer silent.Kill()
	asker := actor.SpawnFunc(o.sys, "asker", func(ctx *actor.Context[int], _ int) error {
		_, err := actor.Ask(ctx, silent, question{})
		return err
	})
	asker.Tell(t.Context(), 1)
	busy.Tell(t.Context(), "wait")
	<-c.entered
	defer close(c.leave)
	<-asked

	var tree ActorTree
	o.json("", &tree)
	got := make(map[string]string)
	for i := range tree.Children {
		a := &tree.Children[i]
		got[a.Path] = fmt.Sprint(a.Activity, " ", a.Attached)
	}
	for path, want := range map[string]string{"/fresh": "idle false", "/busy": "running true", "/asker": "waiting true", "/silent": "running true"} {
		if got[path] != want {
			t.Errorf("%s is %q, want %q", path, got[path], want)
		}
	}
	o.has("", "<td>waiting</td>", "<td>running</td>", "<td>idle, detached</td>")
	o.has("actor?pid="+url.QueryEscape(fresh.PID().String()), "<dt>Activity</dt><dd>idle, detached</dd>")
}

// The methods of an error are foreign code.
func TestARecordedErrorWithoutATextIsNamed(t *testing.T) {
	t.Parallel()
	if h := newHandled(&actor.Handled{Err: loudError{}}); !strings.Contains(h.Error, "inspect.loudError, whose methods panic") {
		t.Errorf("it is shown as %q", h.Error)
	}
}

func TestAChainOfThoseWhoWaitIsShown(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	silent := make(chan struct{})
	asked := make(chan struct{}, 2)
	last := actor.SpawnFunc(o.sys, "last", func(*actor.Context[question], question) error {
		asked <- struct{}{}
		<-silent
		return nil
	})
	middle := actor.SpawnFunc(o.sys, "middle", func(ctx *actor.Context[question], q question) error {
		n, err := actor.Ask(ctx, last, question{})
		actor.Reply(ctx, q, n)
		return err
	})
	first := actor.SpawnFunc(o.sys, "first", func(ctx *actor.Context[int], _ int) error {
		_, err := actor.Ask(ctx, middle, question{})
		return err
	})
	first.Tell(t.Context(), 1)
	<-asked
	defer close(silent)
	var p waitsPage
	o.json("waits", &p)
	if len(p.Waits) != 1 || p.Total != 2 || p.Waits[0].Cycle {
		t.Fatalf("those who wait are %+v", p)
	}
	want := []actor.PID{first.PID(), middle.PID(), last.PID()}
	for i, pid := range p.Waits[0].Chain {
		if len(p.Waits[0].Chain) != len(want) || pid != want[i] {
			t.Errorf("the chain is %v, want %v", p.Waits[0].Chain, want)
			break
		}
	}
	o.has("waits", first.PID().String(), " → ")
}

// post gives an order as a form of a page does.
func (o *office) post(order, pid, site string) (int, string) {
	o.Helper()
	r, err := http.NewRequestWithContext(o.Context(), http.MethodPost, o.web.URL+"/debug/"+order, strings.NewReader(url.Values{"pid": {pid}}.Encode()))
	if err != nil {
		o.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", site)
	return o.do(r)
}

func TestOrdersAreForWhomAuthorizeLets(t *testing.T) {
	t.Parallel()
	reader := open(t, Config{})
	ref, _ := reader.clerk("clerk")
	if status, body := reader.post("stop", ref.PID().String(), "same-origin"); status != http.StatusForbidden || !strings.Contains(body, "Authorize is nil") {
		t.Errorf("without Authorize: %d %s", status, body)
	}

	o := open(t, Config{Authorize: func(_ *http.Request, order Order, pid actor.PID) error {
		if order == Kill {
			return errors.New("nobody kills " + pid.Path())
		}
		return nil
	}})
	ref, _ = o.clerk("clerk")
	pid := ref.PID().String()
	var tree ActorTree
	o.json("", &tree)
	root := tree.Actor.PID
	o.has("actor?pid="+url.QueryEscape(pid), `action="stop"`, `action="drain"`, `action="restart"`, `action="kill"`)
	for _, tt := range []struct {
		order, pid, site string
		status           int
		says             string
	}{
		{"stop", pid, "cross-site", http.StatusForbidden, ""},
		{"kill", pid, "same-origin", http.StatusForbidden, "kill " + pid + ": nobody kills /clerk"},
		{"burn", pid, "same-origin", http.StatusNotFound, ""},
		{"stop", "", "same-origin", http.StatusBadRequest, `not ""`},
		{"stop", "office/clerk#", "same-origin", http.StatusBadRequest, "pid must be the address"},
		{"stop", strings.Repeat("x", 5000), "same-origin", http.StatusBadRequest, "at most 4096 bytes"},
		{"stop", root, "same-origin", http.StatusBadRequest, "the root takes no orders"},
		{"restart", pid, "same-origin", http.StatusSeeOther, ""},
		{"stop", pid, "same-origin", http.StatusSeeOther, ""},
	} {
		if status, body := o.post(tt.order, tt.pid, tt.site); status != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s %.40s from %s: %d %s, want %d with %q", tt.order, tt.pid, tt.site, status, body, tt.status, tt.says)
		}
	}
	if _, err := o.sys.Wait(t.Context(), ref.PID()); err != nil {
		t.Errorf("the stopped clerk: %v", err)
	}
	if status, _ := o.post("stop", pid, "same-origin"); status != http.StatusNotFound {
		t.Errorf("an order to an actor that has ended: %d", status)
	}
}

func TestWhatIsNotThereIsExplained(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"?path=/nobody":                      {http.StatusNotFound, `no actor has the path "/nobody"`},
		"top?by=weight":                      {http.StatusBadRequest, `by must be one of children, handled, mailbox, rate, restarts, not "weight"`},
		"actor":                              {http.StatusBadRequest, "pid must be the address"},
		"actor?pid=office/a%231unotnacqevb6": {http.StatusNotFound, "no living actor"},
		"nothing":                            {http.StatusNotFound, "not found"},
	} {
		for _, accept := range []string{"text/html", "application/json"} {
			status, body := o.get(path, accept)
			if status != want.status || !strings.Contains(html.UnescapeString(body), want.says) {
				t.Errorf("%s: %d %s, want %d with %q", path, status, body, want.status, want.says)
			}
			// The script of the page of an actor that ends shows what the error's page has there.
			if page := strings.Contains(body, `<main id="actors">`); page != (accept == "text/html" && path != "nothing") {
				t.Errorf("%s: an error for %s: %s", path, accept, body)
			}
		}
	}
}

func TestALoopbackListenerIsForItsOwnNames(t *testing.T) {
	t.Parallel()
	o := open(t, Config{Hosts: []string{"actors.example.com"}})
	for host, want := range map[string]int{
		"evil.example.com": http.StatusForbidden, "evil.example.com:80": http.StatusForbidden, "actors.example.com": http.StatusOK,
		"localhost:8080": http.StatusOK, "127.0.0.1": http.StatusOK, "[::1]:8080": http.StatusOK, "[::1]": http.StatusOK,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.web.URL+"/debug/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		if status, body := o.do(r); status != want {
			t.Errorf("%s: %d %.100s, want %d", host, status, body, want)
		}
	}
}

func TestTheLogKeepsTheLastFailures(t *testing.T) {
	t.Parallel()
	l := &failureLog{}
	for range failuresKept {
		_ = l.note(nil, actor.ActorFailed{Err: errors.New("old")})
	}
	_ = l.note(nil, actor.ActorFailed{Err: loudError{}})
	list, _ := (&inspector{failures: l}).recentFailures(nil)
	last := list.([]SystemFailure)
	if len(last) != failuresKept || !strings.Contains(last[0].Error, "whose methods panic") || last[1].Error != "old" {
		t.Errorf("%d failures, the last two %+v", len(last), last[:2])
	}
}

// loudError is an error that panics when somebody asks for its text.
type loudError struct{}

func (loudError) Error() string { panic("no text") }

func TestTheCollectorHasTheCounters(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	ref, _ := o.clerk("clerk")
	ref.Stop()
	if _, err := o.sys.Wait(t.Context(), ref.PID()); err != nil {
		t.Fatal(err)
	}
	ref.Tell(t.Context(), "hello")
	guard := actor.SpawnFunc(o.sys, "guard", func(*actor.Context[string], string) error { return nil }, actor.OnBulkhead("vault"))
	guard.Tell(t.Context(), "stop")
	if status, page := o.get("actor?pid="+url.QueryEscape(guard.PID().String()), "text/html"); status != http.StatusOK || !strings.Contains(page, "<dd>vault</dd>") ||
		!strings.Contains(page, " of 3 busy in vault") {
		t.Errorf("the page of an actor in a bulkhead: %d %s", status, page)
	}
	for st := o.sys.Stats(); st.Bulkheads[0].Handled == 0 || st.Actors != 2; st = o.sys.Stats() { // who waits for an end may hear of it first
		if err := pause.For(t.Context(), time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(Collector(o.sys))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[f.GetName()] += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	if values["greenroom_bulkhead_workers"] != 3 || values["greenroom_bulkhead_messages_total"] != 1 {
		t.Errorf("the metrics of the bulkhead are in %v", values)
	}
	if len(values) != len(metrics)+5 || values["greenroom_actors"] != 2 || values["greenroom_dead_letters_total"] != 1 {
		t.Errorf("the metrics are %v", values)
	}
}
