package lua

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/console"
)

// servicesShown is how many the command service lists.
const servicesShown = 1000

// Commands returns the commands about services for a console of the same system: service, names,
// start, exit, call, send, inject, reload, versions, signal and debug. Pass them to
// [console.Console.Add].
func (rt *Runtime) Commands(c *console.Console) []console.Command {
	service := func(args []string) []string {
		if len(args) > 1 {
			return nil
		}
		return append(rt.allNames(), c.CompleteAddress(args)...)
	}
	list := rt.runtimeCommands()
	for _, cmd := range rt.serviceCommands() {
		cmd.Changes, cmd.Complete = true, service
		cmd.Run = func(ctx context.Context, args []string) (any, error) {
			to, err := rt.serviceAt(c, args[0])
			if err != nil {
				return nil, err
			}
			return cmd.run(ctx, to, args[1:])
		}
		list = append(list, cmd.Command)
	}
	return list
}

// runtimeCommands are those about files, names and all services.
func (rt *Runtime) runtimeCommands() []console.Command {
	file := func(args []string) []string {
		if len(args) > 1 {
			return nil
		}
		return rt.loadedFiles()
	}
	return []console.Command{
		{
			Name: "service", Help: "Lists the services that are written in Lua, with their files, versions and names.",
			Run: func(context.Context, []string) (any, error) { return rt.listServices(), nil },
		},
		{
			Name: "names", Help: "Lists the names of services.",
			Run: func(context.Context, []string) (any, error) { return rt.listNames(), nil },
		},
		{
			Name: "start", Usage: "FILE [VALUE]...", Help: "Starts a service at the root of the tree with these arguments, and shows its address.",
			Changes: true, Least: 1, Most: valuesTaken, Complete: file,
			Run: func(_ context.Context, args []string) (any, error) {
				ref, err := rt.Spawn(rt.sys, "", args[0], literals(args[1:])...)
				return ref.String(), err
			},
		},
		{
			Name: "versions", Usage: "[FILE]", Help: "Lists the versions of a file, or of all files, the one in force first.", Most: 1, Complete: file,
			Run: func(_ context.Context, args []string) (any, error) { return rt.listVersions(args), nil },
		},
		{
			Name: "reload", Usage: "FILE [--dry | --to HASH]", Help: "Reads a file again, or goes back to a version, in the services that have it; with --dry it shows what that would do.",
			Changes: true, Least: 1, Most: 3, Complete: file,
			Run: func(ctx context.Context, args []string) (any, error) { return rt.reloadFrom(ctx, args) },
		},
	}
}

// serviceCommand is a command whose first argument is the address of a service.
type serviceCommand struct {
	console.Command
	run func(ctx context.Context, to actor.Ref[Message], args []string) (any, error)
}

// serviceCommands are those that change one service.
func (rt *Runtime) serviceCommands() []serviceCommand {
	return []serviceCommand{
		{
			console.Command{Name: "inject", Usage: "ADDRESS CODE", Help: "Runs Lua in a service, in which _P has its local variables, and shows what that returns.", Least: 2, Most: 2},
			func(ctx context.Context, to actor.Ref[Message], args []string) (any, error) {
				return shownValues(rt.Inject(ctx, to, args[0]))
			},
		},
		{
			console.Command{Name: "call", Usage: "ADDRESS [VALUE]...", Help: "Calls a service and shows the answer.", Least: 1, Most: valuesTaken},
			func(ctx context.Context, to actor.Ref[Message], args []string) (any, error) {
				return shownValues(Call(ctx, to, literals(args)...))
			},
		},
		{
			console.Command{Name: "send", Usage: "ADDRESS [VALUE]...", Help: "Sends a service a message.", Least: 1, Most: valuesTaken},
			func(ctx context.Context, to actor.Ref[Message], args []string) (any, error) {
				return nil, Send(ctx, to, literals(args)...)
			},
		},
		{
			console.Command{Name: "exit", Usage: "ADDRESS", Help: "Ends a service, and what its handlers wait for.", Least: 1, Most: 1},
			func(_ context.Context, to actor.Ref[Message], _ []string) (any, error) { to.Stop(); return nil, nil },
		},
		{
			console.Command{
				Name: "debug", Usage: "ADDRESS [break FILE:LINE | clear FILE:LINE | step | next | continue | off]",
				Help: "Stops handlers of a service at a line and shows their variables, while all others go on.", Least: 1, Most: 3,
			},
			func(ctx context.Context, to actor.Ref[Message], args []string) (any, error) {
				return rt.Debug(ctx, to, strings.Join(args, " "))
			},
		},
		{
			console.Command{Name: "signal", Usage: "ADDRESS 0", Help: "Ends the handler that a service is running, for example one that loops; the service continues.", Least: 2, Most: 2},
			func(_ context.Context, to actor.Ref[Message], args []string) (any, error) {
				if args[0] != "0" {
					return nil, fmt.Errorf("the signal must be 0, not %.20q", args[0])
				}
				return nil, rt.Interrupt(to)
			},
		},
	}
}

