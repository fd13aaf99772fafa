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

// wills holds the wills of clients. They obey the same rules as other messages: mochi would publish
// them to any topic, before any check. So a will is taken from mochi when the client connects.
type wills struct {
	broker *Broker

	mu      sync.Mutex
	delayed map[string]*delayedWill // guarded by mu; by client id: of disconnected clients
	given   map[*will]*mochi.Client // guarded by mu; of connected clients, those with a delay
	saved   bool                    // guarded by mu; from now on the next Broker sends those with a delay
}

type delayedWill struct {
	*will
	timer *time.Timer
	due   time.Time
}

// will is the will of one connection.
type will struct {
	packet packets.Packet
	conn   *conn // its connection
	delay  time.Duration
	size   int64 // charged to the budget
}

// take takes the will of a connecting client from mochi, with the properties from its CONNECT, of
// which mochi keeps only a part. It returns the verdict on a will that is refused.
func (w *wills) take(c *conn, cl *mochi.Client, properties *packets.Properties) *refusal.Verdict {
	given := &cl.Properties.Will
	if given.Flag == 0 {
		return nil
	}
	if hasWildcard(properties.ResponseTopic) {
		return refuseResponse(properties.ResponseTopic)
	}
	left := &will{conn: c, packet: packets.Packet{
		FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: given.Qos, Retain: given.Retain},
		TopicName:   strings.Clone(given.TopicName), Payload: bytes.Clone(given.Payload), Properties: messageProperties(properties),
		ProtocolVersion: cl.Properties.ProtocolVersion, Origin: cl.ID,
	}, delay: time.Duration(given.WillDelayInterval) * time.Second}
	left.size = sizeOf(&left.packet)
	cl.Properties.Will = mochi.Will{}
	if !w.broker.queued.take(left.size, left.size <= sessionReserve) {
		return noRoomForWill(cl.Properties.ProtocolVersion)
	}
	c.will = left
	if left.delay > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.given[left] = cl
	}
	return nil
}

func noRoomForWill(version byte) *refusal.Verdict {
	code := packets.ErrQuotaExceeded.Code
	if version < 5 {
		code = packets.Err3ServerUnavailable.Code
	}
	return &refusal.Verdict{Cause: refusal.CauseWill, Code: code, Detail: "there is no room for the will of another client"}
}

// messageProperties returns a copy of the properties of a will that its message has.
func messageProperties(p *packets.Properties) packets.Properties {
	return packets.Properties{
		PayloadFormat: p.PayloadFormat, PayloadFormatFlag: p.PayloadFormatFlag, MessageExpiryInterval: p.MessageExpiryInterval,
		ContentType: strings.Clone(p.ContentType), ResponseTopic: strings.Clone(p.ResponseTopic), CorrelationData: bytes.Clone(p.CorrelationData),
		User: cloneUser(p.User),
	}
}

// cloneUser copies user properties, which are slices of the packet.
func cloneUser(list []packets.UserProperty) []packets.UserProperty {
	list = slices.Clone(list)
	for i := range list {
		list[i].Key, list[i].Val = strings.Clone(list[i].Key), strings.Clone(list[i].Val)
	}
	return list
}

// cancel cancels the delayed will of a client that has come back.
func (w *wills) cancel(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := w.delayed[id]; d != nil {
		delete(w.delayed, id)
		d.timer.Stop() // if that is too late, the timer finds the will canceled
		w.broker.queued.give(d.size)
	}
}

// lost sends the will of a connection that has ended, after its delay. If the client has
// disconnected properly (left), the will is dropped. It is called once for each connection.
func (w *wills) lost(c *conn, cl *mochi.Client, left bool) {
	last := c.will
	if last == nil {
		return
	}
	c.will = nil
	w.mu.Lock()
	delete(w.given, last)
	saved := w.saved
	w.mu.Unlock()
	delay := last.delayOf(cl)
	switch {
	case left, delay > 0 && (saved || cl.IsTakenOver()): // the client is back, or the next Broker sends it
		w.broker.queued.give(last.size)
	case delay > 0:
		w.later(cl.ID, last, delay)
	default:
		go w.send(last)
	}
}

// delayOf returns how long after the end of its connection a will is sent, at most until the end of
// the session.
func (l *will) delayOf(cl *mochi.Client) time.Duration {
	if cl.Properties.ProtocolVersion < 5 {
		return l.delay
	}
	return min(l.delay, time.Duration(cl.Properties.Props.SessionExpiryInterval)*time.Second)
}

// savedWill is a will that is still to be sent.
type savedWill struct {
	Message *savedMessage `json:"message"`
	Client  string        `json:"client"`
	Owner   string        `json:"owner,omitempty"` // the name of its principal
	Due     int64         `json:"due,omitempty"`   // when to send it, in milliseconds since the epoch
	Delay   time.Duration `json:"delay,omitempty"` // for a client that was connected: how long after the start
}

// save removes the wills with a delay and returns them, for the next Broker.
func (w *wills) save() (list []savedWill) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.saved = true
	add := func(id string, left *will, x savedWill) {
		if left.conn.who.Valid() {
			x.Message, x.Client, x.Owner = savedMessageOf(&left.packet), id, left.conn.who.Name()
			list = append(list, x)
		}
	}
	for id, d := range w.delayed {
		d.timer.Stop() // if that is too late, the timer finds the will canceled
		w.broker.queued.give(d.size)
		add(id, d.will, savedWill{Due: d.due.UnixMilli()})
	}
	clear(w.delayed)
	for left, cl := range w.given {
		if delay := left.delayOf(cl); delay > 0 {
			add(cl.ID, left, savedWill{Delay: delay})
		}
	}
	return list
}

// restore schedules a will that the previous Broker has saved. The time without a Broker counts for
// clients that had disconnected, but not for those that the shutdown disconnected.
func (w *wills) restore(x *savedWill) {
	b := w.broker
	who, ok := b.access.Find(x.Owner)
	if !ok || !who.Valid() || x.Message == nil {
		return
	}
	c := newConn(ended(), b)
	c.client, c.who, c.disconnected = b.server.NewClient(c, listenerID, x.Client, false), who, true
	c.client.Stop(packets.ErrServerShuttingDown)
	left := &will{conn: c, packet: x.Message.packet(), delay: x.Delay}
	left.size = sizeOf(&left.packet)
	b.queued.take(left.size, true)
	delay := x.Delay
	if x.Due > 0 {
		delay = max(0, time.Until(time.UnixMilli(x.Due)))
	}
	w.later(x.Client, left, delay)
}

func (w *wills) later(id string, left *will, delay time.Duration) {
	w.cancel(id)
	w.mu.Lock()
	defer w.mu.Unlock()
	d := &delayedWill{will: left, due: time.Now().Add(delay)}
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

// send publishes a will by the rules for a QoS 2 message, without an acknowledgement: a refusal is
// counted.
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
