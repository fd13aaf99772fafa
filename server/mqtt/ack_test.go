package mqtt

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// heldRuntime takes readings in and settles them when the test says so.
type heldRuntime struct {
	Ingester // for what no test here calls
	mu       sync.Mutex
	done     []func(error)
	panic    bool
}

func (h *heldRuntime) IngestOnce(_ context.Context, _ string, _ entity.Once, _ []entity.Reading, _ int, done func(error)) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.panic {
		panic("a bug")
	}
	h.done = append(h.done, done)
	return nil
}

func (h *heldRuntime) Edit(ctx context.Context, id string, _ entity.Edits) (entity.Edited, error) {
	settled := make(chan error, 1)
	if err := h.IngestOnce(ctx, id, entity.Once{}, nil, 0, func(err error) { settled <- err }); err != nil {
		return entity.Edited{}, err
	}
	return entity.Edited{}, <-settled
}

func (h *heldRuntime) Seen(string)     {}
func (h *heldRuntime) SeenLast(string) {}

func (h *heldRuntime) Connect(string) (end func())    { return func() {} }
func (h *heldRuntime) ConnectVia(string) (end func()) { return func() {} }

func (h *heldRuntime) View(context.Context, string, func(entity.View) error) error {
	return entity.ErrNotFound
}

func (h *heldRuntime) Follow(context.Context, entity.ChangesQuery) (*entity.Follower, error) {
	return nil, entity.ErrClosed
}

func (h *heldRuntime) held() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.done)
}

func (h *heldRuntime) settle(i int, err error) { h.done[i](err) }

// pipes is a listener of connections in memory, which have no buffer: what is
// not read blocks the writer at once.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// rawClient speaks just enough MQTT to be rude.
type rawClient struct {
	t  *testing.T
	nc net.Conn
	in *bufio.Reader
}

func (p *pipes) dial(t *testing.T, id string, version byte) *rawClient {
	t.Helper()
	c, _ := p.dialWith(t, id, version, 2, nil)
	return c
}

// connect opens a connection without a CONNECT.
func (p *pipes) connect(t *testing.T) *rawClient {
	t.Helper()
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return &rawClient{t: t, nc: ours, in: bufio.NewReader(ours)}
}

// dialWith connects with flags, 2 for a clean start, and the properties of MQTT 5. It
// also returns whether there was a session.
func (p *pipes) dialWith(t *testing.T, id string, version, flags byte, properties []byte) (c *rawClient, present bool) {
	t.Helper()
	c = p.connect(t)
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', version, flags, 0, 60}
	if version == 5 {
		body = append(body, byte(len(properties)))
		body = append(body, properties...)
	}
	body = append(body, 0, byte(len(id)))
	c.write(0x10, append(body, id...))
	kind, body := c.read()
	if kind != 0x20 || body[1] != 0 {
		t.Fatalf("CONNACK: %x % x", kind, body)
	}
	return c, body[0] == 1
}

func (c *rawClient) write(kind byte, body []byte) {
	c.t.Helper()
	if _, err := c.nc.Write(packet(kind, body)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

func packet(kind byte, body []byte) []byte {
	return append(binary.AppendUvarint([]byte{kind}, uint64(len(body))), body...)
}

func (c *rawClient) publish(version byte, packetID uint16, payload string) {
	c.t.Helper()
	c.write(0x32, publishBody(version, packetID, payload))
}

func publishBody(version byte, packetID uint16, payload string) []byte {
	const topic = "e/a/telemetry"
	body := append([]byte{0, byte(len(topic))}, topic...)
	body = binary.BigEndian.AppendUint16(body, packetID)
	if version == 5 {
		body = append(body, 0)
	}
	return append(body, payload...)
}

func (c *rawClient) read() (kind byte, body []byte) {
	c.t.Helper()
	kind, err := c.in.ReadByte()
	if err == nil {
		var n uint64
		if n, err = binary.ReadUvarint(c.in); err == nil {
			body = make([]byte, n)
			_, err = io.ReadFull(c.in, body)
		}
	}
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	return kind, body
}

// readAck reads a PUBACK and returns its packet id.
func (c *rawClient) readAck() uint16 {
	c.t.Helper()
	kind, body := c.read()
	if kind != 0x40 {
		c.t.Fatalf("packet %x, want a PUBACK", kind)
	}
	return binary.BigEndian.Uint16(body)
}

// inBubble runs a broker over pipes in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, b *Broker, p *pipes, h *heldRuntime)) {
	t.Helper()
	inBubbleWith(t, Limits{}, test)
}

// inBubbleWith is inBubble with limits of the test's own.
func inBubbleWith(t *testing.T, limits Limits, test func(t *testing.T, b *Broker, p *pipes, h *heldRuntime)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { withBroker(t, Config{Limits: limits}, test) })
}

