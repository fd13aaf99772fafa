package far_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/codec"
	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// mail is what a player tells or asks a worker. The answer is the letter's number.
type mail struct {
	actor.Returns[int]
	ID, Seq, From int
	Deed          deed
	Seed          uint64
}

// parting is the last message of a worker to each player that has greeted it.
type parting struct{}

func types() *codec.Types {
	return codec.NewTypes(codec.Of[mail]("mail"), codec.Of[parting]("parting"))
}

// way is how a letter is sent.
type way uint8

const (
	told way = iota
	tried
	asked
	askedLater
	ways // how many there are
)

// letter is what becomes of a mail.
type letter struct {
	mail

	way     way
	to      *node
	handled atomic.Int64
	near    atomic.Int64 // dead letters of the node that has sent it
	far     atomic.Int64 // and of the one that it was sent to
	lost    atomic.Bool  // it was one because the connection is lost
	over    atomic.Bool  // the try or the ask has ended
	refused atomic.Bool  // it ended before the message was on its way
	end     atomic.Pointer[string]
}

func (l *letter) String() string {
	end := "none"
	if s := l.end.Load(); s != nil {
		end = *s
	}
	return fmt.Sprintf("letter %d of player %d (way %d, deed %d, handled %d, dead here %d and there %d, end %s)",
		l.ID, l.From, l.way, l.Deed, l.handled.Load(), l.near.Load(), l.far.Load(), end)
}

// lasts reports whether its try or ask has yet to end.
func (l *letter) lasts() bool { return l.way != told && !l.over.Load() }

// isNowhere reports whether it should have arrived or be a dead letter, and nothing is known of it.
func (l *letter) isNowhere() bool {
	return (l.way == told || l.way == tried && !l.refused.Load()) && l.handled.Load()+l.near.Load()+l.far.Load() == 0
}

// book has all letters of a round.
type book struct{ attacktest.Book[letter] }

// of returns the letter of a mail.
func (b *book) of(m mail) *letter { return b.All()[m.ID-1] }

// write sends the worker a letter, in one of the ways there are.
func (p *player) write(ctx *actor.Context[any], d deed) {
	to, ok := p.worker(ctx)
	if !ok {
		return
	}
	p.seq++
	l := &letter{mail: mail{Seq: p.seq, From: p.number, Deed: d, Seed: p.r.Uint64()}, way: way(p.r.IntN(int(ways))), to: p.to.node}
	p.w.book.Enter(l, &l.ID)
	switch l.way {
	case told:
		to.Tell(ctx, l.mail)
	case tried:
		p.try(ctx, to, l)
	case asked:
		got, err := actor.Ask(ctx, to, l.mail)
		p.w.answered(l, got, err)
	default:
		f := actor.AskFuture(context.Background(), to, l.mail)
		go func() {
			got, err := f.Wait(context.Background())
			p.w.answered(l, got, err)
		}()
	}
}

func (p *player) try(ctx *actor.Context[any], to actor.Ref[any], l *letter) {
	if err := to.TryTell(ctx, l.mail); err != nil {
		l.end.Store(new(err.Error()))
		l.refused.Store(true)
	}
	l.over.Store(true)
}

// answered judges how an ask has ended.
func (w *world) answered(l *letter, got int, err error) {
	switch {
	case err == nil:
		w.counts.answers.Add(1)
		if got != l.ID || l.handled.Load() != 1 {
			w.Report("answer: %d, for %s", got, l)
		}
	case errors.Is(err, actor.ErrUnreachable):
		w.counts.unreachable.Add(1)
	case errors.Is(err, context.Canceled) && l.way == asked: // the asker has ended
	case !endsAsk(err):
		w.Report("ask: %v, for %s", err, l)
	}
	l.end.Store(new(fmt.Sprint(err)))
	l.over.Store(true)
}

// endsAsk reports whether an ask that has reached the node of its worker may end with err.
func endsAsk(err error) bool {
	return errors.Is(err, actor.ErrStopped) || errors.Is(err, actor.ErrUnhandled) || errors.Is(err, actor.ErrMailboxFull) ||
		errors.Is(err, actor.ErrLinked) || strings.Contains(err.Error(), "planned")
}

// random returns the source of what the handler of a letter does.
func (m mail) random() *rand.Rand { return rand.New(rand.NewPCG(m.Seed, 0)) }
