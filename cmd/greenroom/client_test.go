package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server"
)

// The address of a server may be written as the server prints it.
func TestTheAddressOfAServerMayBeAURL(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"127.0.0.1:8080", "http://127.0.0.1:8080", "http://127.0.0.1:8080/", "http://localhost:8080/"} {
		c, err := newClient(addr)
		if err != nil || !strings.HasSuffix(c.url, ":8080") || strings.Count(c.url, "http://") != 1 {
			t.Errorf("%s: %+v, %v", addr, c, err)
		}
	}
	if c, err := newClient("https://plant.example:8443/"); err != nil || c.url != "https://plant.example:8443" {
		t.Errorf("https: %+v, %v", c, err)
	}
	for _, addr := range []string{"http://plant.example:8080", "plant.example:8080", "127.0.0.1"} {
		if _, err := newClient(addr); err == nil {
			t.Errorf("%s: what is sent is not encrypted, or there is no port", addr)
		}
	}
}

func TestAServerThatDoesNotAnswerIsAHint(t *testing.T) {
	t.Parallel()
	encrypted := httptest.NewTLSServer(http.NotFoundHandler())
	defer encrypted.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	for addr, want := range map[string]string{
		encrypted.URL: "let GREENROOM_CA name",
		strings.Replace(plain.URL, "http", "https", 1): "pass its address without https://",
		"http://127.0.0.1:1":                           "start a server with greenroom serve",
	} {
		c, err := newClient(addr)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.get(t.Context(), "/", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", addr, err, want)
		}
		c.close()
	}
}

func TestTheAddressThatIsPrintedCanBeVisited(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1", "[::]:2": "localhost:2", "0.0.0.0:3": "localhost:3", "10.0.0.1:4": "10.0.0.1:4", "[::1]:5": "[::1]:5",
	} {
		if got := (&serveOptions{}).visitable(addr); got != want {
			t.Errorf("%s: %s, want %s", addr, got, want)
		}
	}
	named := serveOptions{hosts: []string{"plant.example"}, tls: server.TLS{ACME: server.ACME{Hosts: []string{"first.example"}}}}
	if got := named.visitable("[::]:2"); got != "first.example:2" {
		t.Errorf("with names: %s", got)
	}
}
