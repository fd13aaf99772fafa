package mqtt

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// wills are the messages that clients have left behind for when they are lost. They obey
// the same rules as what is published: mochi would send them to any topic, and before
// anyone has looked at them. So a will is taken from mochi when the client connects.
type wills struct {
	broker *Broker

	mu      sync.Mutex
	delayed map[string]*delayedWill // guarded by mu; by client id: of clients that are away
}

type delayedWill struct {
	*will
	timer *time.Timer
}

// will is the message of one connection.
type will struct {
	packet packets.Packet
	conn   *conn // whose it is
	delay  time.Duration
	size   int64 // what it takes from the budget
}

// take takes the will of a client that connects from mochi. It reports false where there
// is no room for it.
func (w *wills) take(c *conn, cl *mochi.Client) bool {
	given := &cl.Properties.Will
	if given.Flag == 0 {
		return true
	}
	left := &will{conn: c, packet: packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: given.Qos, Retain: given.Retain},
		TopicName:   strings.Clone(given.TopicName), Payload: bytes.Clone(given.Payload), Properties: packets.Properties{User: cloneUser(given.User)},
		ProtocolVersion: cl.Properties.ProtocolVersion, Origin: cl.ID,
	}, delay: time.Duration(given.WillDelayInterval) * time.Second}
	left.size = sizeOf(&left.packet)
	cl.Properties.Will = mochi.Will{}
	if !w.broker.queued.take(left.size, left.size <= sessionReserve) {
		return false
	}
	c.will = left
	return true
}

// cloneUser copies user properties out of the packet that they are parts of.
func cloneUser(list []packets.UserProperty) []packets.UserProperty {
	list = slices.Clone(list)
	for i := range list {
		list[i].Key, list[i].Val = strings.Clone(list[i].Key), strings.Clone(list[i].Val)
	}
	return list
}

// cancel takes back the delayed will of a client that has come back.
func (w *wills) cancel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.delayed[id]; d != nil {
		delete(w.delayed, id)
		d.timer.Stop() // where that is too late, it finds that it is not wanted
		w.broker.queued.give(d.size)
	}
}

// lost sends the will of a connection that has ended, after its delay, or, where the
// client took its leave, drops it. It is called once a connection.
func (w *wills) lost(c *conn, cl *mochi.Client, left bool) {
	last := c.will
	if last == nil {
		return
	}
	c.will = nil
	delay := last.delay
	if cl.Properties.ProtocolVersion == 5 { // it is sent at the end of the session at the latest
		delay = min(delay, time.Duration(cl.Properties.Props.SessionExpiryInterval)*time.Second)
	}
	switch {
	case left, delay > 0 && cl.IsTakenOver(): // the client is there
		w.broker.queued.give(last.size)
	case delay > 0:
		w.later(cl.ID, last, delay)
	default:
		go w.send(last)
	}
}

func (w *wills) later(id string, left *will, delay time.Duration) {
	w.cancel(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &delayedWill{will: left}
	d.timer = time.AfterFunc(delay, func() {
		w.mu.Lock()
		due := w.delayed[id] == d
		if due {
			delete(w.delayed, id)
		}
		w.mu.Unlock()
		if due {
			w.send(left)
		}
	})
	w.delayed[id] = d
}

// send does with a will what is done with a message of QoS 2, but that nobody is
// answered: a refusal is counted.
func (w *wills) send(last *will) {
	b := w.broker
	defer b.queued.give(last.size)
	pk := &last.packet
	if v := b.publishWill(pk, last.conn); v != nil {
		b.refusals.AddMessage(refusal.MQTT, v.Cause, pk.TopicName, pk.Origin, v.Detail, b.shownOf(pk))
	}
}

func (b *Broker) publishWill(pk *packets.Packet, c *conn) *refusal.Verdict {
	to, refused := b.routeOf(pk.TopicName)
	if refused != nil {
		return refused
	}
	err := to.allows(b, c.who)
	if !c.who.Valid() { // revoked since it connected
		err = access.ErrCredentials
	}
	if err != nil {
		v := refusal.Judge(err)
		return &v
	}
	shared := to.prepare(pk)
	if to.layout != nil || !clears(pk) {
		if err := to.wait(c, pk, sending{by: c.who.Name(), will: true}); err != nil {
			v := refusal.Judge(err)
			return &v
		}
	}
	if shared {
		b.forward(pk)
	}
	return nil
}
