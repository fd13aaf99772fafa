package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/text"
)

// The limits of a command.
const (
	// MaxLine bounds a line, in bytes.
	MaxLine = 1 << 20
	// MaxAnswer bounds an answer, in bytes; a longer one is truncated.
	MaxAnswer = 1 << 20
	// MaxTime bounds the time of a command, unless [Config] says another one.
	MaxTime = 2 * time.Second
)

// Config configures a Console. Its zero value works.
type Config struct {
	// Level is the level of the program's log, which the command log level shows and sets. If it is
	// nil the command is refused.
	Level *slog.LevelVar
	// Record is called with the line of a command that has changed something, and with its error if
	// it has failed, before the answer is sent. It is not called for lines of [Console.Run], whose
	// caller knows who sent them. It may be called concurrently.
	Record func(ctx context.Context, line string, err error)
	// MaxTime bounds the time of a command. It is [MaxTime] if zero or less.
	MaxTime time.Duration
}

// Command is one command of a console.
type Command struct {
	// Name is one word, with which a line begins.
	Name string
	// Usage shows its arguments: "ADDRESS [LEVEL]".
	Usage string
	// Help says in a sentence what it does.
	Help string
	// Changes says that it changes something.
	Changes bool
	// Least and Most are how many arguments it takes.
	Least, Most int
	// Run runs the command. It should return when ctx ends, and may be called concurrently. It
	// returns a string, or a [Table] or a [fmt.Stringer], of which JSON shows the value itself;
	// anything else is always shown as JSON.
	Run func(ctx context.Context, args []string) (any, error)
	// Complete returns what the last argument may be. It is nil if there is nothing to propose.
	Complete func(args []string) []string
}

// Console runs commands on a system. It is safe for concurrent use. [New] makes one.
type Console struct {
	sys *actor.System
	cfg Config

	mu       sync.RWMutex // guards commands
	commands []Command    // sorted by name
}

// New returns a console for a system, with the commands that every system has.
func New(sys *actor.System, cfg Config) *Console {
	if cfg.MaxTime <= 0 {
		cfg.MaxTime = MaxTime
	}
	c := &Console{sys: sys, cfg: cfg}
	c.Add(c.actorCommands()...)
	c.Add(c.processCommands()...)
	c.Add(c.watchCommands()...)
	c.Add(c.ownCommands()...)
	return c
}

// Add adds commands. It panics if a command of the same name exists, or if one has no name or no
// Run.
func (c *Console) Add(list ...Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range list {
		at, taken := c.place(list[i].Name)
		if taken || list[i].Name == "" || list[i].Run == nil {
			panic(fmt.Sprintf("console: command %q must have a name of its own and a Run", list[i].Name))
		}
		c.commands = slices.Insert(c.commands, at, list[i])
	}
}

// place returns where a command stands, or would. The lock is held.
func (c *Console) place(name string) (int, bool) {
	return slices.BinarySearchFunc(c.commands, name, func(cmd Command, name string) int { return strings.Compare(cmd.Name, name) })
}

// find returns a command.
func (c *Console) find(name string) (Command, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	at, ok := c.place(name)
	if !ok {
		return Command{}, false
	}
	return c.commands[at], true
}

// Run runs a line and returns its output, which ends with a line break unless it is empty. It waits
// at most [Config.MaxTime] for a command that returns when its context ends. An empty line does nothing.
func (c *Console) Run(ctx context.Context, line string) (string, error) {
	out, _, err := c.run(ctx, line)
	return out, err
}

