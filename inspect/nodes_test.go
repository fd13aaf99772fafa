package inspect

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/actor"
)

// nodesOnly is a Carrier that has nothing but peers.
type nodesOnly []actor.Peer

func (nodesOnly) Attach(*actor.Far)                {}
func (nodesOnly) Way(actor.PID) (actor.Way, error) { return nil, errors.New("no way") }
func (n nodesOnly) Peers() []actor.Peer            { return n }
func (nodesOnly) Close(context.Context) error      { return nil }

func TestNodesAreShownAndCounted(t *testing.T) {
	t.Parallel()
	o := open(t, Config{})
	o.has("nodes", "connected with no other one")
	actor.Carry(o.sys, nodesOnly{
		{Node: "orders-1", State: "open", Sent: 7, Unconfirmed: 11, Asks: 2},
		{Node: "orders-2", State: "broken", Err: errors.New("connection refused"), Reconnects: 3, Resent: 5, Lost: 1, Dropped: 13, Unknown: 17},
	})
	o.has("nodes", "orders-1", "orders-2", "connection refused")
	var nodes []Node
	o.json("nodes", &nodes)
	if len(nodes) != 2 || nodes[0] != (Node{Node: "orders-1", State: "open", Sent: 7, Unconfirmed: 11, Asks: 2}) || nodes[1].Unknown != 17 {
		t.Errorf("got %+v", nodes)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(Collector(o.sys))
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, label := range m.GetLabel() {
				got[f.GetName()] += fmt.Sprintf("%s %v ", label.GetValue(), m.GetGauge().GetValue()+m.GetCounter().GetValue())
			}
		}
	}
	for name, want := range map[string]string{
		"greenroom_node_open":                   "orders-1 1 orders-2 0 ",
		"greenroom_node_unconfirmed_bytes":      "orders-1 11 orders-2 0 ",
		"greenroom_node_resent_frames_total":    "orders-1 0 orders-2 5 ",
		"greenroom_node_unknown_messages_total": "orders-1 0 orders-2 17 ",
	} {
		if got[name] != want {
			t.Errorf("%s: %q, want %q", name, got[name], want)
		}
	}
}
