package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/entity"
)

// sharedKey makes the principal of a device with a symmetric key, and returns that.
func (r *running) sharedKey(name string) string {
	r.t.Helper()
	_, text := r.send(201, "POST", "/v1/principals", mediaJSON, `{"name":"`+name+`","key":true,"grants":[{"role":"device"}]}`)
	var made struct {
		SharedKey string `json:"shared_key"`
	}
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.SharedKey == "" || strings.Contains(text, `"token"`) {
		r.t.Fatalf("the key: %s", text)
	}
	return made.SharedKey
}

// signature makes a shared access signature as Azure's SDKs do.
func signature(t *testing.T, key, device string, until time.Time) string {
	t.Helper()
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	resource := url.QueryEscape("hub/devices/" + device)
	mac := hmac.New(sha256.New, secret)
	fmt.Fprintf(mac, "%s\n%d", resource, until.Unix())
	return fmt.Sprintf("SharedAccessSignature sr=%s&sig=%s&se=%d", resource, url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil))), until.Unix())
}

// asAzure has a client connect as a device of Azure's.
func asAzure(device, password string) func(*mqtt311.ClientOptions) {
	return func(o *mqtt311.ClientOptions) {
		o.SetUsername("hub/" + device + "/?api-version=2021-04-12").SetPassword(password)
	}
}

func TestDevicesLogInWithWhatTheyHaveSigned(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	key := s.sharedKey("pump-1")
	soon := time.Now().Add(time.Hour)
	right := signature(t, key, "pump-1", soon)
	user := func(device string) string { return "hub/" + device + "/?api-version=2021-04-12" }
	other := base64.StdEncoding.EncodeToString(make([]byte, 32))
	failed := s.book.Stats().Failed
	if _, text := s.as("").send(401, "POST", "/devices/pump-1/messages/events?api-version=1", mediaJSON, `{"t":1}`, "Authorization", signature(t, key, "pump-1", time.Unix(1, 0))); !strings.Contains(text, "has expired at 1970-01-01T00:00:01Z") {
		t.Errorf("an expired signature: %s", text)
	}
	same(t, "failed logins", s.book.Stats().Failed, failed+1)
	for _, tt := range []struct {
		what, user, password string
		in                   bool
	}{
		{"its signature", user("pump-1"), right, true},
		{"another key", user("pump-1"), signature(t, other, "pump-1", soon), false},
		{"an expired signature", user("pump-1"), signature(t, key, "pump-1", time.Now().Add(-time.Second)), false},
		{"a signature for another", user("room-1"), right, false},
		{"a key that signs for another", user("room-1"), signature(t, key, "room-1", soon), false},
		{"no signature", user("pump-1"), "SharedAccessSignature", false},
		{"the key itself", user("pump-1"), key, false},
		{"a plain user name", "pump-1", right, false},
		{"a token", user("room-1"), tokens["room-1"], true},
	} {
		if code := s.connack(4, tt.user, tt.password); (code == 0) != tt.in {
			t.Errorf("%s: CONNACK %d", tt.what, code)
		}
		if strings.HasPrefix(tt.password, "SharedAccess") && strings.HasPrefix(tt.user, "hub/pump-1") {
			resp, _ := s.as("").do("POST", "/devices/pump-1/messages/events?api-version=2021-04-12", `{"t":1}`, "Authorization", tt.password)
			if (resp.StatusCode == http.StatusNoContent) != tt.in || !tt.in && resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s over HTTP: %s", tt.what, resp.Status)
			}
		}
	}
	if info, err := s.book.Info("pump-1"); err != nil || info.Credential != "key" {
		t.Errorf("the principal is %+v, %v", info, err)
	}
	for _, path := range []string{"/v1/principals", "/v1/principals/pump-1", "/v1/audit"} {
		if text := s.document(path); strings.Contains(text, key) {
			t.Errorf("%s tells the key", path)
		}
	}
	gone := make(chan struct{})
	s.dial311("pump-1", asAzure("pump-1", signature(t, key, "pump-1", time.Now().Add(2*time.Second))), func(o *mqtt311.ClientOptions) {
		o.SetConnectionLostHandler(func(mqtt311.Client, error) { close(gone) })
	})
	receive(t, gone, "the end of a connection whose signature has expired")
	if err := s.book.Revoke(t.Context(), "pump-1"); err != nil {
		t.Fatal(err)
	}
	if code := s.connack(4, user("pump-1"), right); code == 0 {
		t.Error("a revoked device got in")
	}
}

