package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// NodeInfo describes a node of a cluster, see [NodeConfig.Nodes]. The zero value is a node about
// which nothing is known.
type NodeInfo struct {
	Name string
	// State is the state of the node: "up", "drained" if it no longer takes the store, or "silent"
	// if it does not answer.
	State string
	// Lease reports whether it may own the store at this moment.
	Lease bool
	// HTTP, MQTT and Link are its addresses, host:port.
	HTTP, MQTT, Link string
	Version          string
}

const (
	kindCluster = "cluster" // of a document, movesID
	movesID     = "moves"
	maxMoves    = 50 // that are remembered
)

// clusterAPI shows the cluster of which the server is a node to callers that may manage it.
type clusterAPI struct {
	front   *fronted // nil for none
	runtime *entity.Runtime
	log     *slog.Logger
}

func (a *clusterAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/cluster", "getCluster", "Read the nodes of the cluster, which one owns the store, and which ones did before.", a.get, needs(administers), fails(http.StatusNotFound)),
	}
}

// clusterJSON is a cluster of servers with one store.
type clusterJSON struct {
	// The node that owns the store. It has answered.
	Owner string `json:"owner" example:"n1"`
	// The number of its ownership; each owner has a greater one than those before.
	Epoch uint64 `json:"epoch" example:"1792159200001"`
	// Since when it owns the store.
	Since int64          `json:"since_ms" example:"1451649600512"`
	Now   int64          `json:"now_ms" example:"1451649660512"`
	Nodes []nodeInfoJSON `json:"nodes"`
	// The last owners, newest first.
	Moves []moveJSON `json:"moves"`
}

// nodeInfoJSON is a node of a cluster.
type nodeInfoJSON struct {
	Name string `json:"name" example:"n1"`
	// up; drained, if it forwards what clients send and no longer takes the store; or silent, if it does not
	// answer.
	State string `json:"state" example:"up"`
	// Whether it has a lease, so that it may own the store.
	Lease bool `json:"lease"`
	// Its addresses for HTTP, for MQTT and for the other nodes.
	HTTP string `json:"http" example:"10.0.0.1:8080"`
	MQTT string `json:"mqtt" example:"10.0.0.1:1883"`
	Link string `json:"link" example:"10.0.0.1:7400"`
	// The version of its server.
	Version string `json:"version" example:"v0.5.0"`
}

// moveJSON says that a node has become the owner of the store.
type moveJSON struct {
	Node  string `json:"node" example:"n1"`
	Epoch uint64 `json:"epoch" example:"1792159200001"`
	At    int64  `json:"at_ms" example:"1451649600512"`
}

// nodeName returns the name of the node that a server runs on, "" for none.
func (f *fronted) nodeName() string {
	if f == nil {
		return ""
	}
	return f.node
}

func (a *clusterAPI) get(ctx context.Context, _ *struct{}) (*answer[clusterJSON], error) {
	if a.front == nil {
		return nil, problemf(http.StatusNotFound, "this server is no node of a cluster")
	}
	moves, err := a.moves(ctx)
	if err != nil {
		return nil, err
	}
	c := clusterJSON{Owner: a.front.node, Epoch: a.front.epoch, Since: moves[0].At, Now: time.Now().UnixMilli(), Nodes: []nodeInfoJSON{}, Moves: moves}
	if a.front.nodes != nil {
		nodes, err := a.front.nodes(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the nodes of the cluster: %w", err)
		}
		for _, n := range nodes {
			c.Nodes = append(c.Nodes, nodeInfoJSON(n))
		}
	}
	return ok(c), nil
}

// moves returns the owners of the store, newest first. The first one is this node.
func (a *clusterAPI) moves(ctx context.Context) (moves []moveJSON, err error) {
	d, err := a.runtime.Doc(ctx, kindCluster, movesID)
	switch {
	case errors.Is(err, entity.ErrNotFound):
	case err != nil:
		return nil, fmt.Errorf("read the owners of the store: %w", err)
	default:
		if err := json.Unmarshal(d.Body, &moves); err != nil {
			return nil, fmt.Errorf("read the owners of the store: %w", err)
		}
	}
	if len(moves) == 0 || moves[0].Epoch != a.front.epoch { // it is not kept yet
		moves = slices.Insert(moves, 0, moveJSON{a.front.node, a.front.epoch, a.front.since.UnixMilli()})
	}
	return moves[:min(len(moves), maxMoves)], nil
}

// keepMove stores that this node owns the store now.
func (a *clusterAPI) keepMove(ctx context.Context) {
	moves, err := a.moves(ctx)
	var body []byte
	if err == nil {
		body, err = json.Marshal(moves)
	}
	if err == nil {
		_, err = a.runtime.PutDoc(ctx, kindCluster, movesID, body, "")
	}
	if err != nil && ctx.Err() == nil {
		a.log.LogAttrs(ctx, slog.LevelWarn, "cannot store who owns the store", slog.Any("error", err))
	}
}
