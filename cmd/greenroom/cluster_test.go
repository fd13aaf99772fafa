package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/entity/postgres"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/internal/pgtest"
	"github.com/greenroom-go/greenroom/server"
)

func TestFlagsOfANode(t *testing.T) {
	t.Parallel()
	const store = "--store postgres://a:s3cret@127.0.0.1:1/d "
	for _, tt := range []struct{ args, says string }{
		{"--join 127.0.0.1:7401", `--join needs --store postgres://`},
		{"--join 127.0.0.1:7401 --store data", `not "data"`},
		{store + "--node n1", "--node n1 needs --join"},
		{store + "--join 127.0.0.1", `not "127.0.0.1": missing port`},
		{store + "--join 127.0.0.1:0", `the port must be a number from 1 to 65535, not "0"`},
		{store + "--join 127.0.0.1:mqtt", `not "mqtt"`},
		{store + "--join 0.0.0.0:7401", `"0.0.0.0:7401": it stands for all addresses`},
		{store + "--join [::]:7401", "it stands for all addresses"},
		{store + "--join :7401", "it stands for all addresses"},
		{store + "--join 127.0.0.1:7401 --http 127.0.0.1:7401", "--join 127.0.0.1:7401 and --http 127.0.0.1:7401 must be different"},
		{store + "--join 127.0.0.1:7401 --mqtt 0.0.0.0:7401 --insecure", "--mqtt 0.0.0.0:7401 must be different"},
		{store + "--join localhost:7401 --mqtt 127.0.0.1:7401", "--mqtt 127.0.0.1:7401 must be different"},
		{store + "--join 127.0.0.1:7401 --node a/b", `--node must be the name of this node, such as n1, with no space, '/', '#' or '~', not "a/b"`},
		{store + "--join 127.0.0.1:7401 --node *", `not "*"`},
		{store + "--join 127.0.0.1:7401 --demo", "--demo must not be given with --join"},
		{store + "--join 127.0.0.1:7401 --data x", "--data and --store"},
	} {
		_, errs := command(t, exitUsage, append([]string{"serve"}, strings.Fields(tt.args)...)...)
		if !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 || strings.Contains(errs, "s3cret") {
			t.Errorf("serve %s: %q, want one line with %q", tt.args, errs, tt.says)
		}
	}
	for _, addr := range []string{"127.0.0.1:7401", "[::1]:7401", "db.example:7401"} {
		o := serveOptions{store: "postgres://h/d", http: "127.0.0.1:8080", mqtt: "127.0.0.1:1883", joining: joinOptions{join: addr}}
		if err := o.joining.check(&o); err != nil || o.joining.node != addr {
			t.Errorf("--join %s: %v, and the node is called %q", addr, err, o.joining.node)
		}
		actor.NewSystem(o.joining.node) // it panics for a name that cannot be
	}
}

func TestFlagsOfCluster(t *testing.T) {
	t.Parallel()
	empty := pgtest.Database(t)
	for _, tt := range []struct {
		args string
		code int
		says string
	}{
		{"status", exitUsage, "--store must be that of the nodes"},
		{"status --store data", exitUsage, `not "data"`},
		{"status --store " + empty, exitFailed, "no member of a cluster has been here"},
		{"upgrade --store " + empty, exitFailed, "no member of a cluster has been here"},
		{"forget n1 --store " + empty, exitFailed, "no member of a cluster has been here"},
		{"forget --store " + empty, exitUsage, "accepts 1 arg(s), received 0"},
	} {
		_, errs := command(t, tt.code, append([]string{"cluster"}, strings.Fields(tt.args)...)...)
		if !strings.Contains(errs, tt.says) || strings.Count(errs, "\n") != 1 {
			t.Errorf("cluster %s: %q, want one line with %q", tt.args, errs, tt.says)
		}
	}
}

