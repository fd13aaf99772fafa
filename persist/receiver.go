package persist

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/actor"
)

// receivers are the possible receivers of messages, by id.
type receivers struct {
	mu       sync.Mutex
	by       map[string]*receiver        // guarded by mu, as is what follows
	missing  map[string][]actor.Ref[any] // deliveries that wait for that id
	waking   map[string]bool             // ids for which Wake runs
	expected map[actor.PID]*attempt      // by the delivery that makes it
	queues   map[string]*queue           // by the id of a receiver that has refused something
}

// queue is the deliveries to a receiver that has refused something: one tries at a time and the
// others wait, so that the receiver is not restarted more often than its supervisor allows.
type queue struct {
	tries   int
	trying  actor.PID
	waiting []actor.Ref[any]
}

// yourTurn tells a delivery to try, after a delay.
type yourTurn struct{ delay time.Duration }

// After a refusal no delivery tries for refusedMin, then for twice as long each time, up to
// refusedMax. That leaves some of the 10 restarts a minute that an actor has by default.
const (
	refusedMin = time.Second
	refusedMax = 15 * time.Second
)

func (q *queue) wait(d actor.Ref[any]) {
	if !slices.Contains(q.waiting, d) {
		q.waiting = append(q.waiting, d)
	}
}

// next gives the turn to the one that has waited longest. The queue is not empty.
func (q *queue) next(delay time.Duration) (tell func()) {
	d := q.waiting[0]
	q.waiting = slices.Delete(q.waiting, 0, 1)
	q.trying = d.PID()
	return func() { d.Tell(context.Background(), yourTurn{delay}) }
}

// admit reports whether a delivery may try. If not, it is told when it may.
func (rs *receivers) admit(to string, d actor.Ref[any]) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	q := rs.queues[to]
	if q == nil || q.trying == d.PID() {
		return true
	}
	q.wait(d)
	return false
}

// refused records that a receiver has failed on a delivery, which then waits behind the others.
func (rs *receivers) refused(to string, d actor.Ref[any]) {
	rs.mu.Lock()
	if rs.expected[d.PID()] == nil { // it was canceled: nobody would pass its turn on
		rs.mu.Unlock()
		return
	}
	q := rs.queues[to]
	if q == nil {
		q = &queue{trying: d.PID()}
		rs.queues[to] = q
	}
	q.wait(d)
	if q.trying != d.PID() {
		rs.mu.Unlock()
		return
	}
	delay := min(refusedMin<<min(q.tries, 10), refusedMax)
	q.tries++
	tell := q.next(delay)
	rs.mu.Unlock()
	tell()
}

// leave records that a delivery no longer tries, because it has succeeded or ended.
func (rs *receivers) leave(to string, d actor.Ref[any]) {
	rs.mu.Lock()
	q, tell := rs.queues[to], func() {}
	if q != nil {
		q.waiting = slices.DeleteFunc(q.waiting, func(w actor.Ref[any]) bool { return w == d })
		switch {
		case q.trying != d.PID():
		case len(q.waiting) == 0:
			delete(rs.queues, to)
		default:
			tell = q.next(0)
		}
	}
	rs.mu.Unlock()
	tell()
}

// receiver is a possible receiver of messages.
type receiver struct {
	// receive accepts an attempt, and confirms it unless it returns an error.
	receive func(ctx *actor.Context[any], a *attempt, v any) error
	in      *incarnation // of a durable actor, nil for what Deliver registers
	pid     actor.PID    // of that actor
}

func newReceivers() *receivers {
	return &receivers{by: make(map[string]*receiver), missing: make(map[string][]actor.Ref[any]), waking: make(map[string]bool), expected: make(map[actor.PID]*attempt), queues: make(map[string]*queue)}
}

// add registers a receiver, replacing an earlier one of that id.
func (rs *receivers) add(id string, r *receiver) {
	rs.mu.Lock()
	rs.by[id] = r
	waiting := rs.missing[id]
	delete(rs.missing, id)
	rs.mu.Unlock()
	for _, d := range waiting {
		d.Tell(context.Background(), arrived{})
	}
}

// remove removes a receiver, if it is still that of the id.
func (rs *receivers) remove(id string, r *receiver) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.by[id] == r {
		delete(rs.by, id)
	}
}

// living returns the incarnation of the durable actor with that id, nil if there is none.
func (rs *receivers) living(id string) *incarnation {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r := rs.by[id]; r != nil {
		return r.in
	}
	return nil
}

