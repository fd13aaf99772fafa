package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// command sends a command over HTTP.
func (r *running) command(id, body string, header ...string) (c commandJSONForTest, status int) {
	r.t.Helper()
	resp, text := r.do("POST", "/v1/entities/"+id+"/commands", body, append([]string{"Content-Type", mediaJSON}, header...)...)
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		r.t.Fatalf("command %s: %s %s", body, resp.Status, text)
	}
	return c, resp.StatusCode
}

// commandJSONForTest is commandJSON with values as they are written.
type commandJSONForTest struct {
	ID, Name, State, By, Key, Error string
	Request, Progress, Result       json.RawMessage
	Attempts                        int
	Delivered                       int64 `json:"delivered_ms"`
}

func TestACommandGoesToItsDeviceOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	if resp, text := s.do("GET", "/v1/entities/pump/next-command", ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("without a command: %s %s", resp.Status, text)
	}
	made, status := s.command("pump", `{"name":"open","request":{"angle":30},"timeout":"30s"}`)
	if status != http.StatusAccepted || made.State != "queued" || string(made.Request) != `{"angle":30}` {
		t.Errorf("%d %+v", status, made)
	}
	var got struct {
		ID, Name string
		Request  json.RawMessage
		Timeout  int64 `json:"timeout_ms"`
	}
	for range 2 { // until it is answered
		s.get("/v1/entities/pump/next-command?wait=20s", &got)
		if got.ID != made.ID || got.Name != "open" || string(got.Request) != `{"angle":30}` || got.Timeout != 30_000 {
			t.Errorf("the device got %+v", got)
		}
	}
	at := "/v1/entities/pump/commands/" + made.ID
	for _, step := range []struct{ answer, state string }{
		{`{"id":"` + made.ID + `","delivered":true}`, "delivered"},
		{`{"id":"` + made.ID + `","progress":50}`, "delivered"},
		{`{"id":"` + made.ID + `","result":"opened"}`, "done"},
		{`{"id":"` + made.ID + `","error":"late"}`, "done"},
	} {
		s.send(204, "POST", "/v1/entities/pump/answers", typeJSONHeader, step.answer)
		var c commandJSONForTest
		if s.get(at, &c); c.State != step.state {
			t.Errorf("after %s it is %+v", step.answer, c)
		}
	}
	var end commandJSONForTest
	s.get(at+"?wait=10s", &end)
	if string(end.Progress) != "50" || string(end.Result) != `"opened"` || end.Attempts < 2 || end.Delivered == 0 {
		t.Errorf("at its end it is %+v", end)
	}
	s.send(409, "DELETE", at, typeJSONHeader, "")
	s.send(404, "POST", "/v1/entities/pump/answers", typeJSONHeader, `{"id":"x","result":1}`)
	s.send(400, "POST", "/v1/entities/pump/answers", typeJSONHeader, `{"id":"x"}`)
	s.send(404, "POST", "/v1/entities/nobody/commands", typeJSONHeader, `{"name":"x"}`)
	s.send(400, "GET", at+"?wait=1h", typeJSONHeader, "")
}

func TestADeviceOverHTTPTakesOneCommandAndLeavesTheOthers(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	for range 3 {
		s.command("pump", `{"name":"open","parallel":true}`)
	}
	var got struct{ ID string }
	s.get("/v1/entities/pump/next-command?wait=20s", &got)
	// What was sent before is durable with it.
	s.send(204, "POST", "/v1/entities/pump/answers", typeJSONHeader, `{"id":"`+got.ID+`","delivered":true}`)
	var page struct {
		Commands []struct{ Attempts int }
	}
	s.get("/v1/entities/pump/commands", &page)
	sent := 0
	for _, c := range page.Commands {
		sent += c.Attempts
	}
	same(t, "commands that were sent", sent, 1)
}

