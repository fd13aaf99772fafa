package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// configFlag names the flag with the configuration file.
const configFlag = "config"

const variablePrefix = "GREENROOM_"

// variable returns the environment variable of a flag, and key its name in a file.
func variable(flag string) string { return variablePrefix + strings.ToUpper(key(flag)) }

func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// clientVariables are the variables of the environment that other commands read.
var clientVariables = []string{tokenVariable, caVariable, historyVariable}

// configured is what the environment and the file of --config say.
type configured struct {
	origins map[string]string // of flags: the variable, or the line of the file
	failed  []error           // the mistakes
	unread  bool              // the file could not be read: what the flags are says little
	others  []string          // variables that begin like those of flags, and set nothing
}

// configure sets the flags that are not on the command line: from the environment and, second, from
// the file of --config.
func configure(cmd *cobra.Command) (c configured) {
	c.origins = map[string]string{}
	c.failed, c.others = unknownVariables(cmd, os.Environ())
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(variable(f.Name))
		if f.Changed || !ok || f.Name == "help" || f.Hidden {
			return
		}
		c.origins[f.Name] = variable(f.Name)
		if err := set(cmd, f, text); err != nil {
			c.failed = append(c.failed, usagef("%s: %w", variable(f.Name), err))
		}
	})
	file, err := cmd.Flags().GetString(configFlag)
	if err == nil && file == "" {
		return c
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(file)
	}
	if err != nil {
		c.failed, c.unread = append(c.failed, usagef("--%s: %w", configFlag, err)), true
		return c
	}
	c.read(cmd, file, text)
	return c
}

// set sets a flag. If it fails, the flag keeps its default, which is not reported as well.
func set(cmd *cobra.Command, f *pflag.Flag, text string) error {
	err := cmd.Flags().Set(f.Name, text)
	if _, list := f.Value.(pflag.SliceValue); err != nil && !list { // a list is as it was
		_ = f.Value.Set(f.DefValue) // it was set before
	}
	return err
}

var namedFlag = regexp.MustCompile(`--([a-z][a-z-]*)`)

// locate says where a flag that an error names was set, and makes it a usage error.
func (c *configured) locate(err error) error {
	for _, name := range namedFlag.FindAllStringSubmatch(err.Error(), -1) {
		if at := c.origins[name[1]]; at != "" {
			return usagef("%s: %w", at, err)
		}
	}
	return usagef("%w", err)
}

// unknownVariables returns an error for each variable of the environment that is probably meant to
// be that of a flag, and the others that begin like one. They are not refused because the environment
// has variables of others as well: Kubernetes sets GREENROOM_PORT and more for a service called
// greenroom.
func unknownVariables(cmd *cobra.Command, environment []string) (failed []error, others []string) {
	known := map[string]*pflag.Flag{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			known[variable(f.Name)] = f
		}
	})
	for _, entry := range environment {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, variablePrefix) || known[name] != nil || slices.Contains(clientVariables, name) {
			continue
		}
		if near, d := closest(name, known); d <= max(1, (len(name)-len(variablePrefix))/3) {
			failed = append(failed, usagef("there is no variable %s; the nearest is %s", name, near))
		} else {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	return failed, others
}

// read sets flags from a file's text.
func (c *configured) read(cmd *cobra.Command, file string, text []byte) {
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		at := file
		if decode, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := decode.Position()
			at = fmt.Sprintf("%s:%d:%d", file, line, column)
		}
		c.failed, c.unread = append(c.failed, usagef("%s: %w", at, err)), true
		return
	}
	known := map[string]*pflag.Flag{}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != configFlag && !f.Hidden {
			known[key(f.Name)] = f
		}
	})
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return lineOf(text, a) - lineOf(text, b) })
	for _, name := range names {
		at := fmt.Sprintf("%s:%d", file, lineOf(text, name))
		f := known[name]
		if f == nil {
			c.failed = append(c.failed, usagef("%s: there is no key %q; %s", at, name, nearest(name, known)))
			continue
		}
		if f.Changed {
			continue
		}
		c.origins[f.Name] = at
		value, err := flagText(values[name])
		if err == nil {
			err = set(cmd, f, value)
		}
		if err != nil {
			c.failed = append(c.failed, usagef("%s: %s: %w; it is %s (default %q)", at, name, err, f.Usage, f.DefValue))
		}
	}
}

// mistakes are the mistakes in a configuration. Each is reported on a line of its own.
type mistakes struct{ list []error }

func (m *mistakes) Error() string { return errors.Join(m.list...).Error() }

func (m *mistakes) Unwrap() []error { return m.list }

// each returns the errors that errors.Join has joined, or a single one.
func each(err error) []error {
	switch err := err.(type) { //nolint:errorlint // what the outermost is decides
	case nil:
		return nil
	case *usageError:
		return []error{err}
	case interface{ Unwrap() []error }:
		return err.Unwrap()
	default:
		return []error{err}
	}
}

// flagText returns a value in the syntax of a flag.
func flagText(v any) (string, error) {
	switch v := v.(type) {
	case string, bool, int64, float64:
		return fmt.Sprint(v), nil
	case []any:
		var list []string
		for _, item := range v {
			text, ok := item.(string)
			if !ok {
				return "", fmt.Errorf("must be a list of strings, not of %v", item)
			}
			list = append(list, text)
		}
		return strings.Join(list, ","), nil
	default:
		return "", errors.New("must be a string, a number, true, false or a list of strings")
	}
}

// lineOf returns the line of a key, or of its table, from 1.
func lineOf(text []byte, name string) int {
	at := regexp.MustCompile(`(?m)^[ \t]*\[{0,2}[ \t]*["']?` + regexp.QuoteMeta(name) + `["']?[ \t]*[=.\]]`).FindIndex(text)
	if at == nil {
		return 1
	}
	return 1 + strings.Count(string(text[:at[0]]), "\n")
}

// nearest returns the known key that was probably meant.
func nearest(name string, known map[string]*pflag.Flag) string {
	if best, d := closest(strings.ReplaceAll(name, "-", "_"), known); d <= len(name)/2 {
		return fmt.Sprintf("the nearest is %s", best)
	}
	return "the keys are " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
}

// closest returns the known name with the least distance to another one.
func closest(name string, known map[string]*pflag.Flag) (best string, least int) {
	least = math.MaxInt
	for _, candidate := range slices.Sorted(maps.Keys(known)) {
		if d := distance(name, candidate); d < least {
			best, least = candidate, d
		}
	}
	return best, least
}

// distance returns how many characters must be inserted, deleted or replaced to turn a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

func newConfig() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Check the configuration of a server.",
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	check := newServe()
	check.Use, check.Short = "check", "Check a configuration, and the files that it names, without starting a server."
	check.Long = "Check the configuration that greenroom serve would use with the same flags,\nenvironment and file: its keys, its values, and the files that it names."
	check.Example = "  greenroom config check --config greenroom.toml"
	serve := check.RunE
	check.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cmd.Flags().Set(checkFlag, "true"); err != nil {
			return err
		}
		return serve(cmd, args)
	}
	check.Args = usageArgs(cobra.NoArgs)
	cmd.AddCommand(check)
	return cmd
}

// checkFlag is a hidden flag of serve: check the configuration only.
const checkFlag = "check"
