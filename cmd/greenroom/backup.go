package main

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

type backupOptions struct{ data, store, file string }

func (o *backupOptions) flags(cmd *cobra.Command, file string) {
	cmd.Flags().StringVar(&o.data, "data", "", "data directory (default ./"+server.DefaultDataDir+")")
	cmd.Flags().StringVar(&o.store, "store", "", "store to use instead of --data")
	cmd.Flags().StringVar(&o.file, "file", "", file)
}

// address returns the address of the store.
func (o *backupOptions) address() (string, error) {
	switch {
	case o.file == "":
		return "", usagef("--file must name the backup")
	case o.data != "" && o.store != "":
		return "", usagef("only one of --data and --store may be given")
	}
	address := cmp.Or(o.store, o.data, server.DefaultDataDir)
	if err := server.CheckStore(address); err != nil {
		return "", usagef("--store: %w", err)
	}
	return address, nil
}

func newBackup() *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Copy a store to a file, even while a server uses it.",
		Long: `Copy a store to one file, even while a server uses it: the copy has everything
that was acknowledged before. The copy is checked before the command ends.

Use pg_dump for a store in PostgreSQL; backup prints the command to run.`,
		Example: "  greenroom backup --data /var/lib/greenroom --file greenroom-monday.db",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := o.address()
			if err != nil {
				return err
			}
			info, err := server.Backup(cmd.Context(), address, o.file)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is copied to %s and checked:\n  %s\n", server.StoreName(address), o.file, info)
			}
			return err
		},
	}
	o.flags(cmd, "the new file to write")
	return cmd
}

func newRestore() *cobra.Command {
	var o backupOptions
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore a store from a backup.",
		Long: `Restore a store from a backup, into a directory that has none. Then start a server
on it. The restored store counts as a new store: streams that resume after a change
that the backup does not have get a reset event with the reason.`,
		Example: "  greenroom restore --file greenroom-monday.db --data /var/lib/greenroom-again",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := o.address()
			if err != nil {
				return err
			}
			info, err := server.Restore(cmd.Context(), o.file, address)
			if err == nil {
				fmt.Fprintf(cmd.OutOrStdout(), "%s is restored to %s:\n  %s\n", o.file, server.StoreName(address), info)
			}
			return err
		},
	}
	o.flags(cmd, "the backup to read")
	return cmd
}