func TestCommandsAreListedByPagesAndState(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	var ids []string
	for i := range 5 {
		c, _ := s.command("pump", fmt.Sprintf(`{"name":"c%d"}`, i))
		ids = append(ids, c.ID)
	}
	s.send(200, "DELETE", "/v1/entities/pump/commands/"+ids[1], typeJSONHeader, "")
	var page struct {
		Commands []commandJSONForTest
		Next     string
	}
	got := ""
	for next := "?limit=2"; ; next = "?limit=2&cursor=" + page.Next {
		page.Commands, page.Next = nil, ""
		s.get("/v1/entities/pump/commands"+next, &page)
		for _, c := range page.Commands {
			got += c.Name + " " + c.State + " "
		}
		if page.Next == "" {
			break
		}
	}
	same(t, "all commands", got, "c4 queued c3 queued c2 queued c1 canceled c0 queued ")
	s.get("/v1/entities/pump/commands?state=open", &page)
	same(t, "open ones", len(page.Commands), 4)
	for metric, want := range map[string]string{"greenroom_command_steps_total": "6", "greenroom_command_entities": "1", "greenroom_command_receivers": "0"} {
		same(t, metric, s.metric(metric), want)
	}
	s.get("/v1/entities/pump/commands?state=canceled", &page)
	same(t, "canceled ones", len(page.Commands), 1)
}

func TestAnIdempotencyKeySendsACommandOnce(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	first, _ := s.command("pump", `{"name":"open"}`, "Idempotency-Key", "k")
	again, _ := s.command("pump", `{"name":"open"}`, "Idempotency-Key", "k")
	if first.ID != again.ID || first.Key != "k" {
		t.Errorf("sent as %+v and %+v", first, again)
	}
	if resp, text := s.do("POST", "/v1/entities/pump/commands", `{"name":"close"}`, "Content-Type", mediaJSON, "Idempotency-Key", "k"); resp.StatusCode != http.StatusConflict {
		t.Errorf("another one: %s %s", resp.Status, text)
	}
}

func TestWhoSendsACommandCanWaitForItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	stop, err := s.runtime.Receive("pump", func(c entity.Command) {
		if err := s.runtime.Done(context.Background(), c.Entity, c.ID, value.Int(7)); err != nil {
			t.Errorf("answer: %v", err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, text := s.send(200, "POST", "/v1/entities/pump/commands?wait=20s", typeJSONHeader, `{"name":"open"}`)
	if !strings.Contains(text, `"state":"done"`) || !strings.Contains(text, `"result":7`) {
		t.Errorf("who waits is answered %s", text)
	}
	stop()
	_, text = s.send(202, "POST", "/v1/entities/pump/commands?wait=20ms", typeJSONHeader, `{"name":"open"}`)
	if !strings.Contains(text, `"state":"queued"`) {
		t.Errorf("who waits in vain is answered %s", text)
	}
}

func TestACommandToAllThatMatchIsSentAtARate(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 10 {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":"p%d","attributes":{"n":%d}}`, i, i))
	}
	began := time.Now()
	resp, _ := s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"attributes.n < 5","command":{"name":"update","request":{"version":2}},"rate":50}`)
	status := s.finished(resp.Header.Get("Location"))
	if status.State != bulkDone || status.Changed != 5 || status.Failed != 0 {
		t.Errorf("the job is %+v", status)
	}
	if took := time.Since(began); took < 80*time.Millisecond { // four pauses of 20 ms
		t.Errorf("five commands at 50 a second took %v", took)
	}
	for i := range 10 {
		var page struct{ Commands []commandJSONForTest }
		s.get(fmt.Sprintf("/v1/entities/p%d/commands", i), &page)
		if want := 1 - i/5; len(page.Commands) != want || want == 1 && page.Commands[0].Name != "update" {
			t.Errorf("p%d has the commands %+v", i, page.Commands)
		}
	}
	s.send(400, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"","command":{"name":"x"},"delete":true}`)
}

func TestACommandToAllGoesToThoseThatStillMatch(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 2 {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":"p%d","attributes":{"n":1}}`, i))
	}
	sent := make(chan entity.Command, 1)
	stop, err := s.runtime.Receive("p0", func(c entity.Command) { sent <- c })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	resp, _ := s.send(202, "POST", "/v1/bulk", typeJSONHeader, `{"filter":"attributes.n = 1","command":{"name":"update"},"rate":2}`)
	<-sent // the next one half a second later
	if _, err := s.runtime.Edit(t.Context(), "p1", entity.Edits{Patches: []entity.Patch{{Section: entity.Attributes, Form: entity.MergePatch, Body: []byte(`{"n":2}`)}}}); err != nil {
		t.Fatal(err)
	}
	if status := s.finished(resp.Header.Get("Location")); status.State != bulkDone || status.Changed != 1 || status.Skipped != 1 {
		t.Errorf("the job is %+v", status)
	}
	if list, err := s.runtime.Commands(t.Context(), "p1", entity.CommandsQuery{}); err != nil || len(list) > 0 {
		t.Errorf("one that does not match any more has %+v, %v", list, err)
	}
}

func TestAnIdempotencyKeySendsACommandToAllOnce(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	for i := range 3 {
		s.send(201, "POST", "/v1/entities", typeJSONHeader, fmt.Sprintf(`{"id":"p%d"}`, i))
	}
	for _, key := range []string{"k", "k", "other"} {
		resp, text := s.do("POST", "/v1/bulk", `{"filter":"","command":{"name":"update"}}`, "Content-Type", mediaJSON, "Idempotency-Key", key)
		if resp.StatusCode != http.StatusAccepted {
			t.Fatalf("%s %s", resp.Status, text)
		}
		if status := s.finished(resp.Header.Get("Location")); status.State != bulkDone || status.Changed != 3 {
			t.Errorf("the job is %+v", status)
		}
	}
	for i := range 3 {
		if list, err := s.runtime.Commands(t.Context(), fmt.Sprintf("p%d", i), entity.CommandsQuery{}); err != nil || len(list) != 2 {
			t.Errorf("for two keys p%d has %d commands, %v", i, len(list), err)
		}
	}
	for body, key := range map[string]string{`{"filter":"","delete":true}`: "k", `{"filter":"","command":{"name":"update"}}`: strings.Repeat("k", 257)} {
		if resp, text := s.do("POST", "/v1/bulk", body, "Content-Type", mediaJSON, "Idempotency-Key", key); resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s with a key of %d bytes: %s %s", body, len(key), resp.Status, text)
		}
	}
}

