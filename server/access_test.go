package server

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/eclipse/paho.golang/paho"
	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/server/access"
)

// principal makes a principal and returns its token.
func (r *running) principal(body string) string {
	r.t.Helper()
	resp, text := r.do("POST", "/v1/principals", body, "Content-Type", mediaJSON)
	var made struct{ Token string }
	if resp.StatusCode != http.StatusCreated || json.Unmarshal([]byte(text), &made) != nil {
		r.t.Fatalf("make the principal %s: %s %s", body, resp.Status, text)
	}
	return made.Token
}

// as is the server as somebody with a token sees it.
func (r *running) as(token string) *running {
	other := *r
	other.token = token
	return &other
}

// asAnybody is the context of a request where nobody has to log in.
func (r *running) asAnybody() context.Context {
	who, err := r.book.Login(r.t.Context(), &access.Attempt{})
	if err != nil {
		r.t.Fatal(err)
	}
	return context.WithValue(r.t.Context(), callerKey{}, &caller{who: who, revoked: r.t.Context(), still: func() error { return nil }, changed: func() {}})
}

// startGuarded runs a server with entities room-1, room-2 and other, and principals by
// name, whose tokens it returns.
func startGuarded(t *testing.T) (s *running, tokens map[string]string) {
	t.Helper()
	s = start(t, "")
	for _, id := range []string{"room-1", "room-2", "other"} {
		s.post(id, `{"ts":1000,"values":{"t":1}}`)
	}
	for _, to := range []string{"room-2", "other"} {
		if resp, text := s.do("PUT", "/v1/entities/room-1/relations/near/"+to, `{}`, "Content-Type", mediaJSON); resp.StatusCode >= 300 {
			t.Fatal(resp.Status, text)
		}
	}
	tokens = map[string]string{"nobody": ""}
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	tokens["admin"] = s.token
	rooms := `"filter":"id like \"room-%\""`
	for name, grant := range map[string]string{
		"elsewhere": `{"role":"operator","filter":"id = \"elsewhere\""}`,
		"room-1":    `{"role":"device"}`,
		"guest":     `{"role":"viewer",` + rooms + `}`,
		"viewer":    `{"role":"viewer"}`,
		"keeper":    `{"role":"operator",` + rooms + `}`,
		"operator":  `{"role":"operator"}`,
	} {
		tokens[name] = s.principal(`{"name":"` + name + `","grants":[` + grant + `]}`)
	}
	return s, tokens
}

// askers are who asks in the table below: nobody; an operator of another entity; the
// device room-1; a viewer of the rooms; a viewer; an operator of the rooms; an operator; an
// admin.
var askers = []string{"nobody", "elsewhere", "room-1", "guest", "viewer", "keeper", "operator", "admin"}

