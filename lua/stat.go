package lua

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// The limits of the function that info_func was given: it holds up the service for each look of a tool.
const (
	infoSteps = 100_000
	infoBytes = 16 << 10
)

// stat returns a number about the service.
func (s *service) stat(l *glua.LState) int {
	var n int64
	switch what := l.CheckString(1); what {
	case "mqlen":
		n = s.queued()
	case "message":
		n = int64(s.messages)
	case "task":
		n = int64(s.waiting)
	case "memory":
		n = s.meter.limit - s.meter.bytes
	case "steps":
		n = s.meter.budget - s.meter.steps
	default:
		l.ArgError(1, fmt.Sprintf(`must be "mqlen", "message", "task", "memory" or "steps", not %.40q`, what))
	}
	l.Push(glua.LNumber(n))
	return 1
}

// queued returns how many messages wait in the mailbox. The engine counts those with them that
// handlers are under way of.
func (s *service) queued() int64 {
	n, _ := s.ctx.Self().Backlog()
	return int64(max(n-s.waiting-1, 0))
}

// setInfo sets the function that tells tools about the service.
func (s *service) setInfo(l *glua.LState) int {
	f := l.CheckFunction(1)
	if again := s.task.rerun; again != nil {
		again.info = f
	} else {
		s.info = f
	}
	return 0
}

// askInfo returns what the function of info_func returns: nothing, a value or a list of values, as JSON has them.
func (s *service) askInfo() (shown any, err error) {
	if s.info == nil || s.meter.exit || s.meter.full {
		return nil, nil
	}
	var body []byte
	err = s.run(&task{what: infoFunction}, s.root.NewFunction(func(l *glua.LState) int {
		s.meter.steps = min(s.meter.steps, infoSteps)
		l.Push(s.info)
		l.Call(0, glua.MultRet)
		body = s.packArguments(l, 1)
		return 0
	}))
	if err != nil {
		return nil, errors.New(strings.TrimSpace(err.Error())) // without the space of a place that there is not
	}
	if len(body) > infoBytes {
		return nil, fmt.Errorf("the function of info_func must return at most %d bytes, not %d", infoBytes, len(body))
	}
	values, err := unpackGo(body)
	if err != nil || len(values) == 0 {
		return nil, err
	}
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = plainValue(v)
	}
	if shown = list; len(list) == 1 {
		shown = list[0]
	}
	if _, err := json.Marshal(shown); err != nil { // a NaN: the whole view could not be shown
		return nil, err
	}
	return shown, nil
}