// A node is not forgotten as long as it renews its lease, even if nobody reaches it.
func TestOnlyANodeThatHasEndedIsForgotten(t *testing.T) {
	t.Parallel()
	const ttl = time.Second
	const within = 3 * ttl // it renews its lease nine times meanwhile
	d, err := openDirectory(t.Context(), pgtest.Database(t), slog.New(slog.DiscardHandler), false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	if err := d.haveSecret(t.Context()); err != nil {
		t.Fatal(err)
	}
	anyone := func([]byte) error { return nil }
	for name, r := range map[string]nodeRecord{"n1": {Link: linkAddress(t), Instance: "1"}, "n2": {Left: true}} {
		if err := d.put(t.Context(), nodesPrefix+name, r, anyone); err != nil {
			t.Fatal(err)
		}
	}
	sys := actor.NewSystem("n1", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	member, err := cluster.Join(sys, cluster.Config{Engine: d.engine, TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"n1": "only a node that has ended is forgotten: n1 has just renewed its lease; it runs",
		"n2": `the node must be one of n1, not "n2"`,
	} {
		if _, err := d.forget(t.Context(), name, within); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is forgotten: %v, want %q", name, err, want)
		}
	}
	if err := member.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := d.forget(t.Context(), "n1", within); err != nil || !left {
		t.Errorf("it has left, and may run: %v, %v", left, err)
	}
	if nodes, err := d.nodes(t.Context()); err != nil || len(nodes) != 0 {
		t.Errorf("after that there are %v, %v", nodes, err)
	}
}

func TestNodesAreAskedOnceForAllThatLook(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asked, failed := 0, errors.New("the database is away")
		c := newInfoCache(func(context.Context) ([]server.NodeInfo, error) {
			asked++
			time.Sleep(time.Second) // of a node that does not answer
			if asked == 1 {
				return nil, failed
			}
			return []server.NodeInfo{{Name: fmt.Sprint("as of ", asked)}}, nil
		})
		if _, err := c.get(t.Context()); !errors.Is(err, failed) {
			t.Errorf("the first look ends with %v, want %v", err, failed)
		}
		looks := func(want string) {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if infos, err := c.get(t.Context()); err != nil || len(infos) != 1 || infos[0].Name != want {
						t.Errorf("the nodes are %v, %v, want %q", infos, err, want)
					}
				})
			}
			all.Wait()
		}
		looks("as of 2")
		time.Sleep(infosFor - time.Millisecond)
		looks("as of 2")
		time.Sleep(time.Millisecond)
		looks("as of 3")
		c.turn <- struct{}{} // somebody asks
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := c.get(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("who does not wait any more gets %v", err)
		}
	})
}

// emptyHolder is a cluster.Holder of shards with nothing in them.
type emptyHolder struct{}

func (emptyHolder) Take(context.Context, cluster.Shard) error { return nil }
func (emptyHolder) Give(context.Context, cluster.Shard) error { return nil }
func (emptyHolder) Drop(cluster.Shard)                        {}