// mayAsk has, for each operation, who of them is let in: y or n. What is about an entity is
// asked about room-1.
var mayAsk = map[string]string{
	"getHealth": "yyyyyyyy", "getOpenAPI": "yyyyyyyy", "postSession": "yyyyyyyy", "deleteSession": "yyyyyyyy",
	"getSession":     "nyyyyyyy",
	"getSessionWays": "yyyyyyyy",

	"getEntity": "nnyyyyyy", "getAttributes": "nnyyyyyy", "getSection": "nnyyyyyy", "getTelemetry": "nnyyyyyy", "explainValue": "nnyyyyyy",
	"listRelations": "nnyyyyyy", "getRelation": "nnnyyyyy", "traverse": "nnyyyyyy",
	"postTelemetry": "nnynnyyy", "putSection": "nnynnyyy", "patchSection": "nnynnyyy",
	"putEntity": "nnnnnyyy", "patchEntity": "nnnnnyyy", "deleteEntity": "nnnnnyyy", "putAttributes": "nnnnnyyy", "patchAttributes": "nnnnnyyy",
	"putRelation": "nnnnnyyy", "deleteRelation": "nnnnnyyy", "postEntity": "nnnnnyyy",

	"getShadow": "nnyyyyyy", "listShadows": "nnyyyyyy", "updateShadow": "nnynnyyy", "deleteShadow": "nnynnyyy",

	"postDeviceTelemetry": "nyynnnyy", "postDeviceAttributes": "nyynnnyy", "getDeviceAttributes": "nyynnnyy", "getDeviceUpdate": "nyynnnyy", "getDeviceCommand": "nnynnnnn",
	"postDeviceMessage": "nnynnyyy", "getDeviceMessage": "nnynnnnn", "completeDeviceMessage": "nnynnyyy", "abandonDeviceMessage": "nnynnyyy",
	"postDeviceAnswer": "nyynnnyy", "postServerCall": "nyynnnyy",

	"listEntities": "nyyyyyyy", "postSearch": "nyyyyyyy", "postHistory": "nyyyyyyy", "export": "nyyyyyyy", "stream": "nyyyyyyy", "socket": "nyyyyyyy",
	"complete": "nyyyyyyy", "listTypes": "nyyyyyyy", "getType": "nyyyyyyy",

	"postCommand": "nnnnnyyy", "cancelCommand": "nnnnnyyy", "listCommands": "nnyyyyyy", "getCommand": "nnyyyyyy", "nextCommand": "nnynnnnn", "postAnswer": "nnynnyyy",

	"listQueries": "nnnnynyy", "getQuery": "nnnnynyy", "listMappings": "nnnnynyy", "getMapping": "nnnnynyy", "listRetention": "nnnnynyy", "getRetention": "nnnnynyy",
	"listBulk": "nnnnynyy", "getBulk": "nnnnynyy", "getSystem": "nnnnynyy", "getRefusals": "nnnnynyy", "getActors": "nnnnynyy", "getActor": "nnnnynyy", "getMetrics": "nnnnynyy",

	"postBulk": "nnnnnnyy", "cancelBulk": "nnnnnnyy", "importData": "nnnnnnyy", "putMapping": "nnnnnnyy", "deleteMapping": "nnnnnnyy", "recomputeMapping": "nnnnnnyy",
	"listScripts": "nyyyyyyy", "getScript": "nyyyyyyy", "listScriptVersions": "nyyyyyyy", "putScript": "nynnnyyy", "deleteScript": "nynnnyyy",
	"getScriptState": "nnnnnyyy", "rollBackScript": "nynnnyyy", "switchScript": "nynnnyyy", "tryScript": "nynnnyyy",
	"listTemplates": "nnnnynyy", "getTemplate": "nnnnynyy", "tryTemplate": "nnnnynyy", "putTemplate": "nnnnnnyy", "deleteTemplate": "nnnnnnyy",
	"putQuery": "nnnnnnyy", "deleteQuery": "nnnnnnyy", "runRetention": "nnnnnnyy", "compactHistory": "nnnnnnyy", "putRetention": "nnnnnnyy", "deleteRetention": "nnnnnnyy",
	"putType": "nnnnnnyy", "deleteType": "nnnnnnyy", "importTypes": "nnnnnnyy",

	"listAlarms": "nyyyyyyy", "streamAlarms": "nyyyyyyy", "getAlarm": "nnyyyyyy", "acknowledgeAlarm": "nnnnnyyy", "shelveAlarm": "nnnnnyyy", "unshelveAlarm": "nnnnnyyy", "clearAlarm": "nnnnnyyy",
	"listWebhooks": "nnnnnnny", "getWebhook": "nnnnnnny", "putWebhook": "nnnnnnny", "deleteWebhook": "nnnnnnny", "listDeadLetters": "nnnnnnny", "retryDeadLetter": "nnnnnnny", "discardDeadLetter": "nnnnnnny",
	"listAlarmRules": "nnnnynyy", "getAlarmRule": "nnnnynyy", "putAlarmRule": "nnnnnnny", "deleteAlarmRule": "nnnnnnny",

	"listPrincipals": "nnnnnnny", "postPrincipal": "nnnnnnny", "getPrincipal": "nnnnnnny", "deletePrincipal": "nnnnnnny",
	"claimEntity": "nyyyyyyy", "postDeviceClaim": "nyynnnyy", "listOffers": "nnnnnnny",
	"listProvisionKeys": "nnnnnnny", "postProvisionKey": "nnnnnnny", "deleteProvisionKey": "nnnnnnny", "provisionDevice": "yyyyyyyy", "listAudit": "nnnnnnny", "runConsole": "nnnnnnny", "getCluster": "nnnnnnny",
}

