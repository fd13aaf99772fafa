package transport

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/remote/internal/session"
)

// Many actors send to many, some of them ask, and the connection is cut now and then. What
// each has sent to each arrives once and in order, whatever the numbers of the actors.
func TestWhatManySendToManyArrivesInOrder(t *testing.T) {
	t.Parallel()
	everywhere(t, func(t *testing.T, n *network) {
		a, b := n.start(t, "a", 1, "b"), n.start(t, "b", 2, "a")
		const senders, targets, each = 8, 64, 400
		var all sync.WaitGroup
		asked := make([][]*asking, senders)
		for sender := range senders {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(sender), 1))
				next := [targets]int{}
				names := [targets]*session.Name{}
				for i := range names {
					names[i] = session.NewName(fmt.Sprintf("a~1/%d from %d", i*255, sender))
				}
				for range each {
					to := r.IntN(targets)
					m := &session.Message{
						To: names[to], Type: "number", Payload: fmt.Appendf(nil, "%08d", next[to]),
						From: session.Sender{ID: uint64(255 * (sender + 1)), Of: someone{fmt.Sprint("b", sender)}},
					}
					next[to]++
					if r.IntN(4) > 0 {
						b.Session("a").Tell(m)
						continue
					}
					q := &asking{string(m.Payload)}
					asked[sender] = append(asked[sender], q)
					b.Session("a").Ask(m, q, time.Minute)
				}
			})
		}
		for i := range 3 {
			at := (i + 1) * senders * each / 6
			a.await(t, "a part of the messages", func() bool { return a.total() >= at })
			n.cut(false)
		}
		all.Wait()
		a.await(t, "all messages", func() bool { return a.total() >= senders*each })
		for _, questions := range asked {
			for _, q := range questions {
				answer := ""
				b.await(t, "an answer", func() bool { answer = b.answered[q]; return answer != "" })
				if answer != q.text {
					t.Fatalf("the answer to %s is %s", q.text, answer)
				}
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if got := a.total(); got != senders*each {
			t.Errorf("%d messages, want %d", got, senders*each)
		}
		for to, got := range a.got {
			for i, number := range got {
				if number != i {
					t.Fatalf("%s: message %d came as the %dth", to, number, i)
				}
			}
		}
	})
}

// total returns how many messages have arrived. The book is locked.
func (p *party) total() int {
	sum := 0
	for _, got := range p.got {
		sum += len(got)
	}
	return sum
}
