package remote_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/remote"
)

var bg = context.Background()

var errSoldOut = errors.New("sold out")

// msg is the protocol of the actors of these tests.
type msg interface{ msg() }

type (
	add    struct{ N int }
	get    struct{ actor.Returns[int] }
	list   struct{ actor.Returns[[]int] }
	buy    struct{ actor.Returns[int] } // is refused
	mute   struct{ actor.Returns[int] } // has no answer
	broken struct{}                     // fails
	link   struct{ To actor.PID }
	pass   struct {
		To  actor.Ref[msg]
		All []actor.Ref[msg]
	} // is told 1, and each of all 10
	local struct{} // is not registered
)

func (add) msg()    {}
func (get) msg()    {}
func (list) msg()   {}
func (buy) msg()    {}
func (mute) msg()   {}
func (broken) msg() {}
func (link) msg()   {}
func (pass) msg()   {}
func (local) msg()  {}

var types = codec.NewTypes(
	codec.Of[add]("add"), codec.Of[get]("get"), codec.Of[list]("list"), codec.Of[buy]("buy"),
	codec.Of[mute]("mute"), codec.Of[broken]("broken"), codec.Of[link]("link"), codec.Of[pass]("pass"),
	codec.Sentinel("sold_out", errSoldOut),
)

// counter is an actor that adds up, and keeps what it has added.
type counter struct {
	added []int
	ended chan error // of a request that has no answer
}

func newCounter() *counter { return &counter{ended: make(chan error, 1)} }

var errBroken = errors.New("broken")

func (c *counter) Receive(ctx *actor.Context[msg], m msg) error {
	switch m := m.(type) {
	case add:
		c.added = append(c.added, m.N)
	case get:
		sum := 0
		for _, n := range c.added {
			sum += n
		}
		actor.Reply(ctx, m, sum)
	case list:
		actor.Reply(ctx, m, slices.Clone(c.added))
	case buy:
		return actor.Refuse(ctx, errSoldOut)
	case mute:
		<-ctx.Done()
		c.ended <- context.Cause(ctx)
	case broken:
		return errBroken
	case link:
		ctx.Link(m.To)
	case pass:
		m.To.Tell(ctx, add{1})
		for _, to := range m.All {
			to.Tell(ctx, add{10})
		}
	}
	return nil
}

// start returns a system that is a node.
func start(t testing.TB, name string, c remote.Config) (*actor.System, *remote.Node) {
	t.Helper()
	sys := actor.NewSystem(name, actor.WithLogger(slog.New(slog.DiscardHandler)))
	if c.Types == nil {
		c.Types = types
	}
	n, err := remote.Listen(sys, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(bg, 10*time.Second)
		defer cancel()
		if _, err := sys.Shutdown(ctx); err != nil {
			t.Errorf("shut down %s: %v", name, err)
		}
	})
	return sys, n
}

// pair returns two nodes; b knows the address of a.
func pair(t testing.TB, c remote.Config) (a, b *remote.Node) {
	t.Helper()
	c.Addr = "127.0.0.1:0"
	_, a = start(t, "a", c)
	c.Addr, c.Peers = "", map[string]string{"a": a.Addr().String()}
	_, b = start(t, "b", c)
	return a, b
}