// A new operation needs a row in mayAsk.
func TestEachOperationLetsInWhoMayAsk(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	var doc struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	s.get("/openapi.json", &doc)
	fill := strings.NewReplacer("{id}", "room-1", "{section}", "reported", "{to}", "room-2", "{type}", "near", "{key}", "t", "{name}", "none", "{query}", "none", "{rule}", "none", "{job}", "none", "{command}", "none", "{number}", "1", "{delivery}", "1", "{alarm}", s.raiseAlarm("room-1"))
	body := map[string]string{
		"postEntity": `{"id":"room-3"}`, "postHistory": `{"keys":["t"],"agg":["avg"],"filter":""}`,
		"acknowledgeAlarm": `{}`, "shelveAlarm": `{"for":"1h"}`, "unshelveAlarm": `{}`, "clearAlarm": `{}`,
	}
	const entities = "/v1/entities/{id}" // goes last, and the alarm with it
	patterns := append(slices.DeleteFunc(slices.Sorted(maps.Keys(doc.Paths)), func(p string) bool { return p == entities }), entities)
	for _, pattern := range patterns {
		for method, o := range doc.Paths[pattern] {
			want, ok := mayAsk[o.OperationID]
			if !ok {
				t.Errorf("%s %s (%s) has no row in mayAsk", method, pattern, o.OperationID)
				continue
			}
			path := fill.Replace(pattern)
			ownPath := func(token string) string { return strings.Replace(path, "{token}", cmp.Or(token, "none"), 1) }
			switch o.OperationID {
			case "getDeviceCommand", "getDeviceUpdate":
				path += "?timeout=1"
			case "export":
				path += "?what=entities"
			case "stream", "streamAlarms":
				method = "HEAD"
			}
			got := ""
			for _, name := range askers {
				resp, text := s.as(tokens[name]).do(strings.ToUpper(method), ownPath(tokens[name]), body[o.OperationID], "Content-Type", "application/json")
				switch resp.StatusCode {
				case http.StatusUnauthorized:
					if tokens[name] != "" || resp.Header.Get("WWW-Authenticate") == "" {
						if o.OperationID != "postSession" {
							t.Errorf("%s %s as %s: %s %s", method, path, name, resp.Status, text)
						}
					}
					got += "n"
				case http.StatusForbidden:
					got += "n"
				default:
					got += "y"
				}
			}
			if o.OperationID == "postSession" { // whose body has no credentials
				got = strings.ReplaceAll(got, "n", "y")
			}
			if got != want {
				t.Errorf("%s %s (%s) lets in %s, want %s, of %v", method, path, o.OperationID, got, want, askers)
			}
		}
	}
}

func TestNoOperationIsWithoutAPermission(t *testing.T) {
	t.Parallel()
	for _, o := range listOperations() {
		if o.needs == 0 || o.needs >= permissionCount {
			t.Errorf("%s has the permission %d", o.id, o.needs)
		}
	}
	if err := permission(0).check(nil, &access.Principal{}, nil); err == nil {
		t.Error("what has no permission lets everybody in")
	}
}

