package sparkplug

import (
	"fmt"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/layout"
)

const (
	// MaxEdges bounds the edge nodes that are online. A principal may have as many as it leaves for
	// others, and as much of MaxBirthBytes.
	MaxEdges = 10_000
	// MaxEdgesOfClient bounds the online edge nodes of one connection.
	MaxEdgesOfClient = 100
	// MaxDevices bounds the devices of one edge node.
	MaxDevices = 1000
	// MaxBirthBytes bounds the memory for the birth certificates of all edge nodes.
	MaxBirthBytes = 64 << 20

	// rebirthEvery is the interval at which an edge node is asked for its birth certificates at
	// most.
	rebirthEvery = 10 * time.Second
	// seqs is the number of sequence numbers.
	seqs = 256
	// metricBytes is the approximate size of a metric of a birth without its name.
	metricBytes = 128
)

// edge is an edge node that is online.
type edge struct {
	client layout.Client // the sender of its birth
	owner  string        // the name of its principal, "" if nobody has to log in
	bdSeq  uint64        // of its birth; its death repeats it
	next   uint64        // the sequence number of the next message
	parts  map[string]*part
}

// part contains the birth certificate of an edge node, "", or of one of its devices.
type part struct {
	names map[uint64]string // by alias
	types map[string]dataType
	bytes int
}

// edges holds the edge nodes, by group and edge.
type edges struct {
	mu     sync.Mutex
	online map[[2]string]*edge     // guarded by mu
	of     map[layout.Client]int   // the number of edge nodes of a client; guarded by mu
	bytes  int                     // the size of all births; guarded by mu
	owners map[string]holding      // what principals have; guarded by mu
	asked  map[[2]string]time.Time // when a birth was asked for; guarded by mu
}

// holding is what a principal has of all that is bounded.
type holding struct{ edges, bytes int }

func (e *edges) start() {
	e.online, e.of, e.asked, e.owners = map[[2]string]*edge{}, map[layout.Client]int{}, map[[2]string]time.Time{}, map[string]holding{}
}

// hold adds to what a principal has. The caller holds mu.
func (e *edges) hold(owner string, edges, bytes int) {
	e.bytes += bytes
	if owner == "" {
		return
	}
	h := e.owners[owner]
	if h.edges, h.bytes = h.edges+edges, h.bytes+bytes; h == (holding{}) {
		delete(e.owners, owner)
	} else {
		e.owners[owner] = h
	}
}

// sender is the sender of a message.
type sender struct {
	client layout.Client
	owner  string // the name of its principal, "" if nobody has to log in
	speaks bool   // it may report for the edge node itself
}

// noted is the effect of a message on the edge nodes.
type noted struct {
	known   bool     // the edge node is online
	rebirth bool     // the edge node must be asked for its birth certificates
	stale   bool     // the message is the death of an earlier life
	gone    []string // devices that went offline
}

// note updates the edge nodes with a message, and sets the names and types of its metrics from their
// birth certificates. The sequence numbers of clients that do not speak for the edge node are not
// its own.
func (e *edges) note(from sender, t *topic, p *payload) (out noted, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	key := [2]string{t.group, t.edge}
	switch t.kind {
	case nbirth:
		return e.born(from, key, p)
	case ndeath:
		return e.died(key, p), nil
	default:
	}
	node := e.online[key]
	if node == nil {
		out.rebirth = from.speaks && e.mayAsk(key)
		return out, nil
	}
	out.known = true
	if p.hasSeq && from.speaks {
		out.rebirth = p.seq != node.next && e.mayAsk(key)
		node.next = (p.seq + 1) % seqs
	}
	switch t.kind {
	case dbirth:
		if err := e.learn(node, t.device, p); err != nil {
			return out, err
		}
	case ddeath:
		e.unlearn(node, t.device)
	case ddata:
		if node.parts[t.device] == nil {
			out.rebirth = out.rebirth || from.speaks && e.mayAsk(key)
		}
	default:
	}
	node.parts[t.device].resolve(p)
	return out, nil
}

// born begins the life of an edge node.
func (e *edges) born(from sender, key [2]string, p *payload) (out noted, err error) {
	out.gone, out.known = e.forget(key), true
	switch has := e.owners[from.owner].edges; {
	case len(e.online) >= MaxEdges:
		return out, fmt.Errorf("%w: %d edge nodes are online; no more are allowed", entity.ErrInvalid, MaxEdges)
	case has >= MaxEdges-len(e.online):
		return out, fmt.Errorf("%w: the principal %q has %d edge nodes, as many as are left for others; no more are allowed", entity.ErrInvalid, from.owner, has)
	case e.of[from.client] >= MaxEdgesOfClient:
		return out, fmt.Errorf("%w: the client has %d edge nodes; no more are allowed", entity.ErrInvalid, MaxEdgesOfClient)
	}
	node := &edge{client: from.client, owner: from.owner, next: (p.seq + 1) % seqs, parts: map[string]*part{}}
	for i := range p.metrics {
		if p.metrics[i].name == bdSeqName {
			node.bdSeq = p.metrics[i].bits
		}
	}
	if err := e.learn(node, "", p); err != nil {
		return out, err
	}
	e.online[key] = node
	e.of[from.client]++
	e.hold(from.owner, 1, 0)
	delete(e.asked, key)
	return out, nil
}

