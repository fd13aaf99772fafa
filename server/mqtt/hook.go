package mqtt

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/internal/text"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// hook implements mochi's hooks. Its methods run on the goroutine that reads the connection: while
// one blocks, the connection is not read.
type hook struct {
	mochi.HookBase
	broker *Broker
}

// ID names the hook.
func (h *hook) ID() string { return "greenroom" }

// Provides lists the methods below.
func (h *hook) Provides(b byte) bool {
	switch b {
	case mochi.OnConnectAuthenticate, mochi.OnACLCheck, mochi.OnConnect, mochi.OnSessionEstablish, mochi.OnSessionEstablished, mochi.OnDisconnect,
		mochi.OnPacketRead, mochi.OnPacketEncode, mochi.OnPacketSent, mochi.OnPublish, mochi.OnQosPublish, mochi.OnSubscribe, mochi.OnSubscribed, mochi.OnUnsubscribed,
		mochi.OnQosComplete, mochi.OnQosDropped, mochi.OnClientExpired, mochi.OnRetainedExpired, mochi.OnPacketProcessed:
		return true
	default:
		return false
	}
}

// OnConnectAuthenticate accepts every client: OnConnect has identified it.
func (h *hook) OnConnectAuthenticate(*mochi.Client, packets.Packet) bool { return true }

// OnACLCheck decides who may subscribe to a filter, and who is sent a message of mochi's own, which
// is one of $SYS or a retained one. A client may subscribe to any filter with wildcards; it is only
// sent messages that it may see. OnPublish decides what may be published, because it can return a
// reason.
func (h *hook) OnACLCheck(cl *mochi.Client, filter string, write bool) bool {
	if write {
		return true
	}
	c, ok := cl.Net.Conn.(*conn)
	if ok && !h.broker.maySee(c, filter) {
		return false
	}
	return filter != noRoom && isAllowed(filter)
}

// isAllowed reports whether a filter is short enough, and has few enough levels. The time that mochi
// takes to insert it grows with the square of their number, and all others wait meanwhile.
func isAllowed(filter string) bool {
	return len(filter) <= maxNameBytes && strings.Count(filter, "/") < maxFilterLevels
}

// noRoom replaces a filter that a session has no room for. OnACLCheck refuses it, and clients cannot
// send it.
const noRoom = "\x00"

// OnSubscribe charges the session for the subscriptions that it does not have yet. OnACLCheck cannot
// do so: mochi also calls it, on other goroutines, for each message of its own that it sends.
// OnSubscribed corrects the charge if mochi refuses a filter for another reason.
func (h *hook) OnSubscribe(cl *mochi.Client, pk packets.Packet) packets.Packet {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk
	}
	n := cl.State.Subscriptions.Len()
	room := make(map[string]bool, len(pk.Filters)) // a packet may name a filter more than once
	for i := range pk.Filters {
		filter := pk.Filters[i].Filter
		if !mochi.IsValidFilter(filter, false) || !isAllowed(filter) || !h.broker.maySee(c, filter) {
			continue // mochi or OnACLCheck refuses it
		}
		fits, known := room[filter]
		if !known {
			_, fits = cl.State.Subscriptions.Get(filter)
			if !fits && n < maxSubscriptions && h.broker.filters.take(cl.ID, ownerOf(cl), filter) {
				fits = true
				n++
			}
			room[filter] = fits
		}
		if !fits {
			pk.Filters[i].Filter = noRoom
		}
	}
	return pk
}

// ownerOf returns the name of the principal of a client, or "" if nobody has to log in.
func ownerOf(cl *mochi.Client) string {
	if c, ok := cl.Net.Conn.(*conn); ok && c.who != nil {
		return c.who.Name()
	}
	return ""
}

