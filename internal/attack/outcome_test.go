package attack_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/internal/attack/attacktest"
)

// doOutcome does something whose outcome comes elsewhere.
func (p *player) doOutcome(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	switch r.IntN(6) {
	case 0:
		p.doAskThen(ctx, r, of)
	case 1:
		p.doGather(ctx, r, of)
	case 2:
		p.doPipe(ctx, r)
	case 3:
		p.doLater(ctx, r)
	case 4:
		if f := p.n.w.futures[r.IntN(len(p.n.w.futures))].Load(); f != nil {
			p.n.w.pipeTo(f, r)
		}
	default:
		p.doFuture(ctx, r, of)
	}
}

func (p *player) doAskThen(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	w := p.n.w
	to := w.pick(p.n, r)
	if to == nil {
		return
	}
	l := p.request(r, to, of)
	limited := !w.strict || l.late
	x := w.expect(p, nil, "outcome of "+l.String())
	if to.inline {
		defer w.end(w.begin(p.n, to, "tell", l))
	}
	actor.AskThen(ctx, to.ref, mail{l: l}, func(got uint64, err error) mail {
		return p.note(func() {
			x.came()
			if err == nil && got != l.id {
				w.Report("answer: %s got %d", l, got)
			}
			if errors.Is(err, context.DeadlineExceeded) && !limited {
				w.Report("stall: AskThen of %s: %v", l, err)
			}
			if err == nil {
				l.unsure.Store(false)
			}
		})
	}, within(limited, r)...)
}

// future is an answer for which several may wait.
type future struct {
	f       *actor.Future[uint64]
	to      *node
	l       *letter
	limited bool
	outcome atomic.Value // a string
}

func (p *player) doFuture(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	w := p.n.w
	slot := &w.futures[r.IntN(len(w.futures))]
	if r.IntN(2) == 0 {
		to := w.pick(p.n, r)
		if to == nil {
			return
		}
		l := p.request(r, to, of)
		f := &future{to: to, l: l, limited: !w.strict || l.late}
		if to.inline {
			defer w.end(w.begin(p.n, to, "tell", l))
		}
		f.f = actor.AskFuture(ctx, to.ref, mail{l: l}, within(f.limited, r)...)
		w.keep(f)
		slot.Store(f)
		return
	}
	f := slot.Load()
	if f == nil || w.acyclic && f.to.index <= p.n.index {
		return
	}
	e := w.begin(p.n, f.to, "future", f.l)
	defer w.end(e)
	p.wait(true, func() {
		got, err := f.f.Wait(ctx, within(!w.strict, r)...)
		f.judge(got, err)
		switch {
		case err == nil && got != f.l.id:
			w.Report("future: %s got %d", f.l, got)
		case errors.Is(err, actor.ErrDeadlock) && !attacktest.IsClosed(f.f.Done()): // else it may be that of the ask
			w.deadlock(e, err)
		case errors.Is(err, context.DeadlineExceeded) && !f.limited && !isLimited(ctx):
			w.Report("stall: future of %s: %v", f.l, err)
		}
	})
}

// keep has the future looked at when all is over.
func (w *world) keep(f *future) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, f)
}

// judge compares what a wait returns with the outcome.
func (f *future) judge(got uint64, err error) {
	w := f.to.w
	if !attacktest.IsClosed(f.f.Done()) {
		if err == nil {
			w.Report("future: %s has an answer, and is not done", f.l)
		}
		return
	}
	last, lastErr := f.f.Wait(context.Background())
	outcome := fmt.Sprint(last, lastErr)
	if err == nil && outcome != fmt.Sprint(got, err) {
		w.Report("future: %s ended with %d, and with %s", f.l, got, outcome)
	}
	if first := f.outcome.Swap(outcome); first != nil && first != outcome {
		w.Report("future: %s ended with %s, and with %s", f.l, first, outcome)
	}
	switch {
	case lastErr == nil && (last != f.l.id || f.l.entries.Load() == 0):
		w.Report("future: %s ended with %d", f.l, last)
	case lastErr != nil && !endsAsk(lastErr) && !errors.Is(lastErr, context.DeadlineExceeded) && !errors.Is(lastErr, context.Canceled) &&
		!errors.Is(lastErr, actor.ErrDeadlock):
		w.Report("future: %s ended with %v", f.l, lastErr)
	}
}

