package lua

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/console"
)

// servicesShown is how many the command service lists.
const servicesShown = 1000

// Commands returns the commands about services for a console of the same system: service and inject. Pass them to
// [console.Console.Add].
func (rt *Runtime) Commands(c *console.Console) []console.Command {
	return []console.Command{
		{
			Name: "service", Help: "Lists the services that are written in Lua, with their files and names.",
			Run: func(context.Context, []string) (any, error) { return rt.listServices(), nil },
		},
		{
			Name: "inject", Usage: "ADDRESS CODE", Help: "Runs Lua in a service, in which _P has its local variables, and shows what that returns.",
			Changes: true, Least: 2, Most: 2,
			Run: func(ctx context.Context, args []string) (any, error) { return rt.injectFrom(ctx, c, args[0], args[1]) },
			Complete: func(args []string) []string {
				if len(args) > 1 {
					return nil
				}
				return append(rt.allNames(), c.CompleteAddress(args)...)
			},
		},
	}
}

func (rt *Runtime) listServices() console.Table {
	type row struct {
		pid         actor.PID
		file, names string
		waiting     int64
	}
	var rows []row
	rt.accounts.Range(func(pid, a any) bool {
		known := a.(*account)
		rt.mu.Lock()
		names := strings.Join(known.names, " ")
		rt.mu.Unlock()
		rows = append(rows, row{pid.(actor.PID), known.file, names, known.unhandled.Load()})
		return true
	})
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.pid.String(), b.pid.String()) })
	t := console.Table{Columns: []string{"address", "file", "names", "mailbox bytes"}}
	for _, r := range rows[:min(len(rows), servicesShown)] {
		t.Add(r.pid.String(), r.file, r.names, r.waiting)
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

func (rt *Runtime) injectFrom(ctx context.Context, c *console.Console, address, code string) (any, error) {
	to, ok := rt.Find(address)
	if !ok {
		pid, err := c.Address(address)
		if err != nil {
			return nil, err
		}
		if to, err = actor.Lookup[Message](rt.sys, pid); err != nil {
			return nil, err
		}
	}
	values, err := rt.Inject(ctx, to, code)
	if failed, ok := errors.AsType[*Error](err); ok && failed.Stack != "" {
		return nil, fmt.Errorf("%w\n%s", err, failed.Stack)
	}
	if err != nil {
		return nil, err
	}
	if len(values) == 0 {
		return nil, nil
	}
	shown := make([]any, len(values))
	for i, v := range values {
		shown[i] = plainValue(v)
	}
	return shown, nil
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
	// The bytes of its values when they were last walked, and what was charged since.
	Bytes int64 `json:"bytes_at_most"`
	Limit int64 `json:"bytes_limit"`
	// The handlers that wait, and the functions that wait for their time or their turn.
	Waiting int `json:"handlers_waiting"`
	Pending int `json:"functions_waiting"`
	Modules int `json:"modules"`
}

// Inspect returns what tools show of a service.
func (s *service) Inspect() any {
	if s.meter == nil { // the file cannot be read
		return view{File: s.file}
	}
	return view{s.file, s.meter.limit - s.meter.bytes, s.meter.limit, s.waiting, len(s.pending), len(s.modules)}
}
