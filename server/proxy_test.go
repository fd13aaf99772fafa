package server

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/server/access"
)

func TestWhatProxiesSayOfTheClient(t *testing.T) {
	t.Parallel()
	p, err := parseProxies([]string{"10.0.0.7", "192.168.0.0/16", "2001:db8::/32"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		values []string
		want   string
	}{
		{[]string{"198.51.100.1"}, "198.51.100.1"},
		{[]string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"}, // the client has written the first one
		{[]string{"203.0.113.9", "198.51.100.1, 10.0.0.7, 192.168.3.4"}, "198.51.100.1"},
		{[]string{"192.168.3.4, 10.0.0.7"}, "192.168.3.4"},
		{[]string{"[2001:db8::1]:443, 2001:db8::2"}, "2001:db8::1"},
		{[]string{"198.51.100.1:4711"}, "198.51.100.1"},
		{[]string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{[]string{"198.51.100.1, nonsense"}, ""},
		{[]string{"198.51.100.1, nonsense, 10.0.0.7"}, "10.0.0.7"},
		{nil, ""},
	} {
		got := ""
		if from, ok := p.client(tt.values); ok {
			got = from.String()
		}
		if got != tt.want {
			t.Errorf("%q: %s, want %s", tt.values, got, tt.want)
		}
	}
	for at, want := range map[string]bool{"10.0.0.7": true, "10.0.0.8": false, "::ffff:192.168.9.9": true, "2001:db8::5": true, "2001:db9::5": false} {
		if got := p.has(netip.MustParseAddr(at)); got != want {
			t.Errorf("%s: %v", at, got)
		}
	}
	for _, text := range []string{"", "proxy.example", "0.0.0.0/0", "::/0", "10.0.0.7/33"} {
		if err := CheckProxies([]string{text}); !errors.Is(err, ErrProxy) || !strings.Contains(err.Error(), "--trusted-proxies must") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestATrustedProxySaysWhoAsksAndWhetherThatIsEncrypted(t *testing.T) {
	t.Parallel()
	for _, trusted := range []bool{false, true} {
		var cfg Config
		if trusted {
			cfg.TrustedProxies = []string{"127.0.0.0/8"}
		}
		s := startWith(t, cfg)
		s.token = s.principal(`{"name":"admin","grants":[{"role":"admin"}]}`)
		s.principal(`{"name":"ann","grants":[{"role":"operator"}],"password":"correct horse"}`)
		login := func(password, from string) *http.Response {
			resp, _ := s.as("").do("POST", "/v1/session", `{"name":"ann","password":"`+password+`"}`, "Content-Type", mediaJSON, "X-Forwarded-Proto", "https", "X-Forwarded-For", "203.0.113.9, "+from)
			return resp
		}
		resp := login("correct horse", "198.51.100.1")
		if cookies := resp.Cookies(); resp.StatusCode != http.StatusCreated || len(cookies) != 1 || cookies[0].Secure != trusted {
			t.Errorf("trusted %v: %s %v", trusted, resp.Status, cookies)
		}
		wrong := s.as("gr_ann_" + strings.Repeat("a", 52)) // which costs no time to refuse, as a password does
		for range access.FreeFailures + 1 {
			resp, _ = wrong.do("GET", "/v1/entities", "", "X-Forwarded-For", "203.0.113.9, 198.51.100.2")
		}
		if resp.StatusCode != http.StatusTooManyRequests {
			t.Errorf("trusted %v: a guess too many is answered with %s", trusted, resp.Status)
		}
		want := http.StatusTooManyRequests // they come from one address
		if trusted {
			want = http.StatusCreated
		}
		if resp := login("correct horse", "198.51.100.1"); resp.StatusCode != want {
			t.Errorf("trusted %v: who guessed nothing is answered with %s", trusted, resp.Status)
		}
		s.send(201, "PUT", "/v1/webhooks/ops", mediaJSON, `{"url":"https://hooks.example"}`, "If-None-Match", "*", "X-Forwarded-For", "198.51.100.3")
		from := "127.0.0.1"
		if trusted {
			from = "198.51.100.3"
		}
		if _, text := s.do("GET", "/v1/audit?limit=1", ""); !strings.Contains(text, `"from":"`+from+`"`) {
			t.Errorf("trusted %v: the audit log has %s", trusted, text)
		}
	}
}
