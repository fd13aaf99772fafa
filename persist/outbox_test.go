package persist_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/persist"
	"github.com/greenroom-go/greenroom/persist/memory"
	"github.com/greenroom-go/greenroom/sim"
)

// What tellers record and send.
type (
	paid struct {
		To     string
		Serial int
	}
	got struct {
		From   string
		Serial int
	}
	rung struct {
		Key string
		At  int64
	}
)

// pay tells a teller to pay to another one, ring to set a reminder.
type (
	pay  struct{ to string }
	ring struct {
		key string
		at  time.Time
	}
	forget string
)

// teller pays to others: it counts what it has paid to each, and lists what it has got.
type teller struct {
	persist.Events[any]
	paid map[string]int
	got  map[string][]int
	rung []rung
	err  func() error // what a handler of something delivered returns
}

func newTeller() *teller {
	return &teller{paid: map[string]int{}, got: map[string][]int{}}
}

func (t *teller) Apply(e any) {
	switch e := e.(type) {
	case paid:
		t.paid[e.To] = e.Serial
	case got:
		t.got[e.From] = append(t.got[e.From], e.Serial)
	case rung:
		t.rung = append(t.rung, e)
	}
}

func (t *teller) Receive(ctx *actor.Context[any], m any) error {
	switch m := m.(type) {
	case pay:
		serial := t.paid[m.to] + 1
		t.Record(paid{m.to, serial})
		t.Send(m.to, got{ctx.Self().PID().Path(), serial})
		return nil
	case ring:
		t.Record(rung{Key: "set " + m.key, At: m.at.UnixMilli()})
		t.Remind(m.key, m.at, rung{Key: m.key, At: m.at.UnixMilli()})
		return nil
	case forget:
		t.Forget(string(m))
		return nil
	case func(t *teller):
		m(t)
		return nil
	default:
		t.Record(m)
	}
	if t.err != nil {
		return t.err()
	}
	return nil
}

// replayed returns what a journal has of a teller.
func replayed(j persist.Journal, id string) (*teller, error) {
	t := newTeller()
	l, err := j.Load(context.Background(), []string{id})
	if err != nil {
		return nil, err
	}
	for after := l[0].Erased; ; {
		page, err := j.Events(context.Background(), id, after, persist.PageRecords)
		if err != nil || len(page) == 0 {
			return t, err
		}
		for _, r := range page {
			if r.Number != after+1 {
				return nil, fmt.Errorf("event %d of %s comes after %d", r.Number, id, after)
			}
			after = r.Number
			if r.Type != "" {
				v, err := types.Decode(r.Type, r.Data)
				if err != nil {
					return nil, err
				}
				if v, ok := v.(rung); ok && !strings.HasPrefix(v.Key, "set ") && r.Time < v.At {
					return nil, fmt.Errorf("%s was reminded of %+v at %d", id, v, r.Time)
				}
				t.Apply(v)
			}
		}
	}
}

// serials are the numbers from 1 to n.
func serials(n int) (list []int) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

func tellerID(i int) string { return fmt.Sprint("/teller-", i%3) }

// startTellers starts a process with three tellers, whose handlers fail now and then.
func startTellers(w *sim.World, crashes ...int) (p *process, tell func(i int, m any)) {
	p = &process{w: w, crashes: map[int]bool{}}
	for _, c := range crashes {
		p.crashes[c] = true
	}
	var tellers []actor.Ref[any]
	p.spawn = func(persistence *persist.Persistence) {
		tellers = nil
		for i := range 3 {
			tellers = append(tellers, persist.Spawn(persistence, p.node.System(), tellerID(i)[1:], func() *teller {
				t := newTeller()
				t.err = func() error {
					if w.Sometimes(0.1) {
						return errors.New("planned")
					}
					return nil
				}
				return t
			}, persist.Actor(actor.Permanent)))
		}
	}
	p.start()
	return p, func(i int, m any) { tellers[i%3].Tell(w.Context(), m) }
}