// within is the context of what must not take long.
func within(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(bg, 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// find is remote.Find.
func find(t testing.TB, n *remote.Node, node, path string) actor.Ref[msg] {
	t.Helper()
	ref, err := remote.Find[msg](within(t), n, node, path)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestAnActorOfAnotherNodeIsToldAndAskedInOrder(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	ref := find(t, b, "a", "/counter")
	var want []int
	for n := range 1000 {
		ref.Tell(bg, add{n})
		want = append(want, n)
	}
	if got, err := actor.Ask(within(t), ref, list{}); !slices.Equal(got, want) || err != nil {
		t.Errorf("%d of %d have come in order; %v", len(got), len(want), err)
	}
	if sum, err := actor.Ask(within(t), ref, get{}); sum != 999*1000/2 || err != nil {
		t.Errorf("the sum is %d; %v", sum, err)
	}
}

func TestReferencesInMessagesAreThoseOfTheReceiver(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	here := actor.Spawn[msg](b.System(), "here", newCounter)
	there := find(t, b, "a", "/counter")
	there.Tell(bg, pass{here, []actor.Ref[msg]{there, here, there}}) // a's own is a's own there
	for _, c := range []struct {
		ref  actor.Ref[msg]
		want int
	}{{there, 20}, {here, 11}} {
		n := 0
		for n != c.want {
			var err error
			if n, err = actor.Ask(within(t), c.ref, get{}); n > c.want || err != nil {
				t.Fatalf("%v: %d, want %d; %v", c.ref, n, c.want, err)
			}
		}
	}
}

func TestErrorsKeepTheirMeaningBetweenNodes(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	ref := find(t, b, "a", "/counter")
	_, err := actor.Ask(within(t), ref, buy{})
	var far *remote.Error
	if !errors.Is(err, errSoldOut) || !errors.As(err, &far) || far.Node != "a" {
		t.Errorf("a refusal is %v", err)
	}
	if _, err := actor.AskFor[int](within(t), ref, broken{}); err == nil || errors.Is(err, errBroken) || !errors.As(err, &far) {
		t.Errorf("an error without a name is %v", err)
	}
	if _, err := actor.AskFor[string](within(t), ref, get{}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("an answer of another type is %v", err)
	}
	if _, err := actor.AskFor[int](within(t), ref, add{1}); !errors.Is(err, actor.ErrUnhandled) {
		t.Errorf("no answer is %v", err)
	}
	if err := ref.TryTell(bg, local{}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("a type that is not registered: %v", err)
	}
	if _, err := remote.Find[msg](within(t), b, "a", "/nobody"); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("a path without an actor: %v", err)
	}
	if _, err := remote.Find[msg](within(t), b, "c", "/nobody"); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("a node without an address: %v", err)
	}
}

func TestTheHandlerOfAnotherNodeHearsThatItsAskerHasGivenUp(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	c := newCounter()
	actor.Spawn[msg](a.System(), "counter", func() *counter { return c })
	ref := find(t, b, "a", "/counter")
	ctx, cancel := context.WithCancel(bg)
	f := actor.AskFuture(ctx, ref, mute{}, actor.Within(time.Minute))
	for b.Peers()[0].Asks == 0 {
		runtime.Gosched()
	}
	cancel()
	if err := <-c.ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the handler's context ended with %v", err)
	}
	if _, err := f.Wait(within(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("the ask ended with %v", err)
	}
}

func TestAWatchHoldsAcrossNodes(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	ref := find(t, b, "a", "/counter")
	ended := make(chan actor.Down, 1)
	b.System().AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
	ref.Stop()
	if d := <-ended; d.Reason != actor.Stopped || d.PID != ref.PID() {
		t.Errorf("the Down is %+v", d)
	}
	if d, err := ref.Wait(within(t)); d.Reason != actor.NoActor || err != nil {
		t.Errorf("later it is %+v; %v", d, err)
	}
	if _, err := actor.Ask(within(t), ref, get{}); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("an ask of one that has ended: %v", err)
	}
}

func TestANodeSpawnsWhatAnotherOffers(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	remote.Offer[msg](a, "counter", newCounter, actor.Temporary)
	if _, err := remote.Spawn[msg](within(t), b, "a", "tree", "x"); !errors.Is(err, remote.ErrNotOffered) {
		t.Errorf("what is not offered: %v", err)
	}
	ref, err := remote.Spawn[msg](within(t), b, "a", "counter", "mine")
	if err != nil {
		t.Fatal(err)
	}
	if path := ref.PID().Path(); path != "/remote/b/mine" {
		t.Errorf("it is at %s", path)
	}
	if _, err := remote.Spawn[msg](within(t), b, "a", "counter", "mine"); !errors.Is(err, actor.ErrNameTaken) {
		t.Errorf("a second one of its name: %v", err)
	}
	ref.Tell(bg, add{3})
	if n, err := actor.Ask(within(t), ref, get{}); n != 3 || err != nil {
		t.Errorf("it has %d; %v", n, err)
	}
}

