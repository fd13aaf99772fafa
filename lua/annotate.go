package lua

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/codec"
)

// Annotations returns a file for editors with the Lua language server LuaLS: the functions of
// greenroom, and the messages of Types with their fields, so that the editor can complete them and
// find mistakes. Write it next to the scripts; it is not run.
func Annotations(types *codec.Types, mailboxes ...Mailbox) (string, error) {
	v, err := newVocabulary(nil, Config{Types: types, Mailboxes: mailboxes})
	if err != nil {
		return "", fmt.Errorf("annotations: %w", err)
	}
	a := annotator{v: v, names: map[reflect.Type]string{}}
	names := make([]string, 0, len(v.byName))
	for name, w := range v.byName {
		if w.shape != nil {
			names = append(names, name)
			a.names[elementOf(w.t)] = className(name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		a.class(v.byName[name].shape)
	}
	var calls, sends []string
	for _, name := range names {
		w := v.byName[name]
		message := fmt.Sprintf("fun(to: string, name: %q, message: %s)", name, a.typeOf(w.shape))
		sends = append(sends, message)
		for _, b := range v.mailboxes {
			if b.request != nil && w.t.Implements(b.request) && w.t.AssignableTo(b.accepts) {
				calls = append(calls, message+": "+a.typeOf(v.answers[b.answer]))
				break
			}
		}
	}
	for len(a.more) > 0 {
		s := a.more[0]
		a.more = a.more[1:]
		a.class(s)
	}
	out := &a.out
	out.WriteString("\n---@class greenroom\nlocal greenroom = {}\n")
	for _, f := range signatures {
		overloads := map[string][]string{"call": calls, "send": sends}[f.name]
		for _, o := range overloads {
			fmt.Fprintf(out, "\n---@overload %s", o)
		}
		fmt.Fprintf(out, "\n%s\n", f.text())
	}
	return "---@meta greenroom\n-- Made by lua.Annotations. It is for editors, and is not run.\n" + out.String() + "\nreturn greenroom\n", nil
}

// elementOf returns the type itself, or what it points to.
func elementOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// className returns a name without what the language server does not take.
func className(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, name)
}

// annotator writes the classes of types.
type annotator struct {
	v     *vocabulary
	names map[reflect.Type]string // of classes, of those that are written or will be
	more  []*shape                // that are to be written
	out   strings.Builder
}

// class writes the class of a struct; other types are written where they are used.
func (a *annotator) class(s *shape) {
	if s.form == pointer {
		a.class(s.elem)
		return
	}
	if s.form != record {
		return
	}
	fmt.Fprintf(&a.out, "\n---@class (exact) %s\n", a.names[s.t])
	for _, f := range s.fields {
		mark := ""
		if f.optional {
			mark = "?"
		}
		fmt.Fprintf(&a.out, "---@field %s%s %s\n", f.name, mark, a.typeOf(f.shape))
	}
}

// typeOf returns what the language server calls a type.
func (a *annotator) typeOf(s *shape) string {
	switch s.form {
	case truth:
		return "boolean"
	case whole, natural:
		return "integer"
	case fraction:
		return "number"
	case chars, textual:
		return "string"
	case anything:
		return "any"
	case pointer:
		return a.typeOf(s.elem)
	case list, array:
		return a.typeOf(s.elem) + "[]"
	case mapping:
		return "table<string, " + a.typeOf(s.elem) + ">"
	case record: // by its name
	}
	name, ok := a.names[s.t]
	if !ok {
		name = className(path.Base(s.t.PkgPath()) + "." + cmp.Or(s.t.Name(), fmt.Sprint("struct", len(a.names))))
		a.names[s.t] = name
		a.more = append(a.more, s)
	}
	return name
}

// signature is what an editor knows of a function of greenroom.
type signature struct{ name, params, result, help string }

func (f signature) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "---%s\n", f.help)
	var names []string
	for p := range strings.SplitSeq(f.params, "; ") {
		name, kind, ok := strings.Cut(p, " ")
		if !ok {
			continue
		}
		fmt.Fprintf(&b, "---@param %s %s\n", name, kind)
		names = append(names, strings.TrimSuffix(name, "?"))
	}
	if f.result != "" {
		fmt.Fprintf(&b, "---@return %s\n", f.result)
	}
	fmt.Fprintf(&b, "function greenroom.%s(%s) end", f.name, strings.Join(names, ", "))
	return b.String()
}