// The guest sees the rooms, and nothing of other.
func TestAGrantIsTheBorderOfWhatIsSeen(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	guest := s.as(tokens["guest"])
	for _, path := range []string{
		"/v1/entities", "/v1/entities?q=t%3D1", "/v1/entities?search=o", "/v1/export?what=latest", "/v1/export?what=history", "/v1/export?what=entities&entity=other&entity=room-1",
		"/v1/export?what=relations", "/v1/entities/room-1/relations", "/v1/query/complete?q=id%20%3D%20%22o",
	} {
		resp, text := guest.do("GET", path, "")
		if resp.StatusCode != http.StatusOK || strings.Contains(text, `"other"`) {
			t.Errorf("GET %s: %s %s", path, resp.Status, text)
		}
		if !strings.Contains(path, "complete") && !strings.Contains(text, "room-1") {
			t.Errorf("GET %s has nothing of room-1: %s", path, text)
		}
	}
	for _, ask := range [][2]string{
		{"/v1/search", `{"count":true}`},
		{"/v1/search", `{"filter":"id = \"other\" or true = true","count":true}`},
		{"/v1/history", `{"keys":["t"],"agg":["avg"],"filter":""}`},
		{"/v1/entities/room-1/traverse", `{}`},
		{"/v1/entities/room-1/traverse", `{"direction":"both","depth":9}`},
	} {
		resp, text := guest.do("POST", ask[0], ask[1], "Content-Type", mediaJSON)
		if strings.Contains(text, `"other"`) || strings.Contains(text, `"total":3`) {
			t.Errorf("POST %v: %s %s", ask, resp.Status, text)
		}
	}
	for _, ask := range [][3]string{
		{"GET", "/v1/entities/other", ""},
		{"GET", "/v1/entities/never", ""},
		{"GET", "/v1/entities/room-1/relations/near/other", ""},
		{"GET", "/v1/entities?q=" + url.QueryEscape(`related any any to (t = 1)`), ""},
		{"GET", "/v1/entities?q=" + url.QueryEscape(`related any to "other"`), ""},
		{"GET", "/v1/export?what=mappings", ""},
		{"POST", "/v1/history", `{"keys":["t"],"agg":["avg"],"entities":["other"]}`},
		{"POST", "/v1/entities/room-1/traverse", `{"match":"related any to \"other\""}`},
	} {
		resp, text := guest.do(ask[0], ask[1], ask[2], "Content-Type", mediaJSON)
		if resp.StatusCode != http.StatusForbidden && !strings.Contains(text, "expected") || strings.Contains(text, `"ts"`) {
			t.Errorf("%v: %s %s", ask, resp.Status, text)
		}
	}
	keeper := s.as(tokens["keeper"])
	for _, ask := range [][3]string{
		{"POST", "/v1/entities", `{"id":"room-4","relations":[{"type":"near","to":"other"}]}`},
		{"POST", "/v1/entities", `{"id":"outside"}`},
		{"POST", "/v1/entities", `{}`},
		{"PUT", "/v1/entities/room-1/relations/near/other", `{}`},
		{"POST", "/v1/entities/other/telemetry", `{"t":5}`},
	} {
		if resp, text := keeper.do(ask[0], ask[1], ask[2], "Content-Type", mediaJSON); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%v: %s %s, want 403", ask, resp.Status, text)
		}
	}
}

func TestAStreamShowsWhatTheGrantCovers(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	for _, path := range []string{"/v1/stream?kinds=readings,edits", "/v1/stream?kinds=readings,edits&entity=other&entity=room-1"} {
		stream := s.as(tokens["guest"]).open(path)
		s.post("other", `{"t":2}`)
		s.do("DELETE", "/v1/entities/other/relations/near/room-1", "")
		s.do("PUT", "/v1/entities/room-1/relations/far/other", `{}`, "Content-Type", mediaJSON)
		s.post("room-1", `{"ts":7000,"values":{"t":3}}`)
		for {
			event, ok := stream.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			if strings.Contains(event.data, "other") {
				t.Errorf("%s: %s", path, event.data)
			}
			if strings.Contains(event.data, "7000") {
				break
			}
		}
	}
}