// calm ends what may go wrong, and lets pass what has to be tried again.
func (p *process) calm() {
	p.w.Advance(5 * time.Second)
	p.restart()
	p.w.Heal()
	p.crashes = nil
	p.w.Advance(10 * time.Minute)
	p.restart()
}

var tellerFaults = sim.Faults{Panic: 0.01, Disk: sim.DiskFaults{Fail: 0.05}, Swarm: true}

func TestOutboxHasEachEffectOnceInItsOrder(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 60, Faults: tellerFaults}, func(w *sim.World) {
		first := 1 + w.Rand().IntN(60)
		p, tell := startTellers(w, first, first+1+w.Rand().IntN(40))
		for i := range 18 {
			tell(i, pay{tellerID(i + 1 + i%2)})
			if i%4 == 0 {
				w.Settle()
			}
			p.restart()
		}
		p.calm()
		for from := range 3 {
			sender, err := replayed(p.journal, tellerID(from))
			if err != nil {
				w.Fatalf("%v", err)
			}
			for to := range 3 {
				receiver, err := replayed(p.journal, tellerID(to))
				if got := receiver.got[tellerID(from)]; err != nil || !slices.Equal(got, serials(sender.paid[tellerID(to)])) {
					w.Fatalf("%s has paid %d to %s, which has got %v, %v", tellerID(from), sender.paid[tellerID(to)], tellerID(to), got, err)
				}
			}
		}
		for part := range persist.Parts {
			if left, err := p.journal.Outbox(context.Background(), part, 0, 10); err != nil || len(left) > 0 {
				w.Fatalf("not delivered: %+v, %v", left, err)
			}
		}
	})
}

func TestRemindHasEachEffectOnceAndNotEarly(t *testing.T) {
	sim.Check(t, sim.Options{Runs: 40, Faults: tellerFaults}, func(w *sim.World) {
		first := 1 + w.Rand().IntN(40)
		p, tell := startTellers(w, first, first+1+w.Rand().IntN(30))
		start := time.Now()
		for i := range 9 {
			at := start.Add(time.Duration(w.Rand().IntN(20))*time.Second + time.Duration(i)*time.Millisecond)
			tell(i, ring{fmt.Sprint("key-", i/3%2), at})
			if i%4 == 0 {
				w.Advance(3 * time.Second)
			}
			p.restart()
		}
		p.calm()
		for i := range 3 {
			a, err := replayed(p.journal, tellerID(i))
			if err != nil {
				w.Fatalf("%v", err)
			}
			last := map[string]rung{} // what was set last, by key
			for n, r := range a.rung {
				if key, set := strings.CutPrefix(r.Key, "set "); set {
					last[key] = rung{key, r.At}
				} else if slices.Contains(a.rung[:n], r) {
					w.Fatalf("%s was reminded of %+v twice", tellerID(i), r)
				}
			}
			for _, r := range last {
				if !slices.Contains(a.rung, r) {
					w.Fatalf("%s was not reminded of %+v", tellerID(i), r)
				}
			}
		}
	})
}

func TestAMessageThatIsRefusedComesAgainBeforeTheNextOne(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		fails := 2
		a := persist.Spawn(p, k.System(), "a", newTeller)
		persist.Spawn(p, k.System(), "b", func() *teller {
			b := newTeller()
			b.err = func() error {
				if fails--; fails >= 0 {
					return errors.New("not now")
				}
				return nil
			}
			return b
		})
		for range 3 {
			a.Tell(k.Context(), pay{"/b"})
		}
		k.Advance(time.Minute)
		k.ExpectFailures(2)
		if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/a"], serials(3)) {
			t.Errorf("%v, %v", b.got, err)
		}
		if !strings.Contains(k.Log(), "not delivered, trying again") {
			t.Errorf("the log does not say so:\n%s", k.Log())
		}
	})
}