func TestWhoSentACommandIsInTheAuditLog(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c, status := s.as(tokens["keeper"]).command("room-1", `{"name":"open"}`)
	if status != http.StatusAccepted || c.By != "keeper" {
		t.Errorf("%d %+v", status, c)
	}
	if resp, text := s.as(tokens["keeper"]).do("POST", "/v1/entities/other/commands", `{"name":"open"}`, "Content-Type", mediaJSON); resp.StatusCode != http.StatusForbidden {
		t.Errorf("to another's entity: %s %s", resp.Status, text)
	}
	s.as(tokens["room-1"]).send(200, "GET", "/v1/entities/room-1/next-command?wait=20s", "", "")
	s.as(tokens["room-1"]).send(204, "POST", "/v1/entities/room-1/answers", typeJSONHeader, `{"id":"`+c.ID+`","delivered":true}`)
	var log struct {
		Entries []struct{ Who, Action, What string }
	}
	s.get("/v1/audit?limit=10", &log)
	found := 0
	for _, e := range log.Entries {
		if e.Who == "keeper" && e.Action == "postCommand" && strings.Contains(e.What, c.ID+" open") {
			found++
		}
		if e.Action == "postAnswer" {
			t.Errorf("the answer of a device is there: %+v", e)
		}
	}
	same(t, "entries about the command", found, 1)
}

func TestStepsOfCommandsAreStreamedToWhoAsksForThem(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	stream := s.open("/v1/stream?kinds=commands")
	c, _ := s.command("pump", `{"name":"open"}`)
	s.post("pump", `{"t":2}`)
	s.send(200, "DELETE", "/v1/entities/pump/commands/"+c.ID, typeJSONHeader, "")
	for _, want := range []string{"queued", "canceled"} {
		stream.mustBe("command", `"command":{"id":"`+c.ID+`","entity":"pump","name":"open","state":"`+want+`"`)
	}
}

