package server

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheConsoleIsForAnAdminAndIsRecorded(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	admin := s.as(tokens["admin"])
	for _, tt := range []struct {
		line   string
		status int
		want   string
	}{
		{`{"line":"ping"}`, http.StatusOK, `{"output":"pong\n"}`},
		{`{"line":"list /entities"}`, http.StatusOK, `/entities`},
		{`{"line":"log level"}`, http.StatusUnprocessableEntity, `has not given`},
		{`{"line":"kill /nobody"}`, http.StatusUnprocessableEntity, `no actor has the path`},
		{`{"line":"info /entities \"oops"}`, http.StatusUnprocessableEntity, `must end with a quote`},
	} {
		resp, text := admin.do("POST", "/v1/console", tt.line, "Content-Type", "application/json")
		if resp.StatusCode != tt.status || !strings.Contains(text, tt.want) {
			t.Errorf("%s: %s %s, want %d with %s", tt.line, resp.Status, text, tt.status, tt.want)
		}
	}
	if resp, text := s.as(tokens["operator"]).do("POST", "/v1/console", `{"line":"ping"}`, "Content-Type", "application/json"); resp.StatusCode != http.StatusForbidden {
		t.Errorf("an operator gets %s %s", resp.Status, text)
	}
	if _, text := admin.do("GET", "/v1/audit", ""); !strings.Contains(text, "runConsole") || !strings.Contains(text, "list /entities") {
		t.Errorf("the audit log has %s", text)
	}
}

func TestWhatIsChangedThroughTheSocketIsRecorded(t *testing.T) {
	t.Parallel()
	s, tokens := startGuarded(t)
	s.Server.recordConsole(t.Context(), "kill /pump", nil)
	if _, text := s.as(tokens["admin"]).do("GET", "/v1/audit", ""); !strings.Contains(text, "kill /pump") || !strings.Contains(text, consoleName) {
		t.Errorf("the audit log has %s", text)
	}
	if got := ConsoleSocket("sqlite:plant"); got != filepath.Join("plant", "console.sock") {
		t.Errorf("the socket is %q", got)
	}
	if got := ConsoleSocket("postgres://greenroom@db.example.org/plant"); got != "" {
		t.Errorf("the socket of a database elsewhere is %q", got)
	}
}

// A path that cannot be a socket's is no reason not to serve.
func TestAServerStartsWithoutTheSocketOfTheConsole(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	level := new(slog.LevelVar)
	s, err := New(t.Context(), Config{
		DataDir: t.TempDir(), HTTP: "127.0.0.1:0", MQTT: "127.0.0.1:0", Console: "/no/such/directory/console.sock",
		Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level})), Level: level,
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.console.Run(t.Context(), "log level")
	if err != nil || out != "INFO\n" {
		t.Errorf("log level: %q, %v", out, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "cannot create the socket of the console") {
		t.Errorf("the log is %s", log.String())
	}
}
