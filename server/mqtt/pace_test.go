package mqtt

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
)

// subscribe asks for so many filters that it has not asked for before.
func (c *rawClient) subscribe(packetID uint16, filters int) {
	c.t.Helper()
	body := binary.BigEndian.AppendUint16(nil, packetID)
	for i := range filters {
		filter := fmt.Sprintf("e/%d-%d/telemetry", packetID, i)
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(filter))), filter...)
		body = append(body, 0)
	}
	c.write(0x82, body)
}

// suback reads a SUBACK and returns its packet id.
func (c *rawClient) suback() uint16 {
	c.t.Helper()
	kind, body := c.read()
	if kind != 0x90 {
		c.t.Fatalf("packet %x, want a SUBACK", kind)
	}
	return binary.BigEndian.Uint16(body)
}

func TestWhoSubscribesWithoutAnEndWaitsAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		greedy, other := p.dial(t, "greedy", 4), p.dial(t, "other", 4)
		began := time.Now()
		greedy.subscribe(1, filterBurst)
		same(t, "the packet that is answered", greedy.suback(), uint16(1))
		same(t, "the time that the first filters took", time.Since(began), time.Duration(0))
		greedy.subscribe(2, filterRate)
		synctest.Wait()
		other.subscribe(1, 1)
		other.suback()
		same(t, "the time that the other client waited", time.Since(began), time.Duration(0))
		same(t, "the packet that is answered", greedy.suback(), uint16(2))
		same(t, "the time that a second's filters took", time.Since(began), time.Second)
	})
}

// documents are a store of principals in memory.
type documents struct {
	mu  sync.Mutex
	all map[string][]byte // guarded by mu
}

func (d *documents) Docs(context.Context, string) ([]entity.Doc, error) { return nil, nil }

func (d *documents) Doc(_ context.Context, kind, id string) (entity.Doc, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	body, ok := d.all[kind+" "+id]
	if !ok {
		return entity.Doc{}, entity.ErrNotFound
	}
	return entity.Doc{ID: id, Body: body}, nil
}

func (d *documents) PutDoc(_ context.Context, kind, id string, body []byte, _ string) (entity.Doc, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[kind+" "+id] = body
	return entity.Doc{ID: id, Body: body}, nil
}

func (d *documents) DeleteDoc(_ context.Context, kind, id, _ string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.all, kind+" "+id)
	return nil
}

// connectAs is the body of a CONNECT with a token.
func connectAs(id, token string) []byte {
	body := []byte{0, 4, 'M', 'Q', 'T', 'T', 4, 0xc2, 0, 60}
	for _, text := range []string{id, token, token} {
		body = append(binary.BigEndian.AppendUint16(body, uint16(len(text))), text...)
	}
	return body
}

// login connects with a token.
func (p *pipes) login(t *testing.T, id, token string) *rawClient {
	t.Helper()
	c := p.connect(t)
	c.write(0x10, connectAs(id, token))
	if kind, body := c.read(); kind != 0x20 || body[1] != 0 {
		t.Fatalf("CONNACK: %x % x", kind, body)
	}
	return c
}

func TestWhoConnectsAgainSubscribesNoFaster(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, err := access.Open(t.Context(), &documents{all: map[string][]byte{}}, access.Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer book.Close(context.Background())
		tokens := map[string]string{}
		for _, name := range []string{"greedy", "other"} {
			if tokens[name], _, err = book.Create(t.Context(), &access.Spec{Name: name, Grants: []access.Grant{{Role: access.Admin}}}); err != nil {
				t.Fatal(err)
			}
		}
		withBroker(t, Config{Access: book}, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
			first := p.login(t, "a", tokens["greedy"])
			began := time.Now()
			first.subscribe(1, filterBurst)
			first.suback()
			same(t, "the time that the first filters took", time.Since(began), time.Duration(0))
			_ = first.nc.Close()
			second := p.login(t, "b", tokens["greedy"])
			second.subscribe(2, filterRate)
			synctest.Wait()
			other := p.login(t, "a", tokens["other"])
			other.subscribe(1, filterBurst)
			other.suback()
			same(t, "the time that another principal waited", time.Since(began), time.Duration(0))
			second.suback()
			same(t, "the time that the others took over a new connection", time.Since(began), time.Second)
			for range 5 { // after which a further one would have to wait too long
				p.login(t, "", tokens["greedy"]).subscribe(3, filterBurst)
				synctest.Wait()
			}
			late := p.login(t, "", tokens["greedy"])
			late.subscribe(4, filterBurst)
			if _, err := io.Copy(io.Discard, late.in); err != nil {
				t.Errorf("read: %v, want the end", err)
			}
			same(t, "the time until it ended", time.Since(began), time.Second)
			time.Sleep(2 * paceKept)
			last := p.login(t, "c", tokens["greedy"])
			began = time.Now()
			last.subscribe(1, filterBurst)
			last.suback()
			same(t, "the time that filters took later", time.Since(began), time.Duration(0))
		})
	})
}

