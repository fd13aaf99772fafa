package actor

import (
	"context"
	"testing"
	"time"
)

// losing is a carrier that loses the node at the moment at which it has found the way.
type losing struct {
	sink
	lost chan struct{} // closed when Lost has returned
}

func (l *losing) Way(to PID) (Way, error) {
	if to.Path() == "/" {
		go func() {
			l.far.Lost(to.Incarnation(), NodeDown{Node: to.Node(), Err: ErrUnreachable})
			close(l.lost)
		}()
		select {
		case <-l.lost:
		case <-time.After(20 * time.Millisecond): // it waits for the node, which it must find
		}
	}
	return &l.sink, nil
}

func TestANodeThatIsLostWhileTheWayIsFoundIsNotKept(t *testing.T) {
	t.Parallel()
	sys := NewSystem("home")
	l := &losing{lost: make(chan struct{})}
	Carry(sys, l)
	t.Cleanup(func() {
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	pid, err := ParsePID("away~1/x#1")
	if err != nil {
		t.Fatal(err)
	}
	n, err := l.far.node(pid)
	if err != nil {
		t.Fatal(err)
	}
	<-l.lost
	l.far.mu.Lock()
	defer l.far.mu.Unlock()
	if len(l.far.nodes) > 0 || n.held != nil {
		t.Error("nobody will end the watches of a node that is kept")
	}
}
