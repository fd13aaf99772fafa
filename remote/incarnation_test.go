package remote_test

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/remote"
)

// nodeEvents returns what the system says of other nodes.
func nodeEvents(sys *actor.System) <-chan actor.Event {
	events := make(chan actor.Event, 10)
	actor.Subscribe(sys, actor.SpawnFunc(sys, "", func(_ *actor.Context[actor.Event], e actor.Event) error {
		switch e.(type) {
		case actor.NodeUp, actor.NodeDown:
			events <- e
		}
		return nil
	}))
	return events
}

// expectLost says what does not end at once of all that concerns an actor of a lost node.
func expectLost(t *testing.T, sys *actor.System, ref actor.Ref[msg]) {
	t.Helper()
	if err := ref.TryTell(within(t), add{2}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("a tell: %v", err)
	}
	if _, err := actor.Ask(within(t), ref, get{}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("an ask: %v", err)
	}
	if d, err := ref.Wait(within(t)); d.Reason != actor.NoConnection || err != nil {
		t.Errorf("a wait: %+v; %v", d, err)
	}
	linked := actor.Spawn[msg](sys, "", newCounter, actor.Temporary)
	linked.Tell(bg, link{ref.PID()})
	if d, err := linked.Wait(within(t)); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
		t.Errorf("a link: %+v; %v", d, err)
	}
}

// What is lost of what b says to an actor of a is the end, also if b has never reached a.
func TestANodeThatIsLostBeforeItIsReachedStaysLost(t *testing.T) {
	t.Parallel()
	_, b := start(t, "b", remote.Config{Addr: "127.0.0.1:0", Peers: map[string]string{"a": "127.0.0.1:1"}}) // nobody listens there
	_, a := start(t, "a", remote.Config{Peers: map[string]string{"b": b.Addr().String()}, ResumeWithin: time.Second})
	there := actor.Spawn[msg](a.System(), "counter", newCounter)
	actor.Spawn[msg](b.System(), "here", newCounter)
	events := nodeEvents(b.System())
	ref, err := actor.Lookup[msg](b.System(), there.PID())
	if err != nil {
		t.Fatal(err)
	}
	ref.Tell(bg, add{1})
	b.Disconnect("a")
	if down, ok := (<-events).(actor.NodeDown); !ok || down.Dropped != 1 {
		t.Errorf("got %+v", down)
	}
	for b.Peers()[0].State != "lost" {
		runtime.Gosched()
	}
	if _, err := remote.Find[msg](within(t), a, "b", "/here"); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("a node that was given up is spoken to: %v", err)
	}
	expectLost(t, b.System(), ref)
	if n, err := actor.Ask(within(t), there, get{}); n != 0 || err != nil {
		t.Errorf("%d has come after what was lost; %v", n, err)
	}
}

func TestAnEarlierIncarnationIsLostWhenALaterOneIsFound(t *testing.T) {
	t.Parallel()
	gone, addr, appear := earlier(t)
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": addr}})
	events := nodeEvents(b.System())
	ref, err := actor.Lookup[msg](b.System(), gone)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan actor.Down, 1)
	b.System().AfterEnd(gone, func(d actor.Down) { ended <- d })
	linked := actor.Spawn[msg](b.System(), "linked", newCounter, actor.Temporary)
	linked.Tell(bg, link{gone})
	if _, err := actor.Ask(within(t), linked, get{}); err != nil {
		t.Fatalf("the link is a failure before it is known: %v", err)
	}
	a := appear()
	if d := <-ended; d.PID != gone || d.Reason != actor.NoConnection || !errors.Is(d.Err, actor.ErrUnreachable) {
		t.Errorf("a watch: %+v", d)
	}
	if d, err := linked.Wait(within(t)); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
		t.Errorf("a link: %+v; %v", d, err)
	}
	// What has ended is said before what is there, since a NodeDown has no incarnation.
	if down, ok := (<-events).(actor.NodeDown); !ok || down.Node != "a" || down.Dropped != 0 || !errors.Is(down.Err, actor.ErrUnreachable) {
		t.Errorf("got %+v", down)
	}
	if up, ok := (<-events).(actor.NodeUp); !ok || up.Node != "a" || up.Incarnation != a.System().Incarnation() {
		t.Errorf("got %+v", up)
	}
	expectLost(t, b.System(), ref)
	present := find(t, b, "a", "/counter")
	if present == ref || present.PID() == gone {
		t.Errorf("the later one is %v, the earlier one %v", present.PID(), gone)
	}
	present.Tell(bg, add{4})
	if n, err := actor.Ask(within(t), present, get{}); n != 4 || err != nil {
		t.Errorf("the later one: %d, %v", n, err)
	}
	if letters := a.System().DeadLetters(); len(letters) != 0 {
		t.Errorf("what was for the earlier one has come to the later one: %v", letters)
	}
	select {
	case e := <-events:
		t.Errorf("then %+v", e)
	default:
	}
}

// An earlier incarnation to which nothing was said is as lost as any.
func TestAnEarlierIncarnationThatIsOnlyReferredToIsLost(t *testing.T) {
	t.Parallel()
	gone, addr, appear := earlier(t)
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": addr}})
	events := nodeEvents(b.System())
	ref, err := actor.Lookup[msg](b.System(), gone)
	if err != nil {
		t.Fatal(err)
	}
	a := appear()
	if down, ok := (<-events).(actor.NodeDown); !ok || down.Node != "a" || !errors.Is(down.Err, actor.ErrUnreachable) {
		t.Errorf("got %+v", down)
	}
	if up, ok := (<-events).(actor.NodeUp); !ok || up.Incarnation != a.System().Incarnation() {
		t.Errorf("got %+v", up)
	}
	expectLost(t, b.System(), ref)
}

