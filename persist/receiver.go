package persist

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"sync"

	"github.com/greenroom-go/greenroom/actor"
)

// receivers are who can be sent to, by id.
type receivers struct {
	mu       sync.Mutex
	by       map[string]*receiver        // guarded by mu, as is what follows
	missing  map[string][]actor.Ref[any] // deliveries that wait for that id
	expected map[actor.PID]*attempt      // by the delivery that makes it
}

// receiver is one that can be sent to.
type receiver struct {
	// receive takes an attempt over; it confirms it unless it returns an error.
	receive func(ctx *actor.Context[any], a *attempt, v any) error
}

func newReceivers() *receivers {
	return &receivers{by: make(map[string]*receiver), missing: make(map[string][]actor.Ref[any]), expected: make(map[actor.PID]*attempt)}
}

// add makes a receiver known, in place of an earlier one of that id.
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

// of returns the receiver of an id, nil if there is none: then the delivery is told when there is,
// once. listed says that it will be already.
func (rs *receivers) of(id string, delivery actor.Ref[any], listed bool) *receiver {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.by[id]
	if r == nil && !listed {
		rs.missing[id] = append(rs.missing[id], delivery)
	}
	return r
}

// expect says which attempt a delivery makes.
func (rs *receivers) expect(delivery actor.PID, a *attempt) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.expected[delivery] = a
}

func (rs *receivers) forget(delivery actor.PID) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	delete(rs.expected, delivery)
}

// attemptBy returns the attempt at the receiver id that the sender of a message makes, nil if it is
// no delivery to that one: a message that another actor has forwarded keeps its sender. over says
// that it was one.
func (rs *receivers) attemptBy(sender actor.PID, id string) (a *attempt, over bool) {
	if sender.IsZero() || !isDeliveryTo(id, sender.Path()) {
		return nil, false
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	a = rs.expected[sender]
	return a, a == nil
}

// deliveriesPath is what the paths of deliveries begin with.
const deliveriesPath = "/persist/"

// deliveryName is the name of the deliveries to an id: it tells them from those to others, also
// when they are over.
func deliveryName(to string) string {
	h := fnv.New64a()
	h.Write([]byte(to)) // never fails
	return fmt.Sprintf("delivery-%016x-", h.Sum64())
}

func isDeliveryTo(id, path string) bool {
	return strings.HasPrefix(path, deliveriesPath) && strings.HasPrefix(path[strings.LastIndexByte(path, '/')+1:], deliveryName(id))
}

// Deliver has f get what is sent to an address, in place of a durable actor: for what has another
// home, a queue or an account elsewhere. It is called with the sender's id, the number of the
// message, which is greater for each further one of that sender, and the message. When it returns
// nil the message is forgotten; after an error, and after a crash, it comes again. It may wait,
// and is called for one message of a sender at a time, and for several senders at once. It panics
// if the address is not one of 1 to [MaxIDBytes] bytes.
func (p *Persistence) Deliver(address string, f func(ctx context.Context, from string, number uint64, m any) error) {
	if err := CheckID(address); err != nil {
		panic("persist: Deliver: " + err.Error())
	}
	p.receivers.add(address, &receiver{func(ctx *actor.Context[any], a *attempt, v any) error {
		actor.Pipe(ctx, func(life context.Context) (struct{}, error) {
			return struct{}{}, f(life, a.from, a.number, v)
		}, func(_ struct{}, err error) any { return confirmed{err} })
		return nil
	}})
}

// receiverOf is that of an actor.
func receiverOf[M any](ref actor.Ref[M]) *receiver {
	return &receiver{func(ctx *actor.Context[any], _ *attempt, v any) error {
		m, ok := v.(M)
		if !ok {
			return fmt.Errorf("%s does not take a %T", ref.PID().Path(), v)
		}
		ctx.After("again", patience, tryAgain{}) // the message may be lost
		return ref.TryTell(ctx, m)
	}}
}
