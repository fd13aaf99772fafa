package attack_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// between returns middleware that changes nothing of what must hold: with it, messages take other ways through the engine.
func between(r *rand.Rand) (opts []actor.SystemOption) {
	if r.IntN(3) == 0 {
		var sent atomic.Uint64
		opts = append(opts, actor.BeforeSend(func(_ context.Context, s *actor.Sending) error {
			s.Header = nil
			if sent.Add(1)%3 == 0 {
				s.Header = actor.Header{"third": "yes"}
			}
			return nil
		}))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, actor.AroundReceive(func(_ context.Context, _ actor.Reception, next func() error) error { return next() }))
	}
	if r.IntN(3) == 0 {
		opts = append(opts, actor.BeforeSpawn(func(actor.Spawning) error { return nil }))
	}
	return opts
}

// fit adds what an actor of any nature may have.
func (n *node) fit(r *rand.Rand, add func(name string, o ...actor.SpawnOption)) {
	if (n.w.groups || n.w.faults > 0) && r.IntN(4) == 0 {
		backoff := time.Duration(r.IntN(2000)) * time.Microsecond
		add("guarded", actor.Guardian(actor.Supervise(actor.OneForOne, actor.MaxRestarts(200, time.Second), actor.Backoff(0, backoff))))
	}
	if n.parent != nil && r.IntN(10) == 0 { // at the root, it would end after those who hear of that
		add("last", actor.StopLast())
	}
	if r.IntN(5) == 0 {
		add("observed", actor.ObserveMailbox(observer{}))
	}
	if n.w.bounded == 0 && r.IntN(5) == 0 {
		most, newest := r.IntN(5), r.IntN(2) == 0
		add("ordered", actor.Ordered(func() actor.Queue[mail] { return &line{most: most, newest: newest} }))
	}
}

type observer struct{}

func (observer) Posted(actor.PID, int) {}
func (observer) Received(actor.PID)    {}
func (observer) Emptied(actor.PID)     {}

// line is a queue, first in first out. If most is not 0 it drops what is more, all but the newest or only that.
type line struct {
	most   int
	newest bool
	list   []actor.Envelope[mail]
}

func (l *line) Put(m actor.Envelope[mail]) {
	switch {
	case l.most == 0 || len(l.list) < l.most:
	case l.newest:
		m.Drop()
		return
	default:
		for _, old := range l.list {
			old.Drop()
		}
		l.list = l.list[:0]
	}
	l.list = append(l.list, m)
}

func (l *line) Take() (m actor.Envelope[mail], ok bool) {
	if len(l.list) == 0 {
		return m, false
	}
	m, l.list = l.list[0], l.list[1:]
	return m, true
}

// lookOn has up to two goroutines look at the system with its tools until stop is called.
func (w *world) lookOn() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var lookers sync.WaitGroup
	for i := range uint64(2) {
		if r := rand.New(rand.NewPCG(w.seed, 100+i)); r.IntN(2) == 0 {
			lookers.Go(func() {
				for ctx.Err() == nil {
					<-time.After(time.Duration(r.IntN(100)) * time.Microsecond)
					w.look(ctx, r)
				}
			})
		}
	}
	return func() { cancel(); lookers.Wait() }
}

// look uses one tool.
func (w *world) look(ctx context.Context, r *rand.Rand) {
	to := w.pick(nil, r)
	if to == nil {
		return
	}
	pid := to.ref.PID()
	ctx, cancel := context.WithTimeout(ctx, time.Duration(1+r.IntN(500))*time.Microsecond)
	defer cancel()
	switch r.IntN(7) {
	case 0, 1, 2:
		_, _ = w.sys.Detail(ctx, pid)
	case 3:
		_, _ = w.sys.Record(ctx, pid, 1+r.IntN(5))
	case 4:
		_ = w.sys.Profile(ctx)
	case 5:
		_, _ = w.sys.Inspect("/", 10)
	default:
		if s := w.sys.Stats(); s.Waiting < 0 || s.Queued < 0 || s.Actors < 0 || s.Handled > 1<<40 {
			w.Report("look: the statistics are %+v", s)
		}
		for i := range w.sys.Actors() {
			if i.Mailbox < 0 || i.Mailbox > 1e6 || i.Children < 0 || i.Handled > 1<<40 {
				w.Report("look: an actor is %+v", i)
			}
		}
	}
}
