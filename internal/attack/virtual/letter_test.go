package virtual_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
)

// mail is what actors are told and asked: a letter, or a note that an actor orders for itself. The answer is the
// letter's number.
type mail struct {
	actor.Returns[int]
	l    *letter
	note func()
}

// way is how a letter is sent.
type way uint8

const (
	told way = iota
	tried
	asked
)

// letter is a message to a key, with what becomes of it.
type letter struct {
	id   int
	way  way
	key  *key
	by   *sender // nil for one of an activation, whose order is open
	seq  int     // of those from its sender to its key
	deed deed
	seed uint64 // of how its handler does it
	hops int    // letters of letters that it may lead to

	entries, forwards, dead atomic.Int64
	over                    atomic.Bool // the try or the ask has ended
	refused                 atomic.Bool // it ended before the message was in a mailbox
	unsure                  atomic.Bool // it may be nowhere: its sender was killed, or its ask given up
	end                     atomic.Pointer[string]
}

func (l *letter) String() string {
	end := "none"
	if s := l.end.Load(); s != nil {
		end = *s
	}
	return fmt.Sprintf("letter %d to key %s (way %d, deed %d, handled %d, forwarded %d, dead %d, end %s)",
		l.id, l.key.name, l.way, l.deed, l.entries.Load(), l.forwards.Load(), l.dead.Load(), end)
}

// got returns how often it was handled or a dead letter.
func (l *letter) got() int64 { return l.entries.Load() - l.forwards.Load() + l.dead.Load() }

// open reports whether something has yet to become of it.
func (l *letter) open() bool {
	if l.way != told && !l.over.Load() {
		return true
	}
	return l.got() == 0 && !l.refused.Load() && !l.unsure.Load()
}

// letter writes a letter to any key.
func (w *world) letter(r *rand.Rand, way way, by *sender) *letter {
	l := &letter{way: way, key: w.keys[r.IntN(len(w.keys))], by: by, deed: w.draw(r), seed: r.Uint64(), hops: 2}
	if by != nil {
		by.sent[l.key]++
		l.seq = by.sent[l.key]
	}
	w.book.Enter(l, &l.id)
	return l
}

func (w *world) tell(ctx context.Context, l *letter) { w.ref(l.key).Tell(ctx, mail{l: l}) }

func (w *world) try(ctx context.Context, l *letter) {
	err := w.ref(l.key).TryTell(ctx, mail{l: l})
	if err != nil {
		w.counts.refused.Add(1)
		l.refused.Store(true)
	}
	l.ended(err)
	l.over.Store(true)
}

func (w *world) ask(ctx context.Context, l *letter) {
	w.judgeAnswer(l, func() (int, error) { return actor.Ask(ctx, w.ref(l.key), mail{l: l}) })
}

// askLater asks, and returns what waits for the answer.
func (w *world) askLater(ctx context.Context, l *letter) (wait func()) {
	f := actor.AskFuture(ctx, w.ref(l.key), mail{l: l})
	return func() {
		w.judgeAnswer(l, func() (int, error) { return f.Wait(ctx) })
	}
}

// judgeAnswer judges how an ask ends.
func (w *world) judgeAnswer(l *letter, wait func() (int, error)) {
	got, err := wait()
	switch {
	case err == nil:
		w.counts.answers.Add(1)
		if got != l.id || l.entries.Load() == 0 {
			w.Report("answer: %d, for %s", got, l)
		}
	case errors.Is(err, actor.ErrDeadlock), l.by == nil && errors.Is(err, context.Canceled): // the asker has ended
		l.unsure.Store(true)
	case !endsAsk(err):
		w.Report("ask: %v, for %s", err, l)
	}
	l.ended(err)
	l.over.Store(true)
}

// endsAsk reports whether an ask may end with err.
func endsAsk(err error) bool {
	_, panicked := errors.AsType[*actor.PanicError](err)
	return panicked || errors.Is(err, actor.ErrStopped) || errors.Is(err, actor.ErrUnhandled) || errors.Is(err, actor.ErrMailboxFull) ||
		errors.Is(err, errPlanned) || errors.Is(err, actor.ErrLinked) || strings.Contains(err.Error(), "runtime.Goexit")
}

// ended notes how a try or an ask has ended.
func (l *letter) ended(err error) { l.end.Store(new(fmt.Sprint(err))) }
