package server

import (
	"errors"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/inspect"
)

// clerk is an actor that does what its messages say, with a timer and a view.
type clerk struct {
	desk *desk
	view any
}

// desk is what a clerk and its test share.
type desk struct{ entered, leave chan struct{} }

func (c *clerk) Init(ctx *actor.Context[string]) error {
	ctx.Every("round", time.Hour, "nothing")
	return nil
}

func (c *clerk) Receive(_ *actor.Context[string], msg string) error {
	switch msg {
	case "fail":
		return errors.New("the stamp is lost")
	case "panic":
		panic("the desk burns")
	case "wait":
		close(c.desk.entered)
		<-c.desk.leave
	}
	return nil
}

func (c *clerk) Inspect() any { return c.view }

func spawnClerk(t *testing.T, s *running, name string, view any) (actor.Ref[string], *desk) {
	t.Helper()
	d := &desk{make(chan struct{}), make(chan struct{})}
	return actor.Spawn(s.system, name, func() *clerk { return &clerk{d, view} }), d
}

func TestAnActorIsShownInDetail(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ref, desk := spawnClerk(t, s, "clerk", map[string]int{"stamps": 3})
	ref.Tell(t.Context(), "fail")
	ref.Tell(t.Context(), "panic")
	ref.Tell(t.Context(), "wait")
	receive(t, desk.entered, "the actor to be restarted twice")
	close(desk.leave)

	for _, query := range []string{"path=/clerk", "pid=" + url.QueryEscape(ref.PID().String())} {
		var d inspect.ActorDetail
		s.get("/v1/actor?"+query, &d) // it is answered when the handler has returned
		same(t, "the actor", []any{d.Actor.Path, d.Actor.PID, d.Actor.Type, d.Actor.Restarts, d.Busy}, []any{"/clerk", ref.PID(), "*server.clerk", 2, false})
		same(t, "its view", string(d.View)+d.Unshown, `{"stamps":3}`)
		if len(d.Timers) != 1 || d.Timers[0].Key != "round" || d.Timers[0].Every != 3_600_000 || d.Timers[0].In <= 0 {
			t.Errorf("timers %+v", d.Timers)
		}
		if d.Parent.Path() != "/" {
			t.Errorf("the parent is %v, not the root", d.Parent)
		}
		if len(d.Failures) != 2 {
			t.Fatalf("failures %+v", d.Failures)
		}
		same(t, "the last failure", []any{d.Failures[0].Error, d.Failures[0].Message}, []any{"panic: the desk burns", "string"})
		same(t, "the first failure", []any{d.Failures[1].Error, d.Failures[1].Stack}, []any{"the stamp is lost", ""})
		if f := d.Failures[0]; !strings.Contains(f.Stack, "Receive") || f.Time <= 0 || f.Time > d.Now {
			t.Errorf("the panic was at %d and its stack is %q", f.Time, f.Stack)
		}
	}
}

func TestABusyActorShowsItsMailbox(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ref, desk := spawnClerk(t, s, "clerk", "idle")
	ref.Tell(t.Context(), "wait")
	receive(t, desk.entered, "the handler")
	defer close(desk.leave)
	ref.Tell(t.Context(), "one")
	ref.Tell(t.Context(), "two")

	var d inspect.ActorDetail
	s.get("/v1/actor?path=/clerk", &d)
	if !d.Busy || d.Current != "string" || d.View != nil || len(d.Timers) != 0 {
		t.Errorf("busy %v with %q, view %s, timers %v", d.Busy, d.Current, d.View, d.Timers)
	}
	same(t, "the mailbox", d.Mail, []inspect.Mail{{Type: "string", Count: 2}})
}

func TestAViewThatJSONCannotSayIsExplained(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for name, tt := range map[string]struct {
		view any
		says string
	}{
		"nan":   {math.NaN(), "NaN"},
		"large": {strings.Repeat("x", inspect.MaxView), "bytes of JSON"},
		"panic": {grenade{}, "pulled"},
	} {
		spawnClerk(t, s, name, tt.view)
		var d inspect.ActorDetail
		s.get("/v1/actor?path=/"+name, &d)
		if d.View != nil || !strings.Contains(d.Unshown, tt.says) {
			t.Errorf("%s: the view %.40s and %q, want no view and %q", name, d.View, d.Unshown, tt.says)
		}
	}
}

type grenade struct{}

func (grenade) MarshalText() ([]byte, error) { panic("pulled") }

func TestAnEntityShowsItselfToTheTools(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("room-1", `{"temperature":21.5,"open":true}`)
	var d inspect.ActorDetail
	s.get("/v1/actor?path=/entities/room-1", &d)
	same(t, "its view", string(d.View), `{"id":"room-1","loaded":true,"keys":2,"seq":1,"revision":0,"commands":0}`)
}

