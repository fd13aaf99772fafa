package lua

import (
	"fmt"
	"slices"
	"strings"
	"time"

	glua "github.com/yuin/gopher-lua"

	"github.com/greenroom-go/greenroom/console"
)

// wait is what a handler waits for: the function that it has called, and of whom it waits for something.
type wait struct{ function, of string }

func (w wait) String() string { return strings.TrimSpace(w.function + " " + w.of) }

// What a handler that handles no message does.
const (
	loadedFile      = "the file"
	startFunction   = "start"
	ownFunction     = "a function of its own"
	injectedCode    = "injected code"
	reloadedFile    = "a reload"
	restartFunction = "on_restart"
	infoFunction    = "the function of info_func"
	debuggerOrder   = "the debugger"
)

// The limits of what is shown of a handler.
const (
	tasksShown  = 200
	framesShown = 50
)

// handles says what a handler is about.
func (t *task) handles() string {
	switch {
	case t.what != "":
		return t.what
	case t.sender.IsZero():
		return "a message of Go"
	}
	return "a message of " + t.sender.String()
}

// tasks returns the handlers that wait, those that wait longest first.
func (s *service) tasks() []console.Task {
	var list []*task
	for _, t := range s.busy {
		if t.at != nil {
			list = append(list, t)
		}
	}
	slices.SortFunc(list, func(a, b *task) int { return a.since.Compare(b.since) })
	now := time.Now()
	shown := make([]console.Task, 0, min(len(list), tasksShown))
	for _, t := range list[:min(len(list), tasksShown)] {
		shown = append(shown, console.Task{
			Handles: t.handles(), Waits: t.waits.String(), For: now.Sub(t.since).Milliseconds(), Stack: traceback(t.at),
		})
	}
	return shown
}

// traceback returns the functions of scripts that are under way on a thread and on those that have
// resumed it, the innermost first.
func traceback(l *glua.LState) []string {
	var lines []string
	for ; l != nil; l = l.Parent {
		for level := 0; len(lines) < framesShown; level++ {
			frame, ok := l.GetStack(level)
			if !ok {
				break
			}
			if _, err := l.GetInfo("nSl", frame, nil); err != nil || frame.Source == "" {
				continue // a function of Go
			}
			name := frame.Name
			if level == 0 && l.Parent != nil || frame.What == "main" || strings.HasPrefix(name, "<") {
				name = fmt.Sprintf("<%s:%d>", frame.Source, frame.LineDefined)
			}
			lines = append(lines, fmt.Sprintf("%s:%d: in %s", frame.Source, frame.CurrentLine, name))
		}
	}
	return lines
}
