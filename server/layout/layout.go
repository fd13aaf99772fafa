// Package layout defines the interface between the broker and the conventions of devices. A Layout
// maps the MQTT topics and payloads of one convention to entities; package thingsboard contains
// one. The broker's own topics, e/{id}/…, are in package mqtt.
//
// A layout has no more privileges than any other client of the runtime: the sender of a message
// must have permission, readings and attributes take the same path, and an acknowledgement means
// the same.
package layout

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
)

// Runtime is the part of the entity runtime that layouts need. An entity.Runtime implements it.
type Runtime interface {
	// IngestOnce commits readings.
	IngestOnce(ctx context.Context, id string, once entity.Once, readings []entity.Reading, size int, done func(error)) error
	// Edit changes attributes and relations.
	Edit(ctx context.Context, id string, edits entity.Edits) (entity.Edited, error)
	// View calls f with an entity.
	View(ctx context.Context, id string, f func(entity.View) error) error

	// Receive registers deliver to send the commands of an entity to its device, until stop is
	// called.
	Receive(id string, deliver func(entity.Command)) (stop func(), err error)
	// Delivered records that a device has received a command, Done that it has carried it out, and
	// Fail that it has not.
	Delivered(ctx context.Context, id, command string) error
	Done(ctx context.Context, id, command string, result value.Value) error
	Fail(ctx context.Context, id, command, reason string) error
	// CommandHeld reports whether a command that was passed to a receiver still has to be sent.
	CommandHeld(id, command string) bool
	// OpenCommands returns the commands that have not ended, oldest first.
	OpenCommands(ctx context.Context, id string) ([]entity.Command, error)
}

// Host is the server, as layouts see it. Its functions may be called concurrently.
type Host struct {
	Runtime Runtime
	Logger  *slog.Logger
	// Running ends when the server stops accepting messages.
	Running context.Context //nolint:containedctx // the broker's own life
	// Publish sends a message to the clients that subscribe to its topic and may see it, see
	// Layout.About. It does not block. Wanted reports whether there may be such a client.
	Publish func(topic string, payload []byte, qos byte)
	Wanted  func(topic string) bool
}

// Client is a connection, from its CONNECT to its end, or the client whose will is sent. Clients
// are comparable. Methods may be called concurrently.
type Client interface {
	// Self returns the id of the device's own entity: the name of its principal or, if nobody has
	// to log in, the user name that it gives, or else its client id.
	Self() string
	// User returns the user name in CONNECT, or "".
	User() string
	// Address returns the client's address, or the zero Addr if it is not known.
	Address() netip.Addr
	// Who returns the client's principal, for decisions and for the audit log.
	Who() *access.Principal
	// May returns nil if the client may do a with an entity.
	May(a access.Action, id string) error
	// Record writes an action of the client, such as updateShadow, to the audit log. What devices
	// report is not recorded.
	Record(action, what string)
	// Subscribes reports whether the client subscribes to a topic.
	Subscribes(topic string) bool
	// Filters returns the filters of the client's subscriptions, in any order.
	Filters() []string
	// Joined marks the device of an entity as connected through the client, as if the connection
	// were its own, until Parted is called or the client's connection ends. It has no effect if the
	// client does not have the role Device for the entity.
	Joined(id string)
	Parted(id string)
	// Send sends a message to this client alone, with QoS 1 or less. It does not block. The error
	// is ErrNotSubscribed if the client does not subscribe to the topic.
	//
	// If receipt is not nil, the message is for the present connection only, and the error may also
	// be ErrNoRoom or ErrGone. If Send returns nil, receipt.Settled is called once.
	Send(topic string, payload []byte, receipt *Receipt) error
}

// Receipt contains the callbacks for a message that was sent.
type Receipt struct {
	// Settled is called on any goroutine, and must not block: with nil when the client has
	// acknowledged the message or, if it subscribes with QoS 0, when it is written; with ErrGone if
	// the connection has ended before, or the message was no longer wanted; with another error if
	// the client refuses the message or cannot take it.
	Settled func(error)
	// Wanted reports whether the message is still to be sent. It is asked right before the message
	// is written, however long that had to wait, and must not block. nil: it is.
	Wanted func() bool
}

// With returns a receipt for the same message with another Settled.
func (r *Receipt) With(settled func(error)) *Receipt {
	return &Receipt{Settled: settled, Wanted: r.Wanted}
}