func TestRevocationEndsWhatIsOpenWithinASecond(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	stream := s.as(tokens["viewer"]).open("/v1/stream")
	ws, resp, err := websocket.Dial(t.Context(), "ws://"+s.HTTPAddr()+"/v1/ws", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + tokens["viewer"]}}})
	if err != nil {
		t.Fatal(resp, err)
	}
	defer func() { _ = ws.CloseNow() }() // it may be closed already
	lost := make(chan struct{}, 1)
	device := s.dial311("d", withToken(tokens["viewer"]), func(o *mqtt311.ClientOptions) {
		o.SetConnectionLostHandler(func(mqtt311.Client, error) { lost <- struct{}{} })
	})
	browser := s.browser(tokens["viewer"])
	if resp := browser("GET", "/v1/entities", ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("the session: %s", resp.Status)
	}
	began := time.Now()
	if resp, text := s.do("DELETE", "/v1/principals/viewer", ""); resp.StatusCode != http.StatusNoContent {
		t.Fatal(resp.Status, text)
	}
	for ok := true; ok; { // until the stream ends
		_, ok = stream.next()
	}
	for {
		if _, _, err := ws.Read(t.Context()); err != nil {
			if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
				t.Errorf("the WebSocket ended with %v", err)
			}
			break
		}
	}
	receive(t, lost, "the end of the MQTT connection")
	t.Logf("all ended after %v", time.Since(began))
	if device.IsConnectionOpen() {
		t.Error("the MQTT connection is open")
	}
	if resp := browser("GET", "/v1/entities", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the session after the revocation: %s", resp.Status)
	}
	if resp, _ := s.as(tokens["viewer"]).do("GET", "/v1/entities", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the token after the revocation: %s", resp.Status)
	}
}

// browser logs in and returns what makes requests in the session.
func (r *running) browser(token string) func(method, path, body string, header ...string) *http.Response {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	c := &http.Client{Jar: jar}
	ask := func(method, path, body string, header ...string) *http.Response {
		req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.HTTPAddr()+path, strings.NewReader(body))
		if err != nil {
			r.t.Fatal(err)
		}
		req.Header.Set("Content-Type", mediaJSON)
		for i := 0; i < len(header); i += 2 {
			req.Header.Set(header[i], header[i+1])
		}
		resp, err := c.Do(req)
		if err != nil {
			r.t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	resp := ask("POST", "/v1/session", `{"token":"`+token+`"}`)
	cookie := resp.Header.Get("Set-Cookie")
	if resp.StatusCode != http.StatusCreated || !strings.Contains(cookie, "HttpOnly") || !strings.Contains(cookie, "SameSite=Strict") || strings.Contains(cookie, token) {
		r.t.Fatalf("log in: %s, cookie %q", resp.Status, cookie)
	}
	return ask
}

func TestASessionWritesOnlyFromItsOwnPages(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	browser := s.browser(tokens["operator"])
	own := "http://" + s.HTTPAddr()
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, http.StatusForbidden},
		{[]string{"Origin", "http://evil.example"}, http.StatusForbidden},
		{[]string{"Origin", "http://127.0.0.1:1"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden},
		{[]string{"Sec-Fetch-Site", "same-origin", "Origin", own}, http.StatusNoContent},
		{[]string{"Origin", own}, http.StatusNoContent},
	} {
		if resp := browser("POST", "/v1/entities/room-1/telemetry", `{"t":1}`, tt.header...); resp.StatusCode != tt.want {
			t.Errorf("with %v: %s, want %d", tt.header, resp.Status, tt.want)
		}
	}
	if resp := browser("DELETE", "/v1/session", "", "Origin", own); resp.StatusCode != http.StatusNoContent {
		t.Errorf("log out: %s", resp.Status)
	}
	if resp := browser("GET", "/v1/session", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after logging out: %s", resp.Status)
	}
}

