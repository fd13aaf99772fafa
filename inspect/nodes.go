package inspect

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/greenroom-go/greenroom/actor"
)

// Node is another node, see [actor.Peer].
type Node struct {
	Node        string `json:"node"`
	State       string `json:"state"`
	Error       string `json:"error,omitempty"`
	Unconfirmed int    `json:"unconfirmed_bytes"`
	Unwritten   int    `json:"unwritten_bytes"`
	Asks        int    `json:"asks"`
	Sent        uint64 `json:"sent"`
	Reconnects  uint64 `json:"reconnects"`
	Resent      uint64 `json:"resent"`
	Lost        uint64 `json:"lost"`
	Dropped     uint64 `json:"dropped"`
	Unknown     uint64 `json:"unknown"`
}

// nodes returns the other nodes.
func (in *inspector) nodes(*http.Request) (any, error) {
	list := []Node{}
	for _, p := range in.sys.Peers() {
		n := Node{
			Node: p.Node, State: p.State, Unconfirmed: p.Unconfirmed, Unwritten: p.Unwritten, Asks: p.Asks,
			Sent: p.Sent, Reconnects: p.Reconnects, Resent: p.Resent, Lost: p.Lost, Dropped: p.Dropped, Unknown: p.Unknown,
		}
		if p.Err != nil {
			n.Error = p.Err.Error()
		}
		list = append(list, n)
	}
	return list, nil
}

// nodeMetric is a counter or a gauge with the label of a node.
type nodeMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*actor.Peer) float64
}

func newNodeMetric(kind prometheus.ValueType, name, help string, read func(*actor.Peer) float64) nodeMetric {
	return nodeMetric{prometheus.NewDesc(name, help, []string{"node"}, nil), kind, read}
}

var nodeMetrics = []nodeMetric{
	newNodeMetric(prometheus.GaugeValue, "greenroom_node_open", "1 while there is a connection with the node.", func(p *actor.Peer) float64 {
		if p.State == "open" {
			return 1
		}
		return 0
	}),
	newNodeMetric(prometheus.GaugeValue, "greenroom_node_unconfirmed_bytes", "Bytes that the node has not confirmed.", func(p *actor.Peer) float64 { return float64(p.Unconfirmed) }),
	newNodeMetric(prometheus.GaugeValue, "greenroom_node_asks", "Asks that the node has not answered.", func(p *actor.Peer) float64 { return float64(p.Asks) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_messages_total", "Messages to the node.", func(p *actor.Peer) float64 { return float64(p.Sent) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_reconnects_total", "Connections that were resumed.", func(p *actor.Peer) float64 { return float64(p.Reconnects) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_resent_frames_total", "Frames that were sent again after a reconnect.", func(p *actor.Peer) float64 { return float64(p.Resent) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_lost_total", "Incarnations of the node that were lost.", func(p *actor.Peer) float64 { return float64(p.Lost) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_dropped_messages_total", "Messages that were lost with the node before they were written.", func(p *actor.Peer) float64 { return float64(p.Dropped) }),
	newNodeMetric(prometheus.CounterValue, "greenroom_node_unknown_messages_total", "Messages that were lost with the node and may have been handled.", func(p *actor.Peer) float64 { return float64(p.Unknown) }),
}

// collectNodes sends the values of all nodes.
func collectNodes(sys *actor.System, out chan<- prometheus.Metric) {
	for _, p := range sys.Peers() {
		for _, m := range nodeMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.read(&p), p.Node)
		}
	}
}
