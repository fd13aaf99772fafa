package cluster

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/remote"
)

// A crash can be proved; after silence, the members wait for the lease. When a process ends, its
// kernel closes its connections at once, and refuses further ones. A process that is stopped does
// neither, nor does a host that is cut off. So a member is declared dead at once if its session
// with this one has ended and its address refuses connections, here and at a third member that has
// no open session with it, each twice. That does not depend on clocks: a live member refuses
// nothing, unless something else answers for its address, see [Config.OnlySilence].
//
// A process that was restarted under the name of a member, at its address, accepts connections
// there. If it is on the same machine it can see for itself that the former process no longer
// exists, unless OnlySilence is set.

const (
	proofTick  = 250 * time.Millisecond
	proofDials = 2
	proofPause = 100 * time.Millisecond // between the two attempts
	proofLimit = time.Second            // for both
	proofAgain = 3 * markLimit          // after which a proof without a result is started again
)

// probe asks a node whether the address of a member refuses connections there as well.
type probe struct {
	actor.Returns[bool]
	Name string
	Join uint64
}

// tcpLinks are the connections of package remote.
type tcpLinks struct{ *remote.Node }

// Ended implements links. A process restarted under the same name may be connected by now, which
// must not hide that the former one has crashed.
func (l tcpLinks) Ended() func(node string, incarnation uint32) bool {
	peers := l.Peers() // once for all
	return func(node string, incarnation uint32) bool {
		if l.IsLost(node, incarnation) {
			return true
		}
		i, ok := slices.BinarySearchFunc(peers, node, func(p actor.Peer, node string) int { return strings.Compare(p.Node, node) })
		return ok && peers[i].Incarnation == incarnation && (peers[i].State == "broken" || peers[i].State == "lost")
	}
}

// Refuses implements links.
func (l tcpLinks) Refuses(ctx context.Context, r record, name string) bool {
	if slices.ContainsFunc(l.Peers(), func(p actor.Peer) bool {
		return p.Node == name && p.Incarnation == r.System && p.State == "open"
	}) {
		return false // it lives, whatever answers at its address
	}
	ctx, cancel := context.WithTimeout(ctx, proofLimit)
	defer cancel()
	for i := range proofDials {
		if i > 0 && pause.For(ctx, proofPause) != nil {
			return false
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", r.Addr)
		if err == nil {
			_ = conn.Close()
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return false
		}
	}
	return true
}

// trusts reports whether refused connections count as evidence.
func (k *keeper) trusts() bool { return k.m.links != nil && !k.m.cfg.OnlySilence }

// connect makes sure that there is a connection with a member whose record was just renewed, even
// if there is nothing to send: only the end of a connection is evidence.
func (k *keeper) connect(name string, r record) {
	if k.trusts() && name != k.m.sys.Name() && r.State != stateDead && r.Addr != "" {
		k.m.links.Connect(name, r.System)
	}
}

// prove declares members dead whose processes have ended.
func (k *keeper) prove(ctx *actor.Context[step]) {
	ended := k.m.links.Ended()
	for _, name := range slices.Sorted(maps.Keys(k.sightings)) {
		s := k.sightings[name]
		id, now := identity{name, s.Join}, k.now()
		if s.State == stateDead || name == k.m.sys.Name() || !ended(name, s.System) {
			continue
		}
		if began, ok := k.proving[id]; ok && now-began < proofAgain {
			continue
		}
		k.proving[id] = now
		k.refuses(ctx, name, s.record, func(_ *actor.Context[step], refused bool) {
			if !refused {
				delete(k.proving, id)
				return
			}
			k.callWitness(ctx.Self(), probe{Name: name, Join: s.Join})
		})
	}
}

// refuses determines whether a member refuses connections.
func (k *keeper) refuses(ctx *actor.Context[step], name string, r record, then func(ctx *actor.Context[step], refused bool)) {
	links := k.m.links
	actor.Pipe(ctx, func(ctx context.Context) (bool, error) { return links.Refuses(ctx, r, name), nil }, func(refused bool, err error) step {
		return func(ctx *actor.Context[step], _ *keeper) { then(ctx, refused && err == nil) }
	})
}

// callWitness asks the others whether they see that as well; one is enough.
func (k *keeper) callWitness(self actor.Ref[step], m probe) {
	k.m.tell(func(ctx *actor.Context[any], r *router) {
		others := slices.DeleteFunc(r.others(), func(p peer) bool { return p.node == m.Name })
		waits := len(others)
		end := func(seen bool) {
			self.Tell(context.Background(), func(ctx *actor.Context[step], k *keeper) { k.proved(ctx, m, seen) })
		}
		if waits == 0 {
			end(false)
		}
		for _, p := range others {
			r.ask(ctx, p, m, func(_ *actor.Context[any], _ *router, err error) {
				if waits == 0 { // it is known already
					return
				}
				if waits--; err == nil {
					waits = 0
				}
				if waits == 0 {
					end(err == nil)
				}
			})
		}
	})
}

// witness answers a probe, with nil if connections are refused here as well.
func (k *keeper) witness(ctx *actor.Context[step], m probe, answer func(error)) {
	s := k.sightings[m.Name]
	if s.Join != m.Join || !k.trusts() {
		answer(errNoWitness)
		return
	}
	k.refuses(ctx, m.Name, s.record, func(_ *actor.Context[step], refused bool) {
		if refused {
			answer(nil)
		} else {
			answer(errNoWitness)
		}
	})
}

var errNoWitness = errors.New("the address is not known to refuse connections")

// proved continues with the others' answers.
func (k *keeper) proved(ctx *actor.Context[step], m probe, seen bool) {
	delete(k.proving, identity{m.Name, m.Join})
	if s := k.sightings[m.Name]; seen && !k.declaring && s.Join == m.Join && s.State != stateDead {
		k.pronounce(ctx, m.Name, "its process has ended: its address refuses connections")
	}
}

// pronounce declares a member dead.
func (k *keeper) pronounce(ctx *actor.Context[step], name, why string) {
	s := k.sightings[name]
	k.declaring = true
	dead := s.record
	dead.State = stateDead
	value := dead.encode()
	k.put(ctx, nodePrefix+name, value, s.rev, func(ctx *actor.Context[step], rev Revision, err error) {
		k.declaring = false
		if err == nil {
			k.m.sys.Log().Warn("member is dead", slog.String("member", name), slog.String("reason", why))
			k.saw(ctx, Entry{Key: nodePrefix + name, Value: value, Revision: rev})
			if name == k.m.sys.Name() && !k.joined { // its place is free
				k.renew(ctx)
			}
		} else if errors.Is(err, ErrConflict) { // the watch is late
			s := k.sightings[name]
			s.at = k.now()
			k.sightings[name] = s
		}
	})
}
