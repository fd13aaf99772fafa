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
	"github.com/greenroom-go/greenroom/internal/intake"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// Limits of the broker. Clients beyond a limit are slowed down, or refused with a reason.
const (
	// MaxInFlight is how many messages of one connection may wait for their commit. MQTT 5 clients
	// are sent it as the Receive Maximum. A connection that reaches it is not read until there is
	// room.
	MaxInFlight = 4096
	// MaxInFlightBytes is how many bytes of payload of one connection may wait for their commit,
	// except that one message may always wait. A connection that reaches it is not read either, so
	// that messages of others do not wait behind all that it sends.
	MaxInFlightBytes = 1 << 20
	// MaxConnections bounds the MQTT connections. Each takes about 20 kB.
	MaxConnections = 50_000

	// maxPacketBytes admits the largest payload with its topic and properties.
	maxPacketBytes = entity.MaxPayloadBytes + 64<<10
	// forwardQueue is how many messages a subscriber may be behind before it loses some. Programs
	// that must not lose any read /v1/stream.
	forwardQueue = 1024
	// maxRetained is the number of places for retained messages, which are kept in memory with
	// their topics and properties: 64 MiB in all. A message of up to maxRetainedBytes takes as many
	// places of retainedPlace bytes as it needs.
	maxRetained      = 16 << 10
	retainedPlace    = 4 << 10
	maxRetainedBytes = 64 << 10
	sessionSeconds   = 24 * 60 * 60
	maxTopicAliases  = 32
	// sysSeconds is the interval of $SYS. For it mochi reads the memory statistics, which stops the
	// world.
	sysSeconds = 10
)

// Ingester is the part of the entity runtime that a Broker needs. An entity.Runtime implements it.
type Ingester interface {
	layout.Runtime
	Follow(ctx context.Context, q entity.ChangesQuery) (*entity.Follower, error)
	// Scan calls f with all entities that q selects, until it returns false.
	Scan(ctx context.Context, q entity.ListQuery, f func(entity.View) bool) error
	Answer(ctx context.Context, id string, a entity.CommandAnswer) error
	// Seen and SeenLast record that a device has sent something, and Connect and ConnectVia that it
	// has a connection, until end is called.
	Seen(id string)
	SeenLast(id string)
	Connect(id string) (end func())
	ConnectVia(id string) (end func())
}

// Config configures a Broker. Access, Limits, Layouts, Keeper, Record and LoggedIn are optional.
type Config struct {
	Listener net.Listener // closed by Stop
	Runtime  Ingester
	Refusals *refusal.Counter
	Access   *access.Book // permissions; nil permits everybody everything
	Logger   *slog.Logger
	Limits   Limits          // of the memory for subscribers
	Layouts  []layout.Layout // other conventions of topics, whose prefixes must differ
	Keeper   Keeper          // keeps sessions and retained messages while no Broker runs; nil: they are lost
	// Record, unless nil, writes to the audit log that a client has changed an entity through a
	// layout. It is called before the change is acknowledged.
	Record func(ctx context.Context, who *access.Principal, from netip.Addr, action, what string)
	// LoggedIn, unless nil, is called when a client has logged in over a WebSocket, with the
	// request that opened it. It must not block.
	LoggedIn func(*http.Request)
}

// Broker is an MQTT broker. It passes what devices publish to an entity runtime, acknowledges it
// when it is committed, and sends devices their desired attributes. It is mochi's broker, with its
// own listener below and a hook above. Create one with New.
type Broker struct {
	runtime  Ingester
	log      *slog.Logger
	refusals *refusal.Counter
	access   *access.Book
	server   *mochi.Server
	listener *listener
	shadow   *shadow
	layouts  []layout.Layout
	host     *layout.Host // passed to the layouts
	record   func(ctx context.Context, who *access.Principal, from netip.Addr, action, what string)
	loggedIn func(*http.Request) // Config.LoggedIn

	// running ends when the broker stops accepting messages.
	running context.Context //nolint:containedctx // mochi's hooks are called without one
	refuse  context.CancelFunc

	keeper   Keeper
	restored atomic.Bool   // Serve has restored what the keeper held, so Save may replace it
	frozen   chan struct{} // closed by Save
	changing flight        // packets being handled that may change a session

	closing  sync.Once
	received [3]atomic.Uint64 // publishes, by QoS
	flight   flight           // unacknowledged messages of all connections

	begun     atomic.Int64 // connections that have logged in
	spoken    atomic.Int64 // devices that connections speak for
	limits    Limits
	queued    budget // for the messages and wills that wait in memory
	intake    *intake.Room
	strangers *intake.Room // intake for connections that have not logged in
	wills     wills
	sessions  sessions
	filters   filterBudget
	paces     paces

	retainers retainers

	published atomic.Int64 // the number of QoS 1 and 2 messages sent to subscribers, which is their order
}

