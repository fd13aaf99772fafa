package actor

import (
	"context"
	"runtime"
	"sync"
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

// outrun is a carrier that loses the node once it has found the way to an actor.
type outrun struct {
	sink
	lost bool
}

func (o *outrun) Way(to PID) (Way, error) {
	if o.lost {
		return nil, ErrUnreachable
	}
	if to.Path() != "/" {
		o.lost = true
		o.far.Lost(to.Incarnation(), NodeDown{Node: to.Node(), Err: ErrUnreachable})
	}
	return o, nil
}

func (o *outrun) Signal(FarSignal) bool { return !o.lost }

func TestALinkThatArrivesWhileTheNodeIsLostIsNone(t *testing.T) {
	sys := NewSystem("home")
	o := new(outrun)
	Carry(sys, o)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	here := SpawnFunc(sys, "", func(*Context[int], int) error { return nil }).PID()
	o.far.Signal(FarSignal{Kind: FarLink, To: here, From: PID{node: "away", inc: 1, path: "/x", id: 1}})
	if d, err := sys.Detail(context.Background(), here); len(d.Links) != 0 || d.Restarts != 0 || err != nil {
		t.Errorf("links %v, %d restarts, %v", d.Links, d.Restarts, err)
	}
}

func TestAWatchThatArrivesWhileTheNodeIsLostIsForgotten(t *testing.T) {
	s := newSink(t)
	here := SpawnFunc(s.far.sys, "", func(*Context[int], int) error { return nil }).PID()
	c := s.far.sys.local(here)
	for inc := range uint32(50) {
		from := PID{node: "away", inc: inc + 1, path: "/"}
		n, err := s.far.node(from)
		if err != nil {
			t.Fatal(err)
		}
		until := func(met func() bool) {
			for done := false; !done; runtime.Gosched() {
				s.far.mu.Lock()
				done = met()
				s.far.mu.Unlock()
			}
		}
		var both sync.WaitGroup
		c.mu.Lock() // between the books of the node and those of the actor
		both.Go(func() { s.far.Signal(FarSignal{Kind: FarWatch, To: here, From: from}) })
		until(func() bool { return len(n.watches) > 0 })
		both.Go(func() { s.far.Lost(from.inc, NodeDown{Node: "away", Err: ErrUnreachable}) })
		until(func() bool { return n.watches == nil })
		c.mu.Unlock()
		both.Wait()
	}
	if d, err := s.far.sys.Detail(context.Background(), here); d.Watchers != 0 || err != nil {
		t.Errorf("%d watchers of nodes that are lost, %v", d.Watchers, err)
	}
}
