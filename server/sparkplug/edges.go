package sparkplug

import (
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// MaxEdges bounds the edge nodes that are online, and MaxAliases the aliases of all
	// of them together.
	MaxEdges   = 10_000
	MaxAliases = 1_000_000

	// rebirthEvery is how often an edge node is asked for its birth certificates at most.
	rebirthEvery = 10 * time.Second
	// seqs is how many sequence numbers there are.
	seqs = 256
)

// edge is what is known of an edge node that is online.
type edge struct {
	bdSeq   uint64 // of its birth, which its death repeats
	next    uint64 // the sequence number of the next message
	aliases map[uint64]alias
	devices map[string]bool // those that are online
}

// alias is what a number stands for, of the edge node itself or one of its devices.
type alias struct {
	name     string
	datatype dataType
}

// edges are the edge nodes, by group and edge.
type edges struct {
	mu      sync.Mutex
	online  map[[2]string]*edge     // guarded by mu
	aliases int                     // of all; guarded by mu
	asked   map[[2]string]time.Time // when a birth was asked for; guarded by mu
}

// note brings what is known up to date with a message, and gives its metrics the names and
// types of their aliases. rebirth says that the edge node is to be asked for its birth
// certificates; metrics without a name are not known then. gone are the devices that went
// offline with their edge node, and stale says that the message is a death of an earlier life.
func (e *edges) note(t *topic, p *payload) (out noted, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := [2]string{t.group, t.edge}
	switch t.kind {
	case nbirth:
		return out, e.born(key, p)
	case ndeath:
		return e.died(key, p), nil
	case dbirth, ddeath, ndata, ddata:
	default:
		return out, nil
	}
	node := e.online[key]
	if node == nil {
		out.rebirth = e.mayAsk(key)
		return out, nil
	}
	if p.hasSeq {
		if p.seq != node.next {
			out.rebirth = e.mayAsk(key)
		}
		node.next = (p.seq + 1) % seqs
	}
	switch t.kind {
	case dbirth:
		node.devices[t.device] = true
		if err := e.learn(node, p); err != nil {
			return out, err
		}
	case ddeath:
		delete(node.devices, t.device)
	case ddata:
		if !node.devices[t.device] {
			out.rebirth = out.rebirth || e.mayAsk(key)
		}
	}
	e.resolve(node, p)
	return out, nil
}

type noted struct {
	rebirth, stale bool
	gone           []string
}

// born begins the life of an edge node.
func (e *edges) born(key [2]string, p *payload) error {
	e.forget(key)
	if len(e.online) >= MaxEdges {
		return fmt.Errorf("%w: %d edge nodes are online; no more are allowed", entity.ErrInvalid, MaxEdges)
	}
	node := &edge{next: (p.seq + 1) % seqs, aliases: map[uint64]alias{}, devices: map[string]bool{}}
	for i := range p.metrics {
		if p.metrics[i].name == bdSeqName {
			node.bdSeq = p.metrics[i].bits
		}
	}
	e.online[key] = node
	delete(e.asked, key)
	return e.learn(node, p)
}

// learn notes the aliases of a birth.
func (e *edges) learn(node *edge, p *payload) error {
	for i := range p.metrics {
		m := &p.metrics[i]
		if !m.hasAlias || m.name == "" {
			continue
		}
		if _, known := node.aliases[m.alias]; !known {
			if e.aliases >= MaxAliases {
				return fmt.Errorf("%w: the edge nodes have %d aliases; no more are allowed", entity.ErrInvalid, MaxAliases)
			}
			e.aliases++
		}
		node.aliases[m.alias] = alias{m.name, m.datatype}
	}
	return nil
}

// resolve gives metrics the names and types of their aliases.
func (e *edges) resolve(node *edge, p *payload) {
	for i := range p.metrics {
		m := &p.metrics[i]
		if a, ok := node.aliases[m.alias]; ok && m.hasAlias && m.name == "" {
			m.name = a.name
			if m.datatype == 0 {
				m.datatype = a.datatype
			}
		}
	}
}

// died ends the life of an edge node, unless its death is that of an earlier one: the will of
// a connection that it has replaced.
func (e *edges) died(key [2]string, p *payload) (out noted) {
	node := e.online[key]
	if node == nil {
		return out
	}
	for i := range p.metrics {
		if p.metrics[i].name == bdSeqName && p.metrics[i].bits != node.bdSeq {
			out.stale = true
			return out
		}
	}
	for device := range node.devices {
		out.gone = append(out.gone, device)
	}
	e.forget(key)
	return out
}

// forget takes an edge node out. The caller holds mu.
func (e *edges) forget(key [2]string) {
	if node := e.online[key]; node != nil {
		e.aliases -= len(node.aliases)
		delete(e.online, key)
	}
}

// mayAsk reports whether an edge node may be asked for its birth now. The caller holds mu.
func (e *edges) mayAsk(key [2]string) bool {
	now := time.Now()
	if now.Sub(e.asked[key]) < rebirthEvery {
		return false
	}
	if len(e.asked) >= MaxEdges { // who asks for nothing any more
		for old, at := range e.asked {
			if now.Sub(at) >= rebirthEvery {
				delete(e.asked, old)
			}
		}
	}
	if len(e.asked) >= MaxEdges {
		return false
	}
	e.asked[key] = now
	return true
}

// typeOf returns the type that the birth certificate of an edge node has for a metric with an
// alias, 0 where it is not known.
func (e *edges) typeOf(t *topic, name string) dataType {
	e.mu.Lock()
	defer e.mu.Unlock()
	node := e.online[[2]string{t.group, t.edge}]
	if node == nil {
		return 0
	}
	for _, a := range node.aliases {
		if a.name == name {
			return a.datatype
		}
	}
	return 0
}