// Errors of Client.Send.
var (
	// ErrGone means that the connection ended before the message was sent or acknowledged.
	ErrGone = errors.New("the connection has ended")
	// ErrNotSubscribed means that the client does not subscribe to the topic.
	ErrNotSubscribed = errors.New("the client does not subscribe to the topic")
	// ErrNoRoom means that too many messages are waiting for the client: try again later.
	ErrNoRoom = errors.New("too much waits for the client")
)

// Message is a message that a client has published.
type Message struct {
	Topic   string
	Payload []byte
	// Once identifies the message if it is sent again; it is the zero Once if that cannot happen.
	Once entity.Once
	// Refused counts and shows the refusal of a message that the layout answers itself, and that is
	// acknowledged as if it had been accepted.
	Refused func(err error)
	// Will reports whether the message is a will: its client has gone.
	Will bool
	// Clears reports whether the message has an empty payload, and so clears the retained one.
	Clears bool
	// Spoke records that the message changed something on behalf of the device of an entity, which
	// is therefore online. Committed implies it. It does not block.
	Spoke func(id string)
	// Committed sends readings of the message to the subscribers of an entity's telemetry. Call it
	// when they are committed, before done. The payload must have the form of entity.ParseReadings,
	// and must not change afterwards. It does not block.
	Committed func(id string, payload []byte)
}

// Audience says who receives messages that are published to a topic by a client or with
// Host.Publish.
type Audience uint8

const (
	// Nobody means that the layout sends its messages to each client itself.
	Nobody Audience = iota
	// Readers are those who may read the entity.
	Readers
	// Everybody is every client.
	Everybody
)

// Layout is a convention of topics. Its methods may be called concurrently, but calls about one
// client are made one at a time. The broker calls Start once before any other method.
type Layout interface {
	// Prefixes returns the prefixes that all topics of the layout, and no others, begin with. A
	// Taker has further topics.
	Prefixes() []string
	// Start gives the layout its host.
	Start(h *Host)
	// About returns the entity that a topic is about, "" for none, and who receives what is
	// published to it.
	About(topic string) (id string, to Audience)
	// Receive handles a message. It either returns an error or calls done once, when the effects of
	// the message are committed; it may block until then. refusal.ErrTopic means that the topic has
	// no meaning.
	Receive(c Client, m *Message, done func(error)) error
	// Subscribed is called when a client has subscribed to a filter with one of the layout's
	// prefixes, and when a session with such a subscription was resumed. It may be called more than
	// once for a subscription.
	Subscribed(c Client, filter string)
	// Unsubscribed is called when a client has unsubscribed from a filter, and Left when its
	// connection has ended. If several filters are removed together, Unsubscribed may be called for
	// the first only.
	Unsubscribed(c Client, filter string)
	Left(c Client)
	// Edited is called when an edit of an entity was committed, in the order of the commits.
	Edited(ctx context.Context, change *entity.Change)
}

// Authenticator is a Layout whose devices identify themselves in their own way.
type Authenticator interface {
	Layout
	// Identify interprets the user name and the password of a CONNECT. It returns false if they do
	// not have the layout's format. It does not block.
	Identify(user, password string) (id Identity, ok bool)
}

// Identity is what a device claims to be.
type Identity struct {
	// Name replaces the user name.
	Name string
	// Signature is the device's proof; nil if it uses a password or a certificate.
	Signature *access.Signature
	// Until is when the signature expires and the connection must end; zero means never.
	Until time.Time
}

// Retainer is a Layout with messages that the broker retains if their sender asks for it, for those
// who may read what they are about. For other layouts, only messages for everybody are retained.
type Retainer interface {
	Layout
	// Retained returns a filter that matches all topics whose messages may be retained for an
	// entity, and none of another entity; "" means that there are none.
	Retained(id string) (filter string)
}

// Stopper is a Layout that stores something when the server stops.
type Stopper interface {
	Layout
	// Stopping is called once, when no more messages are accepted, while the runtime still takes
	// edits. It must return when ctx ends. Left is called for each client later, when the runtime
	// may be closed.
	Stopping(ctx context.Context)
}

// Taker is a Layout with topics beyond its prefixes.
type Taker interface {
	Layout
	// Takes reports whether an unclaimed topic belongs to the layout, or, if name is a filter,
	// whether it may match a topic that the layout sends to. It does not block.
	Takes(name string) bool
}
