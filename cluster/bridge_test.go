package cluster_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/cluster"
	"github.com/greenroom-go/greenroom/cluster/memory"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/eventbus"
	"github.com/greenroom-go/greenroom/remote"
)

// reading is an event that all nodes know, news one that some do, and gossip one that none does.
type (
	reading struct{ N int }
	news    struct{ Text string }
	gossip  struct{ Text string }
)

// hub is a node with a bus.
type hub struct {
	*cluster.Node
	bus    *eventbus.Bus
	bridge *cluster.Bridged
	dead   *deadLetters
}

// deadLetters are those of a system.
type deadLetters struct {
	mu   sync.Mutex
	list []actor.DeadLetter
}

func (d *deadLetters) Receive(_ *actor.Context[actor.Event], e actor.Event) error {
	if letter, ok := e.(actor.DeadLetter); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.list = append(d.list, letter)
	}
	return nil
}

func (d *deadLetters) has(text string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.ContainsFunc(d.list, func(l actor.DeadLetter) bool { return strings.Contains(fmt.Sprint(l.Message), text) })
}

// newHub starts a node, connected by TCP, whose bridge has the topics that begin with "a".
func newHub(t testing.TB, engine cluster.Engine, name string, types ...codec.Registration) *hub {
	t.Helper()
	sys := actor.NewSystem(name, actor.WithLogger(slog.New(slog.DiscardHandler)))
	t.Cleanup(func() { _, _ = sys.Shutdown(context.Background()) })
	h := &hub{bus: eventbus.New(sys, eventbus.Retain("a.kept")), dead: new(deadLetters)}
	actor.Subscribe(sys, actor.Spawn(sys, "dead", func() *deadLetters { return h.dead }))
	types = append(types, codec.Of[reading]("reading"))
	var err error
	if h.Node, err = cluster.Join(sys, cluster.Config{Engine: engine, Remote: &remote.Config{
		Addr: "127.0.0.1:0", Secret: "only for these tests", Types: codec.NewTypes(types...),
	}}); err != nil {
		t.Fatal(err)
	}
	if h.bridge, err = cluster.Bridge(h.Node, "one", h.bus, "a.>"); err != nil {
		t.Fatal(err)
	}
	return h
}

// ear notes what a subscription gets.
type ear struct {
	*eventbus.Subscription
	mu  sync.Mutex
	got []string
}