func TestANodeSpawnsAgainAfterTheParentOfItsActorsWasStopped(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	remote.Offer[msg](a, "counter", newCounter)
	stop := func(path string) {
		tree, err := a.System().Inspect(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		pid, err := actor.ParsePID(tree.PID)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.System().Stop(pid); err != nil {
			t.Fatal(err)
		}
		if _, err := a.System().Wait(within(t), pid); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/remote/b", "/remote"} {
		if _, err := remote.Spawn[msg](within(t), b, "a", "counter", "mine"); err != nil {
			t.Fatal(err)
		}
		stop(path)
	}
	if _, err := remote.Spawn[msg](within(t), b, "a", "counter", "mine"); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("the first order after the end of all: %v", err)
	}
	if _, err := remote.Spawn[msg](within(t), b, "a", "counter", "mine"); err != nil {
		t.Errorf("the one after it: %v", err)
	}
}

func TestALinkedActorFailsWithTheOneThatItHasSpawnedElsewhere(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	remote.Offer[msg](a, "counter", newCounter, actor.Temporary)
	parent := actor.SpawnFunc(b.System(), "parent", func(ctx *actor.Context[string], _ string) error {
		return actor.Blocking(ctx, func() error {
			ref, err := remote.Spawn[msg](ctx, b, "a", "counter", "", remote.Linked())
			ref.Tell(ctx, broken{})
			return err
		})
	}, actor.Temporary)
	parent.Tell(bg, "go")
	if d, err := parent.Wait(within(t)); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
		t.Errorf("got %+v; %v", d, err)
	}
}

func TestANodeThatLeavesIsLost(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	ref := find(t, b, "a", "/counter")
	downs := make(chan actor.NodeDown, 1)
	actor.Subscribe(b.System(), actor.SpawnFunc(b.System(), "", func(_ *actor.Context[actor.NodeDown], d actor.NodeDown) error {
		downs <- d
		return nil
	}))
	ended := make(chan actor.Down, 1)
	b.System().AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
	ref.Tell(bg, add{1})
	if _, err := actor.Ask(within(t), ref, get{}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.System().Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	if d := <-ended; d.Reason != actor.Stopped {
		t.Errorf("the actor ended before its node: %+v", d)
	}
	if d := <-downs; d.Node != "a" || d.Dropped != 0 {
		t.Errorf("got %+v", d)
	}
	if err := ref.TryTell(bg, add{1}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("a tell: %v", err)
	}
	if _, err := actor.Ask(within(t), ref, get{}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("an ask: %v", err)
	}
}

func TestANodeThatIsGivenUpEndsWhatWasUnderWay(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	c := newCounter()
	there := actor.Spawn[msg](a.System(), "counter", func() *counter { return c })
	ref := find(t, b, "a", "/counter")
	f := actor.AskFuture(bg, ref, mute{}, actor.Within(time.Minute))
	here := actor.Spawn[msg](b.System(), "here", newCounter, actor.Temporary)
	here.Tell(bg, link{there.PID()})
	ended := make(chan actor.Down, 1)
	b.System().AfterEnd(ref.PID(), func(d actor.Down) { ended <- d })
	for b.Peers()[0].Unconfirmed > 0 {
		runtime.Gosched()
	}
	b.Disconnect("a")
	if _, err := f.Wait(within(t)); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("the ask ended with %v", err)
	}
	if d := <-ended; d.Reason != actor.NoConnection {
		t.Errorf("the watch ended with %+v", d)
	}
	if d, err := here.Wait(within(t)); d.Reason != actor.Failed && d.Reason != actor.NoActor || err != nil {
		t.Errorf("the link: %+v; %v", d, err)
	}
	if err := <-c.ended; err == nil {
		t.Error("the handler's context ended with no cause")
	}
	if p := b.Peers()[0]; p.State != "lost" || p.Lost != 1 || p.Sent != 1 || p.Unconfirmed != 0 {
		t.Errorf("the peer is %+v", p)
	}
	if p := a.System().Peers(); len(p) != 1 || p[0].Node != "b" {
		t.Errorf("the other one's peers: %+v", p)
	}
}