// OnConnect identifies the client, ties mochi's client to our connection, and takes over its will.
func (h *hook) OnConnect(cl *mochi.Client, pk packets.Packet) error {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		takeOver(cl)
		return nil
	}
	if len(cl.ID) > maxNameBytes {
		return h.refuse(cl, packets.ErrClientIdentifierNotValid, refusal.CauseInvalid, addressOf(c.RemoteAddr()).String(), fmt.Sprintf("a client id must have at most %d bytes, not %d", maxNameBytes, len(cl.ID)))
	}
	if method := pk.Properties.AuthenticationMethod; method != "" { // MQTT-4.12.0-1
		return h.refuse(cl, packets.ErrBadAuthenticationMethod, refusal.CauseInvalid, addressOf(c.RemoteAddr()).String(), fmt.Sprintf("the authentication method %q is not known: log in with a password, a token or a certificate", text.Shorten(method, 100)))
	}
	if err := h.broker.login(c, cl, &pk); err != nil {
		return h.broker.turnAway(cl, err)
	}
	if err := c.payConnect(); errors.Is(err, net.ErrClosed) {
		return err
	} else if err != nil {
		return h.broker.turnAway(cl, err)
	}
	h.broker.hearOut(cl.ID)
	h.broker.listener.loggedIn(c)
	c.client, c.number = cl, h.broker.begun.Add(1)
	c.flow.begin(cl)
	takeOver(cl)
	if refused := h.broker.wills.take(c, cl, &pk.Connect.WillProperties); refused != nil {
		return h.refuse(cl, goodbye(refused), refused.Cause, cl.ID, refused.Detail)
	}
	return nil
}

// refuse answers a CONNECT that cannot be accepted, and returns the error that ends the connection. from names the
// client in the list of refusals.
func (h *hook) refuse(cl *mochi.Client, code packets.Code, cause, from, detail string) error {
	h.broker.refusals.Add(refusal.MQTT, cause, "", from, detail)
	_ = h.broker.server.SendConnack(cl, code, false, nil)
	return code
}

// OnSessionEstablish makes the previous connection keep what is published from now on, if its
// session continues.
func (h *hook) OnSessionEstablish(cl *mochi.Client, _ packets.Packet) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok || cl.Properties.Clean {
		return
	}
	before, ok := h.broker.server.Clients.Get(cl.ID)
	if !ok || before.Properties.Clean && before.Properties.ProtocolVersion < 5 {
		return
	}
	if c.former, ok = before.Net.Conn.(*conn); ok {
		c.former.outbox.handOver()
	}
}

// takeOver takes what was kept for the session, once messages go to this client.
func (c *conn) takeOver() {
	if c.former == nil {
		return
	}
	c.outbox.adopt(c.client, c.former.outbox.handTo(&c.outbox))
	c.former = nil
}

// OnSessionEstablished releases the messages in flight.
func (h *hook) OnSessionEstablished(cl *mochi.Client, _ packets.Packet) {
	liftReceiveQuota(cl)
	h.broker.wills.cancel(cl.ID)
	h.broker.sessions.resumed(cl.ID)
	if c, ok := cl.Net.Conn.(*conn); ok {
		h.broker.filters.settle(h.broker.server.Clients, cl.ID)
		c.outbox.inherit(cl)
		c.resumeExchanges(cl)
		c.flow.open()
		filters := filtersOf(cl)
		c.speaksForItself()
		h.broker.laidOut(c, filters)
		h.broker.receiveCommands(c, filters)
		c.changed()
	}
}

// OnQosComplete discharges an acknowledged message.
func (h *hook) OnQosComplete(cl *mochi.Client, pk packets.Packet) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		if pk.FixedHeader.Type == packets.Pubrel { // the client's own message is complete
			c.outbox.unreserve(pk.PacketID)
			return
		}
		c.outbox.release(pk.PacketID, refusedBy(&pk))
	}
}

// refusedBy returns the reason why a client refused a message, nil if it accepted it.
func refusedBy(pk *packets.Packet) error {
	if pk.ReasonCode < packets.ErrUnspecifiedError.Code {
		return nil
	}
	return fmt.Errorf("the client refused the message with the reason code %#x: %s", pk.ReasonCode, text.Shorten(pk.Properties.ReasonString, 200))
}

// OnQosDropped discharges a message that has expired, or whose session has ended.
func (h *hook) OnQosDropped(cl *mochi.Client, pk packets.Packet) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.flow.forget(pk.PacketID)
		c.outbox.forget(pk.PacketID)
	}
}

