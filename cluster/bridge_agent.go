package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/eventbus"
)

const (
	bridgePatterns = 1024                   // the most that another node is told
	bridgeRest     = 20 * time.Millisecond  // the least time between two looks at the patterns of the bus
	bridgeAgain    = 100 * time.Millisecond // until another node is told again that has not answered,
	bridgeSeldom   = 2 * time.Second        // and later
)

// bridgeAgent is the actor of a bridge that tells the agents of other nodes which patterns are
// wanted here, and learns which they want. All fields are owned by its turn. The state survives a
// failure.
type bridgeAgent struct {
	b       *Bridged
	events  actor.PID // of the actor that gets the events
	isOpen  bool      // the bridge has its forwarding
	wants   []string  // the patterns to tell other nodes, in order
	resting bool      // it has looked just now
	again   bool      // and is to look once more
	peers   map[actor.PID]*bridgePeer
}

// bridgePeer is the agent of another node.
type bridgePeer struct {
	agent  actor.Ref[any]
	events atomic.Pointer[actor.Ref[any]] // the receiver of its events, set before it wants anything

	// The rest is owned by the turn of this node's agent.
	wants  map[string]*eventbus.Subscription // what it wants, by pattern
	told   []string                          // what it has been told is wanted here,
	knows  bool                              // if it knows that
	asking bool
	pause  time.Duration
}

// bridgeStep is what this node itself tells the agent to do.
type bridgeStep func(d *bridgeAgent, ctx *actor.Context[any])

// interests tells another agent which patterns a node wants; the answer confirms it.
type interests struct {
	actor.Returns[bool]
	Events string // the address of the actor that receives the events
	Whole  bool   // nothing else is wanted
	Add    []string
	Drop   []string
}

// bridgeTypes are those of the messages between bridges.
var bridgeTypes = []codec.Registration{
	codec.Of[interests]("greenroom.cluster.interests"),
	codec.Of[*bridgeEvent]("greenroom.cluster.event"),
}

// errStranger is the answer to an agent of a node that this one does not know yet, or no longer.
var errStranger = errors.New("the node is not known here as one that has the bridge")

// Init implements actor.Initializer.
func (d *bridgeAgent) Init(ctx *actor.Context[any]) error {
	events, err := actor.TrySpawnFunc(ctx, "events", d.b.receive, actor.Bounded(bridgeRoom, actor.Reject))
	if err != nil {
		return err
	}
	d.events, d.resting = events.PID(), false
	for _, p := range d.sorted() { // after a failure
		p.knows, p.asking = false, false
		d.tell(ctx, p)
	}
	if d.isOpen {
		d.open(ctx)
	}
	return nil
}

// Receive implements actor.Actor.
func (d *bridgeAgent) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case bridgeStep:
		m(d, ctx)
	case interests:
		p := d.peers[ctx.Sender()]
		if p == nil {
			return actor.Refuse(ctx, errStranger)
		}
		if err := d.heed(p, m); err != nil {
			return actor.Refuse(ctx, err)
		}
		actor.Reply(ctx, m, true)
	}
	return nil
}

// open begins to follow the patterns of the bus, and the node. A node that has already ended closes
// the bridge, which must be complete by then.
func (d *bridgeAgent) open(ctx *actor.Context[any]) {
	d.isOpen = true
	if !d.b.node.alone {
		ctx.Watch(d.b.node.keeper.PID(), func(actor.Down) any {
			return bridgeStep(func(d *bridgeAgent, _ *actor.Context[any]) { d.b.Close() })
		})
	}
	d.look(ctx)
}

// look tells the other nodes what is wanted here, if that has changed. It uses at most a tenth of
// the time.
func (d *bridgeAgent) look(ctx *actor.Context[any]) {
	if !d.isOpen {
		return
	}
	if d.resting {
		d.again = true
		return
	}
	began := time.Now()
	d.b.unseen.Store(false)
	if wants := widen(d.b.forwarding.Patterns(), bridgePatterns); !slices.Equal(wants, d.wants) {
		d.wants = wants
		d.b.patterns.Store(int64(len(wants)))
		for _, p := range d.sorted() {
			d.tell(ctx, p)
		}
	}
	d.resting, d.again = true, false
	ctx.After("rest", max(bridgeRest, 10*time.Since(began)), bridgeStep(func(d *bridgeAgent, ctx *actor.Context[any]) {
		d.resting = false
		if d.again {
			d.look(ctx)
		}
	}))
}

// meet records which nodes have the bridge.
func (d *bridgeAgent) meet(ctx *actor.Context[any], away []actor.PID) {
	for pid, p := range d.peers {
		if !slices.Contains(away, pid) {
			p.forget()
			delete(d.peers, pid)
		}
	}
	for _, pid := range away {
		if d.peers[pid] != nil {
			continue
		}
		agent, err := actor.Lookup[any](d.b.node.sys, pid)
		if err != nil { // its node is lost, and will be declared dead
			continue
		}
		p := &bridgePeer{agent: agent, wants: make(map[string]*eventbus.Subscription)}
		d.peers[pid] = p
		d.tell(ctx, p)
	}
}

