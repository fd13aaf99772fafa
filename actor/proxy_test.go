package actor

import (
	"context"
	"encoding/binary"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

// sink is a carrier that takes all and brings it nowhere.
type sink struct{ far *Far }

func (s *sink) Attach(far *Far)             { s.far = far }
func (s *sink) Peers() []Peer               { return []Peer{{Node: "away"}} }
func (s *sink) Way(PID) (Way, error)        { return s, nil }
func (s *sink) Close(context.Context) error { return nil }

func (s *sink) Encoder(m reflect.Type) any {
	if m != reflect.TypeFor[int]() {
		return nil
	}
	return func(dst []byte, m int) ([]byte, error) { return binary.AppendVarint(dst, int64(m)), nil }
}

func (s *sink) Send(FarSender, FarMessage) FarVerdict { return FarTaken }
func (s *sink) Room() <-chan struct{}                 { return nil }
func (s *sink) Failure(err error) error               { return err }
func (s *sink) Signal(FarSignal) bool                 { return true }

func newSink(t *testing.T) *sink {
	sys := NewSystem("home")
	s := new(sink)
	Carry(sys, s)
	t.Cleanup(func() {
		if _, err := sys.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

func lookFar[M any](t *testing.T, s *sink, text string) Ref[M] {
	t.Helper()
	pid, err := ParsePID(text)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := Lookup[M](s.far.sys, pid)
	if err != nil {
		t.Fatal(err)
	}
	return ref
}

func TestATellToAnotherSystemAllocatesNothing(t *testing.T) {
	s := newSink(t)
	plain, boxed := lookFar[int](t, s, "away~1/x#1"), lookFar[any](t, s, "away~1/x#1")
	ctx, msg := context.Background(), any(1000)
	if peers := s.far.sys.Peers(); len(peers) != 1 {
		t.Errorf("peers %v", peers)
	}
	if n := testing.AllocsPerRun(100, func() { plain.Tell(ctx, 1000) }); n > 0 {
		t.Errorf("a registered type: %v allocations", n)
	}
	boxed.Tell(ctx, msg)
	if n := testing.AllocsPerRun(100, func() { boxed.Tell(ctx, msg) }); n > 0 {
		t.Errorf("an interface: %v allocations", n)
	}
}

func TestAProxyIsSmallAndForgottenWithItsLastReference(t *testing.T) {
	if n := unsafe.Sizeof(proxy{}); n > 160 {
		t.Errorf("a proxy has %d bytes", n)
	}
	s := newSink(t)
	watcher := SpawnFunc(s.far.sys, "watcher", func(ctx *Context[int], n int) error {
		pid, err := ParsePID("away~1/watched#3")
		if n == 0 {
			ctx.Watch(pid, func(Down) int { return 0 })
		} else {
			ctx.Unwatch(pid)
		}
		return err
	})
	kept := lookFar[int](t, s, "away~1/kept#1")
	lookFar[int](t, s, "away~1/dropped#2")
	watcher.Tell(context.Background(), 0)
	s.proxies(t, 2)
	watcher.Tell(context.Background(), 1)
	s.proxies(t, 1)
	runtime.KeepAlive(kept)
}

// proxies waits until there are n proxies.
func (s *sink) proxies(t *testing.T, n int) {
	t.Helper()
	var got int
	for range 1000 {
		runtime.GC()
		s.far.mu.Lock()
		got = len(s.far.proxies)
		s.far.mu.Unlock()
		if got == n {
			return
		}
	}
	t.Errorf("there are %d proxies, want %d", got, n)
}

// said keeps the last signal.
type said struct {
	sink
	signals []FarSignal
}

func (s *said) Way(PID) (Way, error)         { return s, nil }
func (s *said) Signal(signal FarSignal) bool { s.signals = append(s.signals, signal); return true }

func TestANodeMayHaveSoManyWatchesAndLinksHere(t *testing.T) {
	sys := NewSystem("home")
	s := new(said)
	Carry(sys, s)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	s.far.maxWatches, s.far.maxLinks = 2, 2
	from := func(n int) PID { return PID{node: "away", inc: 1, path: "/x", id: uint64(n)} }
	var all []PID
	for n := range 3 {
		to := SpawnFunc(sys, "", func(*Context[int], int) error { return nil }).PID()
		all = append(all, to)
		s.far.Signal(FarSignal{Kind: FarWatch, To: to, From: PID{node: "away", inc: 1, path: "/"}})
		s.far.Signal(FarSignal{Kind: FarLink, To: to, From: from(n)})
	}
	if len(s.signals) != 2 {
		t.Fatalf("said %+v, want two refusals", s.signals)
	}
	for i, kind := range []FarSignalKind{FarDown, FarExit} {
		if got := s.signals[i]; got.Kind != kind || got.Reason != NotAccepted || !errors.Is(got.Err, ErrNotAccepted) {
			t.Errorf("said %+v", got)
		}
	}
	s.far.Signal(FarSignal{Kind: FarUnlink, To: all[0], From: from(9)}) // was not linked
	s.far.Signal(FarSignal{Kind: FarLink, To: all[2], From: from(2)})
	if got := s.signals[len(s.signals)-1]; got.Kind != FarExit {
		t.Errorf("there is room after the end of no link: %+v", got)
	}
	s.far.Signal(FarSignal{Kind: FarUnlink, To: all[0], From: from(0)})
	s.signals = nil
	s.far.Signal(FarSignal{Kind: FarLink, To: all[2], From: from(2)})
	if len(s.signals) != 0 {
		t.Errorf("refused with room: %+v", s.signals)
	}
}

func TestLinksWhoseEndIsNotConfirmedCount(t *testing.T) {
	sys := NewSystem("home")
	s := new(said)
	Carry(sys, s)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	s.far.maxLinks = 2
	to := SpawnFunc(sys, "", func(*Context[int], int) error { return nil }).PID()
	from := func(n int) PID { return PID{node: "away", inc: 1, path: "/x", id: uint64(n)} }
	for n := range 2 {
		s.far.Signal(FarSignal{Kind: FarLink, To: to, From: from(n)})
		s.far.proxy(from(n)).unlinkFrom(sys.local(to))
	}
	s.signals = nil
	s.far.Signal(FarSignal{Kind: FarLink, To: to, From: from(2)})
	if len(s.signals) != 1 || s.signals[0].Kind != FarExit || s.signals[0].Reason != NotAccepted {
		t.Errorf("said %+v, want a refusal", s.signals)
	}
	s.signals = nil
	s.far.Signal(FarSignal{Kind: FarUnlinked, To: to, From: from(0)})
	s.far.Signal(FarSignal{Kind: FarLink, To: to, From: from(2)})
	if len(s.signals) != 0 {
		t.Errorf("refused with room: %+v", s.signals)
	}
}

// A confirmed unlink is over, also when nobody refers to the other actor any more.
func TestAnUnlinkIsConfirmedWithoutTheProxy(t *testing.T) {
	s := newSink(t)
	there := PID{node: "away", inc: 1, path: "/x", id: 7}
	unlinked := make(chan struct{})
	here := SpawnFunc(s.far.sys, "here", func(ctx *Context[int], n int) error {
		if n == 0 {
			ctx.Link(there)
		} else {
			ctx.Unlink(there)
			close(unlinked)
		}
		return nil
	})
	here.Tell(context.Background(), 0)
	here.Tell(context.Background(), 1)
	<-unlinked // there was no proxy before the link, either
	s.proxies(t, 0)
	s.far.Signal(FarSignal{Kind: FarUnlinked, To: here.PID(), From: there})
	s.far.Signal(FarSignal{Kind: FarLink, To: here.PID(), From: there})
	if d, err := s.far.sys.Detail(context.Background(), here.PID()); len(d.Links) != 1 || err != nil {
		t.Errorf("links %v, %v: a link after a confirmed unlink is passed over", d.Links, err)
	}
}

func TestALinkWithAnActorThatHasEndedDoesNotCount(t *testing.T) {
	s := newSink(t)
	ref := SpawnFunc(s.far.sys, "", func(*Context[int], int) error { return nil })
	c := s.far.sys.local(ref.PID())
	ref.Stop()
	if _, err := ref.Wait(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := s.far.proxy(PID{node: "away", inc: 1, path: "/x", id: 1})
	if why, err := p.linkedBy(c); why != NoActor || err != nil {
		t.Errorf("linked: %v, %v", why, err)
	}
	if n := p.node(); n.links != 0 || n.linkBytes != 0 || len(n.held) != 0 {
		t.Errorf("%d links of %d bytes, and %d proxies are held", n.links, n.linkBytes, len(n.held))
	}
}

// severed is a carrier whose node is lost.
type severed struct{ said }

func (s *severed) Way(PID) (Way, error) { return nil, ErrUnreachable }

// What comes of a node while its session is being lost links nobody: the loss would not end it.
func TestALinkThatArrivesFromALostNodeIsNone(t *testing.T) {
	sys := NewSystem("home")
	s := new(severed)
	Carry(sys, s)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	here := SpawnFunc(sys, "", func(*Context[int], int) error { return nil }).PID()
	s.far.Signal(FarSignal{Kind: FarLink, To: here, From: PID{node: "away", inc: 1, path: "/x", id: 1}})
	if d, err := sys.Detail(context.Background(), here); len(d.Links) != 0 || err != nil {
		t.Errorf("links %v, %v", d.Links, err)
	}
}

// The paths that a node may link with are bounded by their bytes, too.
func TestLinksWithLongPathsAreBoundedByTheirBytes(t *testing.T) {
	s := newSink(t)
	long := strings.Repeat("x", maxFarLinkBytes/4)
	from := func(n int) *proxy { return s.far.proxy(PID{node: "away", inc: 1, path: "/" + long, id: uint64(n)}) }
	here := SpawnFunc(s.far.sys, "", func(*Context[int], int) error { return nil })
	c := s.far.sys.local(here.PID())
	for n := range 3 {
		if why, err := from(n).linkedBy(c); why != 0 {
			t.Fatalf("link %d: %v, %v", n, why, err)
		}
	}
	if why, err := from(3).linkedBy(c); why != NotAccepted || !errors.Is(err, ErrNotAccepted) {
		t.Errorf("one byte too much: %v, %v", why, err)
	}
	from(0).unlinkedBy(c, here.PID())
	if why, err := from(3).linkedBy(c); why != 0 {
		t.Errorf("with room: %v, %v", why, err)
	}
}

// breaking is a carrier that loses the node while it is told of a link.
type breaking struct{ said }

func (b *breaking) Way(PID) (Way, error) { return b, nil }
func (b *breaking) Signal(FarSignal) bool {
	b.far.Lost(1, NodeDown{Node: "away", Err: ErrUnreachable})
	return false
}

func TestALinkThatMeetsTheLossOfTheNodeFailsOnce(t *testing.T) {
	sys := NewSystem("home")
	b := new(breaking)
	Carry(sys, b)
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	handled := make(chan int, 2)
	here := SpawnFunc(sys, "", func(ctx *Context[int], n int) error {
		if n == 0 {
			ctx.Link(PID{node: "away", inc: 1, path: "/x", id: 1})
		}
		handled <- n
		return nil
	})
	here.Tell(context.Background(), 0)
	here.Tell(context.Background(), 1)
	<-handled
	<-handled
	if d, err := sys.Detail(context.Background(), here.PID()); d.Restarts != 1 || len(d.Links) != 0 || err != nil {
		t.Errorf("%d restarts, links %v, %v; want one restart", d.Restarts, d.Links, err)
	}
}
