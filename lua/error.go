package lua

import (
	"errors"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// Error is a failure of a script.
type Error struct {
	Text  string // what was raised, with the file and the line if it is a text
	Stack string // the functions that were under way, as Lua prints them

	cause error // ErrSteps, ErrMemory, or a sentinel of Config.Types that the script has named; nil if it was none of them
}

// Error returns the text.
func (e *Error) Error() string { return e.Text }

// Unwrap returns [ErrSteps] or [ErrMemory] if one of them has ended the script, or the sentinel of
// [Config].Types that the script has raised as a table whose field name is the sentinel's name.
// Otherwise it returns nil.
func (e *Error) Unwrap() error { return e.cause }

// failure returns an error of the interpreter as one of ours.
func (s *service) failure(err error) error {
	var api *glua.ApiError
	if !errors.As(err, &api) {
		return err
	}
	failed := &Error{Text: raised(api.Object), Stack: api.StackTrace}
	if s.meter.steps < 0 {
		failed.cause = s.meter.exhausted()
		return failed
	}
	if t, ok := api.Object.(*glua.LTable); ok {
		if name, ok := t.RawGetString("name").(glua.LString); ok {
			failed.cause = s.rt.words.sentinelOf(string(name))
		}
	}
	return failed
}

// raised returns the text of what a script has raised, which may be any value, or its beginning if it is long.
func raised(v glua.LValue) string {
	text := raisedText(v)
	if len(text) > maxLogged {
		text = strings.ToValidUTF8(text[:maxLogged], "") + "…"
	}
	return text
}

func raisedText(v glua.LValue) string {
	switch v := v.(type) {
	case glua.LString:
		return string(v)
	case glua.LNumber:
		return v.String()
	case *glua.LTable:
		for _, key := range []string{"message", "msg"} {
			if text, ok := v.RawGetString(key).(glua.LString); ok {
				return string(text)
			}
		}
	}
	return "a " + typeName(v) + " was raised"
}

// scriptError returns the failure of the script in an error, without what the engine says about the ask, or the
// error itself if that is not one.
func scriptError(err error) error {
	if failed, ok := errors.AsType[*Error](err); ok {
		return failed
	}
	return err
}