func TestTheAuditLogHasWhoChangedWhat(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.as(tokens["operator"]).do("DELETE", "/v1/entities/room-2", "")
	s.as(tokens["viewer"]).do("DELETE", "/v1/entities/room-1", "")
	s.as(tokens["room-1"]).do("POST", "/v1/entities/room-1/telemetry", `{"t":1}`, "Content-Type", mediaJSON)
	var log struct {
		Entries []struct{ Who, Action, What string }
	}
	s.as(tokens["operator"]).do("PUT", "/v1/scripts/none?check", `{"source":"function on_reading(e, r) end"}`, "Content-Type", mediaJSON) // which changes nothing
	s.as(tokens["admin"]).do("PUT", "/v1/mappings/none?check", "insert into e select a.x as y", "Content-Type", "text/plain")
	s.as(tokens["admin"]).do("PUT", "/v1/alarm-rules/none?check", `{"raise":"x > 1","severity":"warning"}`, "Content-Type", mediaJSON)
	s.get("/v1/audit?limit=2", &log)
	same(t, "the newest entries", log.Entries[:1], "[{operator deleteEntity /v1/entities/room-2}]")
	if log.Entries[1].Action != "postPrincipal" || log.Entries[1].Who != "admin" {
		t.Errorf("before it: %+v", log.Entries[1])
	}
}

// withToken sets the password of an MQTT 3.1.1 client.
func withToken(token string) func(*mqtt311.ClientOptions) {
	return func(o *mqtt311.ClientOptions) { o.SetUsername("anything").SetPassword(token) }
}

func TestConnectIsAnsweredByWhatIsWrong(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.principal(`{"name":"word","grants":[{"role":"device"}],"password":"12345678"}`)
	wrong := tokens["viewer"][:len(tokens["viewer"])-4] + "aaaa"
	for _, tt := range []struct {
		name, user, password string
		v3, v5               byte
	}{
		{"no credentials", "", "", 5, 0x87},
		{"a wrong token", "x", wrong, 4, 0x86},
		{"a wrong password", "word", "12345679", 4, 0x86},
		{"the name of nobody", "nobody", "12345678", 4, 0x86},
		{"a token as password", "x", tokens["viewer"], 0, 0},
		{"a token as user name", tokens["viewer"], "", 0, 0},
		{"a password", "word", "12345678", 0, 0},
	} {
		for version, want := range map[byte]byte{4: tt.v3, 5: tt.v5} {
			if got := s.connack(version, tt.user, tt.password); got != want {
				t.Errorf("%s, version %d: %#x, want %#x", tt.name, version, got, want)
			}
		}
	}
}

func TestMQTTShowsAndTakesWhatTheGrantCovers(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	admin := s.dial311("same", withToken(tokens["admin"]))
	await(t, admin.Publish("e/other/telemetry", 1, true, `{"t":1}`))
	await(t, admin.Publish("e/room-1/telemetry", 1, true, `{"t":1}`))
	device := s.dial311("same", withToken(tokens["room-1"])) // the id of another principal's client
	seen := make(chan string, 100)
	for _, filter := range []string{"#", "e/+/telemetry", "$share/g/e/+/telemetry", "$SYS/#"} {
		token := device.Subscribe(filter, 1, func(_ mqtt311.Client, m mqtt311.Message) { seen <- m.Topic() })
		await(t, token)
	}
	for filter, want := range map[string]byte{"e/room-1/desired": 1, "e/other/telemetry": 0x80, "$SYS/broker/uptime": 0x80} {
		token := device.Subscribe(filter, 1, nil)
		token.WaitTimeout(patience)
		if got := token.(*mqtt311.SubscribeToken).Result()[filter]; got != want {
			t.Errorf("SUBACK for %s: %#x, want %#x", filter, got, want)
		}
	}
	if !admin.IsConnectionOpen() {
		t.Error("a client of another principal took the connection of the same id")
	}
	await(t, admin.Publish("e/other/telemetry", 1, false, `{"t":2}`))
	s.post("other", `{"t":3}`)
	await(t, device.Publish("e/other/telemetry", 1, false, `{"t":666}`))
	await(t, device.Publish("e/other/attributes", 1, false, `{"mine":true}`))
	await(t, device.Publish("e/room-1/telemetry", 1, false, `{"t":4}`))
	var topics []string
	for len(topics) < 4 || topics[len(topics)-1] != "e/room-1/telemetry" {
		topics = append(topics, receive(t, seen, "messages of room-1"))
	}
	if slices.ContainsFunc(topics, func(topic string) bool { return !strings.HasPrefix(topic, "e/room-1/") }) {
		t.Errorf("the device saw %v", topics)
	}
	same(t, "other", s.latest("other")["t"], "3")
	if code := s.puback(tokens["room-1"], "e/other/telemetry"); code != 0x87 {
		t.Errorf("PUBACK of MQTT 5: %#x, want 0x87", code)
	}
	if code := s.puback(tokens["room-1"], "e/room-1/telemetry"); code != 0 {
		t.Errorf("PUBACK of MQTT 5: %#x, want 0", code)
	}
}