// pipe is a [actor.PipeTo].
type pipe struct {
	of    *future
	to    *node
	wraps atomic.Int64
}

func (w *world) pipeTo(f *future, r *rand.Rand) {
	to, seed := w.pick(nil, r), r.Uint64()
	if to == nil {
		return
	}
	x := &pipe{of: f, to: to}
	w.mu.Lock()
	w.pipes = append(w.pipes, x)
	w.mu.Unlock()
	w.restless.Store(true)
	actor.PipeTo(f.f, to.ref, func(got uint64, err error) mail {
		x.wraps.Add(1)
		if !attacktest.IsClosed(f.f.Done()) {
			w.Report("pipe: %s is not done", f.l)
		}
		f.judge(got, err)
		l := w.newLetter(nil, to, rand.New(rand.NewPCG(seed, 5)))
		l.late = false
		return mail{l: l}
	})
}

// askOutside makes a future that is no actor's, or waits for one.
func (w *world) askOutside(i int, r *rand.Rand) {
	slot := &w.futures[r.IntN(len(w.futures))]
	switch f := slot.Load(); {
	case f == nil || r.IntN(3) == 0:
		to := w.pick(nil, r)
		l := w.newLetter(nil, to, r)
		l.outsider, l.asked = i+1, true
		l.unsure.Store(true)
		l.sent()
		f = &future{to: to, l: l, limited: !w.strict || l.late}
		f.f = actor.AskFuture(context.Background(), to.ref, mail{l: l}, within(f.limited, r)...)
		w.keep(f)
		slot.Store(f)
	case r.IntN(2) == 0:
		w.pipeTo(f, r)
	default:
		e := w.begin(nil, f.to, "future", f.l)
		defer w.end(e)
		f.judge(f.f.Wait(context.Background(), within(r.IntN(2) == 0, r)...))
	}
}

func (p *player) doGather(ctx *actor.Context[mail], r *rand.Rand, of *letter) {
	w := p.n.w
	var l *letter
	var refs []actor.Ref[mail]
	var es []*edge
	for range 1 + r.IntN(4) {
		to := w.pick(p.n, r)
		if to == nil {
			continue
		}
		if l == nil {
			l = p.letter(r, to, of)
			l.asked = true
			l.unsure.Store(true)
		}
		refs = append(refs, to.ref)
		e := w.begin(p.n, to, "ask", l)
		es = append(es, e)
		defer w.end(e)
	}
	if l == nil {
		return
	}
	l.copies = len(refs)
	limited, most := !w.strict || !w.acyclic || l.late, r.IntN(2*len(refs)) // a cycle through it ends by its timeout
	seen := make(map[actor.Ref[mail]]int)
	p.wait(true, func() {
		n := 0
		for ref, a := range actor.Gather(ctx, refs, mail{l: l}, within(limited, r)...) {
			seen[ref]++
			p.judgeGathered(es, ref, l, a, limited || isLimited(ctx))
			if n++; n > most {
				return
			}
		}
		if n != len(refs) {
			w.Report("gather: %s has %d answers of %d", l, n, len(refs))
		}
	})
	for _, ref := range refs {
		seen[ref]--
	}
	for ref, more := range seen {
		if more > 0 {
			w.Report("gather: %s has %d answers of %s too many", l, more, ref)
		}
	}
}

