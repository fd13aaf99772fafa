package main

import (
	"errors"
	"fmt"
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

// variable returns the environment variable of a flag, and key its name in a file.
func variable(flag string) string { return "GREENROOM_" + strings.ToUpper(key(flag)) }

func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// configure sets the flags that are not on the command line: from the environment and, second, from
// the file of --config.
func configure(cmd *cobra.Command) error {
	var failed []error
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		text, ok := os.LookupEnv(variable(f.Name))
		if f.Changed || !ok || f.Name == "help" || f.Hidden {
			return
		}
		if err := cmd.Flags().Set(f.Name, text); err != nil {
			failed = append(failed, usagef("%s: %w", variable(f.Name), err))
		}
	})
	if len(failed) > 0 {
		return &mistakes{failed}
	}
	file, err := cmd.Flags().GetString(configFlag)
	if err != nil || file == "" {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return usagef("--%s: %w", configFlag, err)
	}
	return configureFrom(cmd, file, text)
}

// configureFrom sets flags from a file's text.
func configureFrom(cmd *cobra.Command, file string, text []byte) error {
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		if at, ok := errors.AsType[*toml.DecodeError](err); ok {
			line, column := at.Position()
			return usagef("%s:%d:%d: %w", file, line, column, err)
		}
		return usagef("%s: %w", file, err)
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
	var failed []error
	for _, name := range names {
		at := fmt.Sprintf("%s:%d", file, lineOf(text, name))
		f := known[name]
		if f == nil {
			failed = append(failed, usagef("%s: there is no key %q; %s", at, name, nearest(name, known)))
			continue
		}
		if f.Changed {
			continue
		}
		value, err := flagText(values[name])
		if err == nil {
			err = cmd.Flags().Set(f.Name, value)
		}
		if err != nil {
			failed = append(failed, usagef("%s: %s: %w; it is %s (default %q)", at, name, err, f.Usage, f.DefValue))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return &mistakes{failed}
}

// mistakes are the mistakes in a configuration. Each is reported on a line of its own.
type mistakes struct{ list []error }

func (m *mistakes) Error() string { return errors.Join(m.list...).Error() }

func (m *mistakes) Unwrap() []error { return m.list }

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
	var names []string
	best, least := "", len(name)/2+1
	for candidate := range known {
		names = append(names, candidate)
		if d := distance(strings.ReplaceAll(name, "-", "_"), candidate); d < least || d == least && best != "" && candidate < best {
			best, least = candidate, d
		}
	}
	if best != "" {
		return fmt.Sprintf("the nearest is %s", best)
	}
	slices.Sort(names)
	return "the keys are " + strings.Join(names, ", ")
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
