package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
	"github.com/greenroom-go/greenroom/server/access"
)

// grantJSON and principalJSON are grants and principals in the HTTP API.
type grantJSON struct {
	Role   string `json:"role"`
	Filter string `json:"filter,omitempty"`
}

type principalJSON struct {
	Name        string      `json:"name"`
	Grants      []grantJSON `json:"grants"`
	Password    string      `json:"password,omitempty"`
	Key         bool        `json:"key,omitempty"`
	Certificate bool        `json:"certificate,omitempty"`
	OIDC        bool        `json:"oidc,omitempty"`
	Credential  string      `json:"credential,omitempty"`
	Expires     int64       `json:"expires_ms,omitempty"`
	Rate        int64       `json:"rate_kib,omitempty"`
	Used        int64       `json:"used_ms,omitempty"`
	Token       string      `json:"token,omitempty"`
	SharedKey   string      `json:"shared_key,omitempty"`
}

// String returns a grant for a table.
func (g grantJSON) String() string {
	if g.Filter == "" {
		return g.Role
	}
	return g.Role + " over " + g.Filter
}

func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the credentials of people, services and devices.",
		Long: `Create, list and revoke the credentials of people, services and devices of a
running server. As soon as there are any, clients must log in, so the first must be
an admin. Your token is taken from the environment variable ` + tokenVariable + `.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newTokenCreate(), newTokenList(), newTokenRevoke())
	return cmd
}

type tokenOptions struct {
	http, name, role, filter, entity string
	expires                          time.Duration
	rate                             int64 // KiB/s
	password, key, certificate, oidc bool
}

func newTokenCreate() *cobra.Command {
	var o tokenOptions
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Create a principal and print its token, once.",
		Long: `Create a principal and print its token, which cannot be shown again later.

