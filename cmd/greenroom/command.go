package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

// commandJSON is a command in the HTTP API.
type commandJSON struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	State   string          `json:"state"`
	By      string          `json:"by"`
	Created int64           `json:"created_ms"`
	Result  json.RawMessage `json:"result"`
	Error   string          `json:"error"`
}

// outcome returns how a command has ended, for a table.
func (c *commandJSON) outcome() string {
	if c.Error != "" {
		return c.Error
	}
	return string(c.Result)
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "command",
		Short: "Send commands to devices, list and cancel them.",
		Long: `Send commands to the devices of a running server and follow their progress. A command is
kept until its device has received it, even across restarts. Your token is taken
from the environment variable ` + tokenVariable + `.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newCommandSend(), newCommandList(), newCommandCancel())
	return cmd
}

type commandOptions struct {
	http, entity, name, request, key string
	timeout, expires, wait           time.Duration
	parallel                         bool
}

func newCommandSend() *cobra.Command {
	var o commandOptions
	cmd := &cobra.Command{
		Use:   "send",
		Short: "Send a command to the device of an entity, and print its id and state.",
		Example: `  greenroom command send --entity pump-1 --name restart
  greenroom command send --entity pump-1 --name open --request '{"angle":30}' --wait 20s`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return o.send(cmd) },
	}
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the server")
	cmd.Flags().StringVar(&o.entity, "entity", "", "id of the entity")
	cmd.Flags().StringVar(&o.name, "name", "", "name of the command")
	cmd.Flags().StringVar(&o.request, "request", "", "JSON value to send to the device along with the name")
	cmd.Flags().StringVar(&o.key, "key", "", "idempotency key: a command with the same key is sent only once")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 0, "how long the device may take from delivery to its answer; 0 means 1 minute")
	cmd.Flags().DurationVar(&o.expires, "expires", 0, "how long delivery may take; 0 means 7 days")
	cmd.Flags().DurationVar(&o.wait, "wait", 0, "wait until the command ends, at most 25s")
	cmd.Flags().BoolVar(&o.parallel, "parallel", false, "send it at once, even while other commands are under way")
	return cmd
}

func (o *commandOptions) send(cmd *cobra.Command) error {
	body := struct {
		Name     string          `json:"name"`
		Request  json.RawMessage `json:"request,omitempty"`
		Expires  int64           `json:"expires,omitempty"`
		Timeout  string          `json:"timeout,omitempty"`
		Parallel bool            `json:"parallel,omitempty"`
	}{Name: o.name, Request: json.RawMessage(o.request), Parallel: o.parallel}
	switch {
	case o.entity == "":
		return usagef("--entity must be the id of an entity")
	case o.name == "":
		return usagef("--name must say which command")
	case o.request != "" && !json.Valid(body.Request):
		return usagef("--request must be JSON, such as '{\"angle\":30}', not %s", o.request)
	case o.timeout < 0 || o.expires < 0 || o.wait < 0:
		return usagef("--timeout, --expires and --wait must not be negative")
	}
	if o.timeout > 0 {
		body.Timeout = o.timeout.String()
	}
	if o.expires > 0 {
		body.Expires = time.Now().Add(o.expires).UnixMilli()
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	c, err := newClient(o.http)
	if err != nil {
		return err
	}
	defer c.close()
	path, header := entityPath(o.entity)+"/commands", []string{}
	if o.wait > 0 {
		path += "?wait=" + url.QueryEscape(o.wait.String())
	}
	if o.key != "" {
		header = append(header, "Idempotency-Key", o.key)
	}
	var made commandJSON
	if err := c.do(cmd.Context(), http.MethodPost, path, "application/json", string(text), &made, header...); err != nil {
		return err
	}
	fmt.Fprintln(cmd.OutOrStdout(), made.ID, made.State, made.outcome())
	return nil
}

func newCommandList() *cobra.Command {
	var o struct {
		http, entity, state string
		limit               int
	}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the commands of an entity, newest first.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case o.entity == "":
				return usagef("--entity must be the id of an entity")
			case o.limit < 1 || o.limit > 1000:
				return usagef("--limit must be an integer from 1 to 1000, not %d", o.limit)
			}
			c, err := newClient(o.http)
			if err != nil {
				return err
			}
			defer c.close()
			query := url.Values{"limit": {fmt.Sprint(o.limit)}}
			if o.state != "" {
				query.Set("state", o.state)
			}
			var page struct{ Commands []commandJSON }
			if err := c.get(cmd.Context(), entityPath(o.entity)+"/commands?"+query.Encode(), &page); err != nil {
				return err
			}
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(out, "ID\tNAME\tSTATE\tSENT BY\tCREATED\tOUTCOME")
			for i := range page.Commands {
				p := &page.Commands[i]
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", p.ID, p.Name, p.State, p.By, moment(p.Created), p.outcome())
			}
			return out.Flush()
		},
	}
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the server")
	cmd.Flags().StringVar(&o.entity, "entity", "", "id of the entity")
	cmd.Flags().StringVar(&o.state, "state", "", "only commands that are open, or in a state such as queued or done")
	cmd.Flags().IntVar(&o.limit, "limit", 50, "the most commands to list")
	return cmd
}

func newCommandCancel() *cobra.Command {
	var addr, entity, id string
	cmd := &cobra.Command{
		Use:   "cancel",
		Short: "Cancel a command. A device that has it may still carry it out.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case entity == "":
				return usagef("--entity must be the id of an entity")
			case id == "":
				return usagef("--id must be that of a command, as send and list print it")
			}
			c, err := newClient(addr)
			if err != nil {
				return err
			}
			defer c.close()
			var canceled commandJSON
			if err := c.do(cmd.Context(), http.MethodDelete, entityPath(entity)+"/commands/"+url.PathEscape(id), "", "", &canceled); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), canceled.ID, canceled.State)
			return nil
		},
	}
	cmd.Flags().StringVar(&addr, "http", server.DefaultHTTP, "address of the server")
	cmd.Flags().StringVar(&entity, "entity", "", "id of the entity")
	cmd.Flags().StringVar(&id, "id", "", "id of the command")
	return cmd
}