// valuesTaken is how many arguments a command takes that are values.
const valuesTaken = 32

// serviceAt returns the service that an argument means: a name, a path or a PID.
func (rt *Runtime) serviceAt(c *console.Console, given string) (actor.Ref[Message], error) {
	if ref, ok := rt.Find(given); ok {
		return ref, nil
	}
	if strings.HasPrefix(given, ".") {
		return actor.Ref[Message]{}, fmt.Errorf("no service has the name %.140q; names lists them", given)
	}
	pid, err := c.Address(given)
	if err != nil {
		return actor.Ref[Message]{}, err
	}
	return actor.Lookup[Message](rt.sys, pid)
}

// literals returns arguments as values: what is JSON as that, anything else as a text.
func literals(args []string) []any {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg
		if n, err := strconv.ParseInt(arg, 10, 64); err == nil {
			values[i] = n // as JSON it might be rounded
			continue
		}
		var v any
		if json.Unmarshal([]byte(arg), &v) == nil {
			values[i] = v
		}
	}
	return values
}

// shownValues returns values as they are shown, or the error with the stack of the script.
func shownValues(values []any, err error) (any, error) {
	if failed, ok := errors.AsType[*Error](err); ok && failed.Stack != "" {
		return nil, fmt.Errorf("%w\n%s", err, failed.Stack)
	}
	if err != nil || len(values) == 0 {
		return nil, err
	}
	shown := make([]any, len(values))
	for i, v := range values {
		shown[i] = plainValue(v)
	}
	return shown, nil
}

func (rt *Runtime) reloadFrom(ctx context.Context, args []string) (any, error) {
	r := Reload{File: args[0], Who: "console"}
	switch rest := args[1:]; {
	case len(rest) == 0:
	case len(rest) == 1 && rest[0] == "--dry":
		r.Dry = true
	case len(rest) == 2 && rest[0] == "--to":
		r.To = rest[1]
	default:
		return nil, errors.New("usage: reload FILE [--dry | --to HASH]")
	}
	return rt.Reload(ctx, r)
}

// String returns the report as the console shows it.
func (r Reloaded) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is the version %s\n", r.Version.File, r.Version.Hash)
	for i := range r.Services {
		s := &r.Services[i]
		if s.Err != nil {
			fmt.Fprintf(&b, "%s keeps its old code: %s\n", s.Address, s.Err)
			continue
		}
		fmt.Fprintf(&b, "%s had the version %s\n", s.Address, s.From)
		for _, part := range []struct {
			name string
			list []string
		}{{"new code", s.Mended}, {"added", s.Added}, {"old code", s.Left}, {"kept values", s.Joined}} {
			if len(part.list) > 0 {
				fmt.Fprintf(&b, "  %s: %s\n", part.name, strings.Join(part.list, " "))
			}
		}
	}
	return b.String()
}

func (rt *Runtime) listVersions(args []string) console.Table {
	files := args
	if len(files) == 0 {
		files = rt.loadedFiles()
	}
	t := console.Table{Columns: []string{"file", "hash", "time", "who", "services"}}
	for _, file := range files {
		for _, v := range rt.Versions(file) {
			t.Add(v.File, v.Hash, v.Time.UTC().Format(time.RFC3339), v.Who, rt.countServices(file, v.Hash))
		}
	}
	return t
}

