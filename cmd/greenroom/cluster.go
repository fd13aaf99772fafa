package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/server"
)

// nodeStatus is what a node says about itself.
type nodeStatus struct {
	Node     string `json:"node"`
	Instance string `json:"instance"`
	Lease    bool   `json:"lease"`
	Drained  bool   `json:"drained"`
}

// control answers the requests of greenroom cluster, which come by the link.
func (n *node) control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		s := nodeStatus{Node: n.o.node, Instance: n.record.Instance, Drained: n.isDrained()}
		member := n.current()
		s.Lease = member != nil && member.Valid()
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

// answerJSON answers what directory.ask reads.
func answerJSON(w http.ResponseWriter, v any, err error) {
	if err != nil {
		w.WriteHeader(http.StatusConflict)
		v = struct{ Error string }{oneLine(err)}
	}
	_ = json.NewEncoder(w).Encode(v) // the caller may have left
}

type clusterOptions struct {
	store, node string
	check       bool
}

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Show the nodes of a cluster and take nodes out of service.",
		Long: `Show and change the nodes of a cluster that greenroom serve --join has formed. They are
found in the database of their store.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var o clusterOptions
	with := func(do func(ctx context.Context, d *directory, w io.Writer) error) func(cmd *cobra.Command, _ []string) error {
		return func(cmd *cobra.Command, _ []string) error { return o.with(cmd, do) }
	}
	status := &cobra.Command{Use: "status", Short: "List the nodes, and which one owns the store.", RunE: with(o.status)}
	drain := &cobra.Command{Use: "drain", Short: "Make a node hand the store over to another node. Until it is stopped, it forwards what clients send.", RunE: with(o.drain)}
	drain.Flags().StringVar(&o.node, "node", "", "name of the node")
	upgrade := &cobra.Command{Use: "upgrade", Short: "Check whether a node may now be replaced by one with a later version.", RunE: with(o.upgrade)}
	upgrade.Flags().BoolVar(&o.check, "check", false, "check, and fail if no node may be replaced")
	forget := &cobra.Command{Use: "forget NODE", Short: "Remove a node that ended without leaving the cluster."}
	forget.RunE = func(cmd *cobra.Command, args []string) error {
		o.node = args[0]
		return o.with(cmd, o.forget)
	}
	for _, sub := range []*cobra.Command{status, drain, upgrade, forget} {
		sub.Args = usageArgs(cobra.NoArgs)
		sub.Flags().StringVar(&o.store, "store", "", "the --store of the nodes: postgres://user@host/database (default "+variable("store")+" of the environment)")
		cmd.AddCommand(sub)
	}
	forget.Args = usageArgs(cobra.ExactArgs(1))
	return cmd
}

// with opens the directory of the cluster and calls do with it.
func (o *clusterOptions) with(cmd *cobra.Command, do func(ctx context.Context, d *directory, w io.Writer) error) error {
	store := o.store
	if store == "" {
		store = os.Getenv(variable("store"))
	}
	if !postgres.IsURL(store) {
		return usagef("--store must be that of the nodes, postgres://user@host/database, not %q", server.StoreName(store))
	}
	d, err := openDirectory(cmd.Context(), store, slog.New(slog.DiscardHandler), true)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.haveSecret(cmd.Context()); err != nil {
		return err
	}
	return do(cmd.Context(), d, cmd.OutOrStdout())
}

func (*clusterOptions) status(ctx context.Context, d *directory, w io.Writer) error {
	nodes, err := d.infos(ctx)
	if err != nil {
		return err
	}
	owner, err := d.owner(ctx)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "NODE\tSTATE\tLEASE\tOWNS THE STORE\tHTTP\tMQTT\tLINK\tVERSION")
	for _, n := range nodes {
		state, lease, owns := n.State, "no", ""
		switch {
		case n.State == nodeSilent:
			state, lease = "does not answer", "?"
		case n.Lease:
			lease = "yes"
		}
		if owner.Node == n.Name && lease != "no" {
			owns = fmt.Sprintf("epoch %d", owner.Epoch)
		}
		fmt.Fprintln(out, strings.Join([]string{n.Name, state, lease, owns, n.HTTP, n.MQTT, n.Link, n.Version}, "\t"))
	}
	return out.Flush()
}

func (o *clusterOptions) drain(ctx context.Context, d *directory, w io.Writer) error {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return err
	}
	r, ok := nodes[o.node]
	if !ok {
		return usagef("--node must be one of %s, not %q", strings.Join(slices.Sorted(maps.Keys(nodes)), ", "), o.node)
	}
	if err := d.ask(ctx, r.Link, http.MethodPost, "/drain", &struct{}{}); err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is drained: it passes on what clients send until it is stopped\n", o.node)
	return nil
}

func (o *clusterOptions) forget(ctx context.Context, d *directory, w io.Writer) error {
	left, err := d.forget(ctx, o.node, nodeTTL)
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "%s is forgotten: it is on the list again if it is started again\n", o.node)
	if left {
		fmt.Fprintf(w, "it had left the other nodes, as a drained one has, so nothing shows whether its process has ended: stop it if it has not\n")
	}
	return nil
}

func (o *clusterOptions) upgrade(ctx context.Context, d *directory, w io.Writer) error {
	if !o.check {
		return usagef("--check must be given: nodes are replaced one by one, by stopping them and starting the later version")
	}
	u, err := o.askUpgrade(ctx, d)
	if err != nil {
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

// askUpgrade asks the nodes one by one, until one answers.
func (*clusterOptions) askUpgrade(ctx context.Context, d *directory) (u cluster.Upgrade, err error) {
	nodes, err := d.nodes(ctx)
	if err != nil {
		return u, err
	}
	failed := []error{errors.New("no node answers")}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		within, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := d.ask(within, nodes[name].Link, http.MethodGet, "/upgrade", &u)
		cancel()
		if err == nil {
			return u, nil
		}
		failed = append(failed, fmt.Errorf("%s: %w", name, err))
	}
	return u, errors.Join(failed...)
}