// narrow takes one type only.
type narrow struct {
	persist.Events[any]
	serials []int
	err     func() error
}

func (n *narrow) Apply(e any) { n.serials = append(n.serials, e.(got).Serial) }

func (n *narrow) Receive(_ *actor.Context[got], m got) error {
	n.Record(m)
	return n.err()
}

func TestAMessageOfATypeThatIsNotTakenHoldsUpNobodyElse(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		fails := 1
		persist.Spawn(p, k.System(), "b", func() *narrow {
			return &narrow{err: func() error {
				if fails--; fails >= 0 {
					return errors.New("not now")
				}
				return nil
			}}
		})
		for i, m := range []any{paid{"/b", 1}, got{"x", 2}, got{"y", 3}} {
			sender := persist.Spawn(p, k.System(), fmt.Sprint("a-", i), newTeller)
			sender.Tell(k.Context(), func(t *teller) { t.Send("/b", m) })
			k.Settle()
		}
		k.Advance(10 * time.Minute)
		k.ExpectFailures(1)
		events, err := j.Events(k.Context(), "/b", 0, 10)
		if err != nil || len(events) != 2 {
			t.Errorf("of two messages that it takes %d were handled, %v", len(events), err)
		}
	})
}

func TestWhatAReceiverForwardsIsAnOrdinaryMessage(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", newTeller)
		b := persist.Spawn(p, k.System(), "b", newTeller)
		persist.Spawn(p, k.System(), "desk", func() *desk { return &desk{to: b} })
		for range 2 {
			a.Tell(k.Context(), pay{"/desk"})
			k.Settle()
		}
		a.Tell(k.Context(), pay{"/b"}) // message 3 of a, the first to b
		k.Settle()
		got, err := replayed(j, "/b")
		if err != nil || !slices.Equal(got.got["/a"], []int{1, 2, 1}) {
			t.Errorf("%v, %v", got.got, err)
		}
		l, err := j.Load(t.Context(), []string{"/b"})
		if want := []persist.Seen{{From: "/a", Number: 3}}; err != nil || !slices.Equal(l[0].Seen, want) {
			t.Errorf("seen: %v, %v", l[0].Seen, err)
		}
	})
}

func TestSendersOfWhatAlwaysFailsDoNotStopTheReceiver(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		persist.Spawn(p, k.System(), "b", func() *teller {
			b := newTeller()
			b.err = func() error { return errors.New("never") }
			return b
		})
		for i := range 30 {
			persist.Spawn(p, k.System(), fmt.Sprint("a-", i), newTeller).Tell(k.Context(), pay{"/b"})
		}
		k.Advance(5 * time.Minute)
		k.AllowFailures()
		if _, err := actor.LookupPath[any](k.System(), "/b"); err != nil {
			t.Errorf("the receiver has stopped: %v", err)
		}
	})
}

// desk is durable and forwards what it gets.
type desk struct {
	persist.Events[any]
	to actor.Ref[any]
}

func (*desk) Apply(any) {}

func (d *desk) Receive(ctx *actor.Context[any], _ any) error { return actor.Forward(ctx, d.to) }

func TestWhatAHandlerSendsThatFailsIsNotDelivered(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", func() *teller {
			a := newTeller()
			a.err = func() error {
				a.Send("/b", got{"/a", 1})
				a.Remind("key", time.Now(), rung{})
				return errors.New("broken")
			}
			return a
		})
		persist.Spawn(p, k.System(), "b", newTeller)
		a.Tell(k.Context(), got{})
		a.Tell(k.Context(), pay{"/b"})
		k.Advance(time.Second)
		k.ExpectFailures(1)
		if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/a"], serials(1)) {
			t.Errorf("%v, %v", b.got, err)
		}
		if l, err := j.Load(t.Context(), []string{"/a"}); err != nil || l[0].Sent != 1 || len(l[0].Reminders) > 0 {
			t.Errorf("%+v, %v", l, err)
		}
	})
}

