package virtual_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// sender is who sends letters in order: a goroutine outside of any actor, or an actor.
type sender struct {
	w    *world
	name string
	r    *rand.Rand
	sent map[*key]int
	left int           // steps
	over chan struct{} // closed after the last one
}

const (
	outsiders = 4
	insiders  = 2
)

func (w *world) newSender(name string, steps int, r *rand.Rand) *sender {
	s := &sender{w: w, name: name, r: r, sent: make(map[*key]int), left: steps, over: make(chan struct{})}
	w.senders = append(w.senders, s)
	return s
}

// send is what an outsider does.
func (s *sender) send() {
	defer close(s.over)
	var asks sync.WaitGroup
	defer asks.Wait()
	for ; s.left > 0; s.left-- {
		switch n := s.r.IntN(20); {
		case n < 7:
			s.w.tell(context.Background(), s.w.letter(s.r, told, s))
		case n < 10:
			ctx, cancel := s.shortly()
			s.w.try(ctx, s.w.letter(s.r, tried, s))
			cancel()
		case n < 12:
			s.w.ask(context.Background(), s.w.letter(s.r, asked, s))
		case n < 14:
			asks.Go(s.w.askLater(context.Background(), s.w.letter(s.r, asked, s)))
		case n < 17:
			s.disturb(s.w.ref(s.w.keys[s.r.IntN(len(s.w.keys))]))
		case n < 18:
			<-time.After(time.Duration(s.r.IntN(3000)) * time.Microsecond)
		default:
			runtime.Gosched()
		}
	}
}

// shortly returns a context that ends within milliseconds.
func (s *sender) shortly() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(s.r.IntN(1500))*time.Microsecond)
}

// disturb ends or restarts an actor, or looks at it.
func (s *sender) disturb(ref actor.Ref[mail]) {
	sys, pid := s.w.sys, ref.PID()
	switch s.r.IntN(8) {
	case 0:
		ref.Stop()
	case 1:
		_ = sys.Stop(pid)
	case 2:
		ref.Drain()
	case 3:
		if s.w.kills {
			ref.Kill()
		}
	case 4:
		_ = sys.Restart(pid)
	case 5:
		ctx, cancel := s.shortly()
		defer cancel()
		_, _ = ref.Wait(ctx)
	case 6:
		_, _ = sys.Detail(context.Background(), pid)
	default:
		_, _ = sys.Spec(pid)
	}
}

// Receive implements [actor.Actor]: a step of an insider, or a note.
func (s *sender) Receive(ctx *actor.Context[mail], m mail) error {
	s.w.counts.ran.Add(1)
	if m.note != nil {
		m.note()
		return nil
	}
	if s.left == 0 {
		close(s.over)
		return nil
	}
	s.left--
	switch n := s.r.IntN(10); {
	case n < 5:
		s.w.tell(ctx, s.w.letter(s.r, told, s))
	case n < 7:
		s.w.ask(ctx, s.w.letter(s.r, asked, s))
	case n < 9:
		x := s.w.expect(s, s.w.keys[s.r.IntN(len(s.w.keys))])
		ctx.Watch(s.w.ref(x.key).PID(), func(d actor.Down) mail { return mail{note: func() { x.came(d) }} })
	default:
		_ = ctx.Sleep(time.Duration(s.r.IntN(1000)) * time.Microsecond)
	}
	ctx.Self().Tell(ctx, mail{})
	return nil
}

// notice is something that comes once: a Down, or the message of a timer.
type notice struct {
	w    *world
	by   *sender // nil for an activation, which may end before
	key  *key
	news atomic.Int64
}

func (x *notice) String() string {
	if x.by == nil {
		return fmt.Sprintf("key %s for an activation", x.key.name)
	}
	return fmt.Sprintf("key %s for %s", x.key.name, x.by.name)
}

func (w *world) expect(by *sender, k *key) *notice {
	x := &notice{w: w, by: by, key: k}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notices = append(w.notices, x)
	return x
}

// once notes that it has come.
func (x *notice) once() {
	if n := x.news.Add(1); n > 1 {
		x.w.Report("notice: that of %s has come %d times", x, n)
	}
}

// came notes that a Down has come, and judges it.
func (x *notice) came(d actor.Down) {
	x.w.counts.downs.Add(1)
	x.once()
	if want := x.w.ref(x.key).PID(); d.PID != want {
		x.w.Report("down: %s for %s", d.PID, want)
	}
	expected := d.Reason == actor.Passivated || d.Reason == actor.Failed || d.Reason == actor.Killed && x.w.kills ||
		d.Reason == actor.Stopped && x.w.closing.Load()
	if !expected {
		x.w.Report("down: %s ended as %s: %v", x, d.Reason, d.Err)
	}
}
