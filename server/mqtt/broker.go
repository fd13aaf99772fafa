package mqtt

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Limits of the broker. What goes beyond one is slowed down or refused with a reason.
const (
	// MaxInFlight is how many messages of one connection may wait for their
	// commit. An MQTT 5 client is told so, as the receive maximum; a client
	// beyond it is not read until there is room.
	MaxInFlight = 4096
	// MaxInFlightBytes is how many bytes their payloads may have, if it is more than one. A client
	// beyond it is not read either, so that those of others do not wait behind all that it sends.
	MaxInFlightBytes = 1 << 20
	// MaxConnections bounds the MQTT connections, and with them memory: about
	// 20 kB each.
	MaxConnections = 50_000

	// maxPacketBytes lets the largest payload through with its topic and
	// properties.
	maxPacketBytes = entity.MaxPayloadBytes + 64<<10
	// forwardQueue is how many messages a subscriber may be behind before it
	// loses some. A program that must not lose any reads /v1/stream.
	forwardQueue = 1024
	// maxRetained places of retainedPlace bytes bound the retained messages, which are kept in
	// memory with their topics and properties, each in as many as it needs: 64 MiB in all. None
	// is larger than maxRetainedBytes.
	maxRetained      = 16 << 10
	retainedPlace    = 4 << 10
	maxRetainedBytes = 64 << 10
	sessionSeconds   = 24 * 60 * 60
	maxTopicAliases  = 32
	// sysSeconds is the interval of $SYS. mochi reads the memory statistics for
	// it, which stops the world.
	sysSeconds = 10
)

// Ingester is what a Broker needs of the entity runtime. See entity.Runtime, which is one.
type Ingester interface {
	layout.Runtime
	Follow(ctx context.Context, q entity.ChangesQuery) (*entity.Follower, error)
	Answer(ctx context.Context, id string, a entity.CommandAnswer) error
	// Seen and SeenLast say that a device has said something, and Connect and ConnectVia
	// that it has a connection.
	Seen(id string)
	SeenLast(id string)
	Connect(id string) (end func())
	ConnectVia(id string) (end func())
}

// Config sets up a Broker. All fields but Access, Limits, Layouts, Keeper, Record and LoggedIn are needed.
type Config struct {
	Listener net.Listener // closed by Stop
	Runtime  Ingester
	Refusals *refusal.Counter
	Access   *access.Book // who may connect, and see and say what; nil: everybody, everything
	Logger   *slog.Logger
	Limits   Limits          // of what is kept in memory for subscribers
	Layouts  []layout.Layout // other conventions of topics; no two may share a prefix
	Keeper   Keeper          // of sessions and retained messages while no Broker runs; nil: none
	// Record writes to the audit log that somebody has changed an entity through a
	// layout; nil: there is none. It is called before the change is acknowledged.
	Record func(ctx context.Context, who *access.Principal, from netip.Addr, action, what string)
	// LoggedIn is told that the client of a WebSocket has logged in, with the request that made
	// it; nil: nobody is. It does not block.
	LoggedIn func(*http.Request)
}

// Broker is an MQTT broker that gives what devices publish to an entity runtime,
// acknowledges it when it is committed, and tells devices what they should be. It is
// mochi's broker with a listener of its own below and a hook above it. Make it with New.
type Broker struct {
	runtime  Ingester
	log      *slog.Logger
	refusals *refusal.Counter
	access   *access.Book
	server   *mochi.Server
	listener *listener
	shadow   *shadow
	layouts  []layout.Layout
	host     *layout.Host // of the layouts
	record   func(ctx context.Context, who *access.Principal, from netip.Addr, action, what string)
	loggedIn func(*http.Request) // nil: nobody wants to know

	// running ends when the broker no longer takes messages.
	running context.Context //nolint:containedctx // mochi's hooks are called without one
	refuse  context.CancelFunc

	keeper   Keeper
	restored atomic.Bool   // Serve has taken up what the keeper had, so that Save may replace it
	frozen   chan struct{} // closed by Save
	changing flight        // packets that may change a session and are being handled

	closing  sync.Once
	received [3]atomic.Uint64 // publishes by QoS
	flight   flight           // messages that are not answered yet, of all connections

	spoken   atomic.Int64 // entities for whose devices connections speak
	limits   Limits
	queued   budget // of the messages and wills that wait in memory
	wills    wills
	sessions sessions
	paces    paces

	retainers retainers

	published atomic.Int64 // messages of QoS 1 and 2 to subscribers, which numbers them
}