// OnClientExpired ends the session of a client that has been away for too long. mochi would leave
// its subscriptions and the messages in flight.
func (h *hook) OnClientExpired(cl *mochi.Client) {
	h.broker.sessions.resumed(cl.ID)
	h.broker.endSession(cl)
}

// OnPacketSent ends the wait for a QoS 2 message whose PUBREC was sent, and sends the current
// documents for a subscription that was acknowledged.
func (h *hook) OnPacketSent(cl *mochi.Client, pk packets.Packet, _ []byte) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return
	}
	switch pk.FixedHeader.Type {
	case packets.Pubrec:
		c.endExactly()
	case packets.Suback:
		h.broker.sendRetained(c)
		h.broker.laidOut(c, c.layouts)
		h.broker.receiveCommands(c, c.layouts)
		c.layouts = nil
		if len(c.present) > 0 {
			h.broker.shadow.sendPresent(c)
		}
	default:
	}
}

// OnSubscribed records which documents are wanted. If mochi refused a filter because of the number
// of subscriptions or levels, it sets the code in codes, which mochi sends next, accordingly.
func (h *hook) OnSubscribed(cl *mochi.Client, pk packets.Packet, codes []byte) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		for i, code := range codes {
			switch filter := pk.Filters[i].Filter; {
			case code != packets.ErrNotAuthorized.Code:
			case filter == noRoom:
				codes[i] = packets.ErrQuotaExceeded.Code
			case h.broker.maySee(c, filter):
				codes[i] = packets.ErrTopicFilterInvalid.Code
			default:
			}
		}
		h.broker.filters.settle(h.broker.server.Clients, cl.ID)
		h.broker.shadow.subscribed(c, &pk, codes)
		c.keepRetained(&pk, codes)
		for i, sub := range pk.Filters {
			if i < len(codes) && codes[i] < packets.ErrUnspecifiedError.Code {
				c.layouts = append(c.layouts, sub.Filter)
			}
		}
	}
}

// OnUnsubscribed informs the layouts, and stops receiving commands.
func (h *hook) OnUnsubscribed(cl *mochi.Client, pk packets.Packet) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return
	}
	h.broker.filters.settle(h.broker.server.Clients, cl.ID)
	var told []layout.Layout
	for _, sub := range pk.Filters {
		if l := h.broker.layoutOf(sub.Filter); l != nil && !slices.Contains(told, l) {
			told = append(told, l)
			l.Unsubscribed(c, sub.Filter)
		}
		if id, t := findTopic(sub.Filter); t != nil && t.name == commandsTopic {
			c.receiving.stop(id)
		}
	}
}

// filtersOf returns the filters of a client's subscriptions.
func filtersOf(cl *mochi.Client) []string {
	return slices.Collect(maps.Keys(cl.State.Subscriptions.GetAll()))
}

// OnDisconnect sends the will of a client that was lost, records a session that stays, and counts
// clients that were disconnected because of a packet's size.
func (h *hook) OnDisconnect(cl *mochi.Client, err error, expire bool) {
	if c, ok := cl.Net.Conn.(*conn); ok {
		c.endExactly()
		c.disconnected = true
		// mochi passes no error either for a connection that the server has closed.
		h.broker.wills.lost(c, cl, errors.Is(cl.StopCause(), packets.CodeDisconnect))
	}
	if expire || cl.IsTakenOver() {
		endOutbox(cl)
		if !cl.IsTakenOver() {
			h.broker.filters.end(cl.ID)
		}
	} else {
		h.broker.sessions.left(cl)
		h.broker.endRevoked(cl)
	}
	if errors.Is(err, packets.ErrPacketTooLarge) {
		h.broker.refusals.Add(refusal.MQTT, refusal.CausePacketSize, "", cl.ID,
			"a packet larger than the payload limit; send the readings in smaller arrays")
	}
}

