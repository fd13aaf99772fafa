package remote

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
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

func (h mourner) Lost(s *session.Session, l *session.Loss) {
	h.remember(s, l, true)
	h.countLoss(s.Peer())
}

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

// What Peers counts as lost is what the events say: a session that ends before anybody waits for an
// incarnation is no loss.
func TestALossIsCountedWithItsEvent(t *testing.T) {
	t.Parallel()
	sys := actor.NewSystem("b", actor.WithLogger(slog.New(slog.DiscardHandler)))
	n, err := Listen(sys, Config{Peers: map[string]string{"a": "127.0.0.1:1"}}) // nobody listens there
	if err != nil {
		t.Fatal(err)
	}
	var events atomic.Uint64
	told := make(chan struct{}, 4)
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[actor.Event], e actor.Event) error {
		if _, ok := e.(actor.NodeDown); ok {
			events.Add(1)
			told <- struct{}{}
		}
		return nil
	}))
	disconnect := func() { // and wait until the session is no more
		n.Disconnect("a")
		for len(n.t.Host().Sessions()) > 0 {
			runtime.Gosched()
		}
	}
	n.session("a")
	disconnect()
	for inc := range uint32(2) {
		n.Connect("a", inc+1)
		disconnect()
		<-told
		if p := n.Peers()[0]; p.Lost != events.Load() || p.State != "lost" {
			t.Errorf("%+v after %d events", p, events.Load())
		}
	}
	if _, err := sys.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
