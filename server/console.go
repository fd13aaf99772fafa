package server

import (
	"context"
	"log/slog"
	"net/http"
	"path/filepath"

	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/server/access"
)

// consoleFile is the name of the console's socket in the directory of a store.
const consoleFile = "console.sock"

// ConsoleSocket returns the conventional path of the console's socket: in the directory of the
// store at an address (see Config.Store). It is "" if the store is not in a directory, or the
// address is malformed.
func ConsoleSocket(store string) string {
	a, err := parseStore(store)
	if err != nil || a.dir == "" {
		return ""
	}
	return filepath.Join(a.dir, consoleFile)
}

// openConsole creates the console, and its socket if configured. Failing to create the socket is
// not fatal.
func (s *Server) openConsole() {
	s.console = console.New(s.system, console.Config{Level: s.cfg.Level, Record: s.recordConsole})
	if s.cfg.Console == "" {
		return
	}
	ln, err := console.Listen(s.cfg.Console)
	if err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelWarn, "cannot create the socket of the console", slog.Any("error", err))
		return
	}
	s.consoleLn = ln
}

// serveConsole serves the socket until the server shuts down.
func (s *Server) serveConsole() {
	if s.consoleLn == nil {
		return
	}
	if err := s.console.Serve(s.serving, s.consoleLn); err != nil {
		s.log.LogAttrs(context.Background(), slog.LevelError, "serving the console failed", slog.Any("error", err))
	}
}

// closeConsole closes the socket, even if it was never served.
func (s *Server) closeConsole() {
	if s.consoleLn != nil {
		_ = s.consoleLn.Close() // it may be closed already
	}
}

// consoleName is the name in the audit log for changes through the socket.
const consoleName = "the console's socket"

// recordConsole writes a change through the socket to the audit log.
func (s *Server) recordConsole(ctx context.Context, line string, err error) {
	if !s.book.Guarded() {
		return
	}
	entry := access.Entry{Who: consoleName, Action: "runConsole", What: shorten(line, 1000), Outcome: "ok"}
	if err != nil {
		entry.Outcome = shorten(err.Error(), 1000)
	}
	s.gate.add(ctx, &entry)
}

// consoleAPI is the console over HTTP.
type consoleAPI struct{ console *console.Console }

func (a *consoleAPI) operations() []operation {
	return []operation{
		op("POST", "/v1/console", "runConsole", "Run a console command, which inspects or changes the running system.", a.run,
			needs(administers), asks, fails(http.StatusUnprocessableEntity)),
	}
}

type consoleRequest struct{ Body consoleLineJSON }

// consoleLineJSON is a line of the console.
type consoleLineJSON struct {
	// The command and its arguments; help lists the commands.
	Line string `json:"line" example:"list /"`
}

// consoleOutputJSON is the output of a console command.
type consoleOutputJSON struct {
	// Lines of text, or JSON if the line ends with -o json.
	Output string `json:"output" example:"pong\n"`
}

func (a *consoleAPI) run(ctx context.Context, in *consoleRequest) (*answer[consoleOutputJSON], error) {
	callerOf(ctx).about = shorten(in.Body.Line, 500)
	out, err := a.console.Run(ctx, in.Body.Line)
	if err != nil {
		return nil, problemf(http.StatusUnprocessableEntity, "%s", shorten(err.Error(), 2000))
	}
	return ok(consoleOutputJSON{out}), nil
}