// of returns the receiver of an id, nil if there is none: then the delivery is told when there is
// one. first says that the delivery is the first to wait, and should ask the program for the
// receiver.
func (rs *receivers) of(id string, d actor.Ref[any]) (r *receiver, first bool) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if r = rs.by[id]; r != nil {
		return r, false
	}
	if !slices.Contains(rs.missing[id], d) {
		rs.missing[id] = append(rs.missing[id], d)
	}
	return nil, rs.missing[id][0] == d
}

// beginWake reports whether Wake may be called for an id: then endWake has to follow.
func (rs *receivers) beginWake(id string) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if rs.waking[id] {
		return false
	}
	rs.waking[id] = true
	return true
}

// endWake records that Wake has returned. If there is no receiver, because it has ended again or
// because the one before still had the name, the first delivery that waits is told.
func (rs *receivers) endWake(id string) {
	rs.mu.Lock()
	delete(rs.waking, id)
	tell := rs.nobodyWakes(id)
	rs.mu.Unlock()
	tell()
}

// nobodyWakes returns what tells the first delivery that waits for an id, if there is one, that it has
// to call Wake. REQUIRES: mu held.
func (rs *receivers) nobodyWakes(id string) (tell func()) {
	waiting := rs.missing[id]
	if len(waiting) == 0 {
		return func() {}
	}
	first := waiting[0]
	return func() { first.Tell(context.Background(), unwoken{}) }
}

// expect records which attempt a delivery makes.
func (rs *receivers) expect(delivery actor.PID, a *attempt) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expected[delivery] = a
}

// forget is for a delivery that has ended.
func (rs *receivers) forget(to string, d actor.Ref[any]) {
	rs.mu.Lock()
	delete(rs.expected, d.PID())
	list, tell := rs.missing[to], func() {}
	first := len(list) > 0 && list[0] == d
	list = slices.DeleteFunc(list, func(w actor.Ref[any]) bool { return w == d })
	if rs.missing[to] = list; len(list) == 0 {
		delete(rs.missing, to)
	}
	if first {
		tell = rs.nobodyWakes(to)
	}
	rs.mu.Unlock()
	rs.leave(to, d) // then: no refusal makes it try any more
	tell()
}

// attemptBy returns the attempt that the sender of a message makes at the receiver id, nil if the
// sender is not a delivery to that id: a message that another actor has forwarded keeps its sender.
// over says that it was such a delivery, or that another one has to be tried first.
func (rs *receivers) attemptBy(sender actor.PID, id string) (a *attempt, over bool) {
	if !isDelivery(sender, id) {
		return nil, false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	a = rs.expected[sender]
	if q := rs.queues[id]; a != nil && q != nil && q.trying != sender { // it was sent before another one was refused
		q.wait(a.delivery)
		return nil, true
	}
	return a, a == nil
}

// deliveriesPath is the prefix of the paths of deliveries.
const deliveriesPath = "/persist/"

// deliveryName returns the name of the deliveries to an id, which distinguishes them from those to
// other ids even after their end.
func deliveryName(to string) string {
	h := fnv.New64a()
	h.Write([]byte(to)) // never fails
	return fmt.Sprintf("delivery-%016x-", h.Sum64())
}

func isDelivery(sender actor.PID, to string) bool {
	path := sender.Path()
	return strings.HasPrefix(path, deliveriesPath) && strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], deliveryName(to))
}

// Deliver calls f with what is sent to an address, instead of a durable actor, for effects that
// live elsewhere: in a queue, say, or in another system's account. f gets the sender's id, the
// number of the message, which increases for each sender, and the message. When it returns nil the
// message is forgotten; after an error, and after a crash, it comes again. f may block. It is
// called for one message of a sender at a time, and for several senders concurrently. Deliver
// panics if the address does not have 1 to [MaxIDBytes] bytes.
func (p *Persistence) Deliver(address string, f func(ctx context.Context, from string, number uint64, m any) error) {
	if err := CheckID(address); err != nil {
		panic("persist: Deliver: " + err.Error())
	}
	p.receivers.add(address, &receiver{receive: func(ctx *actor.Context[any], a *attempt, v any) error {
		actor.Pipe(ctx, func(life context.Context) (struct{}, error) {
			return struct{}{}, f(life, a.from, a.number, v)
		}, func(_ struct{}, err error) any { return confirmed{err: err} })
		return nil
	}})
}

// receiverOf returns the receiver of an actor.
func receiverOf[M any](ref actor.Ref[M], in *incarnation) *receiver {
	return &receiver{in: in, pid: ref.PID(), receive: func(ctx *actor.Context[any], _ *attempt, v any) error {
		m, ok := v.(M)
		if !ok {
			return fmt.Errorf("%s does not take a %T", ref.PID().Path(), v)
		}
		ctx.After("again", patience, tryAgain{}) // the message may be lost
		return ref.TryTell(ctx, m)
	}}
}
