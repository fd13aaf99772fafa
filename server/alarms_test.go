package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity/alarm"
)

// raiseAlarm puts a rule over one entity in force, has it raise an alarm, and returns its id.
func (r *running) raiseAlarm(id string) string {
	r.t.Helper()
	rule := alarm.Rule{Name: "hot in " + id, Entity: id, Raise: "heat > 80", Clear: "heat < 70", Severity: alarm.Critical, Message: "too hot"}
	if _, err := r.alarms.PutRule(r.t.Context(), rule, ""); err != nil {
		r.t.Fatal(err)
	}
	r.post(id, `{"heat":90}`)
	r.syncAlarms()
	list, _, err := r.alarms.Alarms(r.t.Context(), alarm.Query{Entity: id, Open: true})
	if err != nil || len(list) != 1 {
		r.t.Fatalf("open alarms of %s: %v, %v", id, list, err)
	}
	return list[0].ID
}

func (r *running) syncAlarms() {
	r.t.Helper()
	if err := r.alarms.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func TestAlarmsOverHTTP(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	put := func(name, body string, header ...string) (int, string) {
		resp, text := s.do("PUT", "/v1/alarm-rules/"+name, body, append([]string{"Content-Type", mediaJSON}, header...)...)
		return resp.StatusCode, text
	}
	rule := `{"raise":"heat > 80","clear":"heat < 70","for":"1m","severity":"critical","message":"too hot"}`
	if status, text := put("hot?check", rule); status != http.StatusNoContent {
		t.Errorf("check: %d %s", status, text)
	}
	if status, text := put("hot", rule); status != http.StatusCreated || !strings.Contains(text, `"for":"1m"`) {
		t.Errorf("put: %d %s", status, text)
	}
	for body, want := range map[string]string{
		`{"raise":"heat > ","severity":"major"}`:                      `"column":8`,
		`{"raise":"heat > 8","clear":"heat >> 5","severity":"major"}`: `"in":"clear"`,
		`{"raise":"heat > 8","severity":"bad"}`:                       "critical, major, minor, warning, info",
		`{"raise":"heat > 8","severity":"major","for":"x"}`:           "for: duration",
		`{"raise":"related any to any","severity":"major"}`:           "must not depend on relations",
		`{"raise":"1 = 1","severity":"major"}`:                        "must look at a value",
		`{"raise":"heat > 8","where":"heat > 1","severity":"major"}`:  "where: ",
	} {
		if status, text := put("wrong", body); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("put %s: %d %s, want 400 with %s", body, status, text, want)
		}
	}
	if status, _ := put("hot", rule); status != http.StatusPreconditionRequired {
		t.Errorf("put blindly: %d", status)
	}
	if status, text := put("hot", strings.Replace(rule, `"for":"1m",`, "", 1), "If-Match", "*"); status != http.StatusOK {
		t.Errorf("replace: %d %s", status, text)
	}
	s.post("pump-1", `{"heat":85}`)
	s.syncAlarms()
	var page struct {
		Alarms []struct{ ID, Entity, State, Severity string }
		Next   string
	}
	s.get("/v1/alarms?state=raised&severity=critical,major&q="+url.QueryEscape(`heat > 1`), &page)
	if len(page.Alarms) != 1 || page.Alarms[0].Entity != "pump-1" || page.Alarms[0].State != "raised" {
		t.Fatalf("%+v", page)
	}
	at := "/v1/alarms/" + page.Alarms[0].ID
	ask := func(what, body string) (int, string) {
		resp, text := s.do("POST", at+"/"+what, body, "Content-Type", mediaJSON)
		return resp.StatusCode, text
	}
	if status, text := ask("clear", `{}`); status != http.StatusConflict || !strings.Contains(text, "shelve it") {
		t.Errorf("clear: %d %s", status, text)
	}
	if status, text := ask("acknowledge", `{"note":"on my way"}`); status != http.StatusOK || !strings.Contains(text, `"note":"on my way"`) {
		t.Errorf("acknowledge: %d %s", status, text)
	}
	if status, text := ask("shelve", `{"for":"2h"}`); status != http.StatusOK || !strings.Contains(text, `"until_ms"`) {
		t.Errorf("shelve: %d %s", status, text)
	}
	if status, text := ask("shelve", `{"for":"99d"}`); status != http.StatusBadRequest {
		t.Errorf("shelve for long: %d %s", status, text)
	}
	var one struct{ History []struct{ Kind string } }
	s.get(at, &one)
	if len(one.History) != 3 || one.History[1].Kind != "acknowledged" {
		t.Errorf("history %+v", one)
	}
	s.get("/v1/alarms?acknowledged=false", &page)
	if len(page.Alarms) != 0 {
		t.Errorf("not acknowledged: %+v", page)
	}
	if got := s.metric(`greenroom_alarms_open{severity="critical"}`); got != "1" {
		t.Errorf("the metric of open alarms is %s", got)
	}
	resp, text := s.do("GET", "/v1/export?what=alarm-rules", "")
	if resp.StatusCode != http.StatusOK || text != `{"name":"hot","raise":"heat > 80","clear":"heat < 70","severity":"critical","message":"too hot"}`+"\n" {
		t.Errorf("export: %s %s", resp.Status, text)
	}
	if resp, text := s.do("DELETE", "/v1/alarm-rules/hot", ""); resp.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %s %s", resp.Status, text)
	}
	resp, text = s.do("POST", "/v1/import?what=alarm-rules", `{"name":"hot","raise":"heat > 80","severity":"critical"}`, "Content-Type", mediaNDJSON)
	if resp.StatusCode != http.StatusOK || !strings.Contains(text, `"accepted":1`) {
		t.Errorf("import: %s %s", resp.Status, text)
	}
	if _, err := s.alarms.Rule("hot"); err != nil {
		t.Error(err)
	}
}