func TestWhoIsNotThereGetsItLater(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, woken := memory.New(), make(chan string, 10)
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, _ *persist.Persistence, id string) error {
			woken <- id
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		a := persist.Spawn(p, k.System(), "a", newTeller)
		a.Tell(k.Context(), pay{"/b"})
		a.Tell(k.Context(), pay{"/b"})
		k.Settle()
		if id := <-woken; id != "/b" || len(woken) > 0 {
			t.Errorf("woken: %s", id)
		}
		persist.Spawn(p, k.System(), "b", newTeller)
		k.Settle()
		if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/a"], serials(2)) {
			t.Errorf("%v, %v", b.got, err)
		}
		k.ExpectFailures(0)
	})
}

// A sender's messages to somebody who is not there are in memory up to a bound; the others come
// when there is somebody, and those to somebody else at once.
func TestAPairThatWaitsLeavesItsMessagesInTheJournal(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		const most = 1_200 // several times what is in memory, and more than a page
		j := memory.New()
		p := open(k, j)
		a := persist.Spawn(p, k.System(), "a", newTeller)
		persist.Spawn(p, k.System(), "b", newTeller)
		for n := range most {
			a.Tell(k.Context(), pay{"/late"})
			if n%4 == 0 {
				a.Tell(k.Context(), pay{"/b"})
			}
		}
		k.Settle()
		if b, err := replayed(j, "/b"); err != nil || len(b.got["/a"]) != most/4 {
			t.Errorf("%d messages came at once, want %d; %v", len(b.got["/a"]), most/4, err)
		}
		persist.Spawn(p, k.System(), "late", newTeller)
		k.Settle()
		for range 5 {
			a.Tell(k.Context(), pay{"/late"})
		}
		k.Settle()
		late, err := replayed(j, "/late")
		if got := late.got["/a"]; err != nil || !slices.Equal(got, serials(most+5)) {
			t.Errorf("%d messages came later, want %d, in order; %v", len(got), most+5, err)
		}
	})
}

func TestWhoWasKilledIsWokenAgain(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, wakes := memory.New(), atomic.Int64{}
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			if wakes.Add(1) == 1 {
				return errors.New("nobody is at home")
			}
			persist.Spawn(p, k.System(), id[1:], newTeller)
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := persist.Spawn(p, k.System(), "b", newTeller)
		k.Settle()
		b.Kill()
		k.Settle()
		for i := range 3 {
			persist.Spawn(p, k.System(), fmt.Sprint("a-", i), newTeller).Tell(k.Context(), pay{"/b"})
		}
		k.Settle()
		if wakes.Load() != 1 || !strings.Contains(k.Log(), "nobody is at home") {
			t.Errorf("woken %d times; the log:\n%s", wakes.Load(), k.Log())
		}
		k.Advance(2 * time.Minute)
		if b, err := replayed(j, "/b"); err != nil || len(b.got) != 3 || wakes.Load() != 2 {
			t.Errorf("%v, %v, woken %d times", b.got, err, wakes.Load())
		}
	})
}

// A message is lost with the mailbox of an actor that ends, and comes again when there is another one.
func TestWhatIsLostWithItsReceiverComesAgainSoon(t *testing.T) {
	ends := map[string]func(actor.Ref[any]){"Kill": actor.Ref[any].Kill, "Stop": actor.Ref[any].Stop}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			actortest.Run(t, func(k *actortest.Kit) {
				j, hold := memory.New(), make(chan struct{})
				p := open(k, j)
				b := persist.Spawn(p, k.System(), "b", newTeller)
				b.Tell(k.Context(), func(*teller) { <-hold })
				a := persist.Spawn(p, k.System(), "a", newTeller)
				for range 3 {
					a.Tell(k.Context(), pay{"/b"})
				}
				k.Settle()
				end(b)
				close(hold)
				k.Settle()
				persist.Spawn(p, k.System(), "b", newTeller)
				k.Advance(time.Second)
				if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/a"], serials(3)) {
					t.Errorf("%v, %v", b.got, err)
				}
				k.ExpectFailures(0)
			})
		})
	}
}