// withBroker runs a test with a broker on pipes, within a bubble.
func withBroker(t *testing.T, cfg Config, test func(t *testing.T, b *Broker, p *pipes, h *heldRuntime)) {
	t.Helper()
	h := &heldRuntime{}
	p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	log := slog.New(slog.DiscardHandler)
	cfg.Listener, cfg.Runtime, cfg.Refusals, cfg.Logger = p, h, refusal.NewCounter(log), log
	b, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Serve(); err != nil {
		t.Fatal(err)
	}
	// Also after a Fatal: the broker's tickers would keep the bubble's clock
	// running, and the test, for ever.
	defer func() {
		ended, cancel := context.WithCancel(context.Background())
		cancel() // what the test holds back is not waited for
		b.Close(ended)
	}()
	test(t, b, p, h)
}

// inBubbles runs a test in a bubble for each version of the protocol.
func inBubbles(t *testing.T, test func(t *testing.T, version byte, b *Broker, p *pipes, h *heldRuntime)) {
	t.Helper()
	for _, version := range []byte{4, 5} {
		t.Run(fmt.Sprint("version ", version), func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) { test(t, version, b, p, h) })
		})
	}
}

func TestAcknowledgementsComeInTheOrderOfTheMessages(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "sensor", 4)
		for id := uint16(1); id <= 4; id++ {
			c.publish(4, id, `{"t":1}`)
		}
		synctest.Wait()
		h.settle(2, nil)
		h.settle(1, nil)
		synctest.Wait()
		h.settle(0, nil) // only now may any be acknowledged
		var got []uint16
		for range 3 {
			got = append(got, c.readAck())
		}
		h.settle(3, nil)
		got = append(got, c.readAck())
		if want := []uint16{1, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("acknowledged %v, want %v", got, want)
		}
	})
}

func TestAClientThatDoesNotReadHoldsUpNobody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		deaf, other := p.dial(t, "deaf", 4), p.dial(t, "other", 4)
		deaf.publish(4, 1, `{"t":1}`)
		synctest.Wait()
		other.publish(4, 7, `{"t":1}`)
		synctest.Wait()
		h.settle(0, nil) // as the committer would, and it returns
		h.settle(1, nil)
		if id := other.readAck(); id != 7 {
			t.Errorf("acknowledged %d, want 7", id)
		}
		// The deaf one is put out, which in the bubble takes no time.
		if b.flight.wait(t.Context()); b.flight.n.Load() != 0 {
			t.Errorf("%d messages are still under way", b.flight.n.Load())
		}
		if n, err := io.Copy(io.Discard, deaf.nc); err != nil || n != 0 {
			t.Errorf("the deaf client read %d bytes and %v, want a closed connection", n, err)
		}
	})
}

func TestAConnectionIsNotReadBeyondMaxInFlight(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "sensor", 4)
		go func() {
			for i := range MaxInFlight + 10 {
				if _, err := c.nc.Write(packet(0x32, publishBody(4, uint16(i+1), `{"t":1}`))); err != nil {
					return // the test is over
				}
			}
		}()
		synctest.Wait()
		if n := h.held(); n != MaxInFlight {
			t.Fatalf("%d messages were taken, want %d", n, MaxInFlight)
		}
		for i := range 5 {
			h.settle(i, nil)
		}
		for want := uint16(1); want <= 5; want++ {
			if id := c.readAck(); id != want {
				t.Fatalf("acknowledged %d, want %d", id, want)
			}
		}
		synctest.Wait()
		if n := h.held(); n != MaxInFlight+5 {
			t.Errorf("%d messages were taken, want %d", n, MaxInFlight+5)
		}
	})
}

