package mqtt

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"net/netip"
	"strings"
	"time"

	mochi "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

	"github.com/greenroom-go/greenroom/internal/text"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// login identifies the client. A token is the password or, for some devices, the user name. Without
// a password a client certificate counts, if there is one. Anything else is a name and a password.
//
// If the client had to log in, its id is prefixed with its principal's name, so that nobody can
// take over the session of another principal, or end its connection, by using the same id.
func (b *Broker) login(c *conn, cl *mochi.Client, pk *packets.Packet) error {
	attempt, until := b.attemptOf(c, pk)
	who, provisional, err := b.identify(&attempt)
	if err != nil {
		return err
	}
	if who.Name() != "" {
		cl.ID = who.Name() + "/" + cl.ID
	}
	if provisional { // unknown devices must not end each other's connections
		cl.ID += "/" + rand.Text()
	}
	b.endForeign(cl.ID, who)
	sendOff := func() {
		time.AfterFunc(farewell, func() { _ = c.Close() }) // for a client that does not read
		b.hangUp(cl, packets.ErrNotAuthorized)
	}
	leave, ok := who.Watch(sendOff)
	if !ok {
		return access.ErrCredentials
	}
	if provisional {
		leave = stayBriefly(c, cl, leave)
	}
	if who.Name() != "" && !until.IsZero() {
		leave = afterEnd(time.AfterFunc(time.Until(until), sendOff), leave)
	}
	c.who, c.leave, c.newcomer = who, leave, provisional
	if len(attempt.Name) <= maxNameBytes { // it is kept as long as the session
		c.user = attempt.Name
	}
	return nil
}

// provisionUser is the user name of devices that have no credentials yet, and provisionSession how
// long they may stay connected to request some.
const (
	provisionUser    = "provision"
	provisionSession = time.Minute
)

// stayBriefly limits the connection of a device without credentials, and keeps no session, which
// would displace that of another client. It returns leave, extended to release the timer.
func stayBriefly(c *conn, cl *mochi.Client, leave func()) func() {
	cl.Properties.Clean, cl.Properties.Props.SessionExpiryInterval = true, 0
	cl.Properties.Will = mochi.Will{} // it could not be published
	return afterEnd(time.AfterFunc(provisionSession, func() { _ = c.Close() }), leave)
}

// afterEnd returns leave, extended to stop a timer.
func afterEnd(timer *time.Timer, leave func()) func() {
	return func() {
		timer.Stop()
		leave()
	}
}

// attemptOf returns the credentials that a client presents, and when they expire; zero means never.
func (b *Broker) attemptOf(c *conn, pk *packets.Packet) (a access.Attempt, until time.Time) {
	a = access.Attempt{Name: string(pk.Connect.Username), Password: string(pk.Connect.Password), Address: addressOf(c.RemoteAddr())}
	if id, ok := b.identityOf(a.Name, a.Password); ok {
		a.Name, a.Signature, until = id.Name, id.Signature, id.Until
	}
	switch {
	case a.Signature != nil:
	case access.IsToken(a.Password):
		a.Token = a.Password
	case access.IsToken(a.Name):
		a.Token = a.Name
	case a.Password == "":
		a.Certificate, until = access.CertificateOf(encryptionOf(c.Conn), time.Now())
	}
	return a, until
}

// identityOf returns the identity according to the layouts that are an Authenticator.
func (b *Broker) identityOf(user, password string) (id layout.Identity, ok bool) {
	for _, l := range b.layouts {
		if own, is := l.(layout.Authenticator); is && !ok {
			id, ok = own.Identify(user, password)
		}
	}
	return id, ok
}

// identify identifies the client. If there are provision keys, a device without credentials is
// accepted provisionally: it may only request credentials.
func (b *Broker) identify(attempt *access.Attempt) (who *access.Principal, provisional bool, err error) {
	if attempt.Name == provisionUser && attempt.Token == "" && attempt.Password == "" && attempt.Certificate == "" {
		if who, ok := b.access.Provisioner(attempt.Address); ok {
			return who, true, nil
		}
	}
	ctx, cancel := context.WithTimeout(b.running, connectTimeout)
	defer cancel()
	who, err = b.access.Login(ctx, attempt)
	return who, false, err
}

