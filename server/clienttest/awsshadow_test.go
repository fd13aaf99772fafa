package clienttest

import (
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// TestShadowWithTheDeviceSDKOfAWS has a lamp that uses the AWS IoT device SDK, with a client
// certificate, report its color and change it as it is desired.
func TestShadowWithTheDeviceSDKOfAWS(t *testing.T) {
	t.Parallel()
	ready(t)
	files := certificates(t, "localhost", "lamp")
	s := start(t, server.Config{TLS: server.TLS{Cert: files.file("server.pem"), Key: files.file("server.key"), ClientCA: files.file("ca.pem")}})
	s.trust(files.text("ca.pem"))
	s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
	s.principal(`{"name":"lamp","certificate":true,"grants":[{"role":"device"}]}`)
	var wg sync.WaitGroup
	wg.Go(func() { // once the lamp has said what it is
		eventually(t, "the lamp's color", func() bool { return strings.Contains(s.may("GET", "/v1/entities/lamp/attributes/reported"), "red") })
		s.desire("lamp", `{"color":"blue"}`)
	})
	_, port, err := net.SplitHostPort(s.MQTTAddr())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	out := client(t, "awsshadow.mjs", map[string]any{
		"host": "localhost", "port": number, "key": files.text("lamp.key"), "cert": files.text("lamp.pem"), "ca": files.text("ca.pem"),
	})
	wg.Wait()
	same(t, "what the lamp saw", strings.TrimSpace(out), `[{"status":"accepted","state":{"reported":{"color":"red"}}},`+
		`{"delta":{"color":"blue"}},{"status":"accepted","state":{"reported":{"color":"blue"}}},`+
		`{"status":"rejected","code":400,"message":"State contains an invalid node: 'wished'"},`+
		`{"status":"accepted","state":{"desired":{"color":"blue"},"reported":{"color":"blue"}}}]`)
}