// A node that cannot hold the store leaves, and is not waited for.
func TestANodeThatCannotHoldTheStoreLeaves(t *testing.T) {
	t.Parallel()
	sys := actor.NewSystem("n1", actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	member, err := cluster.Join(sys, cluster.Config{Engine: new(memory.Engine)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cluster.Host(member, ownerGroup, 1, emptyHolder{}); err != nil {
		t.Fatal(err)
	}
	n := &node{member: member}
	if err := n.host(t.Context(), member); err == nil {
		t.Error("a group was hosted twice")
	}
	select {
	case <-member.Done():
		if err := member.Err(); err != nil {
			t.Error(err)
		}
	default:
		t.Error("the membership goes on")
	}
}

// clusterNode is a node of a cluster in a process of its own.
type clusterNode struct {
	*process
	name, link string
}

// clusterOf is a cluster of processes with one database.
type clusterOf struct {
	t             *testing.T
	binary, store string
	nodes         []*clusterNode
	ways          map[*clusterNode]*pgtest.Proxy // to the database; none if it is not to be cut off
}

// startCluster starts n1, n2 and so on; proxied says that they can be cut off from the database.
func startCluster(t *testing.T, store string, n int, proxied bool) *clusterOf {
	t.Helper()
	c := &clusterOf{t: t, binary: build(t), store: store, ways: make(map[*clusterNode]*pgtest.Proxy)}
	for i := range n {
		node := &clusterNode{name: fmt.Sprint("n", i+1), link: linkAddress(t)}
		c.nodes = append(c.nodes, node)
		if proxied {
			c.ways[node] = pgtest.NewProxy(t, store)
		}
	}
	for _, n := range c.nodes {
		c.start(n)
	}
	return c
}

// linkAddress returns an address on which nobody listens.
func linkAddress(t *testing.T) string {
	t.Helper()
	addr, err := freeAddress(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// start starts a node, at the addresses that it had before.
func (c *clusterOf) start(n *clusterNode) {
	http, mqtt := "127.0.0.1:0", "127.0.0.1:0"
	if n.process != nil {
		http, mqtt = n.http, n.mqtt
	}
	store := c.store
	if way := c.ways[n]; way != nil {
		store = way.URL(c.t, store)
	}
	n.process = startServe(c.t, c.binary, nil, "--store", store, "--http", http, "--mqtt", mqtt, "--join", n.link, "--node", n.name)
}

// signal sends a signal to a node.
func (n *clusterNode) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := n.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// run runs greenroom cluster.
func (c *clusterOf) run(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("greenroom cluster %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (c *clusterOf) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, append([]string{"cluster"}, args...)...)
	cmd.Env = append(cmd.Environ(), "GREENROOM_STORE="+c.store)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// owner returns the node that owns the store, as the status says; it waits for one that has a lease.
func (c *clusterOf) owner() *clusterNode {
	c.t.Helper()
	status := ""
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		status = c.run("status")
		for _, n := range c.nodes {
			if containsRow(status, n.name, "up", "yes", "epoch") {
				return n
			}
		}
	}
	c.t.Fatalf("no node owns the store:\n%s", status)
	return nil
}

// containsRow reports whether a table has a row that begins with these words.
func containsRow(table string, words ...string) bool {
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) >= len(words) && slices.Equal(fields[:len(words)], words) {
			return true
		}
	}
	return false
}

// post sends a reading by HTTP, and returns an error unless it was acknowledged.
func (n *clusterNode) post(ctx context.Context, entity, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.http+"/v1/entities/"+entity+"/telemetry", strings.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusNoContent {
		return fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return nil
}

func TestClusterOfNodes(t *testing.T) {
	t.Parallel()
	c := startCluster(t, pgtest.Database(t), 3, false)
	t.Cleanup(c.tell)
	owner := c.owner()
	for i, n := range c.nodes {
		if err := n.post(t.Context(), "room", fmt.Sprintf(`{"ts":%d,"values":{"n":%d}}`, i+1, i)); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
	}
	for _, n := range c.nodes {
		if got := len(history(t, n.http, "room", "n")); got != 3 {
			t.Errorf("%s shows %d readings of 3", n.name, got)
		}
	}
	out, err := exec.CommandContext(t.Context(), c.binary, "serve", "--store", c.store, "--http", "127.0.0.1:0", "--mqtt", "127.0.0.1:0", "--join", linkAddress(t), "--node", owner.name).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "--node must be a name that no other running node has: "+owner.name) {
		t.Errorf("a second %s: %v\n%s", owner.name, err, out)
	}
	if said, err := c.try("forget", owner.name); err == nil || !strings.Contains(said, owner.name+" answers at "+owner.link) {
		t.Errorf("forget says of a node that runs: %v\n%s", err, said)
	}
	if said, err := c.try("upgrade", "--check"); (err != nil || strings.Count(said, "may be replaced") != 3) && !strings.Contains(said, "a member has joined within the last 5s") {
		t.Errorf("upgrade --check says: %v\n%s", err, said)
	}
	if said := c.run("drain", "--node", owner.name); !strings.HasPrefix(said, owner.name+" is drained") {
		t.Errorf("drain says: %s", said)
	}
	if next := c.owner(); next == owner {
		t.Errorf("%s is drained, and owns the store", owner.name)
	}
	if err := owner.post(t.Context(), "room", `{"ts":4,"values":{"n":4}}`); err != nil {
		t.Errorf("by the drained node: %v", err)
	}
	if status := c.run("status"); !containsRow(status, owner.name, "drained", "no") {
		t.Errorf("status says of a drained node:\n%s", status)
	}
	c.takeAway()
	c.owner()
	c.stop(owner)
	if status := c.run("status"); strings.Contains(status, owner.name) || strings.Count(status, "\n") != 3 {
		t.Errorf("%s has left, and status says:\n%s", owner.name, status)
	}
	// The database loses what it had taken, as by a failover to an asynchronous standby.
	pgtest.Exec(t, pgtest.Connect(t, c.store), "UPDATE greenroom_cluster.engine SET last = 1")
	for _, n := range c.nodes {
		if n == owner {
			continue
		}
		if err := n.cmd.Wait(); err == nil || !strings.Contains(n.errors.String(), "the database has gone back to an earlier revision") {
			t.Errorf("the database has gone back, and %s ends with %v", n.name, err)
		}
	}
	if status := c.run("status"); strings.Count(status, "does not answer") != 2 || !strings.Contains(status, "epoch") {
		t.Errorf("all nodes have ended, and status says:\n%s", status)
	}
	ended := c.but(owner)[0].name
	if said := c.run("forget", ended); !strings.HasPrefix(said, ended+" is forgotten") {
		t.Errorf("forget says: %s", said)
	}
	if status := c.run("status"); strings.Contains(status, ended) || strings.Count(status, "does not answer") != 1 {
		t.Errorf("%s is forgotten, and status says:\n%s", ended, status)
	}
}

// takeAway has somebody take the store who is no node, and leave: the server of the owner ends, and a node must own the
// store again.
func (c *clusterOf) takeAway() {
	c.t.Helper()
	d, err := openDirectory(c.t.Context(), c.store, slog.New(slog.DiscardHandler), true)
	if err != nil {
		c.t.Fatal(err)
	}
	defer d.close()
	r, err := d.owner(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	store, err := postgres.Open(c.t.Context(), c.store, postgres.Options{Claim: r.Epoch + 1})
	if err != nil {
		c.t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		c.t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); ; {
		again, err := d.owner(c.t.Context())
		if err == nil && again.Epoch > r.Epoch+1 {
			return
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("no node owns the store again: %+v, %v", again, err)
		}
		_ = pause.For(c.t.Context(), 50*time.Millisecond)
	}
}

// stop ends a node in order.
func (c *clusterOf) stop(n *clusterNode) {
	c.t.Helper()
	n.signal(c.t, syscall.SIGTERM)
	if err := n.cmd.Wait(); err != nil {
		c.t.Errorf("the end of %s: %v", n.name, err)
	}
}

// tell shows what the nodes have logged if the test has failed.
func (c *clusterOf) tell() {
	for _, n := range c.nodes {
		if c.t.Failed() {
			_ = n.cmd.Process.Kill() // it writes to errors otherwise
			_ = n.cmd.Wait()
			c.t.Logf("%s says:\n%s", n.name, n.errors)
		}
	}
}
