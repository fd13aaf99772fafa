package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheConfigurationIsChecked(t *testing.T) { // not parallel: it sets the environment
	dir := t.TempDir()
	check := func(code int, text string, args ...string) (stdout, stderr string) {
		t.Helper()
		file := filepath.Join(dir, "greenroom.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return command(t, code, append([]string{"config", "check", "--config", file}, args...)...)
	}
	check(0, "# a plant\nhttp = \"127.0.0.1:9090\"\nhot_mib = 64\nidle_after = \"5m\"\nhosts = [\"a.example\", \"b.example\"]\ndemo = false\n")
	for text, want := range map[string]string{
		"\nhttpp = 1":             `greenroom.toml:2: there is no key "httpp"; the nearest is http`,
		"hot-mib = 64":            `greenroom.toml:1: there is no key "hot-mib"; the nearest is hot_mib`,
		"quite-other-things = 64": "the keys are acme, acme_ca",
		"\n\nhot_mib = \"many\"":  "greenroom.toml:3: hot_mib: invalid",
		"hot_mib = 0":             "--hot-mib must be an integer from 1 to",
		"idle_after = 5":          "greenroom.toml:1: idle_after: invalid",
		"hosts = [1]":             "hosts: must be a list of strings",
		"[http]\nport = 1":        "greenroom.toml:1: http: must be a string",
		"http = \n":               "greenroom.toml:1:",
		"tls_cert = \"none.pem\"": "--tls-cert and --tls-key must both be given",
		"store = \"nosuch://x\"":  "--store:",
	} {
		if _, stderr := check(exitUsage, text); !strings.Contains(stderr, want) {
			t.Errorf("%q: %s, want %s", text, stderr, want)
		}
	}
	// Each mistake has a line of its own.
	_, stderr := check(exitUsage, "htpp = 1\nhot_mib = \"many\"\nidle_after = \"5 minutes\"")
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) != 3 || !strings.HasPrefix(lines[2], "greenroom: "+dir) || !strings.Contains(lines[2], "toml:3: idle_after") {
		t.Errorf("three mistakes: %s", stderr)
	}
	// So has what is wrong with the files that it names, and with each other, and the line says where.
	_, stderr = check(exitUsage, `htpp = 1
http = "nowhere"
tls_cert = "none.pem"
tls_key = "none.key"
client_ca = "none.ca"
idle_after = "-1s"
presence_grace = "-1s"
trusted_proxies = ["a", "b"]
oidc_issuer = "x"
oidc_secret_file = "none"`)
	for _, want := range []string{
		":1: there is no key", ":2: --http must be host:port", ":3: TLS: --tls-cert: open none.pem", ":4: TLS: --tls-key: open none.key", ":5: TLS: --client-ca: open none.ca",
		":6: --idle-after must be positive, or 0", ":7: --presence-grace must be positive, or 0", `not "a"`, `not "b"`, "--oidc-client must be", ":9: OpenID Connect: --oidc-issuer must be", ":10: --oidc-secret-file: open none",
	} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%s: nothing says %q", stderr, want)
		}
	}
	if lines := strings.Split(strings.TrimSpace(stderr), "\n"); len(lines) != 12 {
		t.Errorf("%d lines for twelve mistakes: %s", len(lines), stderr)
	}
	// A flag comes before the environment, and that before the file.
	t.Setenv("GREENROOM_HOT_MIB", "0")
	if _, stderr := check(exitUsage, "hot_mib = 64"); !strings.Contains(stderr, "not 0") {
		t.Errorf("the environment: %s", stderr)
	}
	check(0, "hot_mib = -1", "--hot-mib", "64")
	t.Setenv("GREENROOM_HOT_MIB", "many")
	if _, stderr := check(exitUsage, ""); !strings.Contains(stderr, "GREENROOM_HOT_MIB") {
		t.Errorf("a wrong variable: %s", stderr)
	}
	// Of variables that set nothing, those are refused that are probably meant to.
	t.Setenv("GREENROOM_HOT_MIB", "64")
	t.Setenv("GREENROOM_TOKEN", "of a client")
	t.Setenv("GREENROOM_PORT_1883_TCP", "as Kubernetes sets it")
	if _, stderr := check(0, ""); !strings.Contains(stderr, "set nothing: ") || !strings.Contains(stderr, "GREENROOM_PORT_1883_TCP") {
		t.Errorf("a variable of others: %s", stderr)
	}
	t.Setenv("GREENROOM_TSL_KEY", "a file")
	if _, stderr := check(exitUsage, "hot_mibs = 1"); !strings.Contains(stderr, "there is no variable GREENROOM_TSL_KEY; the nearest is GREENROOM_TLS_KEY") || !strings.Contains(stderr, "the nearest is hot_mib") {
		t.Errorf("an unknown variable and an unknown key: %s", stderr)
	}
}