The role admin may do everything, operator may read and write entities, viewer
may read them, and device may read and report for the entity with its name or, as
a gateway, for those of --filter. --filter restricts a role to the entities that a
filter matches, by id, type and attributes.`,
		Example: `  greenroom token create --name alice --role admin
  greenroom token create --name pump-1 --role device
  greenroom token create --name hall-3 --role viewer --filter 'attributes.hall = 3'
  greenroom token create --name gateway-7 --role device --filter 'id like "hall-3-%"' --expires 8760h`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			p, err := o.principal(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return createToken(cmd, o.http, p)
		},
	}
	cmd.Flags().StringVar(&o.http, "http", server.DefaultHTTP, "address of the server")
	cmd.Flags().StringVar(&o.name, "name", "", "name: letters, digits and . _ - : @")
	cmd.Flags().StringVar(&o.role, "role", "", "admin, operator, viewer or device")
	cmd.Flags().StringVar(&o.filter, "filter", "", "only the entities that this filter matches")
	cmd.Flags().StringVar(&o.entity, "entity", "", "only the entity with this id")
	cmd.Flags().DurationVar(&o.expires, "expires", 0, "expire after this time; 0 means never")
	cmd.Flags().Int64Var(&o.rate, "rate-kib", 0, "how many KiB per second it may send; 0 means the server's --device-rate-kib or --gateway-rate-kib")
	cmd.Flags().BoolVar(&o.password, "password", false, "give it a password, read from the first line of standard input, instead of a token")
	cmd.Flags().BoolVar(&o.key, "key", false, "give it a symmetric key, with which it signs as devices of Azure IoT Hub do, instead of a token; the key is stored in clear text")
	cmd.Flags().BoolVar(&o.certificate, "certificate", false, "let it log in with a client certificate whose common name is its name, instead of a token")
	cmd.Flags().BoolVar(&o.oidc, "oidc", false, "let it log in with the OpenID Connect provider, which must know it by this name, instead of a token")
	return cmd
}

// credentials returns how many credentials other than a token are selected.
func (o *tokenOptions) credentials() (n int) {
	for _, is := range []bool{o.password, o.key, o.certificate, o.oidc} {
		if is {
			n++
		}
	}
	return n
}

// principal returns the principal to create.
func (o *tokenOptions) principal(stdin io.Reader) (p principalJSON, err error) {
	switch {
	case o.name == "":
		return p, usagef("--name must say who it is for")
	case o.role == "":
		return p, usagef("--role must be admin, operator, viewer or device")
	case o.filter != "" && o.entity != "":
		return p, usagef("only one of --filter and --entity may be given")
	case o.credentials() > 1:
		return p, usagef("only one of --password, --key, --certificate and --oidc may be given")
	case o.expires < 0:
		return p, usagef("--expires must be positive, or 0 for never, not %v", o.expires)
	case o.rate < 0 || o.rate > access.MaxRate>>10:
		return p, usagef("--rate-kib must be an integer from 1 to %d, or 0 for what the server allows, not %d", int64(access.MaxRate>>10), o.rate)
	}
	filter := o.filter
	if o.entity != "" {
		text, err := json.Marshal(o.entity)
		if err != nil {
			return p, err
		}
		filter = "id = " + string(text)
	}
	p = principalJSON{Name: o.name, Grants: []grantJSON{{o.role, filter}}, Key: o.key, Certificate: o.certificate, OIDC: o.oidc, Rate: o.rate}
	if o.expires > 0 {
		p.Expires = time.Now().Add(o.expires).UnixMilli()
	}
	if o.password {
		text, err := io.ReadAll(io.LimitReader(stdin, maxProblem))
		if err != nil {
			return p, fmt.Errorf("read the password: %w", err)
		}
		p.Password, _, _ = strings.Cut(string(text), "\n")
		p.Password = strings.TrimSuffix(p.Password, "\r")
	}
	return p, nil
}

func createToken(cmd *cobra.Command, addr string, p principalJSON) error {
	c, err := newClient(addr)
	if err != nil {
		return err
	}
	defer c.close()
	body, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var made principalJSON
	if err := c.do(cmd.Context(), http.MethodPost, "/v1/principals", "application/json", string(body), &made); err != nil {
		return err
	}
	if made.SharedKey != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "The key of %s, which is shown only now. For a device of Azure IoT Hub: HostName={host}:{port};DeviceId=%[1]s;SharedAccessKey={key}\n", made.Name)
		fmt.Fprintln(cmd.OutOrStdout(), made.SharedKey)
		return nil
	}
	if made.Token == "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s logs in with its %s\n", made.Name, made.Credential)
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "The token of %s, which is shown only now. As the password of MQTT, or in the environment variable %s:\n", made.Name, tokenVariable)
	fmt.Fprintln(cmd.OutOrStdout(), made.Token)
	return nil
}

func newTokenList() *cobra.Command {
	var addr string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the principals and what they may do.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := newClient(addr)
			if err != nil {
				return err
			}
			defer c.close()
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
			fmt.Fprintln(out, "NAME\tCREDENTIAL\tMAY\tKIB/S\tLAST USED\tEXPIRES")
			for cursor := ""; ; {
				var page struct {
					Principals []principalJSON
					Next       string
				}
				if err := c.get(cmd.Context(), "/v1/principals?limit=1000&cursor="+url.QueryEscape(cursor), &page); err != nil {
					return err
				}
				for i := range page.Principals {
					p := &page.Principals[i]
					var grants []string
					for _, g := range p.Grants {
						grants = append(grants, g.String())
					}
					fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Credential, strings.Join(grants, "; "), rate(p.Rate), moment(p.Used), moment(p.Expires))
				}
				if cursor = page.Next; cursor == "" {
					return out.Flush()
				}
			}
		},
	}
	cmd.Flags().StringVar(&addr, "http", server.DefaultHTTP, "address of the server")
	return cmd
}

// rate formats how many KiB a principal may send in a second, if that was set for it.
func rate(kib int64) string {
	if kib == 0 {
		return "default"
	}
	return strconv.FormatInt(kib, 10)
}

// moment formats a time for a table.
func moment(ms int64) string {
	if ms == 0 {
		return "never"
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04")
}

func newTokenRevoke() *cobra.Command {
	var addr, name string
	cmd := &cobra.Command{
		Use:   "revoke",
		Short: "Revoke a principal and close its connections and sessions.",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				return usagef("--name must say who is revoked")
			}
			c, err := newClient(addr)
			if err != nil {
				return err
			}
			defer c.close()
			return c.do(cmd.Context(), http.MethodDelete, "/v1/principals/"+url.PathEscape(name), "", "", nil)
		},
	}
	cmd.Flags().StringVar(&addr, "http", server.DefaultHTTP, "address of the server")
	cmd.Flags().StringVar(&name, "name", "", "name of the principal")
	return cmd
}