func TestAlarmsAreToldToThoseWhoMayReadTheirEntities(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	guest := s.as(tokens["guest"])
	stream := guest.open("/v1/stream/alarms")
	got := make(chan mqtt311.Message, 10)
	device := s.dial311("watcher", withToken(tokens["guest"]))
	if token := device.Subscribe("e/+/alarms", 1, func(_ mqtt311.Client, m mqtt311.Message) { got <- m }); token.Wait() && token.Error() != nil {
		t.Fatal(token.Error())
	}
	other := s.raiseAlarm("other")
	room := s.raiseAlarm("room-1")
	m := receive(t, got, "the alarm over MQTT")
	var told struct {
		Kind  string
		Alarm struct{ ID, Entity string }
	}
	if err := json.Unmarshal(m.Payload(), &told); err != nil || m.Topic() != "e/room-1/alarms" || told.Alarm.ID != room || told.Kind != "raised" {
		t.Errorf("%s %s, %v", m.Topic(), m.Payload(), err)
	}
	for {
		event, ok := stream.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if strings.Contains(event.data, "other") {
			t.Errorf("the guest is told %s", event.data)
		}
		if strings.Contains(event.data, room) {
			break
		}
	}
	// Who comes back is told what came in between.
	if event, ok := guest.open("/v1/stream/alarms", "Last-Event-ID", "0").next(); !ok || !strings.Contains(event.data, room) {
		t.Errorf("resumed: %+v", event)
	}
	resp, text := guest.do("GET", "/v1/alarms", "")
	if resp.StatusCode != http.StatusOK || strings.Contains(text, "other") || !strings.Contains(text, room) {
		t.Errorf("the guest lists %s %s", resp.Status, text)
	}
	_, hidden := guest.do("GET", "/v1/alarms/"+other, "")
	resp, none := guest.do("GET", "/v1/alarms/00000000z", "")
	if resp.StatusCode != http.StatusForbidden || strings.ReplaceAll(hidden, other, "") != strings.ReplaceAll(none, "00000000z", "") {
		t.Errorf("what is hidden differs from what is not there: %s, %s", hidden, none)
	}
	keeper := s.as(tokens["keeper"])
	if resp, text := keeper.do("POST", "/v1/alarms/"+room+"/acknowledge", `{}`, "Content-Type", mediaJSON); resp.StatusCode != http.StatusOK || !strings.Contains(text, `"by":"keeper"`) {
		t.Errorf("the keeper acknowledges: %s %s", resp.Status, text)
	}
	if resp, text := keeper.do("POST", "/v1/alarms/"+other+"/acknowledge", `{}`, "Content-Type", mediaJSON); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the keeper acknowledges another: %s %s", resp.Status, text)
	}
	if resp, text := s.do("GET", "/v1/audit", ""); !strings.Contains(text, "acknowledgeAlarm") {
		t.Errorf("audit: %s %s", resp.Status, text)
	}
	if resp, text := s.as(tokens["operator"]).do("POST", "/v1/import?what=alarm-rules", `{"name":"x","raise":"t > 1","severity":"info"}`, "Content-Type", mediaNDJSON); !strings.Contains(text, "admin") {
		t.Errorf("an operator imports rules: %s %s", resp.Status, text)
	}
}

func TestAlarmsOfADeletedEntityAreNotThoseOfANewOneOfItsID(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	old := s.raiseAlarm("room-1")
	if resp, text := s.do("DELETE", "/v1/entities/room-1", ""); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status, text)
	}
	s.post("room-1", `{"heat":10}`) // another one
	s.syncAlarms()
	guest := s.as(tokens["guest"])
	for _, at := range []string{"/v1/alarms", "/v1/alarms?deleted=any&entity=room-1"} {
		if resp, text := guest.do("GET", at, ""); resp.StatusCode != http.StatusOK || strings.Contains(text, old) {
			t.Errorf("%s shows the guest %s %s", at, resp.Status, text)
		}
	}
	if resp, text := guest.do("GET", "/v1/alarms/"+old, ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the guest reads it: %s %s", resp.Status, text)
	}
	if resp, text := s.as(tokens["keeper"]).do("POST", "/v1/alarms/"+old+"/acknowledge", `{}`, "Content-Type", mediaJSON); resp.StatusCode != http.StatusForbidden {
		t.Errorf("the keeper acknowledges it: %s %s", resp.Status, text)
	}
	again := guest.open("/v1/stream/alarms", "Last-Event-ID", "0")
	s.post("room-1", `{"heat":90}`)
	if event, ok := again.next(); !ok || strings.Contains(event.data, old) || !strings.Contains(event.data, "raised") {
		t.Errorf("the guest is told %+v", event)
	}
	if resp, text := s.do("GET", "/v1/alarms", ""); resp.StatusCode != http.StatusOK || strings.Contains(text, old) {
		t.Errorf("an admin lists %s %s", resp.Status, text)
	}
	if resp, text := s.do("GET", "/v1/alarms?deleted=true", ""); !strings.Contains(text, old) || !strings.Contains(text, `"deleted":true`) {
		t.Errorf("an admin who asks for them lists %s %s", resp.Status, text)
	}
	if resp, text := s.do("POST", "/v1/alarms/"+old+"/acknowledge", `{}`, "Content-Type", mediaJSON); resp.StatusCode != http.StatusOK {
		t.Errorf("an admin acknowledges it: %s %s", resp.Status, text)
	}
}