// run is Run, and reports whether the command is one that changes something.
func (c *Console) run(ctx context.Context, line string) (out string, changes bool, err error) {
	if len(line) > MaxLine {
		return "", false, fmt.Errorf("a line must have at most %d bytes, not %d", MaxLine, len(line))
	}
	words, err := split(line)
	if err != nil || len(words) == 0 {
		return "", false, err
	}
	cmd, ok := c.find(words[0])
	if !ok {
		return "", false, fmt.Errorf("there is no command %.100q; help lists the commands", words[0])
	}
	args, asJSON := words[1:], false
	if n := len(args); n >= 2 && args[n-2] == "-o" && args[n-1] == "json" {
		args, asJSON = args[:n-2], true
	}
	if len(args) < cmd.Least || len(args) > cmd.Most {
		return "", false, errors.New(strings.TrimSpace("usage: " + cmd.Name + " " + cmd.Usage))
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.MaxTime)
	defer cancel()
	v, err := cmd.call(ctx, args)
	if err != nil {
		return "", cmd.Changes, err
	}
	out, err = render(v, asJSON)
	return text.Shorten(printable(out), MaxAnswer), cmd.Changes, err
}

// call runs the command, which may be foreign code.
func (cmd *Command) call(ctx context.Context, args []string) (v any, err error) {
	defer func() {
		if p := recover(); p != nil {
			v, err = nil, fmt.Errorf("%s: panic: %v", cmd.Name, p)
		}
	}()
	return cmd.Run(ctx, args)
}

// render makes text of what a command has returned.
func render(v any, asJSON bool) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		if !asJSON && v != "" && !strings.HasSuffix(v, "\n") {
			return v + "\n", nil
		}
		if !asJSON {
			return v, nil
		}
	case Table:
		if !asJSON {
			return v.String(), nil
		}
	case fmt.Stringer:
		if !asJSON {
			return v.String(), nil
		}
	default:
		if !asJSON {
			shown, err := json.MarshalIndent(v, "", "  ")
			return string(shown) + "\n", err
		}
	}
	shown, err := json.Marshal(v)
	return string(shown) + "\n", err
}

// Complete returns possible continuations of a line, at most 100, sorted.
func (c *Console) Complete(line string) []string {
	words, err := split(line)
	if err != nil {
		return nil
	}
	if len(words) == 0 || strings.HasSuffix(line, " ") {
		words = append(words, "")
	}
	last := words[len(words)-1]
	var proposed []string
	if len(words) == 1 {
		proposed = c.names()
	} else if cmd, ok := c.find(words[0]); ok && cmd.Complete != nil && len(words)-1 <= cmd.Most {
		proposed = cmd.Complete(words[1:])
	}
	begin, _ := strings.CutSuffix(line, last)
	var list []string
	for _, p := range proposed {
		if strings.HasPrefix(p, last) && !strings.ContainsAny(p, " \"") {
			list = append(list, begin+p)
		}
	}
	slices.Sort(list)
	return list[:min(len(list), 100)]
}

// names returns those of all commands.
func (c *Console) names() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	list := make([]string, len(c.commands))
	for i := range c.commands {
		list[i] = c.commands[i].Name
	}
	return list
}

// ownCommands are about the console.
func (c *Console) ownCommands() []Command {
	return []Command{
		{
			Name: "help", Usage: "[COMMAND]", Help: "Lists the commands, or shows one.", Most: 1,
			Run:      func(_ context.Context, args []string) (any, error) { return c.help(args) },
			Complete: func([]string) []string { return c.names() },
		},
		{
			Name: "complete", Usage: "LINE", Help: "Lists the lines by which a line may go on, for programs that ask at each Tab.", Least: 1, Most: 1,
			Run: func(_ context.Context, args []string) (any, error) {
				return strings.Join(c.Complete(args[0]), "\n"), nil
			},
		},
	}
}

func (c *Console) help(args []string) (any, error) {
	list := Table{Columns: []string{"command", "what it does"}}
	c.mu.RLock()
	defer c.mu.RUnlock()
	for i := range c.commands {
		cmd := &c.commands[i]
		if len(args) == 0 || cmd.Name == args[0] {
			list.Add(strings.TrimSpace(cmd.Name+" "+cmd.Usage), cmd.Help)
		}
	}
	if len(list.Rows) == 0 {
		return nil, fmt.Errorf("there is no command %.100q; help lists the commands", args[0])
	}
	return list, nil
}
