package console

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/inspect"
	"github.com/greenroom-go/greenroom/internal/text"
)

const (
	treeShown    = 1000 // actors by tree
	traceUsually = 20   // messages by trace
	traceMost    = 200
	traceText    = 200 // bytes of what a message says
)

// watchFor is how long top time looks: a command ends after MaxTime.
const watchFor = MaxTime * 3 / 4

// Content is implemented by messages that tell trace what they say. It may be called after the
// message was handled, on another goroutine.
type Content interface {
	// Content returns a short text.
	Content() string
}

// watchCommands look at a part of the system for a while, or at all of it.
func (c *Console) watchCommands() []Command {
	return []Command{
		{
			Name: "tree", Usage: "[ADDRESS]", Help: "Lists an actor, / at first, and all below it.", Most: 1, Complete: c.CompleteAddress,
			Run: func(ctx context.Context, args []string) (any, error) { return c.tree(ctx, append(args, "/")[0]) },
		},
		{
			Name: "trace", Usage: "ADDRESS [COUNT]", Help: fmt.Sprintf("Shows the next messages that an actor handles, 20 at first, within %v.", c.traceTime()), Least: 1, Most: 2,
			Run: c.trace,
			Complete: func(args []string) []string {
				if len(args) > 1 {
					return nil
				}
				return c.CompleteAddress(args)
			},
		},
		{
			Name: "pprof", Usage: "[PROFILE]", Help: "Shows a profile of the process as text, goroutine at first.", Most: 1,
			Run:      func(_ context.Context, args []string) (any, error) { return profile(append(args, "goroutine")[0]) },
			Complete: func([]string) []string { return profiles() },
		},
	}
}

// tree lists actors by their paths, children indented below their parents.
func (c *Console) tree(ctx context.Context, given string) (any, error) {
	if !strings.HasPrefix(given, "/") {
		pid, err := c.Address(given)
		if err != nil {
			return nil, err
		}
		given = pid.Path()
	}
	t := Table{Columns: actorColumns}
	var below func(path string, depth int) error
	below = func(path string, depth int) error {
		tree, err := inspect.ReadTree(c.sys, path, treeShown)
		if err != nil {
			return err
		}
		row := tree.Actor
		row.Path = strings.Repeat("  ", depth) + row.Path
		t.addActor(&row)
		for i := range tree.Children {
			if len(t.Rows) >= treeShown || ctx.Err() != nil {
				t.More = "and more actors; tree ADDRESS shows a part"
				return nil //nolint:nilerr // ReadTree's is nil; an actor that is gone is no error of the tree
			}
			child := &tree.Children[i]
			if child.Children > 0 {
				_ = below(child.Path, depth+1) // it may have ended meanwhile
				continue
			}
			row := *child
			row.Path = strings.Repeat("  ", depth+1) + row.Path
			t.addActor(&row)
		}
		return nil
	}
	if err := below(given, 0); err != nil {
		return nil, fmt.Errorf("no actor has the path %.300q; list shows paths", given)
	}
	return t, nil
}

// traceTime is for how long trace waits.
func (c *Console) traceTime() time.Duration { return c.cfg.MaxTime * 3 / 4 }

// trace shows what an actor handles.
func (c *Console) trace(ctx context.Context, args []string) (any, error) {
	pid, err := c.Address(args[0])
	if err != nil {
		return nil, err
	}
	count := traceUsually
	if len(args) == 2 {
		if count, err = strconv.Atoi(args[1]); err != nil || count < 1 || count > traceMost {
			return nil, fmt.Errorf("the count must be from 1 to %d, not %.20q", traceMost, args[1])
		}
	}
	watch, cancel := context.WithTimeout(ctx, c.traceTime())
	defer cancel()
	list, err := c.sys.Record(watch, pid, count)
	if errors.Is(err, actor.ErrStopped) {
		return nil, fmt.Errorf("no living actor has the address %.300q", args[0])
	}
	if err != nil {
		return nil, err
	}
	t := Table{Columns: []string{"time", "took ms", "type", "from", "content", "error"}}
	for i := range list {
		if ctx.Err() != nil {
			t.More = "and more messages; the time is over"
			break
		}
		h := &list[i]
		kind, content, failed := h.Type, "", ""
		if h.Origin != "" {
			kind += " (" + h.Origin + ")"
		}
		if m, ok := h.Message.(Content); ok {
			content = text.Shorten(m.Content(), traceText)
		}
		if h.Err != nil {
			failed = text.Shorten(h.Err.Error(), traceText)
		}
		t.Add(h.Time.UTC().Format("15:04:05.000"), inMS(h.Took), kind, h.From.String(), content, failed)
	}
	return t, nil
}

func inMS(d time.Duration) string { return fmt.Sprintf("%.3f", float64(d)/float64(time.Millisecond)) }

// topTime lists the actors whose handlers take the most time.
func (c *Console) topTime(ctx context.Context) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	began := time.Now()
	usage := c.sys.Profile(ctx)
	took := time.Since(began)
	slices.SortStableFunc(usage, func(a, b actor.Usage) int { return cmp.Compare(b.Time, a.Time) })
	t := Table{Columns: []string{"actor", "type", "messages", "time ms", "percent", "longest ms", "waited ms"}}
	for _, u := range usage[:min(len(usage), topShown)] {
		t.Add(u.PID.String(), u.Type, u.Messages, inMS(u.Time), fmt.Sprintf("%.1f", 100*float64(u.Time)/float64(took)), inMS(u.Longest), inMS(u.Waited))
	}
	return t, nil
}

// profiles are the names of the profiles of the process.
func profiles() []string {
	var names []string
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name())
	}
	return names
}

// profile returns a profile of the process as text.
func profile(name string) (any, error) {
	p := pprof.Lookup(name)
	if p == nil {
		return nil, fmt.Errorf("the profile must be one of %s, not %.100q", strings.Join(profiles(), ", "), name)
	}
	var out bytes.Buffer
	err := p.WriteTo(&out, 1)
	return out.String(), err
}