func TestATwinOfAzureIsTheSectionsOfTheEntity(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	s.send(201, "PUT", "/v1/entities/pump", mediaJSON, `{"desired":{"interval":5,"mode":{"name":"eco"}}}`, "If-None-Match", "*")
	c := s.dial311("pump", asAzure("pump", ""))
	got := subscribe(t, c, "$iothub/twin/res/#", "$iothub/twin/PATCH/properties/desired/#")
	ask := func(topic, payload string) message {
		t.Helper()
		await(t, c.Publish(topic, 1, false, payload))
		return receive(t, got, "the answer")
	}
	same(t, "the twin", ask("$iothub/twin/GET/?$rid=7", ""), message{"$iothub/twin/res/200/?$rid=7", `{"desired":{"interval":5,"mode":{"name":"eco"},"$version":1},"reported":{"$version":1}}`})
	same(t, "a report", ask("$iothub/twin/PATCH/properties/reported/?$rid=8", `{"fw":"2","old":null}`), message{"$iothub/twin/res/204/?$rid=8&$version=2", ""})
	same(t, "what is reported", s.section("pump", "reported"), `{"fw":"2"}`)
	for _, wrong := range []string{`[]`, `{`, `{"a b":1}`, ``} {
		m := ask("$iothub/twin/PATCH/properties/reported/?$rid=9", wrong)
		if m.topic != "$iothub/twin/res/400/?$rid=9" || !strings.HasPrefix(m.payload, `{"errorCode":400004,"message":"invalid: `) {
			t.Errorf("%s: %v", wrong, m)
		}
	}
	s.desirePatch("pump", `{"interval":10,"mode":null}`)
	same(t, "what is desired", receive(t, got, "the patch"), message{"$iothub/twin/PATCH/properties/desired/?$version=3", `{"interval":10,"mode":{"name":null},"$version":3}`})

	before := s.refusedOver("topic")
	for _, topic := range []string{"$iothub/twin/GET/", "$iothub/twin/GET/?$rid=", "$iothub/twin/POST/?$rid=1", "$iothub/methods/res/ok/?$rid=1", "$iothub/methods/res/200/?$rid=x.y", "$iothub/x"} {
		await(t, c.Publish(topic, 1, false, "{}"))
	}
	same(t, "topics that nothing takes", s.refusedOver("topic"), before+6)
	await(t, c.Unsubscribe("$iothub/twin/PATCH/properties/desired/#"))
	s.desirePatch("pump", `{"interval":20}`)
	same(t, "the twin at last", ask("$iothub/twin/GET/?$rid=z", "").payload, `{"desired":{"interval":20,"$version":4},"reported":{"fw":"2","$version":4}}`)
}

// desirePatch merges a patch into what an entity should be.
func (r *running) desirePatch(id, body string) {
	r.t.Helper()
	r.send(200, "PATCH", "/v1/entities/"+id+"/attributes/desired", "application/merge-patch+json", body)
}

func TestMessagesOfAzureAreReadings(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c := s.dial311("room-1", asAzure("room-1", tokens["room-1"]))
	watcher := s.dial311("watcher", asUser(tokens["admin"]))
	told := subscribe(t, watcher, "e/room-1/telemetry")
	await(t, c.Publish("devices/room-1/messages/events/alert=true&%24.ct=application%2Fjson", 1, false, `{"t":5}`))
	same(t, "what others are told", receive(t, told, "the readings"), message{"e/room-1/telemetry", `[{"t":5,"alert":"true"}]`})
	same(t, "what it is", s.latest("room-1"), map[string]string{"t": "5", "alert": `"true"`})
	same(t, "the presence", s.comesTo("room-1", "online").Connected, true)
	before := s.refusedOver("forbidden")
	await(t, c.Publish("devices/room-2/messages/events/", 1, false, `{"t":6}`))
	same(t, "for another device", s.refusedOver("forbidden"), before+1)
	device := s.as(tokens["room-1"])
	device.send(204, "POST", "/devices/room-1/messages/events?api-version=2021-04-12", mediaJSON, `{"t":7}`, "IoTHub-App-Alert", "no")
	same(t, "over HTTP", s.latest("room-1"), map[string]string{"t": "7", "alert": `"no"`})
	device.send(400, "POST", "/devices/room-1/messages/events", mediaJSON, `{"t":8}`)
	device.send(400, "POST", "/devices/room-1/messages/events?api-version=1", mediaBatch, `[{"body":"{}"}]`)
	device.send(400, "POST", "/devices/room-1/messages/events?api-version=1", mediaJSON, `{"t":8}`, "IoTHub-ContentType", "text/plain")
}