// TestANodeThatIsGivenUpHearsOfIt has one that cannot dial, and so does not ask.
func TestANodeThatIsGivenUpHearsOfIt(t *testing.T) {
	t.Parallel()
	for range 20 {
		a, b := pair(t, remote.Config{ResumeWithin: time.Hour})
		actor.Spawn[msg](a.System(), "counter", newCounter)
		ref := find(t, b, "a", "/counter")
		for range 100 {
			ref.Tell(bg, add{1})
		}
		b.Disconnect("a")
		ctx := within(t)
		for a.System().Peers()[0].State != "lost" {
			if runtime.Gosched(); ctx.Err() != nil {
				t.Fatalf("the other one's peer is %+v", a.System().Peers()[0])
			}
		}
	}
}

func TestWhatANodeDoesNotKnowIsADeadLetterThere(t *testing.T) {
	t.Parallel()
	_, a := start(t, "a", remote.Config{Addr: "127.0.0.1:0", Types: codec.NewTypes(codec.Of[get]("get"))})
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": a.Addr().String()}})
	actor.Spawn[msg](a.System(), "counter", newCounter)
	ref := find(t, b, "a", "/counter")
	ref.Tell(bg, add{1})
	if _, err := actor.AskFor[int](within(t), ref, add{1}); !errors.Is(err, actor.ErrNotAccepted) {
		t.Errorf("an ask: %v", err)
	}
	if n, err := actor.Ask(within(t), ref, get{}); n != 0 || err != nil {
		t.Errorf("the connection has suffered: %d, %v", n, err)
	}
	letters := a.System().DeadLetters()
	if len(letters) != 2 || letters[0].Reason != actor.NotAccepted || letters[0].Type != "add" || letters[0].To.Path() != "/counter" {
		t.Errorf("dead letters: %+v", letters)
	}
}

