package mqtt

import (
	"context"
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
