package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/server"
)

// nodeStatus is what a node says about itself and the others.
type nodeStatus struct {
	Node    string                `json:"node"`
	Owner   string                `json:"owner"` // "" if it knows none
	Epoch   uint64                `json:"epoch"`
	Lease   bool                  `json:"lease"`
	Drained bool                  `json:"drained"`
	Leads   bool                  `json:"leads"` // the stream that the nodes agree by
	Nodes   map[string]nodeRecord `json:"nodes"`
}

// control answers greenroom cluster, by the link.
func (n *node) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s := nodeStatus{Node: n.o.node, Nodes: n.nodes()}
		s.Owner, s.Epoch = n.front.Owner()
		s.Drained = n.isDrained()
		member, own := n.current(), n.server()
		s.Lease = member != nil && member.Valid()
		s.Leads = own != nil && own.Leads(nodeStream)
		answerJSON(w, s, nil)
	})
	mux.HandleFunc("POST /drain", func(w http.ResponseWriter, r *http.Request) {
		answerJSON(w, struct{}{}, n.drain(r.Context()))
	})
	mux.HandleFunc("GET /upgrade", func(w http.ResponseWriter, r *http.Request) {
		member := n.current()
		if member == nil {
			answerJSON(w, nil, errNotJoined)
			return
		}
		u, err := member.Upgrade(r.Context())
		answerJSON(w, u, err)
	})
	return mux
}

func answerJSON(w http.ResponseWriter, v any, err error) {
	if err != nil {
		http.Error(w, oneLine(err), http.StatusConflict)
		return
	}
	_ = json.NewEncoder(w).Encode(v) // the caller may have left
}

type clusterOptions struct {
	data, secretFile, link, node string
	check                        bool
}

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "cluster",
		Hidden: true, // as --join of serve
		Short:  "Show the nodes of a cluster, and prepare one for its end.",
		Long: `Show and change the nodes of a cluster, which greenroom serve --join makes. On a
machine with a node, its files are found in --data; from elsewhere, give --link and
--secret-file.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o clusterOptions
	status := &cobra.Command{Use: "status", Short: "List the nodes, and which one owns the store.", RunE: func(cmd *cobra.Command, _ []string) error { return o.status(cmd.Context(), cmd.OutOrStdout()) }}
	drain := &cobra.Command{Use: "drain", Short: "Have a node give the store to another one. It passes on what clients send until it is stopped.", RunE: func(cmd *cobra.Command, _ []string) error { return o.drain(cmd.Context(), cmd.OutOrStdout()) }}
	drain.Flags().StringVar(&o.node, "node", "", "name of the node")
	upgrade := &cobra.Command{Use: "upgrade", Short: "Check whether a node may be replaced by one of a later version now.", RunE: func(cmd *cobra.Command, _ []string) error { return o.upgrade(cmd.Context(), cmd.OutOrStdout()) }}
	upgrade.Flags().BoolVar(&o.check, "check", false, "check, and fail if no node may be replaced")
	for _, sub := range []*cobra.Command{status, drain, upgrade} {
		sub.Args = usageArgs(cobra.NoArgs)
		sub.Flags().StringVar(&o.data, "data", server.DefaultDataDir, "data directory of the nodes on this machine")
		sub.Flags().StringVar(&o.secretFile, "secret-file", "", "file with the secret of the cluster (default "+secretName+" in the data directory)")
		sub.Flags().StringVar(&o.link, "link", "", "address of the link of a node: one more than the port that --join says")
		cmd.AddCommand(sub)
	}
	return cmd
}

// ask asks the node at a link.
func (o *clusterOptions) ask(ctx context.Context, link, method, path string, into any) error {
	file := o.secretFile
	if file == "" {
		file = filepath.Join(o.data, secretName)
	}
	secret, err := readSecret(file)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return server.DialLink(ctx, link, secret)
	}}}
	r, err := http.NewRequestWithContext(ctx, method, "http://node"+path, http.NoBody)
	if err != nil {
		return err
	}
	resp, err := client.Do(r)
	if err != nil {
		return errors.Unwrap(err) // without the made-up URL
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the node at %s: %s", link, strings.TrimSpace(string(text)))
	}
	return json.Unmarshal(text, into)
}

// first returns what the first node says that can be asked.
func (o *clusterOptions) first(ctx context.Context) (s nodeStatus, err error) {
	var links []string
	if o.link != "" {
		links = []string{o.link}
	} else {
		files, _ := filepath.Glob(filepath.Join(o.data, "*", linkName)) // the pattern is valid
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return s, err
			}
			links = append(links, strings.TrimSpace(string(text)))
		}
	}
	if len(links) == 0 {
		return s, usagef("--data must be the data directory of a node: there is none in %s", o.data)
	}
	var failed []error
	for _, link := range links {
		err := o.ask(ctx, link, http.MethodGet, "/status", &s)
		if err == nil {
			return s, nil
		}
		failed = append(failed, err)
	}
	return s, errors.Join(failed...)
}

func (o *clusterOptions) status(ctx context.Context, w io.Writer) error {
	first, err := o.first(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tSTATE\tLEASE\tOWNS THE STORE\tHTTP\tMQTT\tLINK\tVERSION")
	for _, name := range slices.Sorted(maps.Keys(first.Nodes)) {
		r, s := first.Nodes[name], nodeStatus{}
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := o.ask(within, r.Link, http.MethodGet, "/status", &s)
		cancel()
		state, lease, owns := "up", "no", ""
		switch {
		case err != nil || s.Node != name:
			state = "does not answer"
		case s.Drained:
			state = "drained"
		}
		if s.Lease {
			lease = "yes"
		}
		if first.Owner == name {
			owns = fmt.Sprintf("epoch %d", first.Epoch)
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", name, state, lease, owns, r.HTTP, r.MQTT, r.Link, r.Version)
	}
	return out.Flush()
}

func (o *clusterOptions) drain(ctx context.Context, w io.Writer) error {
	first, err := o.first(ctx)
	if err != nil {
		return err
	}
	r, ok := first.Nodes[o.node]
	if !ok {
		return usagef("--node must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(first.Nodes)), ", "), o.node)
	}
	if err := o.ask(ctx, r.Link, http.MethodPost, "/drain", &struct{}{}); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is drained: it passes on what clients send until it is stopped\n", o.node)
	return nil
}

func (o *clusterOptions) upgrade(ctx context.Context, w io.Writer) error {
	if !o.check {
		return usagef("--check must be given: nodes are replaced one by one, by stopping them and starting the later version")
	}
	first, err := o.first(ctx)
	if err != nil {
		return err
	}
	var u cluster.Upgrade
	if err := o.ask(ctx, first.Nodes[first.Node].Link, http.MethodGet, "/upgrade", &u); err != nil {
		return err
	}
	ready := false
	for _, name := range slices.Sorted(maps.Keys(u.Nodes)) {
		switch {
		case u.Ready(name):
			ready = true
			fmt.Fprintf(w, "%s may be replaced\n", name)
		case u.Nodes[name] != "":
			fmt.Fprintf(w, "%s must not be replaced: %s\n", name, u.Nodes[name])
		}
	}
	if !ready {
		return fmt.Errorf("no node may be replaced now: %s", strings.Join(u.Waits, "; "))
	}
	return nil
}
