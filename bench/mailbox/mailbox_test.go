package mailbox_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/greenroom-go/greenroom/bench/mailbox"
)

// letter is as large as the engine's envelope of a small message.
type letter struct {
	from, n int
	extra   any
}

type box interface {
	Put(letter)
	Take() (letter, bool)
}

// channel is the control.
type channel chan letter

func (c channel) Put(v letter) { c <- v }

func (c channel) Take() (letter, bool) {
	select {
	case v := <-c:
		return v, true
	default:
		return letter{}, false
	}
}

var boxes = []struct {
	name string
	make func() box
}{
	{"buffers", func() box { return new(mailbox.Buffers[letter]) }},
	{"list", func() box { return mailbox.NewList[letter]() }},
	{"channel", func() box { return make(channel, 1024) }},
}

// send lets the senders put n letters, all together, and takes them.
func send(b box, senders, n int, took func(letter)) {
	var wg sync.WaitGroup
	for s := range senders {
		share := n / senders
		if s < n%senders {
			share++
		}
		wg.Go(func() {
			for i := range share {
				b.Put(letter{from: s, n: i, extra: b})
				if i%512 == 511 { // as the engine's tells from outside do
					runtime.Gosched()
				}
			}
		})
	}
	for got := 0; got < n; {
		v, ok := b.Take()
		if !ok {
			runtime.Gosched()
			continue
		}
		got++
		if v.extra != b {
			panic("a letter has lost its extra")
		}
		took(v)
	}
	wg.Wait()
}

func TestEachMailboxKeepsTheOrderOfASender(t *testing.T) {
	for _, m := range boxes {
		t.Run(m.name, func(t *testing.T) {
			var next [4]int
			send(m.make(), len(next), 20_000, func(v letter) {
				if v.n != next[v.from] {
					t.Fatalf("letter %d of sender %d came when %d was due", v.n, v.from, next[v.from])
				}
				next[v.from]++
			})
		})
	}
}

func BenchmarkMailbox(b *testing.B) {
	for _, senders := range []int{1, 4, 16} {
		for _, m := range boxes {
			b.Run(fmt.Sprintf("senders=%d/%s", senders, m.name), func(b *testing.B) {
				b.ReportAllocs()
				send(m.make(), senders, b.N, func(letter) {})
			})
		}
	}
}