func TestCommandsGoOutAsMethodsAndMessagesOfAzure(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	c := s.dial311("room-1", asAzure("room-1", tokens["room-1"]))
	methods := subscribe(t, c, "$iothub/methods/POST/#", "devices/room-1/messages/devicebound/#")
	reboot, _ := s.command("room-1", `{"name":"reboot now","request":{"delay":5}}`)
	m := receive(t, methods, "the method")
	rid, ok := strings.CutPrefix(m.topic, "$iothub/methods/POST/reboot%20now/?$rid=")
	if !ok || m.payload != `{"delay":5}` {
		t.Fatalf("the method is %v", m)
	}
	await(t, c.Publish("$iothub/methods/res/200/?$rid="+rid, 1, false, `{"ok":true}`))
	s.state("room-1", reboot.ID, entity.CommandDone)
	explode, _ := s.command("room-1", `{"name":"explode"}`)
	m = receive(t, methods, "another method")
	await(t, c.Publish("$iothub/methods/res/418/?"+strings.SplitN(m.topic, "?", 2)[1], 1, false, `"a teapot"`))
	s.state("room-1", explode.ID, entity.CommandFailed)
	if text := s.document("/v1/entities/room-1/commands/" + explode.ID); !strings.Contains(text, `status 418: \"a teapot\"`) || m.payload != "null" {
		t.Errorf("the failed one is %s, and was sent %s", text, m.payload)
	}
	await(t, c.Unsubscribe("$iothub/methods/POST/#"))
	blink, _ := s.command("room-1", `{"name":"blink"}`)
	m = receive(t, methods, "the message")
	same(t, "its topic", m.topic, "devices/room-1/messages/devicebound/%24.to=%2Fdevices%2Froom-1%2Fmessages%2Fdevicebound&%24.mid="+blink.ID+"&%24.ct=application%2Fjson&%24.ce=utf-8&command=blink")
	s.state("room-1", blink.ID, entity.CommandDone)
	c.Disconnect(100)

	device := s.as(tokens["room-1"])
	const bound, version = "/devices/room-1/messages/devicebound", "?api-version=2021-04-12"
	device.send(204, "GET", bound+version, mediaJSON, "")
	spin, _ := s.command("room-1", `{"name":"spin","request":[1]}`)
	for range 2 { // it comes again until it is completed
		resp, text := device.send(200, "GET", bound+version, mediaJSON, "")
		if resp.Header.Get("ETag") != `"`+spin.ID+`"` || resp.Header.Get("IoTHub-App-command") != "spin" || text != "[1]" {
			t.Errorf("the message is %v %s", resp.Header, text)
		}
		device.send(204, "POST", bound+"/"+spin.ID+"/abandon"+version, mediaJSON, "")
	}
	device.send(204, "DELETE", bound+"/"+spin.ID+version, mediaJSON, "")
	s.state("room-1", spin.ID, entity.CommandDone)
	device.send(412, "DELETE", bound+"/"+spin.ID+version, mediaJSON, "")
	device.send(412, "POST", bound+"/"+spin.ID+"/abandon"+version, mediaJSON, "")
	jump, _ := s.command("room-1", `{"name":"jump"}`)
	device.send(204, "DELETE", bound+"/"+jump.ID+version+"&reject", mediaJSON, "")
	s.state("room-1", jump.ID, entity.CommandFailed)

	watcher := s.dial311("room-2", asAzure("room-2", s.principal(`{"name":"room-2","grants":[{"role":"viewer"}]}`)))
	none := subscribe(t, watcher, "$iothub/methods/POST/#", "devices/room-2/messages/devicebound/#", "devices/room-1/messages/devicebound/#")
	waiting, _ := s.command("room-2", `{"name":"wait"}`)
	s.state("room-2", waiting.ID, entity.CommandQueued)
	if len(none) != 0 {
		t.Error("who is no device was sent a command")
	}
}

// Where nobody has to log in, the end of what a client presents nevertheless ends nothing.
func TestASignatureThatHasExpiredEndsNothingWhereNobodyLogsIn(t *testing.T) {
	t.Parallel()
	s := start(t, "")
	stream := s.open("/v1/stream", "Authorization", signature(t, "", "pump-1", time.Now().Add(-time.Hour)))
	for n := range 3 {
		s.post("pump-1", fmt.Sprintf(`{"n":%d}`, n))
		stream.mustBe("change", fmt.Sprintf(`{"n":%d}`, n))
	}
}
