// Command bench compares Greenroom with other actor runtimes and writes the results as Markdown.
// `make bench` runs it; README.md explains what it measures and how to add a runtime.
//
// Each run of a workload is a process of its own: the command starts itself again with -one, or
// starts the program of a runtime that is not a Go library.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/bench/runtimes"
	"github.com/greenroom-go/greenroom/bench/scripts"
	"github.com/greenroom-go/greenroom/bench/workload"
)

func main() {
	runtimes.BeFar()
	os.Exit(interruptible(os.Args[1:]))
}

func interruptible(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return command(ctx, args, os.Stdout, os.Stderr)
}

// config is what the flags say.
type config struct {
	runtimes  []runtimes.Runtime
	workloads []workload.Workload
	scripts   []scripts.Row // of services in Lua
	procs     []int
	count     int
	quick     bool
	out       string
	budget    time.Duration
	timeout   time.Duration

	one                    string
	ops, actors            int
	window                 time.Duration
	cpuProfile, memProfile string
}

// errUsage is a mistake in the flags, which the flag package has told about.
var errUsage = errors.New("wrong flags")

func parse(args []string, stderr io.Writer) (config, error) {
	var c config
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	run := flags.String("run", "", "only workloads whose names match this `regexp`")
	names := flags.String("runtimes", "", "only these runtimes, a comma-separated `list`")
	procs := flags.String("procs", "1,2", "the values of GOMAXPROCS, a comma-separated `list`")
	flags.IntVar(&c.count, "count", 5, "how often each is run")
	flags.BoolVar(&c.quick, "quick", false, "tiny sizes and one run: a smoke test, whose figures say nothing; writes no file unless -out names one")
	flags.StringVar(&c.out, "out", "RESULTS.md", "the `file` to write beside the output; none if empty")
	flags.DurationVar(&c.budget, "budget", 18*time.Minute, "begin no run after this time; what is missing then is told")
	flags.DurationVar(&c.timeout, "timeout", time.Minute, "a run that takes longer has failed")
	flags.StringVar(&c.one, "one", "", "run `runtime/workload` once in this process and print its figures as JSON")
	flags.IntVar(&c.ops, "ops", 0, "with -one: the number of operations, if not 0")
	flags.IntVar(&c.actors, "actors", 0, "with -one: the number of actors, if not 0")
	flags.DurationVar(&c.window, "window", 0, "with -one: how long a workload lasts that is bounded by time, if not 0")
	flags.StringVar(&c.cpuProfile, "cpuprofile", "", "with -one: write a CPU profile to this `file`")
	flags.StringVar(&c.memProfile, "memprofile", "", "with -one: write a profile of all allocations to this `file`")
	if err := flags.Parse(args); err != nil {
		return c, fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q: everything is a flag, see -help", flags.Arg(0))
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	if c.quick && !given["out"] {
		c.out = ""
	}
	if c.quick && !given["count"] {
		c.count = 1
	}
	return c, c.resolve(*run, *names, *procs)
}

// resolve looks up what the flags name.
func (c *config) resolve(run, names, procs string) error {
	if c.count < 1 {
		return fmt.Errorf("-count %d: at least one run is needed", c.count)
	}
	pattern, err := regexp.Compile(run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	for _, w := range workload.All() {
		if pattern.MatchString(w.Name) {
			c.workloads = append(c.workloads, w)
		}
	}
	for _, row := range scripts.Rows() {
		if run != "" && pattern.MatchString(row.Name) {
			c.scripts = append(c.scripts, row)
		}
	}
	if len(c.workloads) == 0 && len(c.scripts) == 0 {
		return fmt.Errorf("-run %q: %w has a name like that", run, workload.ErrNoWorkload)
	}
	if c.runtimes, err = runtimes.Named(list(names)...); err != nil {
		return fmt.Errorf("-runtimes: %w", err)
	}
	for _, text := range list(procs) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-procs %q: a number of processors is at least 1", text)
		}
		c.procs = append(c.procs, n)
	}
	if len(c.procs) == 0 {
		return errors.New("-procs: at least one value is needed")
	}
	return nil
}

// runScripts measures services in Lua, in this process. Rows of scripts are measured when -run
// names some, and then nothing else is.
func (c config) runScripts(ctx context.Context, stdout io.Writer) error {
	results, err := scripts.Measure(ctx, c.scripts, c.count, c.quick)
	if err != nil {
		return err
	}
	return scripts.Write(stdout, results)
}

// list splits a comma-separated list; an empty one has no element.
func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// command is the whole program; it returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	c, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	case c.one != "":
		err = c.runOne(ctx, stdout)
	case len(c.scripts) > 0:
		err = c.runScripts(ctx, stdout)
	default:
		err = c.runAll(ctx, commandLine(args), stdout, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

// commandLine is how the table is made again: what make and its shell would
// read otherwise is quoted.
func commandLine(args []string) string {
	if len(args) == 0 {
		return "make bench"
	}
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = strings.ReplaceAll(arg, "$", "$$")
		if strings.ContainsAny(arg, " $|()*?[]") {
			quoted[i] = `"` + strings.ReplaceAll(arg, "$", "\\$$") + `"`
		}
	}
	return "make bench BENCHFLAGS='" + strings.Join(quoted, " ") + "'"
}