func TestAWillIsPublishedByWhatItsClientMay(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	for topic, id := range map[string]string{"e/other/telemetry": "a", "e/room-1/telemetry": "b"} {
		_, cut := s.dialCut(id, withToken(tokens["room-1"]), func(o *mqtt311.ClientOptions) { o.SetWill(topic, `{"will":1}`, 1, false) })
		cut()
	}
	eventually(t, "the will for room-1", func() bool { return s.latest("room-1")["will"] == "1" })
	eventually(t, "the refusal of the other", func() bool {
		_, text := s.do("GET", "/v1/refusals", "")
		return strings.Contains(text, "e/other/telemetry")
	})
	same(t, "other", s.latest("other")["will"], "")
}

func (r *running) dialTCP() net.Conn {
	r.t.Helper()
	nc, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.MQTTAddr())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := nc.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	return nc
}

// connack connects by hand and returns the code of the CONNACK.
func (r *running) connack(version byte, user, password string) byte {
	r.t.Helper()
	nc := r.dialTCP()
	defer nc.Close()
	flags, payload := byte(2), "\x00\x01c"
	for i, text := range []string{user, password} {
		if text != "" || i == 0 && password != "" {
			flags |= 0x80 >> i
			payload += string([]byte{byte(len(text) >> 8), byte(len(text))}) + text
		}
	}
	head := "\x00\x04MQTT" + string([]byte{version, flags, 0, 60})
	if version == 5 {
		head += "\x00"
	}
	packet := head + payload
	length := []byte{byte(len(packet)&0x7f | 0x80), byte(len(packet) >> 7)}
	if _, err := nc.Write([]byte("\x10" + string(length) + packet)); err != nil {
		r.t.Fatal(err)
	}
	answer := make([]byte, 4)
	for n := 0; n < len(answer); {
		k, err := nc.Read(answer[n:])
		if err != nil {
			r.t.Fatalf("the CONNACK: %v after % x", err, answer[:n])
		}
		n += k
	}
	if version == 5 && answer[1] > 127 {
		return answer[4]
	}
	return answer[3]
}

// puback publishes with MQTT 5 and returns the reason code of the answer.
func (r *running) puback(token, topic string) byte {
	r.t.Helper()
	return r.pubackOf(token, topic, `{"t":4}`)
}

func (r *running) pubackOf(token, topic, payload string) byte {
	r.t.Helper()
	c := r.raw5(token)
	defer func() { _ = c.Disconnect(&paho.Disconnect{}) }()
	resp, err := c.Publish(r.t.Context(), &paho.Publish{Topic: topic, QoS: 1, Payload: []byte(payload)})
	if resp == nil {
		r.t.Fatal(fmt.Errorf("no PUBACK: %w", err))
	}
	return resp.ReasonCode
}