// Who waits for a command, or for the end of one, is told nothing more once it is revoked.
func TestWhoIsRevokedWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	s.post("esp", `{"t":1}`)
	made, _ := s.command("esp", `{"name":"open"}`)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	device := s.principal(`{"name":"pump","grants":[{"role":"device"}]}`)
	viewer := s.principal(`{"name":"viewer","grants":[{"role":"viewer"}]}`)
	for _, poll := range []struct{ name, token, path string }{
		{"pump", device, "/v1/entities/pump/next-command?wait=25s"},
		{"viewer", viewer, "/v1/entities/esp/commands/" + made.ID + "?wait=25s"},
	} {
		answered := make(chan int, 1)
		go func() { answered <- s.status(poll.token, poll.path) }()
		eventually(t, "the request", func() bool {
			info, err := s.book.Info(poll.name)
			return err == nil && !info.Used.IsZero()
		})
		began := time.Now()
		s.send(204, "DELETE", "/v1/principals/"+poll.name, typeJSONHeader, "")
		same(t, "what "+poll.path+" is answered", receive(t, answered, "the answer"), http.StatusUnauthorized)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("%s was answered %v after the revocation", poll.path, took)
		}
	}
	token := s.principal(`{"name":"esp","grants":[{"role":"device"}]}`)
	s.send(200, "DELETE", "/v1/entities/esp/commands/"+made.ID, typeJSONHeader, "")
	answered := make(chan int, 1)
	go func() { answered <- s.status(token, "/api/v1/"+token+"/rpc?timeout=25000") }()
	eventually(t, "the receiver", func() bool { return s.metric("greenroom_command_receivers") == "1" })
	s.send(204, "DELETE", "/v1/principals/esp", typeJSONHeader, "")
	same(t, "what a device made for ThingsBoard is answered", receive(t, answered, "the answer"), http.StatusUnauthorized)
	same(t, "receivers that are left", s.metric("greenroom_command_receivers"), "0")
}

// The command goes to a gateway that waits only if the entity is still its own.
func TestWhoHasLostAnEntityWaitsForNothing(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "POST", "/v1/entities", typeJSONHeader, `{"id":"mover","attributes":{"hall":3}}`)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	gateway := s.principal(`{"name":"gw","grants":[{"role":"device","filter":"attributes.hall = 3"}]}`)
	path := "/v1/entities/mover/next-command"
	answered := make(chan int, 1)
	go func() { answered <- s.status(gateway, path+"?wait=25s") }()
	eventually(t, "the receiver", func() bool { return s.metric("greenroom_command_receivers") == "1" })
	s.send(200, "PATCH", "/v1/entities/mover/attributes/attributes", typeMergeHeader, `{"hall":4}`)
	eventually(t, "the end of the grant", func() bool { return s.status(gateway, path) == http.StatusForbidden })
	s.command("mover", `{"name":"secret"}`)
	same(t, "what the gateway is answered", receive(t, answered, "the answer"), http.StatusForbidden)
}

// status is what a GET of somebody is answered with, 0 where it is not.
func (r *running) status(token, path string) int {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.HTTPAddr()+path, http.NoBody)
	if err != nil {
		r.t.Errorf("GET %s: %v", path, err)
		return 0
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		r.t.Errorf("GET %s: %v", path, err)
		return 0
	}
	_ = resp.Body.Close() // only the status counts
	return resp.StatusCode
}

// A command of who was revoked is sent, which its answer says, but not what has become of it.
func TestWhoIsRevokedIsToldWhatItHasSent(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.post("pump", `{"t":1}`)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	operator := s.as(s.principal(`{"name":"operator","grants":[{"role":"operator"}]}`))
	answered := make(chan string, 1)
	go func() {
		resp, text := operator.do("POST", "/v1/entities/pump/commands?wait=25s", `{"name":"open"}`, "Content-Type", mediaJSON)
		answered <- fmt.Sprint(resp.StatusCode, text)
	}()
	var page struct{ Commands []commandJSONForTest }
	eventually(t, "the command", func() bool {
		s.get("/v1/entities/pump/commands", &page)
		return len(page.Commands) == 1
	})
	began := time.Now()
	s.send(204, "DELETE", "/v1/principals/operator", typeJSONHeader, "")
	if text := receive(t, answered, "the answer"); !strings.HasPrefix(text, "202") || !strings.Contains(text, page.Commands[0].ID) || !strings.Contains(text, `"state":"queued"`) {
		t.Errorf("the answer is %s", text)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("it came %v after the revocation", took)
	}
}
