package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

type typesOptions struct{ http, file, format string }

func newTypes() *cobra.Command {
	var o typesOptions
	cmd := &cobra.Command{
		Use:   "types",
		Short: "List the types of a running server, or install types from a file.",
		Long: `List the types of a running server or, with --file, install the types in a file,
all or none: a DTDL document, version 2 or 3, or, with --format native, types in
Greenroom's own format, as greenroom export --what types writes them.`,
		Example: `  greenroom types
  greenroom types --file building.dtdl.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(o.http)
			if err != nil {
				return err
			}
			defer c.close()
			if o.file != "" {
				return putTypes(cmd.Context(), c, o, cmd.OutOrStdout())
			}
			return listTypes(cmd.Context(), c, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the HTTP API, on this machine")
	cmd.Flags().StringVar(&o.file, "file", "", "file with the types to install")
	cmd.Flags().StringVar(&o.format, "format", "dtdl", "format of the file: dtdl or native")
	return cmd
}

func listTypes(ctx context.Context, c *client, stdout io.Writer) error {
	var list struct {
		Types []struct {
			ID, Name                         string
			Extends                          []string
			Strict                           bool
			Properties, Telemetry, Relations map[string]any
		}
	}
	if err := c.get(ctx, "/v1/types", &list); err != nil {
		return err
	}
	out := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "TYPE\tEXTENDS\tSTRICT\tPROPERTIES\tTELEMETRY\tRELATIONS")
	for _, t := range list.Types {
		fmt.Fprintf(out, "%s\t%s\t%t\t%d\t%d\t%d\n", t.ID, cmp.Or(strings.Join(t.Extends, ", "), "-"), t.Strict, len(t.Properties), len(t.Telemetry), len(t.Relations))
	}
	return out.Flush()
}

func putTypes(ctx context.Context, c *client, o typesOptions, stdout io.Writer) error {
	if o.format != "dtdl" && o.format != "native" {
		return usagef("--format must be dtdl or native, not %s", o.format)
	}
	text, err := os.ReadFile(o.file)
	if err != nil {
		return fmt.Errorf("types: %w", err)
	}
	var put struct{ Types []struct{ ID string } }
	if err := c.do(ctx, "POST", "/v1/types?format="+o.format, "application/json", string(text), &put); err != nil {
		return err
	}
	for _, t := range put.Types {
		fmt.Fprintln(stdout, t.ID)
	}
	return nil
}
