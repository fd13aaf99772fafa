package cluster

import "github.com/greenroom-go/greenroom/actor"

// Node is a system as a member of a cluster. [Alone] makes one. It is safe for concurrent use.
type Node struct{ sys *actor.System }

// Alone returns a node without a cluster: all virtual actors are active here. It ends with its
// system.
func Alone(sys *actor.System) *Node { return &Node{sys: sys} }

// System returns the system.
func (n *Node) System() *actor.System { return n.sys }
