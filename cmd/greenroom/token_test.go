package main

import (
	"strings"
	"testing"
)

func TestTokensAreCreatedListedAndRevoked(t *testing.T) { // not parallel: it sets the environment
	s, _ := startServer(t, t.TempDir())
	addr := s.HTTPAddr()
	token := func(code int, args ...string) (string, string) {
		return command(t, code, append(append([]string{"token"}, args...), "--http", addr)...)
	}
	if _, text := token(exitFailed, "create", "--name", "pump-1", "--role", "device"); !strings.Contains(text, "must be an admin") {
		t.Errorf("the first principal is a device: %s", text)
	}
	admin, _ := token(0, "create", "--name", "alice", "--role", "admin")
	if _, text := token(exitFailed, "list"); !strings.Contains(text, "401") {
		t.Errorf("without a token: %s", text)
	}
	t.Setenv(tokenVariable, strings.TrimSpace(admin))
	device, _ := token(0, "create", "--name", "pump-1", "--role", "device")
	token(0, "create", "--name", "gate", "--role", "device", "--filter", `id like "hall-%"`, "--expires", "24h")
	if key, text := token(0, "create", "--name", "meter", "--role", "device", "--key"); len(strings.TrimSpace(key)) != 44 || !strings.Contains(text, "DeviceId=meter;SharedAccessKey=") {
		t.Errorf("a key: %s %s", key, text)
	}
	token(0, "create", "--name", "one", "--role", "viewer", "--entity", `a"b`)
	if list, _ := token(0, "list"); !strings.Contains(list, `device over id like "hall-%"`) || !strings.Contains(list, `viewer over id = "a\"b"`) || strings.Contains(list, device) {
		t.Errorf("list:\n%s", list)
	}
	token(0, "revoke", "--name", "pump-1")
	if list, _ := token(0, "list"); strings.Contains(list, "pump-1") {
		t.Errorf("list after the revocation:\n%s", list)
	}
	for want, args := range map[string][]string{
		"--name must":         {"create", "--role", "viewer"},
		"--role must":         {"create", "--name", "x"},
		"only one of --fil":   {"create", "--name", "x", "--role", "viewer", "--filter", "id = 1", "--entity", "a"},
		"only one of --pass":  {"create", "--name", "x", "--role", "viewer", "--password", "--certificate"},
		"password, --key, --": {"create", "--name", "x", "--role", "device", "--key", "--oidc"},
		"--expires must":      {"create", "--name", "x", "--role", "viewer", "--expires", "-1s"},
		"who is revoked":      {"revoke"},
	} {
		if _, text := token(exitUsage, args...); !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %s", args, text, want)
		}
	}
	if _, text := token(exitFailed, "revoke", "--name", "alice"); !strings.Contains(text, "last admin") {
		t.Errorf("revoke the last admin: %s", text)
	}
}