// earlier returns the address of an actor of an earlier process of the node a, and the place at which
// appear starts the later one. Until then somebody listens there who says nothing.
func earlier(t *testing.T) (gone actor.PID, addr string, appear func() *remote.Node) {
	t.Helper()
	old := actor.NewSystem("a")
	gone = actor.Spawn[msg](old, "counter", newCounter).PID()
	if _, err := old.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	reserved, err := (&net.ListenConfig{}).Listen(bg, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr = reserved.Addr().String()
	return gone, addr, func() *remote.Node {
		if err := reserved.Close(); err != nil {
			t.Fatal(err)
		}
		_, a := start(t, "a", remote.Config{Addr: addr})
		actor.Spawn[msg](a.System(), "counter", newCounter)
		return a
	}
}

// What was said before it was known which incarnation lives is for the one that was meant.
func TestWhatWasKeptForAnEarlierIncarnationIsReportedHere(t *testing.T) {
	t.Parallel()
	gone, addr, appear := earlier(t)
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": addr}})
	events := nodeEvents(b.System())
	ref, err := actor.Lookup[msg](b.System(), gone)
	if err != nil {
		t.Fatal(err)
	}
	ref.Tell(bg, add{1})
	ref.Tell(bg, add{2})
	asked := actor.AskFuture(bg, ref, get{}, actor.Within(time.Minute))
	a := appear()
	if _, err := asked.Wait(within(t)); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("the ask: %v", err)
	}
	if down, ok := (<-events).(actor.NodeDown); !ok || down.Dropped != 3 || down.Unknown != 0 {
		t.Errorf("got %+v", down)
	}
	if peer := b.Peers()[0]; peer.Sent != 3 || peer.Dropped != 3 {
		t.Errorf("of %d messages that were sent, %d are dropped", peer.Sent, peer.Dropped)
	}
	letters := b.System().DeadLetters()
	for _, l := range letters {
		if l.To != gone || l.Reason != actor.NoConnection {
			t.Errorf("dead letter %+v", l)
		}
	}
	if len(letters) != 3 {
		t.Errorf("%d dead letters, want 3", len(letters))
	}
	find(t, b, "a", "/counter").Tell(bg, add{3})
	if n, err := actor.Ask(within(t), find(t, b, "a", "/counter"), get{}); n != 3 || err != nil {
		t.Errorf("the later one: %d, %v", n, err)
	}
	if letters := a.System().DeadLetters(); len(letters) != 0 {
		t.Errorf("what was for the earlier one has come to the later one: %v", letters)
	}
}

// Any node may invent references to another one.
func TestSoManyIncarnationsOfANodeCanBeWaitedFor(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(bg, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": silent.Addr().String()}, ResumeWithin: time.Minute})
	lookup := func(n int) error {
		pid, err := actor.ParsePID(fmt.Sprintf("a~%d/x#1", n))
		if err != nil {
			t.Fatal(err)
		}
		_, err = actor.Lookup[msg](b.System(), pid)
		return err
	}
	for n := range 16 {
		if err := lookup(n + 1); err != nil {
			t.Errorf("%d: %v", n, err)
		}
	}
	if err := lookup(17); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("one more: %v", err)
	}
	if err := lookup(16); err != nil {
		t.Errorf("one that is waited for: %v", err)
	}
}

// TestConnectDialsOneIncarnationUntilItIsLost has nodes that send each other nothing.
func TestConnectDialsOneIncarnationUntilItIsLost(t *testing.T) {
	t.Parallel()
	far, there := start(t, "a", remote.Config{Addr: "127.0.0.1:0", Secret: secret})
	sys, here := start(t, "b", remote.Config{Secret: secret})
	inc, events, heard := far.Incarnation(), nodeEvents(sys), nodeEvents(far)
	if here.Connect("a", inc); len(here.Peers()) != 0 {
		t.Fatalf("without an address there is %+v", here.Peers())
	}
	here.Meet("a", there.Addr().String())
	here.Connect("a", inc)
	if up, ok := (<-events).(actor.NodeUp); !ok || up.Incarnation != inc {
		t.Fatalf("got %+v, want that a is up", up)
	}
	for range 2 { // the second time it is lost already
		here.Lose("a", inc)
		here.Connect("a", inc)
	}
	if down, ok := (<-events).(actor.NodeDown); !ok {
		t.Fatalf("got %+v, want that a is lost", down)
	}
	<-heard
	<-heard                         // a has heard both as well
	here.Meet("c", "127.83.1.10:1") // nobody listens there
	here.Connect("c", 7)
	if p := here.Peers(); len(p) != 2 || p[1].State != "dialing" {
		t.Fatalf("there is %+v, want c to be dialed", p)
	}
	here.Lose("c", 7)
	if down, ok := (<-events).(actor.NodeDown); !ok || down.Node != "c" {
		t.Fatalf("got %+v, want that c is lost", down)
	}
	here.Connect("a", inc)
	here.Connect("c", 7)
	for _, p := range here.Peers() {
		if p.State != "lost" {
			t.Errorf("%s is %s, want lost", p.Node, p.State)
		}
	}
}
