package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/inspect"
)

const (
	childrenShown = 200     // by list
	tasksShown    = 200     // by task and uniqtask
	topShown      = 20      // by top
	looked        = 200_000 // actors that one command looks at
)

// actorCommands look at actors, and order them to end and to begin anew.
func (c *Console) actorCommands() []Command {
	list := []Command{
		{
			Name: "list", Usage: "[ADDRESS]", Help: "Lists an actor, / at first, and its children.", Most: 1,
			Run: func(_ context.Context, args []string) (any, error) { return c.list(append(args, "/")[0]) },
		},
		{
			Name: "info", Usage: "ADDRESS", Help: "Shows an actor: what waits for it, timers, watches, failures, and what it says of itself.", Least: 1, Most: 1,
			Run: c.info,
		},
		{
			Name: "timers", Usage: "ADDRESS", Help: "Lists the timers of an actor.", Least: 1, Most: 1,
			Run: c.timers,
		},
		{
			Name: "task", Usage: "[ADDRESS]", Help: "Lists the actors whose handlers wait for an answer, and of whom; or those of one actor with their stacks, if it tells.", Most: 1,
			Run: func(ctx context.Context, args []string) (any, error) { return c.tasks(ctx, args) },
		},
		{
			Name: "uniqtask", Usage: "[ADDRESS]", Help: "Counts the actors whose handlers wait, by type of message and by whom they wait for; or those of one actor by their stacks.", Most: 1,
			Run: func(ctx context.Context, args []string) (any, error) { return c.uniqueTasks(ctx, args) },
		},
		{
			Name: "top", Usage: "[mailbox|handled|restarts|children|time]", Help: "Lists the actors that have the most of something, messages that wait at first; with time those whose handlers take the most of the next one and a half seconds.", Most: 1,
			Run:      func(ctx context.Context, args []string) (any, error) { return c.top(ctx, append(args, "mailbox")[0]) },
			Complete: func([]string) []string { return []string{"children", "handled", "mailbox", "restarts", "time"} },
		},
		{
			Name: "deadletters", Help: "Lists the last messages that no actor has handled.",
			Run: func(context.Context, []string) (any, error) { return c.deadLetters(), nil },
		},
	}
	for name, order := range map[string]struct {
		help string
		give func(actor.PID) error
	}{
		"stop":    {"Ends an actor after its present message.", c.sys.Stop},
		"drain":   {"Ends an actor after the messages that wait.", c.sys.Drain},
		"kill":    {"Ends an actor at once, also while its handler does not return.", c.sys.Kill},
		"restart": {"Gives an actor a fresh state after its present message; its mail waits.", c.sys.Restart},
	} {
		list = append(list, Command{
			Name: name, Usage: "ADDRESS", Help: order.help, Changes: true, Least: 1, Most: 1,
			Run: func(_ context.Context, args []string) (any, error) {
				pid, err := c.Address(args[0])
				if err == nil {
					err = order.give(pid)
				}
				return nil, err
			},
		})
	}
	for i := range list {
		if strings.Contains(list[i].Usage, "ADDRESS") {
			list[i].Complete = c.CompleteAddress
		}
	}
	return list
}

// Address returns the actor that an argument names: by a path, such as /orders/o-17, or a PID. It
// fails if no actor has the path, or if the argument is neither.
func (c *Console) Address(given string) (actor.PID, error) {
	if !strings.HasPrefix(given, "/") {
		pid, err := actor.ParsePID(given)
		if err != nil || pid.IsZero() {
			return actor.PID{}, fmt.Errorf("an address is a path such as /orders/o-17, or a PID such as %s/orders/o-17#42, not %.300q", c.sys.Name(), given)
		}
		return pid, nil
	}
	tree, err := c.sys.Inspect(given, 0)
	if err != nil {
		return actor.PID{}, fmt.Errorf("no actor has the path %.300q; list shows paths", given)
	}
	return actor.ParsePID(tree.PID)
}