// countServices returns how many services have a version of a file.
func (rt *Runtime) countServices(file, hash string) (n int) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for a := range rt.having[file] {
		if a.versions[file] == hash {
			n++
		}
	}
	return n
}

func (rt *Runtime) listNames() console.Table {
	t := console.Table{Columns: []string{"name", "address"}}
	names := rt.allNames()
	slices.Sort(names)
	for _, name := range names[:min(len(names), servicesShown)] {
		if ref, ok := rt.Find(name); ok {
			t.Add(name, ref.String())
		}
	}
	if len(names) > servicesShown {
		t.More = fmt.Sprintf("and %d more", len(names)-servicesShown)
	}
	return t
}

func (rt *Runtime) listServices() console.Table {
	type row struct {
		pid                  actor.PID
		file, version, names string
		waiting              int64
	}
	var rows []row
	rt.accounts.Range(func(pid, a any) bool {
		known := a.(*account)
		rt.mu.Lock()
		names, version := strings.Join(known.names, " "), known.versions[known.file]
		rt.mu.Unlock()
		rows = append(rows, row{pid.(actor.PID), known.file, version, names, known.unhandled.Load()})
		return true
	})
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.pid.String(), b.pid.String()) })
	t := console.Table{Columns: []string{"address", "file", "version", "names", "mailbox bytes"}}
	for _, r := range rows[:min(len(rows), servicesShown)] {
		t.Add(r.pid.String(), r.file, r.version, r.names, r.waiting)
	}
	if len(rows) > servicesShown {
		t.More = fmt.Sprintf("and %d more", len(rows)-servicesShown)
	}
	return t
}

// allNames returns the names that services have.
func (rt *Runtime) allNames() []string {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	list := make([]string, 0, len(rt.names))
	for name := range rt.names {
		list = append(list, name)
	}
	return list
}

// plainValue returns a value as JSON has it: a table as a list, or as an object whose keys are texts.
func plainValue(v any) any {
	t, ok := v.(*Table)
	if !ok {
		return v
	}
	list := make([]any, len(t.List))
	for i, item := range t.List {
		list[i] = plainValue(item)
	}
	if len(t.Fields) == 0 {
		return list
	}
	fields := make(map[string]any, len(list)+len(t.Fields))
	for i, item := range list {
		fields[fmt.Sprint(i+1)] = item
	}
	for _, f := range t.Fields {
		fields[fmt.Sprint(f.Key)] = plainValue(f.Value)
	}
	return fields
}

// view is what a service says of itself to [actor.System.Detail].
type view struct {
	File string `json:"file"`
	// The bytes of its values when they were last measured, and what was charged since.
	Bytes int64 `json:"bytes_at_most"`
	Limit int64 `json:"bytes_limit"`
	// The waiting handlers, and the functions that wait for their time or their turn.
	Waiting int `json:"handlers_waiting"`
	Pending int `json:"functions_waiting"`
	Modules int `json:"modules"`
	// The lines that were not written to the log since the last one, because there were too many.
	LeftOut int64 `json:"log_lines_left_out"`
	// What the function of greenroom.info_func returns, or why it has failed.
	Info      any    `json:"info,omitempty"`
	InfoError string `json:"info_error,omitempty"`

	tasks []console.Task
}

// Tasks returns the handlers that wait.
func (v view) Tasks() []console.Task { return v.tasks }

// Inspect returns what tools show of a service.
func (s *service) Inspect() any {
	if s.meter == nil { // the file cannot be read
		return view{File: s.file}
	}
	v := view{
		File: s.file, Bytes: s.meter.limit - s.meter.bytes, Limit: s.meter.limit,
		Waiting: s.waiting, Pending: len(s.pending), Modules: len(s.modules), LeftOut: s.account.leftOut, tasks: s.tasks(),
	}
	info, err := s.askInfo()
	if v.Info = info; err != nil {
		v.InfoError = err.Error()
	}
	return v
}
