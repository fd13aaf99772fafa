package main

import (
	"strings"
	"testing"
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
