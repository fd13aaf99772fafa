package mqtt

import (
	"context"
	"encoding/binary"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
)

// publishes sends messages that cost so many bytes each, and returns when the last has been read.
func (c *rawClient) publishes(messages, cost int) {
	c.t.Helper()
	const topic = "e/greedy/telemetry"
	payload := make([]byte, cost-packetCost-len(topic)-4)
	for i := range messages {
		body := append([]byte{0, byte(len(topic))}, topic...)
		c.write(0x32, append(append(body, 0, byte(i+1)), payload...))
	}
}

// greedyBook has an admin and a device greedy, and returns the token of the device.
func greedyBook(t *testing.T, rate int64) (b *access.Book, token string) {
	t.Helper()
	b, err := access.Open(t.Context(), &documents{all: map[string][]byte{}}, access.Config{Rates: access.Rates{Device: rate}})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []access.Spec{{Name: "admin", Grants: []access.Grant{{Role: access.Admin}}}, {Name: "greedy", Grants: []access.Grant{{Role: access.Device}}}} {
		if token, _, err = b.Create(t.Context(), &s); err != nil {
			t.Fatal(err)
		}
	}
	return b, token
}

func TestWhatComesWithConnectIsPaidToo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 64 << 10
		book, token := greedyBook(t, rate)
		defer book.Close(context.Background())
		withBroker(t, Config{Access: book}, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
			body := connectAs("a", token)
			all := append(binary.AppendUvarint([]byte{0x10}, uint64(len(body))), body...)
			for range 1000 {
				all = append(all, 0xc0, 0) // PINGREQ
			}
			began := time.Now()
			for range 5 {
				c := p.connect(t)
				go func() { _, _ = c.nc.Write(all) }()
				for range 1001 {
					c.read()
				}
				_ = c.nc.Close()
			}
			if took, least := time.Since(began), 5*1000*packetCost*time.Second/rate-20*time.Second; took < least {
				t.Errorf("all was read after %v, want at least %v", took, least)
			}
		})
	})
}

func TestWhoWaitsHoldsNoRoomOfOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		book, token := greedyBook(t, 1024)
		defer book.Close(context.Background())
		withBroker(t, Config{Access: book}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
			c := p.login(t, "a", token)
			go func() { _, _ = io.Copy(io.Discard, c.in) }()
			time.Sleep(time.Minute)
			const topic = "e/greedy/telemetry"
			body := append([]byte{0, byte(len(topic))}, topic...)
			body = append(body, make([]byte, 10_000)...)
			packet := append(binary.AppendUvarint([]byte{0x30}, uint64(len(body))), body...)
			packet = append(packet, 0xc0, 0)
			go func() { _, _ = c.nc.Write(packet) }()
			synctest.Wait() // PINGREQ waits
			if used := b.intake.Used(); used != 0 {
				t.Errorf("%d bytes of room are held while the connection waits", used)
			}
			if n := b.received[0].Load(); n != 1 {
				t.Errorf("%d messages are handled before the wait, want the one that was received", n)
			}
			_ = c.nc.Close()
		})
	})
}

func TestAWaitEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	const rate = 1 << 10
	for name, end := range map[string]func(*testing.T, *access.Book, *Broker, *pipes, string) time.Duration{
		"revoked": func(t *testing.T, book *access.Book, _ *Broker, _ *pipes, _ string) time.Duration {
			if err := book.Revoke(t.Context(), "greedy"); err != nil {
				t.Error(err)
			}
			return farewell
		},
		"shut down": func(_ *testing.T, _ *access.Book, b *Broker, _ *pipes, _ string) time.Duration {
			b.Close(context.Background())
			return 0
		},
		"too long": func(t *testing.T, book *access.Book, b *Broker, p *pipes, token string) time.Duration {
			who, _ := book.Find("greedy")
			book.Owe(who, 10*rate) // for who connects
			c := p.connect(t)
			c.write(0x10, connectAs("b", token))
			if kind, body := c.read(); kind != 0x20 || body[1] != 3 {
				t.Errorf("CONNACK: %x % x", kind, body)
			}
			book.Owe(who, 60*rate)
			return 30*time.Second + farewell // the wait that had begun before, and then one too long
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				book, token := greedyBook(t, rate)
				defer book.Close(context.Background())
				withBroker(t, Config{Access: book}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
					c := p.login(t, "a", token)
					who, _ := book.Find("greedy")
					book.Owe(who, 30*rate)
					go func() {
						for range 100 {
							if _, err := c.nc.Write([]byte{0xc0, 0}); err != nil {
								return
							}
						}
					}()
					synctest.Wait()
					began := time.Now()
					within := end(t, book, b, p, token)
					if _, err := io.Copy(io.Discard, c.in); err != nil || time.Since(began) > within {
						t.Errorf("the connection ended after %v, want %v at most: %v", time.Since(began), within, err)
					}
				})
			})
		})
	}
}

func TestWhoSendsWithoutAnEndWaitsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const rate = 64 << 10
		book, err := access.Open(t.Context(), &documents{all: map[string][]byte{}}, access.Config{Rates: access.Rates{Device: rate}})
		if err != nil {
			t.Fatal(err)
		}
		defer book.Close(context.Background())
		tokens := map[string]string{}
		for _, s := range []access.Spec{{Name: "admin", Grants: []access.Grant{{Role: access.Admin}}}, {Name: "greedy", Grants: []access.Grant{{Role: access.Device}}}, {Name: "other", Grants: []access.Grant{{Role: access.Device}}}} {
			if tokens[s.Name], _, err = book.Create(t.Context(), &s); err != nil {
				t.Fatal(err)
			}
		}
		withBroker(t, Config{Access: book}, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
			for _, tt := range []struct {
				name     string
				messages int
				cost     int
			}{{"small", 80, 4 << 10}, {"large", 10, 32 << 10}} {
				first, second := p.login(t, "a", tokens["greedy"]), p.login(t, "b", tokens["greedy"])
				other := p.login(t, "a", tokens["other"])
				began := time.Now()
				sent := make(chan time.Duration, 2)
				for _, c := range []*rawClient{first, second} {
					go func() { _, _ = io.Copy(io.Discard, c.in) }()
					go func() {
						c.publishes(tt.messages, tt.cost)
						c.write(0xc0, nil) // and PINGREQ
						sent <- time.Since(began)
					}()
				}
				synctest.Wait()
				other.write(0xc0, nil)
				if kind, _ := other.read(); kind != 0xd0 || time.Since(began) != 0 {
					t.Errorf("%s: another principal got %x after %v", tt.name, kind, time.Since(began))
				}
				<-sent
				last := <-sent
				if want := time.Duration(2*tt.messages*tt.cost) * time.Second / rate; last < want-time.Second || last > want+time.Second {
					t.Errorf("%s: all was read after %v, want %v", tt.name, last, want)
				}
				for _, c := range []*rawClient{first, second, other} {
					if err := c.nc.Close(); err != nil {
						t.Error(err)
					}
				}
				time.Sleep(time.Minute) // until nothing is owed
			}
			if n := b.refusals.Counts(); len(n) > 1 { // the payloads, which are no JSON
				t.Errorf("refused: %v", n)
			}
		})
	})
}