// New returns a Broker that accepts connections once Serve is called.
func New(cfg Config) (*Broker, error) {
	b := &Broker{runtime: cfg.Runtime, log: cfg.Logger, refusals: cfg.Refusals, access: cfg.Access, layouts: cfg.Layouts, keeper: cfg.Keeper, frozen: make(chan struct{}), record: cfg.Record, loggedIn: cfg.LoggedIn}
	if b.access == nil {
		b.access = access.Everybody()
	}
	b.running, b.refuse = context.WithCancel(context.Background())
	b.flight.zero, b.changing.zero = make(chan struct{}, 1), make(chan struct{}, 1)
	b.limits = cfg.Limits.withDefaults()
	b.queued.max = b.limits.QueueBytes
	b.wills = wills{broker: b, delayed: map[string]*delayedWill{}, given: map[*will]*mochi.Client{}}
	b.sessions = newSessions(b)
	b.retainers = retainers{places: maxRetained, of: map[string]holding{}, count: map[string]int{}}
	b.server = mochi.New(&mochi.Options{
		Capabilities:           capabilities(),
		InlineClient:           true,
		SysTopicResendInterval: sysSeconds,
		// mochi logs a line for each connection that ends badly and for each
		// message that a slow subscriber misses. Both are counted instead.
		Logger: slog.New(atLeast{cfg.Logger.Handler(), slog.LevelError}),
	})
	if err := b.server.AddHook(&hook{broker: b}, nil); err != nil {
		return nil, fmt.Errorf("start MQTT broker: %w", err)
	}
	b.listener = newListener(cfg.Listener, b)
	if err := b.server.AddListener(b.listener); err != nil {
		return nil, fmt.Errorf("start MQTT broker: %w", err)
	}
	b.shadow = newShadow(b)
	b.startLayouts()
	return b, nil
}

func capabilities() *mochi.Capabilities {
	c := mochi.NewDefaultServerCapabilities()
	c.MaximumClients = MaxConnections
	c.MaximumClientWritesPending = forwardQueue
	c.MaximumSessionExpiryInterval = sessionSeconds
	c.MaximumMessageExpiryInterval = sessionSeconds
	c.MaximumPacketSize = maxPacketBytes
	c.MaximumInflight = forwardQueue
	c.ReceiveMaximum = MaxInFlight
	c.TopicAliasMaximum = maxTopicAliases
	c.Compatibilities.NoInheritedPropertiesOnAck = true
	return c
}

// Stats are counters of a Broker, and what there is now.
type Stats struct {
	Connections, Subscriptions, Retained int64 // now
	BytesReceived, BytesSent             int64
	Received                             [3]uint64 // publishes, by QoS
	Forwarded                            int64     // messages to subscribers
	ForwardDropped                       int64     // that a subscriber lost, because it was too far behind or takes no packets as large
	Queued                               int64     // bytes that wait for subscribers now, with the wills
	Sessions                             int       // of clients that are not connected now
}

// Stats returns the counters. It may be called concurrently with everything else.
func (b *Broker) Stats() Stats {
	info := b.server.Info.Clone()
	s := Stats{
		Connections: info.ClientsConnected, Subscriptions: info.Subscriptions, Retained: info.Retained,
		BytesReceived: info.BytesReceived, BytesSent: info.BytesSent,
		Forwarded: info.MessagesSent, ForwardDropped: info.MessagesDropped + info.InflightDropped,
	}
	s.Queued, s.Sessions = b.queued.used.Load(), b.sessions.len()
	for qos := range b.received {
		s.Received[qos] = b.received[qos].Load()
	}
	return s
}

// Serve takes up what the Broker before has saved, and begins to accept connections.
func (b *Broker) Serve() error {
	if err := b.restore(b.running); err != nil {
		return fmt.Errorf("start MQTT broker: %w", err)
	}
	b.shadow.start()
	b.listener.accepting.Add(1)
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("start MQTT broker: %w", err)
	}
	return nil
}

// Stop takes no more connections and no more messages. What was taken is still
// acknowledged.
func (b *Broker) Stop() {
	b.listener.stopAccepting()
	b.refuse()
}

// Close waits for the acknowledgements of what was taken, then ends all connections;
// when ctx ends it does so at once. Only the first call does something.
func (b *Broker) Close(ctx context.Context) { b.closing.Do(func() { b.end(ctx) }) }

func (b *Broker) end(ctx context.Context) {
	b.Stop()
	b.shadow.wait()
	b.flight.wait(ctx)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.server.Close() // it has no error to return
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		b.listener.cutOff()
		<-closed
	}
}

// hangUp ends a connection, telling an MQTT 5 client why. MQTT 3.1.1 has no such
// packet from a server.
func (b *Broker) hangUp(cl *mochi.Client, code packets.Code) {
	if cl.Properties.ProtocolVersion == 5 {
		_ = b.server.DisconnectClient(cl, code) // it returns the code
		return
	}
	cl.Stop(code)
}

// wanted reports whether a message is to be forwarded to anyone, or retained.
func (b *Broker) wanted(pk *packets.Packet) bool {
	return pk.FixedHeader.Retain || b.Subscribed()
}

// atLeast passes on the records of a level and above.
type atLeast struct {
	slog.Handler
	min slog.Level
}

func (h atLeast) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.min && h.Handler.Enabled(ctx, level)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.min}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.min}
}