// A delivery that was canceled while the receiver handled it has no turn that others wait for.
func TestWhatIsErasedAndThenRefusedHoldsUpNobody(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, j)
		in, out := make(chan struct{}), make(chan struct{})
		failed := false
		persist.Spawn(p, k.System(), "b", func() *teller {
			b := newTeller()
			b.err = func() error {
				if failed {
					return nil
				}
				failed = true
				close(in)
				<-out
				return errors.New("not now")
			}
			return b
		})
		persist.Spawn(p, k.System(), "a", newTeller).Tell(k.Context(), pay{"/b"})
		<-in
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Error(err)
		}
		close(out)
		k.Settle()
		persist.Spawn(p, k.System(), "c", newTeller).Tell(k.Context(), pay{"/b"})
		k.Advance(2 * time.Second)
		if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/c"], serials(1)) || len(b.got) != 1 {
			t.Errorf("%v, %v", b.got, err)
		}
		k.ExpectFailures(1)
	})
}

// The delivery that calls Wake is canceled: another one that waits calls it.
func TestAnErasureLeavesSomebodyToCallWake(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, home := memory.New(), atomic.Bool{}
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			if !home.Load() {
				return errors.New("nobody is at home")
			}
			_, err := persist.TrySpawn(p, k.System(), id[1:], newTeller)
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		persist.Spawn(p, k.System(), "a", newTeller).Tell(k.Context(), pay{"/b"})
		k.Advance(30 * time.Second) // so the next try is a while away
		persist.Spawn(p, k.System(), "c", newTeller).Tell(k.Context(), pay{"/b"})
		k.Settle()
		home.Store(true)
		if err := p.Erase(k.Context(), "/a"); err != nil {
			t.Error(err)
		}
		k.Advance(time.Second)
		if b, err := replayed(j, "/b"); err != nil || !slices.Equal(b.got["/c"], serials(1)) || len(b.got) != 1 {
			t.Errorf("%v, %v", b.got, err)
		}
	})
}

// slow is a teller that takes its time to end.
type slow struct{ teller }

func (s *slow) Terminate(ctx *actor.Context[any], _ error) { _ = ctx.Sleep(time.Second) }

// While an actor ends, its name is taken: Wake could not spawn the next one.
func TestWhoIsEndingIsWokenWhenItHasEnded(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, wakes := memory.New(), atomic.Int64{}
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			wakes.Add(1)
			_, err := persist.TrySpawn(p, k.System(), id[1:], newTeller)
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		b := persist.Spawn(p, k.System(), "b", func() *slow { return &slow{*newTeller()} })
		k.Settle()
		b.Stop()
		for i := range 3 {
			persist.Spawn(p, k.System(), fmt.Sprint("a-", i), newTeller).Tell(k.Context(), pay{"/b"})
		}
		k.Advance(1200 * time.Millisecond)
		if b, err := replayed(j, "/b"); err != nil || len(b.got) != 3 || wakes.Load() != 1 {
			t.Errorf("%v, %v, woken %d times; the log:\n%s", b.got, err, wakes.Load(), k.Log())
		}
		k.ExpectFailures(0)
	})
}

// While Wake runs for an id it is not called again, also if the actor that it has spawned ends meanwhile,
// and soon after it returns.
func TestWakeIsCalledByOneAtATime(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, running, wakes := memory.New(), atomic.Int64{}, atomic.Int64{}
		p, err := persist.Open(k.Context(), k.System(), j, persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			if n := running.Add(1); n > 1 {
				t.Errorf("%d run", n)
			}
			defer running.Add(-1)
			b, err := persist.TrySpawn(p, k.System(), id[1:], newTeller)
			if wakes.Add(1) == 1 {
				time.Sleep(100 * time.Millisecond)
				b.Kill()
				time.Sleep(100 * time.Millisecond)
			}
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			a := persist.Spawn(p, k.System(), fmt.Sprint("a-", i), newTeller)
			time.AfterFunc(time.Duration(i)*110*time.Millisecond, func() { a.Tell(k.Context(), pay{"/b"}) })
		}
		k.Advance(time.Second)
		if b, err := replayed(j, "/b"); err != nil || len(b.got) != 3 || wakes.Load() != 2 {
			t.Errorf("%v, %v, woken %d times", b.got, err, wakes.Load())
		}
	})
}