func listenAt[Ev any](t testing.TB, bus *eventbus.Bus, pattern string) *ear {
	t.Helper()
	e, err := new(ear), error(nil)
	e.Subscription, err = eventbus.SubscribeFunc(bus, pattern, func(_ context.Context, topic string, ev Ev) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.got = append(e.got, fmt.Sprint(topic, ev))
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (e *ear) list() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (e *ear) has(n int) func() bool { return func() bool { return len(e.list()) >= n } }

func publishAt(t testing.TB, h *hub, topic string, event any) {
	t.Helper()
	if err := eventbus.Publish(t.Context(), h.bus, topic, event); err != nil {
		t.Fatal(err)
	}
}

// wanted waits until a node knows who wants a topic.
func wanted(t *testing.T, h *hub, topic string, names ...string) {
	t.Helper()
	holdsSoon(t, fmt.Sprintf("%s knows that %v want %s", h.Name(), names, topic), func() bool { return slices.Equal(h.bridge.Wanting(topic), names) })
}

func TestBridgeBringsEventsOnceAndInOrder(t *testing.T) {
	t.Parallel()
	const n = 500
	engine := new(memory.Engine)
	a, b, c := newHub(t, engine, "a"), newHub(t, engine, "b"), newHub(t, engine, "c")
	here := listenAt[reading](t, a.bus, "a.>")
	there := []*ear{listenAt[reading](t, b.bus, "a.*"), listenAt[reading](t, b.bus, ">"), listenAt[reading](t, b.bus, "a.x")}
	wanted(t, a, "a.x", "b")
	wanted(t, b, "a.x", "a")
	wanted(t, c, "a.x", "a", "b")
	publishAt(t, a, "b.x", reading{-1}) // no topic of the bridge
	var want []string
	for i := range n {
		topic := []string{"a.x", "a.y"}[i%2]
		publishAt(t, a, topic, reading{i})
		want = append(want, fmt.Sprint(topic, reading{i}))
	}
	holdsSoon(t, "b has all", there[1].has(n))
	for i, e := range []*ear{here, there[0], there[1]} {
		if got := e.list(); !slices.Equal(got, want) {
			t.Errorf("subscription %d has got %d: %q", i, len(got), got)
		}
	}
	if got := there[2].list(); len(got) != n/2 {
		t.Errorf("that to a.x has got %d: %q", len(got), got)
	}
	// One that is here and there is told each, and none came back.
	later := listenAt[reading](t, c.bus, "a.>")
	wanted(t, a, "a.late", "b", "c")
	publishAt(t, a, "a.late", reading{n})
	holdsSoon(t, "c has the last one", later.has(1))
	holdsSoon(t, "b has the last one", there[1].has(n+1))
	if err := eventbus.PublishAll(t.Context(), c.bus, "a.x.*", reading{1}); err != nil {
		t.Fatal(err)
	}
	holdsSoon(t, "a has that to several topics", here.has(n+2))
	holdsSoon(t, "b has that to several topics", there[1].has(n+2))
	for _, want := range []struct {
		of             *hub
		sent, received uint64
	}{{a, n + 2, 1}, {b, 0, n + 2}, {c, 2, 1}} {
		if s := want.of.bridge.Stats(); s.Sent != want.sent || s.Received != want.received || s.Refused+s.Unreadable > 0 {
			t.Errorf("%s: %+v, want %+v", want.of.Name(), s, want)
		}
	}
	if got := later.list(); !slices.Equal(got, []string{"a.late{500}", "a.x.*{1}"}) {
		t.Errorf("c has got %q", got)
	}
	// Who does not want it any more, and who has left, is sent nothing.
	later.Unsubscribe()
	wanted(t, a, "a.late", "b")
	if err := b.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	wanted(t, a, "a.late")
	publishAt(t, a, "a.late", reading{n + 1})
	publishAt(t, b, "a.late", reading{n + 2})
	if s := a.bridge.Stats(); s.Sent != n+2 || b.bridge.Stats().Sent > 0 {
		t.Errorf("%+v, and %+v of one that has left", s, b.bridge.Stats())
	}
}

func TestBridgeNamesTheTypeThatIsNotRegistered(t *testing.T) {
	t.Parallel()
	engine := new(memory.Engine)
	a, b := newHub(t, engine, "a", codec.Of[news]("news")), newHub(t, engine, "b")
	here, there := listenAt[any](t, a.bus, "a.>"), listenAt[any](t, b.bus, "a.>")
	for range 2 { // whether or not another node wants it
		err := eventbus.Publish(t.Context(), a.bus, "a.x", gossip{"?"})
		if !errors.Is(err, codec.ErrUnknownType) || !strings.Contains(err.Error(), "cluster_test.gossip") || !strings.Contains(err.Error(), "a.x") {
			t.Errorf("got %v", err)
		}
		wanted(t, a, "a.x", "b")
	}
	publishAt(t, a, "a.x", news{"!"})
	publishAt(t, a, "a.x", reading{1})
	holdsSoon(t, "b has what it knows", there.has(1))
	if got := there.list(); !slices.Equal(got, []string{"a.x{1}"}) || len(here.list()) != 4 {
		t.Errorf("b has got %q, and a %q", got, here.list())
	}
	if s, r := a.bridge.Stats(), b.bridge.Stats(); s.Refused != 2 || s.Sent != 2 || r.Unreadable != 1 || r.Received != 1 {
		t.Errorf("%+v, %+v", s, r)
	}
	// What is too large for a session is a dead letter, and says what it was.
	huge := news{strings.Repeat("x", 5<<20)}
	publishAt(t, a, "a.huge", huge)
	holdsSoon(t, "it is a dead letter", func() bool { return a.dead.has("event a.huge of type news") })
}

func TestBridgeRetainsNothingOfOthers(t *testing.T) {
	t.Parallel()
	engine := new(memory.Engine)
	a, b := newHub(t, engine, "a"), newHub(t, engine, "b")
	first := listenAt[reading](t, b.bus, "a.>")
	wanted(t, a, "a.kept", "b")
	publishAt(t, a, "a.kept", reading{1})
	holdsSoon(t, "b has it", first.has(1))
	second := listenAt[reading](t, b.bus, "a.kept")
	if last, ok := eventbus.Last[reading](b.bus, "a.kept"); ok || len(second.list()) > 0 {
		t.Errorf("b retains %v, and a later subscription has got %q", last, second.list())
	}
	if last, ok := eventbus.Last[reading](a.bus, "a.kept"); !ok || last.N != 1 {
		t.Errorf("a retains %v %v", last, ok)
	}
	publishAt(t, a, "a.kept", reading{2})
	holdsSoon(t, "b has the next one", first.has(2))
	if got := second.list(); !slices.Equal(got, []string{"a.kept{2}"}) {
		t.Errorf("got %q", got)
	}
}

func TestBridgesOfSeveralBusesHaveNames(t *testing.T) {
	t.Parallel()
	engine := new(memory.Engine)
	a, b := newHub(t, engine, "a"), newHub(t, engine, "b")
	if _, err := cluster.Bridge(a.Node, "other", a.bus, "*.x"); err == nil || !strings.Contains(err.Error(), `"*.x"`) {
		t.Errorf("two bridges of a bus with the same topics: %v", err)
	}
	if _, err := cluster.Bridge(a.Node, "one", eventbus.New(a.System()), "a.>"); !errors.Is(err, actor.ErrNameTaken) {
		t.Errorf("two bridges of the same name: %v", err)
	}
	if _, err := cluster.Bridge(a.Node, "bad", a.bus, "b..c"); !errors.Is(err, eventbus.ErrTopic) {
		t.Errorf("a bad pattern: %v", err)
	}
	two := make(map[*hub]*hub)
	for _, h := range []*hub{a, b} {
		bus := eventbus.New(h.System())
		bridge, err := cluster.Bridge(h.Node, "two", bus, "a.>", "z")
		if err != nil {
			t.Fatal(err)
		}
		two[h] = &hub{Node: h.Node, bus: bus, bridge: bridge}
	}
	one, other := listenAt[reading](t, b.bus, "a.>"), listenAt[reading](t, two[b].bus, ">")
	wanted(t, a, "a.x", "b")
	wanted(t, two[a], "a.x", "b")
	wanted(t, two[a], "z", "b")
	publishAt(t, a, "a.x", reading{1})
	publishAt(t, two[a], "z", reading{2})
	holdsSoon(t, "both have got it", func() bool { return one.has(1)() && other.has(1)() })
	if !slices.Equal(one.list(), []string{"a.x{1}"}) || !slices.Equal(other.list(), []string{"z{2}"}) {
		t.Errorf("got %q and %q", one.list(), other.list())
	}
	// One that is closed is forgotten, and may be made again.
	b.bridge.Close()
	b.bridge.Close()
	wanted(t, a, "a.x")
	wanted(t, two[a], "a.x", "b")
	publishAt(t, b, "a.x", reading{3})
	var err error
	holdsSoon(t, "the name is free", func() bool {
		b.bridge, err = cluster.Bridge(b.Node, "one", b.bus, "a.>")
		return err == nil
	})
	wanted(t, a, "a.x", "b")
	publishAt(t, a, "a.x", reading{4})
	holdsSoon(t, "b has got it", one.has(3))
	if got := one.list(); !slices.Equal(got, []string{"a.x{1}", "a.x{3}", "a.x{4}"}) {
		t.Errorf("got %q", got)
	}
}

func TestBridgeOfANodeThatIsAloneHasNothingToCross(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		bus := eventbus.New(k.System())
		bridge, err := cluster.Bridge(cluster.Alone(k.System()), "one", bus, ">")
		if err != nil {
			t.Fatal(err)
		}
		here := listenAt[any](t, bus, ">")
		k.Advance(time.Second) // the bridge rests if it has looked at the patterns already
		if err := eventbus.Publish(k.Context(), bus, "a", gossip{}); err != nil || len(here.list()) != 1 {
			t.Errorf("got %q, %v", here.list(), err)
		}
		if s := bridge.Stats(); s != (cluster.BridgeStats{Patterns: 1}) || bridge.Wanting("a") != nil {
			t.Errorf("%+v", s)
		}
		bridge.Close()
		k.Settle()
	})
}