// encryptionOf returns the state of the encryption of a connection, or nil if it has none.
func encryptionOf(nc net.Conn) *tls.ConnectionState {
	switch nc := nc.(type) {
	case *tls.Conn:
		now := nc.ConnectionState()
		return &now
	case *socket:
		return nc.tls
	default:
		return nil
	}
}

func addressOf(a net.Addr) netip.Addr {
	at, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return at.Addr().Unmap()
}

// turnAway answers a CONNECT that is refused, and returns the error that ends the connection.
func (b *Broker) turnAway(cl *mochi.Client, err error) error {
	a, _ := refusal.Find(err)
	v := refusal.Judge(err)
	from := "" // the address: a refused client may claim any id
	if c, ok := cl.Net.Conn.(*conn); ok {
		from = addressOf(c.RemoteAddr()).String()
	}
	b.refusals.Add(refusal.MQTT, v.Cause, "", from, v.Detail)
	code := packets.Code{Code: v.Code, Reason: text.Shorten(a.Say(err), 1024)}
	if cl.Properties.ProtocolVersion < 5 {
		code = packets.Code{Code: cmp.Or(a.Connack, packets.Err3ServerUnavailable.Code), Reason: code.Reason}
	}
	_ = b.server.SendConnack(cl, code, false, nil) // the error below ends the connection
	return code
}

// endForeign ends a session that belonged to a revoked principal of the same name: its messages
// were meant for that principal.
func (b *Broker) endForeign(id string, who *access.Principal) {
	old, ok := b.server.Clients.Get(id)
	if !ok {
		return
	}
	if c, ok := old.Net.Conn.(*conn); ok && c.who != who {
		old.Stop(packets.ErrNotAuthorized)
		b.sessions.resumed(id)
		b.endSession(old)
	}
}

// endRevoked ends the session of a disconnected client whose principal was revoked.
func (b *Broker) endRevoked(cl *mochi.Client) {
	if c, ok := cl.Net.Conn.(*conn); ok && c.who != nil && !c.who.Valid() {
		b.sessions.resumed(cl.ID)
		b.endSession(cl)
	}
}

// farewell is the time for a client whose principal was revoked to read the reason.
const farewell = 500 * time.Millisecond

// lookTimeout bounds how long the broker looks at an entity to decide who may see it.
const lookTimeout = 5 * time.Second

// maySee reports whether a client may subscribe to a filter. $SYS is about all clients.
func (b *Broker) maySee(c *conn, name string) bool {
	return b.sees(c, name, true) // nothing is published to a topic without an owner
}

// sees reports whether a client may subscribe to a filter, or receive a message with a topic.
// ownerless is the result for a topic that nothing uses: a message with one came from a deleted
// template, and may be about any entity.
func (b *Broker) sees(c *conn, name string, ownerless bool) bool {
	if c.who == nil || !c.who.Valid() { // it has not connected yet, or was revoked while away
		return false
	}
	if c.newcomer { // it is only answered, on a topic of a layout
		l := b.layoutOf(name)
		if l == nil || strings.ContainsAny(name, "#+") {
			return false
		}
		_, to := l.About(name)
		return to == layout.Nobody
	}
	if c.who.MayAll(access.Read) {
		return true
	}
	if shared, ok := strings.CutPrefix(name, "$share/"); ok {
		_, name, _ = strings.Cut(shared, "/")
	}
	if strings.ContainsAny(name, "#+") {
		return true
	}
	if l := b.layoutOf(name); l != nil {
		id, to := l.About(name)
		return to != layout.Readers || id != "" && c.May(access.Read, id) == nil
	}
	if strings.HasPrefix(name, "$") {
		return false
	}
	id, t := findTopic(name)
	if t == nil {
		return ownerless
	}
	return c.May(access.Read, id) == nil
}

// leaveOut removes those who may not see a topic from its subscribers, before one of a shared
// subscription is chosen.
func (b *Broker) leaveOut(subscribers *mochi.Subscribers, name string) {
	if !b.access.Guarded() {
		return
	}
	blind := func(id string) bool {
		cl, ok := b.server.Clients.Get(id)
		if !ok {
			return false // it will be skipped
		}
		c, ok := cl.Net.Conn.(*conn)
		return ok && !b.sees(c, name, false)
	}
	for id := range subscribers.Subscriptions {
		if blind(id) {
			delete(subscribers.Subscriptions, id)
		}
	}
	for _, group := range subscribers.Shared {
		for id := range group {
			if blind(id) {
				delete(group, id)
			}
		}
	}
}