// tell tells another node what is wanted here, until it has confirmed it.
func (d *bridgeAgent) tell(ctx *actor.Context[any], p *bridgePeer) {
	if p.asking || p.knows && slices.Equal(p.told, d.wants) {
		return
	}
	wants, m := d.wants, interests{Events: d.events.String(), Whole: !p.knows, Add: d.wants}
	if p.knows {
		m.Add, m.Drop = without(wants, p.told), without(p.told, wants)
	}
	p.asking = true
	actor.AskThen(ctx, p.agent, m, func(_ bool, err error) any {
		return bridgeStep(func(d *bridgeAgent, ctx *actor.Context[any]) { d.answered(ctx, p, wants, err) })
	}, actor.Within(markLimit))
}

// answered continues after another node has answered.
func (d *bridgeAgent) answered(ctx *actor.Context[any], p *bridgePeer, wants []string, err error) {
	pid := p.agent.PID()
	if d.peers[pid] != p {
		return
	}
	p.asking, p.told, p.knows = false, wants, err == nil
	if p.knows {
		p.pause = 0
		d.tell(ctx, p)
		return
	}
	p.asking = true // until then
	p.pause = min(max(bridgeAgain, 2*p.pause), bridgeSeldom)
	ctx.After("again "+pid.String(), p.pause, bridgeStep(func(d *bridgeAgent, ctx *actor.Context[any]) {
		p.asking = false
		if d.peers[pid] == p {
			d.tell(ctx, p)
		}
	}))
}

// heed records what another node wants.
func (d *bridgeAgent) heed(p *bridgePeer, m interests) error {
	pid, err := actor.ParsePID(m.Events)
	if err != nil {
		return fmt.Errorf("the address for events: %w", err)
	}
	events, err := actor.Lookup[any](d.b.node.sys, pid)
	if err != nil {
		return fmt.Errorf("the address for events: %w", err)
	}
	p.events.Store(&events)
	if m.Whole {
		m.Drop = without(slices.Sorted(maps.Keys(p.wants)), m.Add)
	}
	for _, pattern := range m.Add {
		if p.wants[pattern] != nil {
			continue
		}
		if p.wants[pattern], err = eventbus.SubscribeFunc(d.b.index, pattern, func(_ context.Context, _ string, w *wanting) {
			if !slices.Contains(w.peers, p) {
				w.peers = append(w.peers, p)
			}
		}); err != nil {
			delete(p.wants, pattern)
			return err
		}
	}
	for _, pattern := range m.Drop {
		if s := p.wants[pattern]; s != nil {
			s.Unsubscribe()
			delete(p.wants, pattern)
		}
	}
	return nil
}

// forget drops the patterns of a node that has left or died.
func (p *bridgePeer) forget() {
	for _, s := range p.wants {
		s.Unsubscribe()
	}
	clear(p.wants)
}

// close ends the agent and, if sayGoodbye is set, tells the others that nothing is wanted any more.
func (d *bridgeAgent) close(ctx *actor.Context[any], sayGoodbye bool) {
	for _, p := range d.sorted() {
		if sayGoodbye {
			p.agent.Tell(ctx, interests{Events: d.events.String(), Whole: true})
		}
	}
	ctx.Stop()
}

// sorted returns the peers in order.
func (d *bridgeAgent) sorted() []*bridgePeer {
	return slices.SortedFunc(maps.Values(d.peers), func(p, q *bridgePeer) int {
		return cmp.Compare(p.agent.String(), q.agent.String())
	})
}

// without returns the elements of list that are not in other. Both must be in order.
func without(list, other []string) (rest []string) {
	for _, s := range list {
		if _, found := slices.BinarySearch(other, s); !found {
			rest = append(rest, s)
		}
	}
	return rest
}

// widen returns at most most patterns, in order, that cover all given ones. If there are too many,
// those with the most tokens in common are replaced by a wider pattern, beginning with the largest
// group.
func widen(patterns []string, most int) []string {
	depth := 0
	for _, p := range patterns {
		depth = max(depth, strings.Count(p, "."))
	}
	for ; len(patterns) > most; depth-- {
		groups := make(map[string]int)
		for _, p := range patterns {
			if wider, ok := widened(p, depth); ok {
				groups[wider]++
			}
		}
		order := slices.SortedFunc(maps.Keys(groups), func(x, y string) int {
			return cmp.Or(cmp.Compare(groups[y], groups[x]), cmp.Compare(x, y))
		})
		replaced, left := make(map[string]bool), len(patterns)
		for _, wider := range order {
			if left <= most || groups[wider] == 1 { // of those after it there is one each as well
				break
			}
			replaced[wider] = true
			left -= groups[wider] - 1
		}
		var next []string
		for _, p := range patterns {
			if wider, ok := widened(p, depth); ok && replaced[wider] {
				p = wider
			}
			next = append(next, p)
		}
		slices.Sort(next)
		patterns = slices.Compact(next)
	}
	return patterns
}

// widened returns the pattern for everything that begins with the first tokens of a pattern, if it
// has more.
func widened(pattern string, tokens int) (wider string, ok bool) {
	at := 0
	for range tokens {
		dot := strings.IndexByte(pattern[at:], '.')
		if dot < 0 {
			return "", false
		}
		at += dot + 1
	}
	return pattern[:at] + ">", true
}
