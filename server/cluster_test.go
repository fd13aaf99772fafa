package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/pgtest"
)

// TestAClusterSaysWhoOwnsTheStore and did before, on whatever node it is asked.
func TestAClusterSaysWhoOwnsTheStore(t *testing.T) {
	t.Parallel()
	store := pgtest.Database(t)
	nodes := func(f *Front) {
		f.node.Nodes = func(context.Context) ([]NodeInfo, error) {
			return []NodeInfo{{Name: "a", State: "up", Lease: true, HTTP: f.HTTPAddr()}, {Name: "b", State: "drained"}}, nil
		}
	}
	a, b := startNode(t, store, "a", nodes), startNode(t, store, "b", nodes)
	read := func(n *testNode) (c clusterJSON, owners string) {
		t.Helper()
		status, answer := n.do("GET", "/v1/cluster", "")
		if err := json.Unmarshal([]byte(answer), &c); status != http.StatusOK || err != nil || len(c.Nodes) != 2 || c.Nodes[0].Name != "a" || !c.Nodes[0].Lease || c.Nodes[1].State != "drained" {
			t.Fatalf("%d %s", status, answer)
		}
		for _, m := range c.Moves {
			owners += fmt.Sprint(m.Node, m.Epoch, " ")
			if m.At == 0 || m.At > c.Now {
				t.Errorf("a move at %d, and now it is %d", m.At, c.Now)
			}
		}
		if c.Since != c.Moves[0].At {
			t.Errorf("%s owns the store since %d, and took it at %d", c.Owner, c.Since, c.Moves[0].At)
		}
		return c, fmt.Sprint(c.Owner, c.Epoch, ": ", owners)
	}
	kept := func(n *testNode, epoch string) {
		t.Helper()
		eventually(t, "the owner to be stored", func() bool {
			d, err := n.now.local.runtime.Doc(t.Context(), kindCluster, movesID)
			return err == nil && strings.Contains(string(d.Body), `"epoch":`+epoch)
		})
	}
	a.own(3, b)
	if _, got := read(b); got != "a3: a3 " {
		t.Errorf("the owners are %s", got)
	}
	if _, answer := b.do("GET", "/v1/system", ""); !strings.Contains(answer, `"node":"a"`) {
		t.Errorf("%s", answer)
	}
	kept(a, "3")
	if err := a.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.own(5, a)
	kept(b, "5")
	for _, n := range []*testNode{a, b} {
		if _, got := read(n); got != "b5: b5 a3 " {
			t.Errorf("the owners are %s", got)
		}
	}
	for epoch := uint64(6); epoch < 6+maxMoves; epoch++ { // more than are remembered
		(&clusterAPI{&fronted{node: "c", epoch: epoch}, b.now.local.runtime, b.log}).keepMove(t.Context())
	}
	if c, _ := read(b); len(c.Moves) != maxMoves {
		t.Errorf("%d owners are remembered", len(c.Moves))
	}
}

func TestAServerAloneIsNoCluster(t *testing.T) {
	t.Parallel()
	s := start(t, t.TempDir())
	if resp, body := s.do("GET", "/v1/cluster", ""); resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "no node of a cluster") {
		t.Errorf("%s %s", resp.Status, body)
	}
}