func TestTheRootIsAnActor(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	var d inspect.ActorDetail
	s.get("/v1/actor?path=/", &d)
	if d.Actor.Path != "/" || d.Actor.Children == 0 || !d.Parent.IsZero() {
		t.Errorf("the root is %+v with the parent %v", d.Actor, d.Parent)
	}
}

// awaitEnd stops an actor and returns when it is gone.
func awaitEnd(t *testing.T, s *running, ref actor.Ref[string]) {
	t.Helper()
	gone := make(chan struct{})
	watcher := actor.SpawnFunc(s.system, "", func(ctx *actor.Context[actor.PID], pid actor.PID) error {
		if pid.IsZero() {
			close(gone)
			return nil
		}
		ctx.Watch(pid, func(actor.Down) actor.PID { return actor.PID{} })
		return nil
	})
	watcher.Tell(t.Context(), ref.PID())
	ref.Stop()
	receive(t, gone, "the end of the actor")
}

func TestAnActorThatIsNotThereAndBadAddresses(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ref, _ := spawnClerk(t, s, "gone", nil)
	awaitEnd(t, s, ref)
	for _, tt := range []struct {
		query, says string
		status      int
	}{
		{"path=/no-such", "/no-such", 404},
		{"pid=" + url.QueryEscape(ref.PID().String()), "gone", 404},
		{"pid=elsewhere/entities%235", "elsewhere", 404},
		{"", "path=/entities", 400},
		{"path=/&pid=x/y%231", "either path", 400},
		{"path=entities", "begin with /", 400},
		{"path=", "begin with /", 400},
		{"pid=entities", "pid must be", 400},
		{"pid=", "pid must be", 400},
		{"pid=-", "pid must be", 400},
		{"id=5", "path, pid", 400},
	} {
		resp, body := s.do("GET", "/v1/actor?"+tt.query, "")
		if resp.StatusCode != tt.status || !strings.Contains(body, tt.says) || resp.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("?%s: %s %s, want %d with %q", tt.query, resp.Status, body, tt.status, tt.says)
		}
	}
	if resp, _ := s.do("POST", "/v1/actor", ""); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST: %s", resp.Status)
	}
}

func TestDeadLetterFromOutsideHasNoSender(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	ref, _ := spawnClerk(t, s, "leaver", nil)
	ref.Stop()
	eventually(t, "a dead letter", func() bool {
		ref.Tell(t.Context(), "late")
		return s.system.Stats().DeadLetters > 0
	})
	var info struct {
		DeadLetters struct{ Recent []map[string]any } `json:"dead_letters"`
	}
	s.get("/v1/system", &info)
	letter := info.DeadLetters.Recent[0]
	same(t, "the letter", []any{letter["from"], letter["to"]}, []any{"", ref.PID()})
}

func TestThePagesOfInspectAreForThoseWhoSeeAll(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	for name, want := range map[string]int{"nobody": 401, "guest": 403, "viewer": 200, "admin": 200} {
		if resp, text := s.as(tokens[name]).do("GET", "/inspect/", ""); resp.StatusCode != want || want == 200 != strings.Contains(text, "/entities") {
			t.Errorf("%s: %s %.200s", name, resp.Status, text)
		}
	}
	if resp := s.browser(tokens["viewer"])("GET", "/inspect/assets/inspect.css", ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the style sheet in a session: %s", resp.Status)
	}
	ref, _ := spawnClerk(t, s, "clerk", nil)
	ref.Tell(t.Context(), "nothing")
	pid := url.QueryEscape(ref.PID().String())
	for path, want := range map[string]string{
		"profile?for=0.01": "Where the time goes", "record?for=0.01&pid=" + pid: "handled in", "top?by=handled": "/clerk",
		"actor?pid=" + pid: "<dt>Activity</dt><dd>", "?path=/clerk": "<h1>/clerk</h1>", "waits": "waits for whom", "failures": "failures",
	} {
		if resp, text := s.do("GET", "/inspect/"+path, "", "Accept", "text/html"); resp.StatusCode != http.StatusOK || !strings.Contains(text, want) {
			t.Errorf("%s: %s, without %q: %.200s", path, resp.Status, want, text)
		}
	}
	if resp, text := s.do("GET", "/inspect/top?bye=handled", ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("a parameter that no page has: %s %s", resp.Status, text)
	}
	for _, order := range []string{"stop", "kill"} {
		if resp, _ := s.do("POST", "/inspect/"+order, "pid="+pid, "Content-Type", "application/x-www-form-urlencoded"); resp.StatusCode < 400 {
			t.Errorf("%s by the pages: %s", order, resp.Status)
		}
	}
	if _, err := s.system.Inspect("/clerk", 0); err != nil {
		t.Errorf("after the orders that were refused: %v", err)
	}
}