// OnPacketRead sees each packet before mochi handles it.
func (h *hook) OnPacketRead(cl *mochi.Client, pk packets.Packet) (packets.Packet, error) {
	c, ok := cl.Net.Conn.(*conn)
	if !ok {
		return pk, nil
	}
	if !h.broker.mayChange(c, &pk) {
		return pk, packets.ErrRejectPacket
	}
	ownNames(&pk)
	switch pk.FixedHeader.Type {
	case packets.Connect:
		allowEmptyPassword(&pk)
	case packets.Publish:
		if pk.Properties.TopicAliasFlag && len(pk.TopicName) > maxNameBytes { // which would stay in memory
			h.broker.refusals.Add(refusal.MQTT, refusal.CauseTopic, "", cl.ID, fmt.Sprintf("a topic with an alias must have at most %d bytes, not %d", maxNameBytes, len(pk.TopicName)))
			return pk, packets.ErrRejectPacket
		}
		if hasWildcard(pk.Properties.ResponseTopic) {
			refused := refuseResponse(pk.Properties.ResponseTopic)
			h.broker.refusals.Add(refusal.MQTT, refused.Cause, pk.TopicName, cl.ID, refused.Detail)
			h.broker.hangUp(cl, goodbye(refused))
			return pk, packets.ErrRejectPacket
		}
		h.broker.renumber(c, cl, &pk)
		if strings.HasPrefix(pk.TopicName, "$") {
			pk.TopicName = reserved + pk.TopicName
		}
	case packets.Subscribe, packets.Unsubscribe:
		if len(pk.Filters) > maxSubscriptions { // more than a session has room for, which would stay in memory while it waits
			h.broker.refusals.Add(refusal.MQTT, refusal.CausePacketSize, "", cl.ID, fmt.Sprintf("a packet with more than %d filters; send them in several", maxSubscriptions))
			return pk, packets.ErrRejectPacket
		}
		if !c.pace(len(pk.Filters)) {
			return pk, packets.ErrRejectPacket
		}
		if pk.FixedHeader.Type == packets.Subscribe {
			if slices.ContainsFunc(pk.Filters, func(f packets.Subscription) bool { return f.RetainHandling > 2 }) {
				h.broker.hangUp(cl, packets.ErrProtocolViolation) // MQTT 5, 3.8.3.1
				return pk, packets.ErrRejectPacket
			}
			c.noteRetained(cl, &pk)
		}
		h.broker.renumber(c, cl, &pk)
	case packets.Pubrel:
		h.broker.renumber(c, cl, &pk)
	default:
		c.flow.acknowledged(&pk)
	}
	return pk, nil
}

// OnPacketEncode adds the limits that mochi does not send to MQTT 5 clients, and corrects packets
// of mochi.
func (h *hook) OnPacketEncode(cl *mochi.Client, pk packets.Packet) packets.Packet {
	switch pk.FixedHeader.Type {
	case packets.Connack:
		if pk.ReasonCode == packets.CodeSuccess.Code {
			pk.Properties.MaximumPacketSize = maxPacketBytes
			pk.Properties.TopicAliasMaximum = maxTopicAliases
			if c, ok := cl.Net.Conn.(*conn); ok {
				c.takeOver()
			}
		}
		if pk.ReasonCode == packets.ErrUnspecifiedError.Code && cl.Properties.ProtocolVersion < 5 {
			pk.ReasonCode = packets.Err3ClientIdentifierNotValid.Code // none, and a session to be kept (MQTT-3.1.3-8)
		}
	case packets.Pubrec:
		if pk.ReasonCode == packets.ErrPacketIdentifierInUse.Code {
			pk.ReasonCode = packets.CodeSuccess.Code // a repeated message that is committed already is not a failure
		}
		if c, ok := cl.Net.Conn.(*conn); ok {
			pk = c.numbered(cl, pk)
		}
	case packets.Publish:
		pk.Mods.MaxSize = 0 // the flow discards packets that are too large
	case packets.Suback, packets.Unsuback, packets.Puback, packets.Pubcomp: // mochi writes them while it handles the packet read last
		if c, ok := cl.Net.Conn.(*conn); ok {
			pk = c.numbered(cl, pk)
		}
	default:
	}
	return pk
}
