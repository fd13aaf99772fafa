package server

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"

	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/entity"
)

// Limits of the broker. What goes beyond one is slowed down or refused with a
// reason; see the package comment.
const (
	// MaxInFlight is how many messages of one connection may wait for their
	// commit. An MQTT 5 client is told so, as the receive maximum; a client
	// beyond it is not read until there is room.
	MaxInFlight = 4096
	// MaxConnections bounds the MQTT connections, and with them memory: about
	// 20 kB each.
	MaxConnections = 50_000

	// maxPacketBytes lets the largest payload through with its topic and
	// properties.
	maxPacketBytes = entity.MaxPayloadBytes + 64<<10
	// forwardQueue is how many messages a subscriber may be behind before it
	// loses some. A program that must not lose any reads /v1/stream.
	forwardQueue = 1024
	// maxRetained and maxRetainedBytes bound the retained messages, which are
	// kept in memory: 64 MB in all.
	maxRetained      = 16 << 10
	maxRetainedBytes = 4 << 10
	sessionSeconds   = 24 * 60 * 60
	maxTopicAliases  = 32
	// maxKeepalive is where 1.5 times the keepalive still fits into the 16 bits
	// in which mochi computes it; beyond, it would hang up at once.
	maxKeepalive = math.MaxUint16 / 3 * 2
	// sysSeconds is the interval of $SYS. mochi reads the memory statistics for
	// it, which stops the world.
	sysSeconds = 10
)

// ingester is what the broker needs of the entity runtime.
type ingester interface {
	Ingest(ctx context.Context, id string, readings []entity.Reading, size int, done func(error)) error
	Write(ctx context.Context, id string, readings []entity.Reading, size int) error
	Edit(ctx context.Context, id string, edits entity.Edits) (entity.Edited, error)
}

// broker is the MQTT side: mochi's broker with our listener below and our hook
// above it.
type broker struct {
	runtime  ingester
	log      *slog.Logger
	refusals *refusals
	server   *mqtt.Server
	listener *listener
	shadow   *shadow // nil where nobody is told what it should be

	// running ends when the broker no longer takes messages.
	running context.Context //nolint:containedctx // mochi's hooks are called without one
	refuse  context.CancelFunc

	closing  sync.Once
	received [3]atomic.Uint64 // publishes by QoS
	flight   flight           // messages that are not answered yet, of all connections

	published atomic.Int64 // messages of QoS 1 and 2 to subscribers, which numbers them
}

func newBroker(runtime ingester, ln net.Listener, log *slog.Logger, refusals *refusals) (*broker, error) {
	b := &broker{runtime: runtime, log: log, refusals: refusals}
	b.running, b.refuse = context.WithCancel(context.Background())
	b.flight.zero = make(chan struct{}, 1)
	capabilities := mqtt.NewDefaultServerCapabilities()
	capabilities.MaximumClients = MaxConnections
	capabilities.MaximumClientWritesPending = forwardQueue
	capabilities.MaximumSessionExpiryInterval = sessionSeconds
	capabilities.MaximumMessageExpiryInterval = sessionSeconds
	capabilities.MaximumPacketSize = maxPacketBytes
	capabilities.MaximumInflight = forwardQueue
	capabilities.ReceiveMaximum = MaxInFlight
	capabilities.TopicAliasMaximum = maxTopicAliases
	capabilities.Compatibilities.NoInheritedPropertiesOnAck = true
	b.server = mqtt.New(&mqtt.Options{
		Capabilities:           capabilities,
		InlineClient:           true,
		SysTopicResendInterval: sysSeconds,
		// mochi logs a line for each connection that ends badly and for each
		// message that a slow subscriber misses. Both are counted instead.
		Logger: slog.New(atLeast{log.Handler(), slog.LevelError}),
	})
	if err := b.server.AddHook(&hook{broker: b}, nil); err != nil {
		return nil, fmt.Errorf("start MQTT broker: %w", err)
	}
	b.listener = newListener(ln, b)
	if err := b.server.AddListener(b.listener); err != nil {
		return nil, fmt.Errorf("start MQTT broker: %w", err)
	}
	return b, nil
}

// serve starts to accept connections. It does not block.
func (b *broker) serve() error {
	if b.shadow != nil {
		b.shadow.start()
	}
	b.listener.accepting.Add(1)
	if err := b.server.Serve(); err != nil {
		return fmt.Errorf("start MQTT broker: %w", err)
	}
	return nil
}

// stop takes no more connections and no more messages. What was accepted is
// still acknowledged.
func (b *broker) stop() {
	b.listener.stopAccepting()
	b.refuse()
}

// close waits for the acknowledgements of what was accepted, then ends all
// connections; when ctx ends it does so at once. Only the first call does
// something.
func (b *broker) close(ctx context.Context) { b.closing.Do(func() { b.end(ctx) }) }

func (b *broker) end(ctx context.Context) {
	b.stop()
	if b.shadow != nil {
		b.shadow.wait()
	}
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
func (b *broker) hangUp(cl *mqtt.Client, code packets.Code) {
	if cl.Properties.ProtocolVersion == 5 {
		_ = b.server.DisconnectClient(cl, code) // it returns the code
		return
	}
	cl.Stop(code)
}

// forward hands a committed message to the subscribers of its topic, and keeps
// it when it is retained. The relay stands for the publisher.
func (b *broker) forward(relay *mqtt.Client, pk *packets.Packet) {
	if err := b.server.InjectPacket(relay, *pk); err != nil {
		b.log.LogAttrs(context.Background(), slog.LevelError, "forward a message to its subscribers",
			slog.String("topic", pk.TopicName), slog.Any("error", err))
	}
}

// wanted tells whether a message has anyone to be forwarded to, or is retained.
func (b *broker) wanted(pk *packets.Packet) bool {
	return pk.FixedHeader.Retain || atomic.LoadInt64(&b.server.Info.Subscriptions) > 0
}

// mayRetain tells whether there is room for a message among the retained ones.
func (b *broker) mayRetain(topic string, payload []byte) bool {
	if len(payload) > maxRetainedBytes {
		return false
	}
	if b.server.Topics.Retained.Len() < maxRetained {
		return true
	}
	_, replaces := b.server.Topics.Retained.Get(topic)
	return replaces
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