func TestBridgeWidensPatternsThatAreTooMany(t *testing.T) {
	t.Parallel()
	var rooms, halls []string
	for i := range 10 {
		rooms = append(rooms, fmt.Sprintf("room.%d.temp", i))
		halls = append(halls, fmt.Sprintf("hall.%d.door.a", i), fmt.Sprintf("hall.%d.door.b", i), fmt.Sprintf("hall.%d.light", i))
	}
	for _, c := range []struct {
		of   []string
		most int
		want string
	}{
		{rooms, 10, strings.Join(rooms, " ")}, // none too many
		{append(rooms, "alarm.fire"), 10, "alarm.fire room.>"},
		{[]string{"a", "b", "c"}, 2, ">"},
		{[]string{"a.*.x", "a.*.y", "a.b.x", "a.>", "b"}, 4, "a.*.> a.> a.b.x b"},
		{[]string{"a.*.x", "a.*.y", "a.b.x", "a.>", "b"}, 3, "a.> b"},
		{halls[:6], 5, "hall.0.door.> hall.0.light hall.1.door.a hall.1.door.b hall.1.light"},
		{halls[:6], 4, "hall.0.door.> hall.0.light hall.1.door.> hall.1.light"},
		{halls[:6], 2, "hall.0.> hall.1.>"},
	} {
		of := slices.Sorted(slices.Values(c.of))
		got := cluster.Widen(of, c.most)
		if strings.Join(got, " ") != c.want {
			t.Errorf("at most %d of %q: %q, want %q", c.most, of, got, c.want)
		}
	}
}