// TestAHandlerThatAKillLeftBehindKeepsTheAddress shuts a system down in whose name something still runs, though all
// of its actors have ended: others must not take it for a process that has ended.
func TestAHandlerThatAKillLeftBehindKeepsTheAddress(t *testing.T) {
	t.Parallel()
	sys := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	n, err := remote.Listen(sys, remote.Config{Addr: "127.83.1.9:0", Types: types, Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	busy := actor.SpawnFunc(sys, "busy", func(*actor.Context[msg], msg) error {
		close(begun)
		<-goOn
		return nil
	})
	ended := make(chan actor.Down, 1)
	sys.AfterEnd(busy.PID(), func(d actor.Down) { ended <- d })
	busy.Tell(bg, get{})
	<-begun
	busy.Kill()
	<-ended
	soon, cancel := context.WithTimeout(bg, 200*time.Millisecond)
	defer cancel()
	if _, err := sys.Shutdown(soon); err == nil {
		t.Fatal("the handler still runs, and nothing is said")
	}
	conn, err := net.Dial("tcp", n.Addr().String())
	if err != nil {
		t.Fatalf("the handler still runs, and: %v", err)
	}
	_ = conn.Close()
	release()
	if _, err := sys.Shutdown(within(t)); err != nil {
		t.Error(err)
	}
	for err == nil { // now it refuses
		if conn, err = net.Dial("tcp", n.Addr().String()); err == nil {
			_ = conn.Close()
		}
	}
}

func TestASystemIsOneNodeAndASecondKeepsNoAddress(t *testing.T) {
	t.Parallel()
	sys, n := start(t, "a", remote.Config{Addr: "127.0.0.1:0"})
	free, err := (&net.ListenConfig{}).Listen(bg, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	if _, err := remote.Listen(sys, remote.Config{Addr: addr}); !errors.Is(err, remote.ErrHasNode) {
		t.Errorf("a second node: %v", err)
	}
	again, err := (&net.ListenConfig{}).Listen(bg, "tcp", addr)
	if err != nil {
		t.Fatalf("the second node listens yet: %v", err)
	}
	_ = again.Close()
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": n.Addr().String()}})
	if _, err := remote.Find[msg](within(t), b, "a", "/nobody"); !errors.Is(err, actor.ErrStopped) {
		t.Errorf("the first node: %v", err)
	}
}

// slowError is an error whose text takes what text takes.
type slowError struct{ text func() string }

func (e slowError) Error() string { return e.text() }

// An actor's failure is the user's code. It runs while nothing is held that others need.
func TestTheErrorOfALinkedActorHoldsUpNobody(t *testing.T) {
	t.Parallel()
	a, b := pair(t, remote.Config{})
	there := actor.Spawn[msg](a.System(), "counter", newCounter, actor.Temporary).PID()
	other := actor.Spawn[msg](b.System(), "other", newCounter, actor.Temporary)
	blocked := make(chan error, 100)
	failing := actor.SpawnFunc(b.System(), "failing", func(ctx *actor.Context[msg], m msg) error {
		if m, ok := m.(link); ok {
			ctx.Link(m.To)
			return nil
		}
		return slowError{func() string {
			within, cancel := context.WithTimeout(bg, 3*time.Second)
			defer cancel()
			other.Tell(bg, link{there})
			_, err := actor.Ask(within, other, get{})
			if errors.Is(err, actor.ErrStopped) { // the failure has come to it by way of the other node
				err = nil
			}
			blocked <- err
			return "failed"
		}}
	}, actor.Temporary)
	find(t, b, "a", "/counter")
	failing.Tell(bg, link{there})
	failing.Tell(bg, add{1})
	if d, err := a.System().Wait(within(t), there); d.Reason == 0 || err != nil {
		t.Errorf("the actor there: %+v; %v", d, err)
	}
	for range len(blocked) {
		if err := <-blocked; err != nil {
			t.Errorf("while the error says its text: %v", err)
		}
	}
}

// packet is a message that encodes itself.
type packet struct{ data [99]byte }

func (*packet) msg() {}

// AppendBinary implements encoding.BinaryAppender.
func (p *packet) AppendBinary(dst []byte) ([]byte, error) { return append(dst, p.data[:]...), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (p *packet) UnmarshalBinary(data []byte) error {
	copy(p.data[:], data)
	return nil
}

func TestATellToAnotherNodeOfAPointerAllocatesNothing(t *testing.T) {
	elsewhere := actor.NewSystem("a", actor.WithLogger(slog.New(slog.DiscardHandler)))
	pid := actor.Spawn[msg](elsewhere, "counter", newCounter).PID()
	if _, err := elsewhere.Shutdown(within(t)); err != nil {
		t.Fatal(err)
	}
	_, b := start(t, "b", remote.Config{Peers: map[string]string{"a": "127.0.0.1:1"}, Types: codec.NewTypes(codec.Of[*packet]("packet"))})
	t.Cleanup(func() { b.Disconnect("a") })
	ref, err := actor.Lookup[msg](b.System(), pid)
	if err != nil {
		t.Fatal(err)
	}
	m := new(packet)
	if n := testing.AllocsPerRun(10_000, func() { ref.Tell(bg, m) }); n > 0 { // the session keeps them: a chunk has hundreds
		t.Errorf("%v allocations", n)
	}
}

func TestNodesMeetAndLoseEachOtherByWord(t *testing.T) {
	a, na := start(t, "a", remote.Config{Addr: "127.0.0.1:0"})
	b, nb := start(t, "b", remote.Config{})
	actor.Spawn(a, "counter", newCounter)
	if _, err := remote.Find[msg](bg, nb, "a", "/counter"); !errors.Is(err, actor.ErrUnreachable) {
		t.Fatalf("before they have met: %v", err)
	}
	nb.Meet("a", na.Addr().String())
	ref, err := remote.Find[msg](within(t), nb, "a", "/counter")
	if err != nil {
		t.Fatal(err)
	}
	nb.Lose("a", a.Incarnation()+1) // another one
	if _, err := actor.Ask(within(t), ref, get{}); err != nil {
		t.Fatalf("after another incarnation was lost: %v", err)
	}
	nb.Lose("a", a.Incarnation())
	if _, err := actor.Ask(within(t), ref, get{}); !errors.Is(err, actor.ErrUnreachable) {
		t.Errorf("after it was lost: %v", err)
	}
	_ = b
}