func TestPacesOfPrincipalsAreForgottenOnceTheyAreAsNew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var p paces
		first := p.of("a")
		for range 3 {
			time.Sleep(paceKept - time.Second)
			if p.of("a") != first {
				t.Error("a pace in use was forgotten")
			}
		}
		for i := range 100 {
			p.of(fmt.Sprint(i))
		}
		for range 2 {
			time.Sleep(paceKept + time.Second)
			p.of("b")
		}
		if n := len(p.young) + len(p.old); n != 1 || p.of("a") == first {
			t.Errorf("%d paces are kept", n)
		}
	})
}

// A filter of 32 768 levels took seconds to place, during which nobody else could subscribe or publish.
func TestDeepFiltersAreRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		c := p.dial(t, "deep", 5)
		for _, tt := range []struct {
			levels int
			code   byte
		}{{maxFilterLevels, 1}, {maxFilterLevels + 1, 0x8f}, {32 << 10, 0x8f}} {
			filter := "e" + strings.Repeat("/a", tt.levels-1)
			body := binary.BigEndian.AppendUint16([]byte{0, 1, 0}, uint16(len(filter)))
			c.write(0x82, append(append(body, filter...), 1))
			kind, body := c.read()
			if kind != 0x90 || body[len(body)-1] != tt.code {
				t.Errorf("%d levels: packet %x % x, want the code %x", tt.levels, kind, body, tt.code)
			}
		}
	})
}

func TestAPacketWithMoreFiltersThanASessionHasRoomForEndsItsConnection(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		c := p.dial(t, "huge", 4)
		began := time.Now()
		c.subscribe(1, maxSubscriptions+1)
		if _, err := io.Copy(io.Discard, c.in); err != nil || time.Since(began) > 0 {
			t.Errorf("it ends after %v with %v, want at once", time.Since(began), err)
		}
	})
}

func TestWhoWaitsToSubscribeIsLetGoAtTheEnd(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		began := time.Now()
		c := p.dial(t, "greedy", 4)
		c.subscribe(1, filterBurst)
		c.suback()
		c.subscribe(2, filterBurst)
		synctest.Wait()
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, c.in)
			ended <- err
		}()
		again := p.dial(t, "greedy", 4) // which ends the connection before it
		if err := <-ended; err != nil {
			t.Errorf("read: %v, want the end", err)
		}
		again.subscribe(1, 1)
		again.suback()
		same(t, "the time that all of it took", time.Since(began), hearing) // for the one that is not read
	})
}

// mochi makes room for a whole packet before it has come: who is a stranger may announce a small one.
func TestAStrangerCostsLittle(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		c := p.connect(t)
		if _, err := c.nc.Write(binary.AppendUvarint([]byte{0x10}, maxConnectBytes+1)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c.in); err != nil {
			t.Errorf("read: %v, want the end", err)
		}
		const strangers = 50
		b.listener.greets = strangers
		known := p.dial(t, "known", 4)
		first := p.connect(t)
		ended := make(chan error, 1)
		go func() {
			_, err := io.Copy(io.Discard, first.in)
			ended <- err
		}()
		synctest.Wait()
		began := time.Now()
		for range strangers {
			p.connect(t)
			synctest.Wait()
		}
		if err := <-ended; err != nil || time.Since(began) > 0 {
			t.Errorf("the connection that had said nothing for longest ended after %v: %v", time.Since(began), err)
		}
		known.write(0xc0, nil)
		if kind, _ := known.read(); kind != 0xd0 {
			t.Errorf("packet %x, want a PINGRESP", kind)
		}
		if n := b.listener.greeting.Len(); n != strangers {
			t.Errorf("%d connections have not logged in, want %d", n, strangers)
		}
	})
}

// at is a connection from an address.
type at struct {
	net.Conn
	from net.Addr
}

func (c at) RemoteAddr() net.Addr { return c.from }

func TestOfTooManyStrangersThoseOfOneAddressGiveWay(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		connect := func(from string) (ended chan struct{}) {
			ours, theirs := net.Pipe()
			p.conns <- at{theirs, net.TCPAddrFromAddrPort(netip.MustParseAddrPort(from))}
			ended = make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, ours) // the end is what is waited for
				close(ended)
			}()
			return ended
		}
		hasEnded := func(ended chan struct{}) bool {
			synctest.Wait()
			select {
			case <-ended:
				return true
			default:
				return false
			}
		}
		const strangers = 50
		b.listener.greets = strangers
		began := time.Now()
		oldest := connect("10.0.0.1:1")
		first := connect("[2001:db8::1]:1")
		for range strangers - 2 {
			connect("[2001:db8::2]:1")
		}
		if hasEnded(oldest) || hasEnded(first) {
			t.Fatal("a connection has ended while there was room")
		}
		connect("10.0.0.2:1")
		if !hasEnded(first) || hasEnded(oldest) {
			t.Errorf("the oldest of the network that has most: %v; the oldest of all, which is the only one of its address: %v", hasEnded(first), hasEnded(oldest))
		}
		same(t, "the time that all of it took", time.Since(began), time.Duration(0))
	})
}