// TestBridgeTellsAtMost1024Patterns has 1025 on one node, of which none other hears one too many.
func TestBridgeTellsAtMost1024Patterns(t *testing.T) {
	t.Parallel()
	engine := new(memory.Engine)
	a, b := newHub(t, engine, "a"), newHub(t, engine, "b")
	ears := make([]*ear, 1024)
	for i := range ears {
		ears[i] = listenAt[reading](t, b.bus, fmt.Sprint("a.room.", i))
	}
	holdsSoon(t, "all are told", func() bool { return b.bridge.Stats().Patterns == 1024 })
	wanted(t, a, "a.room.1023", "b")
	if got := a.bridge.Wanting("a.room.1024"); got != nil {
		t.Errorf("%v want what nobody has subscribed to", got)
	}
	more := listenAt[reading](t, b.bus, "a.hall")
	wanted(t, a, "a.hall", "b")
	wanted(t, a, "a.room.1024", "b")
	if s := b.bridge.Stats(); s.Patterns != 2 || a.bridge.Wanting("a.hall.x") != nil {
		t.Errorf("%+v, and %v want a.hall.x", s, a.bridge.Wanting("a.hall.x"))
	}
	publishAt(t, a, "a.room.1024", reading{0}) // nobody hears it
	publishAt(t, a, "a.room.7", reading{1})
	publishAt(t, a, "a.hall", reading{2})
	holdsSoon(t, "the last one is heard", more.has(1))
	for i, e := range ears {
		if got := e.list(); len(got) != 0 && i != 7 || i == 7 && !slices.Equal(got, []string{"a.room.7{1}"}) {
			t.Errorf("room %d has got %q", i, got)
		}
	}
	ears[0].Unsubscribe()
	wanted(t, a, "a.room.0")
	wanted(t, a, "a.room.1", "b")
	if s := b.bridge.Stats(); s.Patterns != 1024 {
		t.Errorf("%+v", s)
	}
}

// FuzzBridgeEvent has bytes of a stranger be read, or refused, and written as they were.
func FuzzBridgeEvent(f *testing.F) {
	for _, e := range []cluster.BridgeEvent{{Topic: "a.x", Type: "reading", Data: []byte("data")}, {Topic: "a.>", All: true, Type: "t"}, {}} {
		data, err := e.AppendBinary(nil)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Add([]byte{2, 0, 0})
	f.Add([]byte{0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var e, again cluster.BridgeEvent
		if e.UnmarshalBinary(data) != nil {
			return
		}
		data, err := e.AppendBinary(nil)
		if err != nil || again.UnmarshalBinary(data) != nil || again.String() != e.String() || again.All != e.All || string(again.Data) != string(e.Data) {
			t.Errorf("%+v is %+v: %v", e, again, err)
		}
	})
}

// One that is made when the node has ended is closed like any other. Many patterns take a while to be looked at, in
// which the end would be heard of.
func TestBridgeOfANodeThatHasEndedIsClosed(t *testing.T) {
	t.Parallel()
	h := newHub(t, new(memory.Engine), "a")
	if err := h.Leave(t.Context()); err != nil {
		t.Fatal(err)
	}
	patterns := make([]string, 20_000)
	for i := range patterns {
		patterns[i] = fmt.Sprint("b.", i)
	}
	if _, err := cluster.Bridge(h.Node, "two", h.bus, patterns...); err != nil {
		t.Fatal(err)
	}
	holdsSoon(t, "the bus has room for another", func() bool {
		_, err := cluster.Bridge(h.Node, "three", h.bus, "b.>")
		return err == nil
	})
	if n := h.System().Stats().Failures; n != 0 {
		t.Errorf("%d failures", n)
	}
}