// New returns a Broker, which accepts connections once Serve is called.
func New(cfg Config) (*Broker, error) {
	b := &Broker{runtime: cfg.Runtime, log: cfg.Logger, refusals: cfg.Refusals, access: cfg.Access, layouts: cfg.Layouts, keeper: cfg.Keeper, frozen: make(chan struct{}), record: cfg.Record, loggedIn: cfg.LoggedIn}
	if b.access == nil {
		b.access = access.Everybody()
	}
	b.running, b.refuse = context.WithCancel(context.Background())
	b.flight.zero, b.changing.zero = make(chan struct{}, 1), make(chan struct{}, 1)
	b.limits = cfg.Limits.withDefaults()
	b.intake, b.strangers = intake.New(maxIntake), intake.New(maxStrangerIntake)
	b.queued.max = b.limits.QueueBytes
	b.filters = newFilterBudget(b.limits.FilterBytes)
	b.wills = wills{broker: b, delayed: map[string]*delayedWill{}, given: map[*will]*mochi.Client{}}
	b.sessions = newSessions(b)
	b.retainers = retainers{places: maxRetained, of: map[string]holding{}, count: map[string]int{}}
	b.server = mochi.New(&mochi.Options{
		Capabilities:           capabilities(),
		InlineClient:           true,
		SysTopicResendInterval: sysSeconds,
		// mochi logs every connection that ends badly and every message that a slow subscriber
		// misses. Both are counted instead.
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

// Stats contains counters and current values of a Broker.
type Stats struct {
	Connections, Subscriptions, Retained int64 // current
	BytesReceived, BytesSent             int64
	Received                             [3]uint64 // publishes, by QoS
	Forwarded                            int64     // messages sent to subscribers
	ForwardDropped                       int64     // lost by subscribers that were too far behind, or whose Maximum Packet Size was exceeded
	Queued                               int64     // bytes of messages and wills that are waiting
	Sessions                             int       // of clients that are not connected
}

// Stats returns the current Stats. It may be called concurrently.
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

// Serve restores what the previous Broker has saved, and starts accepting connections.
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

// Stop stops accepting connections and messages. Messages that were accepted are still
// acknowledged.
func (b *Broker) Stop() {
	b.listener.stopAccepting()
	b.refuse()
}

// Close waits until all accepted messages are acknowledged, or ctx ends, and then ends all
// connections. Only the first call has an effect.
func (b *Broker) Close(ctx context.Context) { b.closing.Do(func() { b.end(ctx) }) }

func (b *Broker) end(ctx context.Context) {
	b.Stop()
	b.shadow.wait()
	b.flight.wait(ctx)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = b.server.Close() // it returns no error
	}()
	select {
	case <-closed:
	case <-ctx.Done():
		b.listener.cutOff()
		<-closed
	}
}

// hangUp ends a connection, and sends an MQTT 5 client the reason. In MQTT 3.1.1 servers cannot
// send one.
func (b *Broker) hangUp(cl *mochi.Client, code packets.Code) {
	if cl.Properties.ProtocolVersion == 5 {
		_ = b.server.DisconnectClient(cl, code) // it returns the code
		return
	}
	cl.Stop(code)
}

// wanted reports whether a message may have to be forwarded or retained.
func (b *Broker) wanted(pk *packets.Packet) bool {
	return pk.FixedHeader.Retain || b.Subscribed()
}

// atLeast is a Handler that drops the records below a level.
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