// brief is a teller that ends as soon as it has begun.
type brief struct{ teller }

func (b *brief) Init(ctx *actor.Context[any]) error {
	ctx.Self().Stop()
	return nil
}

// A receiver that ends again and again is woken at growing intervals.
func TestAReceiverThatKeepsEndingIsWokenEverMoreSeldom(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		wakes := atomic.Int64{}
		p, err := persist.Open(k.Context(), k.System(), memory.New(), persist.Config{Types: types, Wake: func(_ context.Context, p *persist.Persistence, id string) error {
			wakes.Add(1)
			_, err := persist.TrySpawn(p, k.System(), id[1:], func() *brief { return &brief{*newTeller()} })
			return err
		}})
		if err != nil {
			t.Fatal(err)
		}
		persist.Spawn(p, k.System(), "a", newTeller).Tell(k.Context(), pay{"/b"})
		k.Advance(10 * time.Minute)
		if n := wakes.Load(); n < 5 || n > 50 {
			t.Errorf("woken %d times", n)
		}
	})
}

// bentJournal changes what is in its outbox.
type bentJournal struct{ persist.Journal }

func (j *bentJournal) Outbox(ctx context.Context, part int, after uint64, limit int) ([]persist.Outgoing, error) {
	list, err := j.Journal.Outbox(ctx, part, after, limit)
	for i := range list {
		if list[i].To == "/b" {
			list[i].Sum++
		}
	}
	return list, err
}

func TestWhatIsNotWhatWasSentIsNotDelivered(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		p := open(k, &bentJournal{j})
		a := persist.Spawn(p, k.System(), "a", newTeller)
		for _, id := range []string{"b", "c"} {
			persist.Spawn(p, k.System(), id, newTeller)
			a.Tell(k.Context(), pay{"/" + id})
		}
		k.Advance(time.Minute)
		for id, want := range map[string]int{"/b": 0, "/c": 1} {
			if got, err := replayed(j, id); err != nil || len(got.got["/a"]) != want {
				t.Errorf("%s has got %v, %v", id, got.got, err)
			}
		}
		if !strings.Contains(k.Log(), "its checksum is wrong") {
			t.Errorf("the log does not say so:\n%s", k.Log())
		}
	})
}

func TestDeliverGetsWhatIsSentToAnAddress(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		p, log := open(k, memory.New()), actortest.NewJournal(k)
		fails := true
		p.Deliver("bank of elsewhere", func(_ context.Context, from string, number uint64, m any) error {
			log.Addf("%s %d %+v", from, number, m)
			if fails {
				fails = false
				return errors.New("closed")
			}
			return nil
		})
		a := persist.Spawn(p, k.System(), "a", newTeller)
		a.Tell(k.Context(), pay{"bank of elsewhere"})
		a.Tell(k.Context(), pay{"bank of elsewhere"})
		k.Advance(time.Second)
		log.Expect("/a 1 {From:/a Serial:1}", "/a 1 {From:/a Serial:1}", "/a 2 {From:/a Serial:2}")
	})
}