// learn records the names and types of a birth, replacing those of the previous one.
func (e *edges) learn(node *edge, device string, p *payload) error {
	e.unlearn(node, device)
	if len(node.parts) > MaxDevices {
		return fmt.Errorf("%w: the edge node has %d devices; no more are allowed", entity.ErrInvalid, MaxDevices)
	}
	learned := &part{names: map[uint64]string{}, types: map[string]dataType{}, bytes: metricBytes}
	for i := range p.metrics {
		m := &p.metrics[i]
		if m.name == "" {
			continue
		}
		if err := entity.CheckKey(m.name); err != nil {
			return err
		}
		learned.types[m.name] = m.datatype
		if m.hasAlias {
			learned.names[m.alias] = m.name
		}
		learned.bytes += len(m.name) + metricBytes
	}
	if e.bytes+learned.bytes > MaxBirthBytes {
		return fmt.Errorf("%w: the birth certificates of all edge nodes have %d bytes; no more than %d are allowed", entity.ErrInvalid, e.bytes, MaxBirthBytes)
	}
	if has := e.owners[node.owner].bytes; has+learned.bytes > MaxBirthBytes-e.bytes {
		return fmt.Errorf("%w: the birth certificates of the principal %q have %d bytes, as many as are left for others; no more are allowed", entity.ErrInvalid, node.owner, has)
	}
	e.hold(node.owner, 0, learned.bytes)
	node.parts[device] = learned
	return nil
}

func (e *edges) unlearn(node *edge, device string) {
	if known := node.parts[device]; known != nil {
		e.hold(node.owner, 0, -known.bytes)
		delete(node.parts, device)
	}
}

// resolve sets the names and types of metrics from the birth certificate. A nil k does nothing.
func (k *part) resolve(p *payload) {
	if k == nil {
		return
	}
	for i := range p.metrics {
		m := &p.metrics[i]
		if m.name == "" && m.hasAlias {
			m.name = k.names[m.alias]
		}
		if m.datatype == 0 {
			m.datatype = k.types[m.name]
		}
	}
}

// died ends the life of an edge node, unless the message is the death of an earlier life: the will
// of a connection that was replaced.
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
	out.gone = e.forget(key)
	return out
}

// forget removes an edge node, and returns its devices. The caller holds mu.
func (e *edges) forget(key [2]string) (devices []string) {
	node := e.online[key]
	if node == nil {
		return nil
	}
	for device, known := range node.parts {
		e.hold(node.owner, 0, -known.bytes)
		if device != "" {
			devices = append(devices, device)
		}
	}
	if e.of[node.client]--; e.of[node.client] == 0 {
		delete(e.of, node.client)
	}
	delete(e.online, key)
	e.hold(node.owner, -1, 0)
	return devices
}

// left ends the lives of a client's edge nodes, and returns their topics and those of their
// devices.
func (e *edges) left(c layout.Client) (list []topic) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of[c] == 0 {
		return nil
	}
	for key, node := range e.online {
		if node.client == c {
			list = append(list, e.end(key)...)
		}
	}
	return list
}

// end ends the life of an edge node, and returns its topic and those of its devices. The caller
// holds mu.
func (e *edges) end(key [2]string) []topic {
	list := []topic{{kind: ndeath, group: key[0], edge: key[1]}}
	for _, device := range e.forget(key) {
		list = append(list, topic{kind: ddeath, group: key[0], edge: key[1], device: device})
	}
	return list
}

// leaving is an edge node or device that goes offline with the server.
type leaving struct {
	client layout.Client
	topic  topic
}

// endAll ends the lives of all edge nodes.
func (e *edges) endAll() (list []leaving) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, node := range e.online {
		for _, t := range e.end(key) {
			list = append(list, leaving{node.client, t})
		}
	}
	return list
}

// mayAsk reports whether an edge node may be asked for its birth now. The caller holds mu.
func (e *edges) mayAsk(key [2]string) bool {
	now := time.Now()
	if now.Sub(e.asked[key]) < rebirthEvery {
		return false
	}
	if len(e.asked) >= MaxEdges { // it only saves requests
		clear(e.asked)
	}
	e.asked[key] = now
	return true
}

// typeOf returns the type of a metric in its birth certificate, or 0 if it is unknown.
func (e *edges) typeOf(t *topic, name string) dataType {
	e.mu.Lock()
	defer e.mu.Unlock()
	node := e.online[[2]string{t.group, t.edge}]
	if node == nil || node.parts[t.device] == nil {
		return 0
	}
	return node.parts[t.device].types[name]
}