// CompleteAddress is the Complete of a [Command] whose last argument is an address: it proposes paths.
func (c *Console) CompleteAddress(args []string) []string {
	last := args[len(args)-1]
	parent := last[:strings.LastIndexByte(last, '/')+1]
	tree, err := c.sys.Inspect("/"+strings.Trim(parent, "/"), looked/100)
	if err != nil {
		return nil
	}
	list := make([]string, len(tree.Children))
	for i := range tree.Children {
		list[i] = tree.Children[i].Path
	}
	return list
}

var actorColumns = []string{"path", "type", "state", "activity", "mailbox", "handled", "restarts", "children"}

func (t *Table) addActor(i *inspect.Actor) {
	t.Add(i.Path, i.Type, i.State, i.Activity, i.Mailbox, i.Handled, i.Restarts, i.Children)
}

func (c *Console) list(path string) (any, error) {
	if !strings.HasPrefix(path, "/") {
		pid, err := c.Address(path)
		if err != nil {
			return nil, err
		}
		path = pid.Path()
	}
	tree, err := inspect.ReadTree(c.sys, path, childrenShown)
	if err != nil {
		return nil, fmt.Errorf("no actor has the path %.300q; list shows paths", path)
	}
	t := Table{Columns: actorColumns}
	t.addActor(&tree.Actor)
	for i := range tree.Children {
		t.addActor(&tree.Children[i])
	}
	if tree.More {
		t.More = fmt.Sprintf("and %d more children", tree.Actor.Children-len(tree.Children))
	}
	return t, nil
}

// detail reads one actor closely.
func (c *Console) detail(ctx context.Context, given string) (*inspect.ActorDetail, error) {
	pid, err := c.Address(given)
	if err != nil {
		return nil, err
	}
	d, err := inspect.ReadDetail(ctx, c.sys, pid)
	if errors.Is(err, actor.ErrStopped) {
		return nil, fmt.Errorf("no living actor has the address %.300q", given)
	}
	return d, err
}

func (c *Console) info(ctx context.Context, args []string) (any, error) {
	d, err := c.detail(ctx, args[0])
	if err != nil {
		return nil, err // not a nil pointer in an any
	}
	return d, nil
}

func (c *Console) timers(ctx context.Context, args []string) (any, error) {
	d, err := c.detail(ctx, args[0])
	if err != nil {
		return nil, err
	}
	if d.Busy {
		return nil, errors.New("the actor is busy and does not tell its timers; task shows whom it waits for")
	}
	t := Table{Columns: []string{"key", "in ms", "every ms"}}
	for _, timer := range d.Timers {
		t.Add(timer.Key, timer.In, timer.Every)
	}
	return t, nil
}

// each calls f with the actors, and reports whether those are all.
func (c *Console) each(ctx context.Context, f func(i *actor.Info)) (all bool) {
	n := 0
	for i := range c.sys.Actors() {
		if n++; n > looked || ctx.Err() != nil {
			return false
		}
		f(&i)
	}
	return true
}

// notAll is said below a table that is about a part of the actors.
func notAll(all bool) string {
	if all {
		return ""
	}
	return "there are more actors than were looked at"
}

func (c *Console) tasks(ctx context.Context, args []string) (any, error) {
	of, d, err := c.detailOf(ctx, args)
	if err != nil {
		return nil, err
	}
	if list, ok := tasksOf(&d); ok {
		return taskList(list), nil
	}
	t := Table{Columns: []string{"actor", "waits for", "mailbox"}}
	all := c.each(ctx, func(i *actor.Info) {
		if !i.Waits.IsZero() && (of.IsZero() || i.PID == of.String()) && len(t.Rows) < tasksShown {
			t.Add(i.PID, i.Waits.String(), i.Mailbox)
		}
	})
	t.More = notAll(all)
	if len(t.Rows) == 0 && !of.IsZero() {
		return nothingWaits(&d), nil
	}
	if len(t.Rows) == tasksShown {
		t.More = "and maybe more; uniqtask counts all"
	}
	return t, nil
}