func TestAReminderIsReplacedAndForgotten(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := memory.New()
		a := persist.Spawn(open(k, j), k.System(), "a", newTeller)
		start := time.Now()
		a.Tell(k.Context(), ring{"one", start.Add(time.Second)})
		a.Tell(k.Context(), ring{"one", start.Add(time.Hour)})
		a.Tell(k.Context(), ring{"two", start.Add(time.Second)})
		a.Tell(k.Context(), forget("two"))
		a.Tell(k.Context(), forget("three"))
		k.Advance(time.Minute)
		if a, err := replayed(j, "/a"); err != nil || len(a.rung) != 3 {
			t.Errorf("%+v, %v", a.rung, err)
		}
		k.Advance(time.Hour)
		if a, err := replayed(j, "/a"); err != nil || len(a.rung) != 4 || a.rung[3].Key != "one" {
			t.Errorf("%+v, %v", a.rung, err)
		}
	})
}

// countingJournal counts how often it is asked what is due.
type countingJournal struct {
	persist.Journal
	due atomic.Int64
}

func (j *countingJournal) Due(ctx context.Context, part int, now int64, after persist.Reminder, limit int) ([]persist.Reminder, error) {
	j.due.Add(1)
	return j.Journal.Due(ctx, part, now, after, limit)
}

func TestRemindersThatCannotBeDeliveredHideNoOther(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j := &countingJournal{Journal: memory.New()}
		p := open(k, j)
		lost := persist.Spawn(p, k.System(), "lost", newTeller)
		start := time.Now()
		lost.Tell(k.Context(), func(t *teller) {
			for i := range persist.PageRecords {
				t.Remind(fmt.Sprint(i), start.Add(time.Minute), rung{Key: "lost"})
			}
		})
		k.Settle()
		lost.Stop()
		id := ""
		for i := 0; id == "" || persist.PartOf("/"+id) != persist.PartOf("/lost"); i++ {
			id = fmt.Sprint("a-", i)
		}
		a := persist.Spawn(p, k.System(), id, newTeller)
		a.Tell(k.Context(), ring{"key", start.Add(2 * time.Minute)})
		k.Settle()
		before := j.due.Load()
		for range 10 {
			a.Tell(k.Context(), ring{"late", start.Add(time.Hour)})
			k.Settle()
		}
		if n := j.due.Load() - before; n > 0 {
			t.Errorf("%d reads for reminders that are later than the timer", n)
		}
		k.Advance(10 * time.Minute)
		if a, err := replayed(j, "/"+id); err != nil || !slices.ContainsFunc(a.rung, func(r rung) bool { return r.Key == "key" }) {
			t.Errorf("%v, %v", a.rung, err)
		}
	})
}

// clock sets its reminder again, asks, and fails the first time.
type clock struct {
	persist.Events[any]
	to    actor.Ref[msg]
	fails *int
}

func (*clock) Apply(any) {}

func (c *clock) Receive(ctx *actor.Context[any], m any) error {
	r, ok := m.(rung)
	if !ok {
		r = rung{Key: "set tick"}
	}
	c.Remind("tick", time.Now().Add(time.Hour), rung{Key: "tick", At: r.At + 1})
	if !ok {
		return nil
	}
	c.Record(added{1})
	if _, err := actor.Ask(ctx, c.to, msg{add: 1}); err != nil {
		return err
	}
	if *c.fails--; *c.fails >= 0 {
		return errors.New("planned")
	}
	c.Record(r)
	return nil
}

func TestAReminderThatIsSetAgainComesAgainAfterAFailure(t *testing.T) {
	actortest.Run(t, func(k *actortest.Kit) {
		j, fails := memory.New(), 1
		p := open(k, j)
		to := persist.Spawn(p, k.System(), "account", func() *account { return &account{} })
		persist.Spawn(p, k.System(), "clock", func() *clock { return &clock{to: to, fails: &fails} }).Tell(k.Context(), "begin")
		k.Advance(90 * time.Minute)
		k.ExpectFailures(1)
		c, err := replayed(j, "/clock")
		if want := []rung{{Key: "tick", At: 1}}; err != nil || !slices.Equal(c.rung, want) {
			t.Errorf("%v, %v", c.rung, err)
		}
	})
}
