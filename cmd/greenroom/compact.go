package main

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/server"
)

func newCompact() *cobra.Command {
	var place storePlace
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Shrink the store of a stopped server.",
		Long: `Shrink the store of a stopped server: pack the history into blocks, and return the
freed space to the disk. A directory temporarily needs room for a second copy of the
store, both on its disk and in the directory for temporary files (SQLITE_TMPDIR,
TMPDIR or /var/tmp). PostgreSQL returns what VACUUM and TRUNCATE can. A running
server packs by itself, ten minutes after the last value of an hour;
POST /v1/compact makes it pack at once.`,
		Example: `  greenroom compact --data /var/lib/greenroom
  greenroom compact --store postgres://greenroom@localhost/plant`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place.check(); err != nil {
				return err
			}
			before, after, err := server.Compact(cmd.Context(), place.address(), slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil)))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is compact:\n", server.StoreName(place.address()))
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "before\t%s\nafter\t%s\n", usageLine(&before), usageLine(&after))
			return w.Flush()
		},
	}
	place.flags(cmd)
	return cmd
}

func newInfo() *cobra.Command {
	var place storePlace
	cmd := &cobra.Command{
		Use:   "info",
		Short: "Print what a store contains and how much space it takes, by key and by type.",
		Long: `Print what a store contains and how much space it takes, by key and by type of entity, even
while a server uses it. It reads all rows that are not sealed.`,
		Example: `  greenroom info --data /var/lib/greenroom
  greenroom info --store postgres://greenroom@localhost/plant`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := place.check(); err != nil {
				return err
			}
			u, err := server.ReadUsage(cmd.Context(), place.address())
			if err != nil {
				return fmt.Errorf("info: %w", err)
			}
			return printUsage(cmd.OutOrStdout(), &u)
		},
	}
	place.flags(cmd)
	return cmd
}

// storePlace is the store that a command is about.
type storePlace struct{ data, store string }

func (p *storePlace) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.data, "data", "", "data directory (default ./"+server.DefaultDataDir+")")
	cmd.Flags().StringVar(&p.store, "store", "", "database, postgres://user@host/database, instead of a directory")
}

func (p *storePlace) check() error {
	if p.data != "" && p.store != "" {
		return usagef("only one of --data and --store may be given")
	}
	if p.store != "" && !postgres.IsURL(p.store) {
		return usagef("--store must be of the form postgres://user@host/database; use --data for a directory")
	}
	return nil
}

func (p *storePlace) address() string { return cmp.Or(p.store, p.data, server.DefaultDataDir) }

// usageLine returns a usage on one line.
func usageLine(u *entity.Usage) string {
	return fmt.Sprintf("%s on disk\t%s bytes a value\t%d values\t%d sealed", mib(u.File), perValue(u.File-u.Free, u.Values), u.Values, u.Sealed)
}

func mib(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }

func perValue(bytes, values int64) string {
	if values == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", float64(bytes)/float64(values))
}

func printUsage(out io.Writer, u *entity.Usage) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "values\t%d\nsealed\t%d in %d blocks, %s bytes each\n", u.Values, u.Sealed, u.Blocks, perValue(u.SealedBytes, u.Sealed))
	fmt.Fprintf(w, "on disk\t%s, %s bytes a value\nfree in it\t%s\nchange log\t%s\n", mib(u.File), perValue(u.File-u.Free, u.Values), mib(u.Free), mib(u.Log))
	for _, part := range []struct {
		title string
		list  []entity.PartUsage
	}{{"key", u.Keys}, {"type", u.Types}} {
		fmt.Fprintf(w, "\n%s\tvalues\tsealed\tbytes each\n", part.title)
		for _, p := range part.list {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", cmp.Or(p.Name, "-"), p.Values, p.Sealed, perValue(p.SealedBytes, p.Sealed))
		}
	}
	return w.Flush()
}