// tasksOf returns the handlers of an actor that wait, and whether it tells them: it does not while it is busy.
func tasksOf(d *actor.Detail) (list []Task, ok bool) {
	v, ok := d.View.(Tasks)
	if !ok {
		return nil, false
	}
	return v.Tasks(), true
}

// nothingWaits is the answer of task and uniqtask about an actor that is not seen to wait.
func nothingWaits(d *actor.Detail) any {
	if d.Busy {
		return "the actor is busy: its handler runs, and does not tell who waits"
	}
	return taskList{}
}

// detailOf reads an argument that is an address, and that actor.
func (c *Console) detailOf(ctx context.Context, args []string) (of actor.PID, d actor.Detail, err error) {
	if len(args) == 0 {
		return of, d, nil
	}
	if of, err = c.Address(args[0]); err == nil {
		d, err = c.sys.Detail(ctx, of)
	}
	return of, d, err
}

// uniqueTasks counts those who wait for the same, most first.
func (c *Console) uniqueTasks(ctx context.Context, args []string) (any, error) {
	of, d, err := c.detailOf(ctx, args)
	if err != nil {
		return nil, err
	}
	if list, ok := tasksOf(&d); ok {
		return unique(list), nil
	}
	type wait struct{ of, target string }
	counts := map[wait]int{}
	all := c.each(ctx, func(i *actor.Info) {
		if !i.Waits.IsZero() && (of.IsZero() || i.PID == of.String()) {
			counts[wait{i.Type, i.Waits.Path()}]++
		}
	})
	if len(counts) == 0 && !of.IsZero() {
		return nothingWaits(&d), nil
	}
	waits := make([]wait, 0, len(counts))
	for w := range counts {
		waits = append(waits, w)
	}
	slices.SortFunc(waits, func(a, b wait) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a.of+" "+a.target, b.of+" "+b.target))
	})
	t := Table{Columns: []string{"actors", "type", "wait for"}, More: notAll(all)}
	for _, w := range waits[:min(len(waits), tasksShown)] {
		t.Add(counts[w], w.of, w.target)
	}
	return t, nil
}

// top lists the actors that have the most of something.
func (c *Console) top(ctx context.Context, by string) (any, error) {
	if by == "time" {
		return c.topTime(ctx)
	}
	measure := map[string]func(i *actor.Info) uint64{
		"mailbox":  func(i *actor.Info) uint64 { return uint64(i.Mailbox) }, //nolint:gosec // a length
		"handled":  func(i *actor.Info) uint64 { return i.Handled },
		"restarts": func(i *actor.Info) uint64 { return i.Restarts },
		"children": func(i *actor.Info) uint64 { return uint64(i.Children) }, //nolint:gosec // a length
	}[by]
	if measure == nil {
		return nil, fmt.Errorf("top is by mailbox, handled, restarts, children or time, not %.100q", by)
	}
	var most []actor.Info
	keep := func() {
		slices.SortFunc(most, func(a, b actor.Info) int {
			return cmp.Or(cmp.Compare(measure(&b), measure(&a)), strings.Compare(a.PID, b.PID))
		})
		most = most[:min(len(most), topShown)]
	}
	all := c.each(ctx, func(i *actor.Info) {
		if measure(i) == 0 {
			return
		}
		if most = append(most, *i); len(most) == 50*topShown {
			keep()
		}
	})
	keep()
	t := Table{Columns: actorColumns, More: notAll(all)}
	for i := range most {
		m := &most[i]
		t.Add(m.Path, m.Type, m.State, m.Activity, m.Mailbox, m.Handled, m.Restarts, m.Children)
	}
	return t, nil
}

func (c *Console) deadLetters() Table {
	t := Table{Columns: []string{"time ms", "to", "from", "type", "reason"}}
	for _, d := range inspect.DeadLetters(c.sys) {
		t.Add(d.Time, d.To.String(), d.From.String(), d.Type, d.Reason)
	}
	return t
}