func TestAConnectionIsNotReadBeyondMaxInFlightBytes(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, h *heldRuntime) {
		c, other := p.dial(t, "flood", 4), p.dial(t, "sensor", 4)
		payload := strings.Repeat(" ", MaxInFlightBytes/4-len(`{"t":1}`)) + `{"t":1}`
		go func() {
			for i := range 10 {
				if _, err := c.nc.Write(packet(0x32, publishBody(4, uint16(i+1), payload))); err != nil {
					return // the test is over
				}
			}
		}()
		synctest.Wait()
		if n := h.held(); n != 4 {
			t.Fatalf("%d messages were taken, want 4", n)
		}
		other.publish(4, 7, `{"t":1}`)
		synctest.Wait()
		h.settle(4, nil)
		if id := other.readAck(); id != 7 {
			t.Errorf("acknowledged %d to the other, want 7", id)
		}
		h.settle(0, nil)
		if id := c.readAck(); id != 1 {
			t.Errorf("acknowledged %d, want 1", id)
		}
		synctest.Wait()
		if n := h.held(); n != 6 {
			t.Errorf("%d messages were taken, want 6: those four, the other's and one more", n)
		}
	})
}

func TestWhatCannotBeKeptIsNotAcknowledged(t *testing.T) {
	t.Parallel()
	inBubbles(t, func(t *testing.T, version byte, _ *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "sensor", version)
		for id := uint16(1); id <= 3; id++ {
			c.publish(version, id, `{"t":1}`)
		}
		synctest.Wait()
		h.settle(2, nil)
		h.settle(1, fmt.Errorf("entity: %w", entity.ErrFailed))
		h.settle(0, nil)
		if id := c.readAck(); id != 1 {
			t.Errorf("acknowledged %d, want 1", id)
		}
		if version == 5 {
			if kind, body := c.read(); kind != 0xe0 || body[0] != 0x83 {
				t.Errorf("packet %x % x, want DISCONNECT with 0x83", kind, body)
			}
		}
		if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("after that: %v, want the end", err)
		}
	})
}

// mochi panics at a SUBSCRIBE of MQTT 5 that is cut off. Who sends many of those does not fill the
// log with stacks, and leaves nothing behind.
func TestPanicsAreCountedAndLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		var log bytes.Buffer
		b.log = slog.New(slog.NewTextHandler(&log, nil))
		const n = 5
		for i := range n {
			c := p.dial(t, fmt.Sprint("client-", i), 5)
			c.write(0x82, []byte{0, 1, 0, 0, 3, 'e', '/', '#'}) // without its options
			if _, err := c.in.ReadByte(); err == nil {
				t.Error("the connection goes on")
			}
		}
		synctest.Wait()
		same(t, "refused", b.refusals.Counts(), map[refusal.Key]uint64{{Source: refusal.MQTT, Cause: refusal.CauseFailed}: n})
		same(t, "stacks in the log", strings.Count(log.String(), "panic in an MQTT connection"), 1)
		same(t, "clients that mochi has", b.server.Clients.Len(), 1) // the inline one
	})
}

func TestAPanicInAConnectionEndsOnlyThat(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c, other := p.dial(t, "unlucky", 4), p.dial(t, "other", 4)
		h.mu.Lock()
		h.panic = true
		h.mu.Unlock()
		c.publish(4, 1, `{"t":1}`)
		if _, err := c.in.ReadByte(); !errors.Is(err, io.EOF) {
			t.Errorf("read: %v, want the end", err)
		}
		other.write(0xc0, nil)
		if kind, _ := other.read(); kind != 0xd0 {
			t.Errorf("packet %x, want a PINGRESP", kind)
		}
	})
}

func TestAConnectionThatSaysNothingIsEnded(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		ours, theirs := net.Pipe()
		p.conns <- theirs
		if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // after connectTimeout
			t.Errorf("read: %v, want the end", err)
		}
	})
}

func TestShutdownDeliversTheAcknowledgementsFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "sensor", 5)
		c.publish(5, 1, `{"t":1}`)
		synctest.Wait()
		closed := make(chan struct{})
		go func() {
			b.Close(context.Background())
			close(closed)
		}()
		synctest.Wait()
		h.settle(0, nil)
		if id := c.readAck(); id != 1 {
			t.Errorf("acknowledged %d, want 1", id)
		}
		if kind, body := c.read(); kind != 0xe0 || body[0] != 0x8b {
			t.Errorf("packet %x % x, want DISCONNECT with 0x8b", kind, body)
		}
		<-closed
	})
}

