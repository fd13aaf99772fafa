package server

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
)

// A gateway that makes up names gets no more than it leaves for others, whichever way it comes.
func TestAGatewayLeavesNamesOfKeysForOthers(t *testing.T) {
	t.Parallel()
	const names = 2000
	s := startWith(t, Config{Entity: entity.Config{Keys: names}})
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	gateway := s.principal(`{"name":"gw","grants":[{"role":"device","filter":"id like \"g%\""}]}`)
	other := s.principal(`{"name":"other","grants":[{"role":"device"}]}`)
	taken := 0
	bring := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `,"n%d":1`, taken+i)
		}
		taken += n
		return "{" + text.String()[1:] + "}"
	}
	if code := s.pubackOf(gateway, "e/g1/telemetry", bring(names/2-10)); code != 0 {
		t.Fatalf("PUBACK %#x", code)
	}
	for topic, payload := range map[string]string{
		"e/g1/telemetry":              `%s`,
		"e/g1/attributes":             `%s`,
		"v1/devices/me/telemetry":     `%s`,
		"v1/devices/me/attributes":    `%s`,
		"v1/gateway/telemetry":        `{"g2":[{"ts":1,"values":%s}]}`,
		"devices/gw/messages/events/": `%s`,
	} {
		if code := s.pubackOf(gateway, topic, fmt.Sprintf(payload, bring(20))); code != 0x97 {
			t.Errorf("%s: PUBACK %#x, want 0x97", topic, code)
		}
	}
	gw := s.as(gateway)
	for path, payload := range map[string]string{
		"POST /v1/entities/g1/telemetry":            `%s`,
		"PATCH /v1/entities/g1/attributes/reported": `%s`,
		"POST /api/v1/" + gateway + "/telemetry":    `%s`,
		"POST /api/v1/" + gateway + "/attributes":   `%s`,
		"POST /things/gw/shadow":                    `{"state":{"reported":%s}}`,
	} {
		method, path, _ := strings.Cut(path, " ")
		media := mediaJSON
		if method == http.MethodPatch {
			media = mediaMergePatch
		}
		resp, text := gw.do(method, path, fmt.Sprintf(payload, bring(20)), "Content-Type", media)
		if resp.StatusCode < 400 || resp.StatusCode >= 500 || !strings.Contains(text, "too many keys") && !strings.HasPrefix(path, "/things/") {
			t.Errorf("%s %s: %s %s", method, path, resp.Status, text)
		}
	}
	if code := s.pubackOf(gateway, "e/g1/telemetry", `{"n0":2}`); code != 0 {
		t.Errorf("a name that there is: PUBACK %#x", code)
	}
	if code := s.pubackOf(other, "e/other/telemetry", bring(20)); code != 0 {
		t.Errorf("somebody else: PUBACK %#x", code)
	}
}

// So does an operator, whose imports and bulk updates are its own as well.
func TestAnImportAndABulkUpdateLeaveNamesForOthers(t *testing.T) {
	t.Parallel()
	const names = 1000
	s := startWith(t, Config{Entity: entity.Config{Keys: names}})
	s.post("m", `{"t":1}`)
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	operator := s.as(s.principal(`{"name":"operator","grants":[{"role":"operator"}]}`))
	other := s.principal(`{"name":"other","grants":[{"role":"device"}]}`)
	taken := 0
	bring := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `,"n%d":1`, taken+i)
		}
		taken += n
		return "{" + text.String()[1:] + "}"
	}
	for what, line := range map[string]string{
		"history": `{"entity":"m","ts":1451649600000,"values":%s}`, "entities": `{"id":"m","attributes":%s}`,
	} {
		for range 60 { // more than half of all
			operator.do("POST", "/v1/import?what="+what, fmt.Sprintf(line, bring(10)), "Content-Type", mediaNDJSON)
		}
		_, text := operator.do("POST", "/v1/import?what="+what, fmt.Sprintf(line, bring(10)), "Content-Type", mediaNDJSON)
		if !strings.Contains(text, "too many keys") {
			t.Errorf("%s: %s", what, text)
		}
	}
	resp, text := operator.do("POST", "/v1/bulk", `{"filter":"id = \"m\"","patch":{"attributes":`+bring(10)+`}}`, "Content-Type", mediaJSON)
	if resp.StatusCode != http.StatusAccepted {
		t.Fatal(resp.Status, text)
	}
	if status := operator.finished(resp.Header.Get("Location")); status.Failed != 1 {
		t.Errorf("the bulk update: %+v", status)
	}
	if code := s.pubackOf(other, "e/other/telemetry", bring(10)); code != 0 {
		t.Errorf("somebody else: PUBACK %#x", code)
	}
}
