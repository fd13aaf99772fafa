package main

import (
	"strings"
	"testing"
)

func TestCommandsAreSentListedAndCanceled(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	run := func(code int, args ...string) (string, string) {
		return command(t, code, append(append([]string{"command"}, args...), "--http", s.HTTPAddr())...)
	}
	if _, text := run(exitFailed, "send", "--entity", "pump", "--name", "open"); !strings.Contains(text, "404") {
		t.Errorf("to nobody: %s", text)
	}
	c, err := newClient(s.HTTPAddr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.do(t.Context(), "PUT", entityPath("pump"), "application/json", `{}`, nil, "If-None-Match", "*"); err != nil {
		t.Fatal(err)
	}
	first, _ := run(0, "send", "--entity", "pump", "--name", "open", "--request", `{"angle":30}`, "--key", "k", "--timeout", "30s", "--expires", "1h")
	again, _ := run(0, "send", "--entity", "pump", "--name", "open", "--request", `{"angle":30}`, "--key", "k", "--wait", "10ms")
	id, state, _ := strings.Cut(first, " ")
	if first != again || strings.TrimSpace(state) != "queued" {
		t.Errorf("sent %q and %q", first, again)
	}
	run(0, "send", "--entity", "pump", "--name", "ring", "--parallel")
	if out, _ := run(0, "cancel", "--entity", "pump", "--id", id); !strings.Contains(out, "canceled") {
		t.Errorf("canceled: %s", out)
	}
	if out, _ := run(0, "list", "--entity", "pump"); strings.Count(out, "\n") != 3 || !strings.Contains(out, id+"  open  canceled") {
		t.Errorf("list:\n%s", out)
	}
	if out, _ := run(0, "list", "--entity", "pump", "--state", "open", "--limit", "5"); strings.Contains(out, id) || !strings.Contains(out, "ring") {
		t.Errorf("open ones:\n%s", out)
	}
	for want, args := range map[string][]string{
		"--entity must":    {"send", "--name", "x"},
		"--name must":      {"send", "--entity", "x"},
		"--request must":   {"send", "--entity", "x", "--name", "y", "--request", "{"},
		"--timeout, --exp": {"send", "--entity", "x", "--name", "y", "--wait", "-1s"},
		"--limit must":     {"list", "--entity", "x", "--limit", "0"},
		"--id must":        {"cancel", "--entity", "x"},
	} {
		if _, text := run(exitUsage, args...); !strings.Contains(text, want) {
			t.Errorf("%v: %s, want %s", args, text, want)
		}
	}
}
