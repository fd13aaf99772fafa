package workload

import (
	"context"
	"fmt"
	"sync/atomic"
)

// The numbers of the workload big: a ping and a pong carry who sent the ping.
const (
	pingBit = 1
	begin   = -2
)

// pinger is one actor of the workload big.
type pinger struct {
	self, others int
	left         int   // pongs to come
	pings        int64 // received
	random       uint64
}

// other picks another actor, by the generator of Park and Miller: as cheap in
// every language, and the same everywhere.
func (p *pinger) other() int {
	p.random = p.random * 48271 % 2147483647
	to := int(p.random % uint64(p.others))
	if to >= p.self {
		to++
	}
	return to
}

func (s show[C, R, S, A]) big(ctx context.Context, size Size) (Figures, error) {
	var outside C
	actors := make([]R, size.Actors)
	pingers := make([]*pinger, 0, size.Actors)
	var busy atomic.Int64
	done := make(chan struct{}, 1)
	spawn := s.a.Role(func() Handler[C] {
		p := &pinger{self: len(pingers), others: size.Actors - 1, random: uint64(len(pingers)) + 1}
		pingers = append(pingers, p)
		ping := func(ctx C) { s.a.Tell(ctx, actors[p.other()], Msg{int64(p.self)<<1 | pingBit}) }
		return func(ctx C, m Msg) {
			switch {
			case m.N == begin:
				ping(ctx)
			case m.N&pingBit != 0:
				p.pings++
				s.a.Tell(ctx, actors[m.N>>1], Msg{m.N &^ pingBit})
			default:
				if p.left--; p.left > 0 {
					ping(ctx)
				} else if busy.Add(-1) == 0 {
					done <- struct{}{}
				}
			}
		}
	})
	for i := range actors {
		actors[i] = spawn(outside)
	}
	return measure(size.Ops, func(ops int) error {
		each := max(1, ops/size.Actors)
		busy.Store(int64(size.Actors))
		for _, p := range pingers {
			p.left, p.pings = each, 0
		}
		for _, to := range actors {
			s.a.Tell(outside, to, Msg{begin})
		}
		if _, err := await(ctx, done); err != nil {
			return err
		}
		return checkPings(pingers, each)
	})
}

func checkPings(pingers []*pinger, each int) error {
	var pings int64
	for _, p := range pingers {
		pings += p.pings
		if p.left != 0 {
			return fmt.Errorf("%w: actor %d got %d pongs, not %d", ErrWrongCount, p.self, each-p.left, each)
		}
	}
	if want := int64(each * len(pingers)); pings != want {
		return fmt.Errorf("%w: %d pings were handled, %d were sent", ErrWrongCount, pings, want)
	}
	return nil
}
