// Greenroom is a digital-twin server in one binary: an MQTT broker, live entities, their durable
// history, an HTTP API and a dashboard.
//
//	greenroom serve --demo      look at it
//	greenroom serve             use it
//	greenroom replay --file F   publish a CSV of readings
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130 // a second signal during the shutdown
)

// errUsage marks errors that the user can correct on the command line.
var errUsage = errors.New("usage")

func main() {
	os.Exit(run(interrupted(), os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its environment as arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	list := []error{err}
	if m, ok := errors.AsType[*mistakes](err); ok {
		list = m.list
	}
	for _, err := range list {
		fmt.Fprintf(stderr, "greenroom: %s\n", oneLine(err))
	}
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "greenroom",
		Short:         "A digital-twin server in one binary: MQTT in, live entities, durable history, HTTP and a dashboard out.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w; see %s --help", err, cmd.CommandPath())
	})
	root.AddCommand(newServe(), newReplay(), newExport(), newImport(), newTypes(), newBackup(), newRestore(), newCompact(), newInfo(), newVerify(), newJournal(), newBench(), newCommand(), newCluster(), newToken(), newCert(), newConfig(), newConsole(), newVersion())
	for _, cmd := range root.Commands() {
		cmd.Args = usageArgs(cobra.NoArgs)
	}
	return root
}

// interrupted returns a context that the first SIGINT or SIGTERM cancels, for an orderly shutdown.
// The second one ends the process.
func interrupted() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		cancel(fmt.Errorf("stopped by the signal %q: %w", s, context.Canceled))
		<-signals
		os.Exit(exitInterrupted)
	}()
	return ctx
}

func usagef(format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...)}
}

type usageError struct{ error }

func (e *usageError) Unwrap() []error { return []error{e.error, errUsage} }

// usageArgs turns cobra's errors about arguments into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usagef("%w; see greenroom --help", err)
		}
		return nil
	}
}

// oneLine returns an error on one line. Joined errors have several lines, and those with the same
// cause, such as a signal that ends the work and its cleanup, contain the same line twice.
func oneLine(err error) string {
	return strings.Join(slices.Compact(strings.Split(strings.TrimSpace(err.Error()), "\n")), "; ")
}
