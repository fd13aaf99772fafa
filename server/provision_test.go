package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	mqtt311 "github.com/eclipse/paho.mqtt.golang"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/thingsboard"
)

// provisionKey makes a provision key and returns its secret.
func (r *running) provisionKey(body string) string {
	r.t.Helper()
	_, text := r.send(201, "POST", "/v1/provisioning", mediaJSON, body)
	var made provisionKeyJSON
	if err := json.Unmarshal([]byte(text), &made); err != nil || made.Secret == "" {
		r.t.Fatalf("a provision key: %s", text)
	}
	return made.Secret
}

// provisioned is what a device is answered over HTTP.
func (r *running) provisioned(body string) thingsboard.ProvisionAnswer {
	r.t.Helper()
	_, text := r.as("").send(200, "POST", "/api/v1/provision", mediaJSON, body)
	var a thingsboard.ProvisionAnswer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		r.t.Fatalf("provisioned: %s", text)
	}
	return a
}

func TestADeviceWithoutCredentialsIsProvisionedOverMQTT(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.send(201, "PUT", "/v1/types/Pump", mediaJSON, `{}`, "If-None-Match", "*")
	if code := s.connack(4, "provision", ""); code != 4 {
		t.Errorf("CONNACK without a provision key: %d", code)
	}
	secret := s.provisionKey(`{"name":"pumps","strategy":"create","prefix":"pump-","type":"Pump","max":3}`)
	c := s.dial311("new", asUser("provision"))
	got := subscribe(t, c, "/provision/response")
	for _, filter := range []string{"#", "e/#", "/provision/+", "spBv1.0/STATE/greenroom", "e/pump-1/telemetry"} {
		token, _ := c.Subscribe(filter, 1, nil).(*mqtt311.SubscribeToken)
		if !token.WaitTimeout(patience) || token.Result()[filter] != 0x80 {
			t.Errorf("a subscription to %s without credentials: %v", filter, token.Result())
		}
	}
	s.dial311("new", asUser("provision")) // a stranger of the same id, who ends nobody's connection
	ask := func(body string) string {
		t.Helper()
		await(t, c.Publish("/provision/request", 1, false, body))
		m := receive(t, got, "the answer")
		same(t, "its topic", m.topic, "/provision/response")
		return m.payload
	}
	answer := ask(`{"deviceName":"pump-1","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `"}`)
	var made thingsboard.ProvisionAnswer
	var token string
	if err := json.Unmarshal([]byte(answer), &made); err != nil || made.Status != "SUCCESS" || made.Type != "ACCESS_TOKEN" || json.Unmarshal(made.Value, &token) != nil || !access.IsToken(token) {
		t.Fatalf("the answer is %s", answer)
	}
	for by, want := range map[string]int{"provision%20key%20pumps": 1, "provision%20key%20pump": 0, "": len(tokens)} { // tokens has nobody in the place of pump-1
		var page principalPageJSON
		s.get("/v1/principals?by="+by, &page)
		if len(page.Principals) != want {
			t.Errorf("made by %q: %v", by, page.Principals)
		}
	}
	const notFound, failed = `{"status":"NOT_FOUND","errorMsg":"Provision data was not found!"}`, `{"status":"FAILURE","errorMsg":"Failed to provision device!"}`
	for body, want := range map[string]string{
		`{"deviceName":"pump-2","provisionDeviceKey":"pumps","provisionDeviceSecret":"x"}`:                                                                                  notFound,
		`{"deviceName":"pump-2","provisionDeviceKey":"none","provisionDeviceSecret":"` + secret + `"}`:                                                                      notFound,
		`{"deviceName":"pump-1","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `"}`:                                                                     failed,
		`{"deviceName":"admin","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `"}`:                                                                      failed,
		`{"deviceName":"pump-a b","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `"}`:                                                                   failed,
		`{"deviceName":"pump-2","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `","credentialsType":"X509_CERTIFICATE","hash":"MIIB"}`:                  failed,
		`{"deviceName":"pump-2","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `","credentialsType":"ACCESS_TOKEN","token":"mine"}`:                     failed,
		`{"deviceName":"pump-2","provisionDeviceKey":"pumps","provisionDeviceSecret":"` + secret + `","credentialsType":"MQTT_BASIC","username":"x","password":"12345678"}`: failed,
	} {
		same(t, "the answer to "+body, ask(body), want)
	}
	// It may do nothing else, and is shown nothing else.
	before := s.refusedOver("forbidden")
	for i, topic := range []string{"e/pump-1/telemetry", "v1/devices/me/telemetry", "e/room-1/telemetry"} {
		await(t, c.Publish(topic, 1, false, `{"t":1}`))
		if i != 1 { // +provision is the id of nothing
			continue
		}
	}
	s.post("room-1", `{"t":5}`)
	if n := s.refusedOver("forbidden"); n < before+2 {
		t.Errorf("%d refusals", n-before)
	}
	await(t, c.Publish("/provision/request", 1, false, `{"deviceName":"pump-9"}`))
	same(t, "a request without a key", s.refusedOver("invalid") > 0, true)

	device := s.dial311("pump", asUser(token))
	await(t, device.Publish("v1/devices/me/telemetry", 1, false, `{"t":7}`))
	same(t, "latest", s.latest("pump-1"), "map[t:7]")
	if text := s.document("/v1/entities/pump-1"); !strings.Contains(text, `"type":"Pump"`) {
		t.Errorf("the entity: %s", text)
	}
	same(t, "what it was answered", ask(`{"deviceName":"pump-2","provisionDeviceKey":"pumps","provisionDeviceSecret":"`+secret+`","credentialsType":"MQTT_BASIC","username":"pump-2","password":"12345678","clientId":"c"}`),
		`{"status":"SUCCESS","credentialsType":"MQTT_BASIC","credentialsValue":{"clientId":"c","password":"12345678","userName":"pump-2"}}`)
	s.dial311("pump2", func(o *mqtt311.ClientOptions) { o.SetUsername("pump-2").SetPassword("12345678") })
	if _, text := s.do("GET", "/v1/audit?limit=1", ""); !strings.Contains(text, `"who":"provision key pumps","from":"127.0.0.1","action":"provisionDevice","what":"pump-2"`) {
		t.Errorf("the audit log: %s", text)
	}
	if _, text := s.do("GET", "/v1/refusals", ""); strings.Contains(text, secret) {
		t.Error("a secret is among the refusals")
	}
	if _, text := s.do("GET", "/v1/provisioning", ""); !strings.Contains(text, `"devices":2}`) || strings.Contains(text, secret) {
		t.Errorf("the keys: %s", text)
	}
	if resp, _ := s.as(tokens["operator"]).do("GET", "/v1/provisioning", ""); resp.StatusCode != http.StatusForbidden {
		t.Errorf("an operator: %s", resp.Status)
	}
}

func TestADeviceIsProvisionedOverHTTP(t *testing.T) {
	t.Parallel()
	s, _ := startGuarded(t)
	secret := s.provisionKey(`{"name":"new","strategy":"create","prefix":"sensor-"}`)
	prepared := s.provisionKey(`{"name":"prepared","strategy":"check","prefix":"room-"}`)
	body := func(name, key, secret string) string {
		return `{"deviceName":"` + name + `","provisionDeviceKey":"` + key + `","provisionDeviceSecret":"` + secret + `"}`
	}
	made := s.provisioned(body("", "new", secret)) // with a name of the server's
	var token string
	if err := json.Unmarshal(made.Value, &token); err != nil || !strings.HasPrefix(token, "gr_sensor-") {
		t.Errorf("provisioned: %+v", made)
	}
	s.as(token).send(200, "POST", "/api/v1/"+token+"/telemetry", mediaJSON, `{"t":1}`)

	// What somebody has prepared is for who has the key for that, once.
	same(t, "of one that is there", s.provisioned(body("room-2", "new", secret)).Status, "FAILURE")
	s.post("sensor-7", `{"t":1}`)
	same(t, "of one that is there", s.provisioned(body("sensor-7", "new", secret)).Status, "FAILURE")
	same(t, "of one that is not there", s.provisioned(body("room-7", "prepared", prepared)).Status, "FAILURE")
	same(t, "of one with credentials", s.provisioned(body("room-1", "prepared", prepared)).Status, "FAILURE")
	same(t, "of one that was prepared", s.provisioned(body("room-2", "prepared", prepared)).Status, "SUCCESS")
	same(t, "again", s.provisioned(body("room-2", "prepared", prepared)).Status, "FAILURE")

	for range access.FreeFailures + 1 {
		same(t, "with a wrong secret", s.provisioned(body("room-3", "prepared", "x")).Status, "NOT_FOUND")
	}
	s.as("").send(400, "POST", "/api/v1/provision", mediaJSON, `{"deviceName":"x"}`)
	s.send(204, "DELETE", "/v1/provisioning/new", mediaJSON, "")
	same(t, "of a revoked key", s.provisioned(body("sensor-8", "new", secret)).Status, "NOT_FOUND")
	s.send(404, "DELETE", "/v1/provisioning/new", mediaJSON, "")

	open := start(t, "") // nobody has to log in
	open.send(400, "POST", "/v1/provisioning", mediaJSON, `{"name":"new","strategy":"create","prefix":"sensor-"}`)
	same(t, "where nobody has to log in", open.provisioned(body("sensor-8", "new", secret)).Status, "NOT_FOUND")
}

// TestWhoHasNoCredentialsYetLeavesOthersAlone has somebody without any give the client id that a device
// has, and ask for its session to be kept.
func TestWhoHasNoCredentialsYetLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.provisionKey(`{"name":"pumps","strategy":"create","prefix":"pump-"}`)
	lost := make(chan error, 1)
	device := s.dial311("dev", func(o *mqtt311.ClientOptions) {
		o.SetUsername(tokens["room-1"]).SetConnectionLostHandler(func(_ mqtt311.Client, err error) { lost <- err })
	})
	for _, id := range []string{"room-1/dev", "dev", "/dev"} {
		stranger := s.dial311(id, asUser("provision"), func(o *mqtt311.ClientOptions) { o.SetCleanSession(false) })
		subscribe(t, stranger, "/provision/response")
		stranger.Disconnect(5)
	}
	await(t, device.Publish("e/room-1/telemetry", 1, false, `{"t":1}`))
	select {
	case err := <-lost:
		t.Errorf("the device has lost its connection: %v", err)
	default:
	}
	eventually(t, "the strangers to be gone", func() bool { return s.metric("greenroom_mqtt_connections") == "1" })
	same(t, "sessions that are kept", s.metric("greenroom_mqtt_sessions"), "0")
}
