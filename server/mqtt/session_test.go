package mqtt

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/layout"
)

// late is a connection that what is sent takes a while to come over.
type late struct{ net.Conn }

func (c late) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	time.Sleep(time.Millisecond)
	return n, err
}

// A client that acknowledges a command and connects again at once is not sent it again.
func TestWhatAClientHasSentIsReadBeforeItsNextConnectionEndsIt(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *Broker, p *pipes, _ *heldRuntime) {
		ours, theirs := net.Pipe()
		p.conns <- late{theirs}
		first := &subscriber{rawClient: &rawClient{t: t, nc: ours, in: bufio.NewReader(ours)}, version: 4}
		first.write(0x10, append([]byte{0, 4, 'M', 'Q', 'T', 'T', 4, 2, 0, 60, 0, 6}, "reader"...))
		if kind, body := first.rawClient.read(); kind != 0x20 || body[1] != 0 {
			t.Fatalf("CONNACK: %x % x", kind, body)
		}
		go first.take()
		first.subscribe(1, 1)
		time.Sleep(10 * time.Millisecond)
		first.next(t, packets.Suback, 1)
		cl, ok := b.server.Clients.Get("reader")
		if !ok {
			t.Fatal("the client is not there")
		}
		var mu sync.Mutex
		var outcomes []error
		for i := range 2 {
			if err := cl.Net.Conn.(*conn).Send("e/a/commands", []byte(fmt.Sprint(i)), &layout.Receipt{Settled: func(err error) {
				mu.Lock()
				defer mu.Unlock()
				outcomes = append(outcomes, err)
			}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		_, ids := first.messages(t, 2)
		first.ack(packets.Puback, ids[0])
		began := time.Now()
		p.dial(t, "reader", 4)
		if d := time.Since(began); d > hearing {
			t.Errorf("the next connection has waited for %v", d)
		}
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		same(t, "what became of the messages", outcomes, []error{nil, layout.ErrGone})
	})
}

// A client that goes on sending does not keep its next connection waiting.
func TestAClientThatIsReadWithoutAnEndIsTakenOver(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *Broker, p *pipes, _ *heldRuntime) {
		busy := p.dial(t, "busy", 4)
		var sending sync.WaitGroup
		defer sending.Wait()
		sending.Go(func() {
			for {
				if _, err := busy.nc.Write([]byte{0xc0, 0}); err != nil {
					return
				}
				time.Sleep(time.Millisecond)
			}
		})
		go func() { _, _ = io.Copy(io.Discard, busy.in) }() // it ends with the connection
		began := time.Now()
		p.dial(t, "busy", 4)
		same(t, "how long the next connection has waited", time.Since(began), hearing)
	})
}

// Who leaves many sessions behind pushes out its own.
func TestASessionIsGivenUpByWhoHasMost(t *testing.T) {
	t.Parallel()
	type away struct{ id, owner string }
	const limit = 20
	s := newSessions(&Broker{limits: Limits{Sessions: limit}})
	rng := rand.New(rand.NewPCG(1, 2))
	var model []away // the oldest first
	counts := func() map[string]int {
		n := map[string]int{}
		for _, a := range model {
			n[a.owner]++
		}
		return n
	}
	forget := func(id string) {
		model = slices.DeleteFunc(model, func(a away) bool { return a.id == id })
	}
	for range 5000 {
		id := fmt.Sprint("client-", rng.IntN(60))
		if rng.IntN(4) == 0 {
			s.resumed(id)
			forget(id)
			continue
		}
		owner := fmt.Sprint("owner-", min(rng.IntN(8), 4)) // half of them are of one
		gone := s.add(&mochi.Client{ID: id}, owner)
		forget(id)
		model = append(model, away{id, owner})
		for _, cl := range gone {
			n := counts()
			most := 0
			for _, k := range n {
				most = max(most, k)
			}
			i := slices.IndexFunc(model, func(a away) bool { return a.id == cl.ID })
			if i < 0 || n[model[i].owner] != most {
				t.Fatalf("%s was given up; the numbers are %v", cl.ID, n)
			}
			if slices.ContainsFunc(model[:i], func(a away) bool { return a.owner == model[i].owner }) {
				t.Fatalf("%s was given up, which is not the oldest of %s", cl.ID, model[i].owner)
			}
			forget(cl.ID)
		}
		if s.len() != len(model) || s.len() > limit {
			t.Fatalf("%d sessions, want %d, %d at most", s.len(), len(model), limit)
		}
	}
}