func TestShutdownGoesOnBesideClientsThatGoAway(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	for range 50 {
		b, err := New(Config{Listener: &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}, Runtime: &heldRuntime{}, Refusals: refusal.NewCounter(log), Logger: log})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Serve(); err != nil {
			t.Fatal(err)
		}
		closed := make(chan struct{})
		var busy sync.WaitGroup
		for range 2 {
			busy.Go(func() {
				for {
					select {
					case <-closed:
						return
					default:
						b.server.Clients.Delete("nobody")
					}
				}
			})
		}
		go func() {
			b.Close(t.Context())
			close(closed)
		}()
		select {
		case <-closed:
		case <-time.After(patience):
			t.Fatal("the broker does not close")
		}
		busy.Wait()
	}
}

func TestReasonIsLeftOutForAClientWithSmallPackets(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, h *heldRuntime) {
		c := p.dial(t, "small", 5)
		c.publish(5, 1, `nonsense`)
		if _, body := c.read(); body[2] != 0x99 || !strings.Contains(string(body), "byte") {
			t.Errorf("PUBACK %q, want 0x99 and a reason", body)
		}
		cl, _ := b.server.Clients.Get("small")
		cl.Properties.Props.MaximumPacketSize = 10
		c.publish(5, 2, `nonsense`)
		if _, body := c.read(); len(body) > 8 || body[2] != 0x99 {
			t.Errorf("PUBACK %q, want 0x99 in 10 bytes", body)
		}
	})
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if g, w := fmt.Sprint(got), fmt.Sprint(want); g != w {
		t.Errorf("%s:\n got %s\nwant %s", what, g, w)
	}
}

// answered is what a client saw of a message: an acknowledgement with a code, or the end
// of the connection, with the code of a DISCONNECT where there was one.
type answered struct {
	acked bool
	code  byte
}

// outcome reads what becomes of a message.
func (c *rawClient) outcome() (a answered) {
	c.t.Helper()
	kind, err := c.in.ReadByte()
	if err != nil {
		return a
	}
	n, err := binary.ReadUvarint(c.in)
	body := make([]byte, n)
	if err == nil {
		_, err = io.ReadFull(c.in, body)
	}
	if err != nil {
		c.t.Fatalf("read: %v", err)
	}
	switch kind {
	case 0x40, 0x50: // PUBACK, PUBREC
		a.acked = true
		if len(body) > 2 {
			a.code = body[2]
		}
	case 0xe0: // DISCONNECT
		if len(body) > 0 {
			a.code = body[0]
		}
	default:
		c.t.Fatalf("packet %x", kind)
	}
	return a
}

func TestEachErrorIsAnsweredAsTheTableSays(t *testing.T) {
	t.Parallel()
	rows := append(slices.Clone(refusal.Answers), refusal.Answer{Err: io.ErrUnexpectedEOF, Code: 0x83, Retry: true})
	inBubbles(t, func(t *testing.T, version byte, b *Broker, p *pipes, h *heldRuntime) {
		for i, row := range rows {
			for qos := range byte(3) {
				c := p.dial(t, fmt.Sprint("client ", i, qos), version)
				body := publishBody(version, 7, `{"t":1}`)
				if qos == 0 {
					body = slices.Delete(body, 2+len("e/a/telemetry"), 4+len("e/a/telemetry"))
				}
				c.write(0x30|qos<<1, body)
				synctest.Wait()
				settled := h.held() - 1
				h.settle(settled, fmt.Errorf("entity: %w", row.Err))
				if row.Retry {
					want := answered{code: row.Code}
					if version < 5 {
						want.code = 0 // it has no DISCONNECT from a server
					}
					if got := c.outcome(); got != want {
						t.Errorf("%v with QoS %d: %+v, want %+v", row.Err, qos, got, want)
					}
					continue
				}
				if qos > 0 {
					want := answered{true, row.Code}
					if version < 5 {
						want.code = 0
					}
					if got := c.outcome(); got != want {
						t.Errorf("%v with QoS %d: %+v, want %+v", row.Err, qos, got, want)
					}
				}
				c.publish(version, 8, `{"t":2}`) // the connection is as it was
				synctest.Wait()
				h.settle(settled+1, nil)
				if got, want := c.outcome(), (answered{acked: true}); got != want {
					t.Errorf("after %v with QoS %d: %+v, want %+v", row.Err, qos, got, want)
				}
			}
		}
	})
}
