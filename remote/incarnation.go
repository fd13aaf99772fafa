package remote

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
)

// incarnation is one of another node, as the ways to its actors know it.
type incarnation struct {
	lost atomic.Bool // set before actor.Far.Lost is called, for ever
}

// incarnations are those of other nodes to which there are ways. One whose session is lost, or at
// whose place another one is found, is given up for good: the end of each is told to the system once.
type incarnations struct {
	mu    sync.Mutex
	asked map[string]map[uint32]*incarnation // by node, guarded by mu
}

// maxAsked is how many incarnations of a node are asked for before it is known which one lives: any node
// may invent references to another one.
const maxAsked = 16

// ask returns an incarnation to which a session leads, or may lead yet. It fails if that is lost. What
// it returns is given up when the session is lost or is open with another incarnation: both become
// true before giveUp is called, and are looked at with the mutex held.
func (is *incarnations) ask(host *session.Host, s *session.Session, inc uint32) (*incarnation, error) {
	peer := s.Peer()
	is.mu.Lock()
	defer is.mu.Unlock()
	if state, _ := s.State(); state == session.Lost || host.IsLost(peer, inc) {
		return nil, fmt.Errorf("%w: %s is lost", actor.ErrUnreachable, peer)
	}
	if now := s.Incarnation(); now != 0 && now != inc {
		return nil, fmt.Errorf("%w: %s is another incarnation by now", actor.ErrUnreachable, peer)
	}
	of := is.asked[peer]
	if of == nil {
		of = make(map[uint32]*incarnation)
		is.asked[peer] = of
	}
	if of[inc] == nil {
		if len(of) >= maxAsked {
			return nil, fmt.Errorf("%w: at most %d incarnations of %s can be waited for", actor.ErrUnreachable, maxAsked, peer)
		}
		of[inc] = new(incarnation)
	}
	return of[inc], nil
}

// onlyAsked reports whether no other incarnation of a node was asked for.
func (is *incarnations) onlyAsked(peer string, inc uint32) bool {
	is.mu.Lock()
	defer is.mu.Unlock()
	of := is.asked[peer]
	return of[inc] != nil && len(of) == 1
}

// giveUp gives up all incarnations of a node that were asked for, except that which lives: 0 if none
// does. It returns them.
func (is *incarnations) giveUp(host *session.Host, peer string, lives uint32) (lost []uint32) {
	is.mu.Lock()
	defer is.mu.Unlock()
	of := is.asked[peer]
	for _, inc := range slices.Sorted(maps.Keys(of)) {
		if lives != 0 && inc == lives {
			continue
		}
		host.GiveUp(peer, inc)
		of[inc].lost.Store(true)
		delete(of, inc)
		lost = append(lost, inc)
	}
	if len(of) == 0 {
		delete(is.asked, peer)
	}
	return lost
}
