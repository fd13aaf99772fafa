package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

// sorts are the kinds of data that can be exported. latest cannot be imported, because it follows
// from the history.
var sorts = []string{"types", "entities", "relations", "history", "mappings", "scripts", "queries", "retention", "alarm-rules", "latest"}

type transferOptions struct {
	http, what, format, file, filter, typ, from, to string
	entities, keys                                  []string
}

func newExport() *cobra.Command {
	var o transferOptions
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the data of a running server as NDJSON, CSV or Parquet.",
		Long: `Write the types, entities, relations, history, mappings, saved queries, retention
rules, alarm rules or latest values of a running server, one per line. greenroom
import reads them into this or another server: import types first, then entities,
relations and the history, and mappings after their sources. Parquet is for other tools that
read the history, such as pandas, DuckDB and Spark; it cannot be imported.`,
		Example: `  greenroom export --what history --key temperature --from 2016-01-01T00:00:00Z > temperature.ndjson
  greenroom export --what entities --query 'type is "Meter"' --format csv --file meters.csv
  greenroom export --what history --query 'type is "Meter"' --format parquet --file meters.parquet`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(sorts, "ndjson", "csv", "parquet"); err != nil {
				return err
			}
			return export(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	o.flags(cmd, sorts, "ndjson, csv, or for history parquet")
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "new file to write (default standard output)")
	f.StringVar(&o.filter, "query", "", "only entities that match this filter")
	f.StringVar(&o.typ, "type", "", "only entities of this type or one that extends it")
	f.StringArrayVar(&o.entities, "entity", nil, "only this entity; may be repeated")
	f.StringArrayVar(&o.keys, "key", nil, "only this key; may be repeated")
	f.StringVar(&o.from, "from", "", "history: start of the range, in milliseconds or RFC 3339")
	f.StringVar(&o.to, "to", "", "history: end of the range, exclusive")
	return cmd
}

func newImport() *cobra.Command {
	var o transferOptions
	known := slices.DeleteFunc(slices.Clone(sorts), func(s string) bool { return s == "latest" })
	cmd := &cobra.Command{
		Use:     "import",
		Short:   "Import data written by greenroom export into a running server.",
		Long:    "Import data written by greenroom export into a running server. The command ends\nonce everything is durable. Invalid lines are reported and skipped; the exit code\nis then 1.",
		Example: "  greenroom import --what history --file temperature.ndjson",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(known, "ndjson", "csv"); err != nil {
				return err
			}
			return importData(cmd.Context(), o, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	o.flags(cmd, known, "ndjson or csv")
	cmd.Flags().StringVar(&o.file, "file", "", "file to read (default standard input)")
	return cmd
}

func (o *transferOptions) flags(cmd *cobra.Command, what []string, formats string) {
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the HTTP API, on this machine")
	cmd.Flags().StringVar(&o.what, "what", "", "one of "+strings.Join(what, ", "))
	cmd.Flags().StringVar(&o.format, "format", "ndjson", formats)
}

func (o *transferOptions) check(what []string, formats ...string) error {
	if !slices.Contains(what, o.what) {
		return usagef("--what must be one of %s, not %q", strings.Join(what, ", "), o.what)
	}
	if !slices.Contains(formats, o.format) {
		return usagef("--format must be one of %s, not %s", strings.Join(formats, ", "), o.format)
	}
	return nil
}

func export(ctx context.Context, o transferOptions, stdout io.Writer) (err error) {
	c, err := newClient(o.http)
	if err != nil {
		return err
	}
	defer c.close()
	q := url.Values{"what": {o.what}, "format": {o.format}, "entity": o.entities, "key": o.keys}
	for name, value := range map[string]string{"q": o.filter, "type": o.typ, "from": o.from, "to": o.to} {
		if value != "" {
			q.Set(name, value)
		}
	}
	resp, err := c.send(ctx, "GET", "/v1/export?"+q.Encode(), "", nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if o.file == "" {
		_, err = io.Copy(stdout, resp.Body)
		return err
	}
	f, err := os.OpenFile(o.file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("export: %w", err)
	}
	if _, err = io.Copy(f, resp.Body); err != nil {
		return errors.Join(fmt.Errorf("export, which is not whole: %w", err), f.Close(), os.Remove(o.file))
	}
	return f.Close()
}

// imported is the response to an import.
type imported struct {
	Lines, Accepted, Failed int64
	Errors                  []struct {
		Line   int64
		Detail string
	}
}

func importData(ctx context.Context, o transferOptions, stdin io.Reader, stdout io.Writer) error {
	c, err := newClient(o.http)
	if err != nil {
		return err
	}
	defer c.close()
	body := stdin
	if o.file != "" {
		f, err := os.Open(o.file)
		if err != nil {
			return fmt.Errorf("import: %w", err)
		}
		defer f.Close()
		body = f
	}
	media := map[string]string{"ndjson": "application/x-ndjson", "csv": "text/csv"}[o.format]
	resp, err := c.send(ctx, "POST", "/v1/import?"+url.Values{"what": {o.what}, "format": {o.format}}.Encode(), media, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var done imported
	if err := decode(resp.Body, &done); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%d lines, %d accepted, %d failed\n", done.Lines, done.Accepted, done.Failed)
	for _, e := range done.Errors {
		fmt.Fprintf(stdout, "line %d: %s\n", e.Line, e.Detail)
	}
	if done.Failed > 0 {
		return fmt.Errorf("import: %d of %d lines failed", done.Failed, done.Lines)
	}
	return nil
}