func (p *player) judgeGathered(es []*edge, ref actor.Ref[mail], l *letter, a actor.Answer[uint64], limited bool) {
	w := p.n.w
	switch err := a.Err; {
	case err == nil && (a.Value != l.id || l.entries.Load() == 0):
		w.Report("gather: %s got %d", l, a.Value)
	case err == nil, errors.Is(err, actor.ErrTooManyWaiting), errors.Is(err, context.Canceled):
	case errors.Is(err, actor.ErrDeadlock):
		for _, e := range es {
			if e.to.ref == ref {
				w.deadlock(e, err)
				return
			}
		}
	case errors.Is(err, context.DeadlineExceeded):
		if !limited {
			w.Report("stall: gather of %s: %v", l, err)
		}
	case !endsAsk(err):
		w.Report("gather: %s ended with %v", l, err)
	}
}

// doPipe has work done on another goroutine.
func (p *player) doPipe(ctx *actor.Context[mail], r *rand.Rand) {
	w := p.n.w
	x := w.expect(p, nil, "outcome of a Pipe")
	kind, want, d := r.IntN(5), r.Uint64(), time.Duration(r.IntN(1000))*time.Microsecond
	to, seed := w.pick(p.n, r), r.Uint64()
	var runs atomic.Int64
	counts := int64(btoi(!p.n.gated)) // a gate may drop it
	w.pending.Add(counts)
	w.restless.Store(true)
	work := func(ctx context.Context) (uint64, error) {
		defer w.pending.Add(-counts)
		if runs.Add(1) > 1 {
			w.Report("pipe: work of %s is done twice", p.n)
		}
		switch kind {
		case 0:
			return want, planned(want)
		case 1:
			panic("planned")
		case 2:
			runtime.Goexit()
		case 3:
			if to != nil {
				w.askWorking(ctx, to, rand.New(rand.NewPCG(seed, 6)))
			}
		default:
			select {
			case <-time.After(d):
			case <-ctx.Done():
			}
		}
		return want, nil
	}
	actor.Pipe(ctx, work, func(got uint64, err error) mail {
		return p.note(func() {
			x.came()
			pe, isPanic := (*actor.PanicError)(nil), false
			isPanic = errors.As(err, &pe)
			ok := err == nil && got == want && kind > 2
			ok = ok || kind == 0 && errors.Is(err, errPlanned) && got == want || kind == 1 && isPanic || kind == 2 && err != nil
			if !ok {
				w.Report("pipe: work of kind %d, of %s, ended with %d, %v", kind, p.n, got, err)
			}
		})
	})
}

// askWorking asks in work of a Pipe.
func (w *world) askWorking(ctx context.Context, to *node, r *rand.Rand) {
	l := w.newLetter(nil, to, r)
	_, _ = w.ask(ctx, nil, to, l, true, within(true, r)...)
}

// doLater has the outcome delivered by several goroutines, of which one comes first.
func (p *player) doLater(ctx *actor.Context[mail], r *rand.Rand) {
	w := p.n.w
	x := w.expect(p, nil, "outcome of a Later")
	want := r.Uint64()
	deliver := actor.Later(ctx, func(got uint64, err error) mail {
		return p.note(func() {
			x.came()
			if got != want || err != nil {
				w.Report("later: %s got %d, %v", p.n, got, err)
			}
		})
	})
	w.restless.Store(true)
	for range 1 + r.IntN(3) {
		w.elsewhere(func() { deliver(want, nil) })
	}
}

// judgeOutcomes checks, when all is over, that everything has had its outcome.
func (w *world) judgeOutcomes() {
	w.mu.Lock()
	kept, pipes := w.kept, w.pipes
	w.mu.Unlock()
	for _, f := range kept {
		if !attacktest.IsClosed(f.f.Done()) {
			w.Report("future: %s has no outcome", f.l)
			continue
		}
		f.judge(f.f.Wait(context.Background()))
	}
	for _, x := range pipes {
		if n := x.wraps.Load(); n != 1 {
			w.Report("pipe: the outcome of %s for %s was sent %d times", x.of.l, x.to, n)
		}
	}
}
