package remote

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote/internal/session"
)

// ground is a network that delivers nothing.
type ground struct {
	network
	host *session.Host
}

func (g ground) Host() *session.Host { return g.host }

// mourner remembers whom it has lost.
type mourner struct{ handler }

func (h mourner) Lost(s *session.Session, l *session.Loss) { h.remember(s, l, true) }

// Where each process has a name of its own, nodes that are gone make room for those that come.
func TestNodesThatComeAreKnownAfterManyThatAreGone(t *testing.T) {
	n := &Node{}
	n.past = pastNodes(n)
	host := session.NewHost(session.Config{Node: "a", Incarnation: 1}, mourner{handler{n}})
	n.t = ground{host: host}
	lose := func(name string) {
		s := host.Session(name, time.Time{})
		s.Tell(&session.Message{To: host.Name(name + "~1/x#1"), Type: "t"})
		s.Lose(errors.New("cut"))
		host.Settle(s)
	}
	lose("first")
	host.Session("first", time.Time{}) // is being dialed again
	for i := range maxPast {
		lose(fmt.Sprint("pod-", i))
	}
	lose("last")
	of := func(name string) actor.Peer {
		i, found := slices.BinarySearchFunc(n.Peers(), name, func(p actor.Peer, name string) int { return strings.Compare(p.Node, name) })
		if !found {
			return actor.Peer{}
		}
		return n.Peers()[i]
	}
	if p := of("last"); p.Lost != 1 || p.Sent != 1 || p.Dropped != 1 {
		t.Errorf("one that came late: %+v", p)
	}
	if p := of("first"); p.Lost != 1 || p.State != "dialing" {
		t.Errorf("one that is being dialed: %+v", p)
	}
	if p := of("pod-0"); p.Node != "" {
		t.Errorf("the one that was lost first: %+v", p)
	}
	if known := len(n.Peers()); known != maxPast {
		t.Errorf("%d nodes are known", known)
	}
}