// signatures are those of all functions of greenroom, see [service.functions].
var signatures = []signature{
	{"start", "f function", "", "Has f called when the file has been run."},
	{"init", "f function", "", "Has f called before what start was given."},
	{"dispatch", "f function", "", "Has f handle messages: it is given their values."},
	{"send", "to string; ... any", "", "Sends a message."},
	{"call", "to string; ... any", "any ...", "Sends a message, waits, and returns the answer."},
	{"calltimeout", "ti number; to string; ... any", "any ...", "Calls with a limit in hundredths of a second."},
	{"ret", "... any", "", "Answers what is being handled."},
	{"response", "", "fun(ok: boolean, ...): boolean", "Returns a function that answers later."},
	{"ignoreret", "", "", "Leaves what is being handled without an answer."},
	{"redirect", "to string; ... any", "", "Has another service answer what is being handled, with these values."},
	{"sleep", "ti number", "", "Waits, in hundredths of a second."},
	{"yield", "", "", "Lets the messages that have come be handled first."},
	{"timeout", "ti number; f function", "thread", "Has f called after a time in hundredths of a second."},
	{"fork", "f function; ... any", "thread", "Has f called next."},
	{"killthread", "handler thread", "thread?", "Ends a handler that waits, or takes back a call of fork or timeout."},
	{"stat", "what string", "number", "Returns a number about the service: mqlen, message, task, memory or steps."},
	{"info_func", "f function", "", "Has the console's info show what f returns."},
	{"wait", "token any", "", "Waits until wakeup is called with the token."},
	{"wakeup", "token any", "boolean", "Wakes the handler that waits for the token."},
	{"queue", "", "fun(f: function, ...): ...", "Returns a critical section."},
	{"request", "... table", "table", "Calls several at once: request{to, …}:add{to, …}:select(ti)."},
	{"newservice", "file string; ... any", "string", "Starts a service and returns its address."},
	{"uniqueservice", "file string; ... any", "string", "Returns the one service of a file, which is started unless it runs."},
	{"queryservice", "file string", "string", "Returns the one service of a file, which must run."},
	{"register", "name string", "", "Gives the service a name, which begins with a dot."},
	{"name", "name string; address string", "", "Gives a service a name."},
	{"query", "name string", "string?", "Returns the address behind a name."},
	{"localname", "name string", "string?", "Returns the address behind a name."},
	{"self", "", "string", "Returns the address of the service."},
	{"exit", "", "", "Ends the service."},
	{"kill", "address string", "", "Ends another service."},
	{"watch", "address string; f fun(address: string, reason: string, err: string?)", "", "Has f called when a service has ended."},
	{"link", "address string", "", "Fails when another service fails."},
	{"shared", "name string", "any", "Returns what Go has shared under a name."},
	{"now", "", "number", "Returns the hundredths of a second since the start."},
	{"hpc", "", "number", "Returns the nanoseconds since the start."},
	{"time", "", "number", "Returns the seconds since 1970."},
	{"starttime", "", "number", "Returns the seconds since 1970 at the start."},
	{"pack", "... any", "string", "Returns values as a text."},
	{"unpack", "text string", "any ...", "Returns the values of a text of pack."},
	{"int64", "n number|string|integer", "integer", "Returns an integer that a double cannot hold."},
	{"error", "... any", "", "Writes to the log."},
}
