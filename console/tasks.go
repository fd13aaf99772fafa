package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Task is a waiting handler.
type Task struct {
	Handles string   `json:"handles"`         // what it handles
	Waits   string   `json:"waits_for"`       // what it waits for
	For     int64    `json:"for_ms"`          // for how long, in milliseconds
	Stack   []string `json:"stack"`           // the functions under way, the innermost first
	Count   int      `json:"count,omitempty"` // how many there are of the kind, for uniqtask
}

// Tasks is for the result of an actor's Inspect method, see [actor.Inspector]: if it has this
// method, the commands task and uniqtask show the waiting handlers of that actor.
type Tasks interface{ Tasks() []Task }

// taskList is the answer of task and uniqtask about one actor.
type taskList []Task

func (l taskList) String() string {
	if len(l) == 0 {
		return "no handler waits\n"
	}
	var b strings.Builder
	for _, t := range l {
		if t.Count > 0 {
			fmt.Fprintf(&b, "%d × ", t.Count)
		}
		fmt.Fprintf(&b, "%s, waits for %s", t.Handles, t.Waits)
		if t.Count == 0 {
			fmt.Fprintf(&b, " since %d ms", t.For)
		}
		b.WriteString("\n")
		for _, line := range t.Stack {
			b.WriteString("  " + line + "\n")
		}
	}
	return b.String()
}

// unique counts the tasks that wait for the same at the same place, most first.
func unique(list []Task) taskList {
	counts := map[string]*Task{}
	for _, t := range list {
		key := t.Waits + "\n" + strings.Join(t.Stack, "\n")
		if counts[key] == nil {
			counts[key] = &Task{Handles: t.Handles, Waits: t.Waits, Stack: t.Stack}
		}
		known := counts[key]
		if known.Count++; known.Handles != t.Handles {
			known.Handles = "messages"
		}
		known.For = max(known.For, t.For)
	}
	out := make(taskList, 0, len(counts))
	for _, t := range counts {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Task) int {
		return cmp.Or(b.Count-a.Count, strings.Compare(a.Waits, b.Waits), slices.Compare(a.Stack, b.Stack))
	})
	return out
}
