// Package layout is the interface between the broker and the conventions of devices: a Layout gives
// the MQTT topics and payloads of one convention a meaning for entities. Package thingsboard is
// one. The broker's own topics, e/{id}/…, are in package mqtt.
//
// A layout can do only what any other client could do with the runtime: the sender of a message
// must have permission, readings and attributes take the same way, and an acknowledgement means the
// same.
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

// Runtime is what layouts need of the entity runtime. entity.Runtime is one.
type Runtime interface {
	// IngestOnce takes readings.
	IngestOnce(ctx context.Context, id string, once entity.Once, readings []entity.Reading, size int, done func(error)) error
	// Edit changes attributes and relations.
	Edit(ctx context.Context, id string, edits entity.Edits) (entity.Edited, error)
	// View looks at an entity.
	View(ctx context.Context, id string, f func(entity.View) error) error

	// Receive says that the device of an entity can be reached, and has its commands sent.
	Receive(id string, deliver func(entity.Command)) (stop func(), err error)
	// Delivered says that a device has a command, Done that it has carried it out, and Fail
	// that it has not.
	Delivered(ctx context.Context, id, command string) error
	Done(ctx context.Context, id, command string, result value.Value) error
	Fail(ctx context.Context, id, command, reason string) error
	// CommandHeld reports whether a command that was given to a receiver is still to be sent.
	CommandHeld(id, command string) bool
	// OpenCommands returns the commands that have not ended, the oldest first.
	OpenCommands(ctx context.Context, id string) ([]entity.Command, error)
}

// Host is the server, as layouts see it. Its functions may be called concurrently.
type Host struct {
	Runtime Runtime
	Logger  *slog.Logger
	// Running ends when the server takes no more messages.
	Running context.Context //nolint:containedctx // the broker's own life
	// Publish sends a message to the clients that subscribe to its topic and may see it,
	// see Layout.About. It does not block. Wanted reports whether there may be one.
	Publish func(topic string, payload []byte, qos byte)
	Wanted  func(topic string) bool
}

// Client is a connection, from its CONNECT to its end, or the one whose will is sent. Its
// methods may be called concurrently; clients can be compared.
type Client interface {
	// Self is the id of the entity that the device is itself: the name of its principal,
	// or where nobody has to log in the user name that it gives, or else its client id.
	Self() string
	// User is the name that it gave in CONNECT, "" for none.
	User() string
	// Address is where it connects from; the zero Addr where that is not known.
	Address() netip.Addr
	// Who it is, for decisions and for the audit log.
	Who() *access.Principal
	// May returns nil if the client may do something with an entity.
	May(a access.Action, id string) error
	// Record writes to the audit log that the client has done an action, such as
	// updateShadow. What devices report is not in the log.
	Record(action, what string)
	// Subscribes reports whether the client subscribes to a topic.
	Subscribes(topic string) bool
	// Filters returns the filters to which it subscribes, in any order.
	Filters() []string
	// Joined says that the device of an entity has a connection through the client, as if it
	// were its own, until Parted or the end of the client's connection. It has no effect where
	// the client does not have the role of a device for the entity.
	Joined(id string)
	Parted(id string)
	// Send sends a message to this client alone, with QoS 1 or less. It does not block. The
	// error is ErrNotSubscribed where the client does not subscribe to the topic.
	//
	// With a receipt that is not nil the message is for the present connection only, and the
	// error may be ErrNoRoom or ErrGone as well. Without an error its Settled is called once.
	Send(topic string, payload []byte, receipt *Receipt) error
}

// Receipt is what who sends a message wants to know of it, and is asked about it.
type Receipt struct {
	// Settled is called on any goroutine, and must not block: with nil when the client has
	// acknowledged the message, or, where it subscribes with QoS 0, when it is written; with
	// ErrGone when the connection has ended before, or it was not wanted any more; with another
	// error when the client refuses the message or cannot take it.
	Settled func(error)
	// Wanted reports whether the message is still to be sent. It is asked before a message is
	// written that had to wait until the client acknowledged others, and must not block. nil: it is.
	Wanted func() bool
}

// With returns a receipt for the same message with another Settled.
func (r *Receipt) With(settled func(error)) *Receipt {
	return &Receipt{Settled: settled, Wanted: r.Wanted}
}

// Errors of Client.Send.
var (
	// ErrGone is why a message was not sent, or not acknowledged, whose connection has ended.
	ErrGone = errors.New("the connection has ended")
	// ErrNotSubscribed is why one was not sent to a client that does not subscribe to it.
	ErrNotSubscribed = errors.New("the client does not subscribe to the topic")
	// ErrNoRoom is why one was not sent for which too much waits already: try again later.
	ErrNoRoom = errors.New("too much waits for the client")
)

// Message is what a client has published.
type Message struct {
	Topic   string
	Payload []byte
	// Once is by what a second sending of the message is known; the zero Once where it
	// cannot be sent again.
	Once entity.Once
	// Refused counts and shows a refusal of a message that the layout answers itself, and
	// that is acknowledged as if it had been taken.
	Refused func(err error)
	// Will says that the message is a will: its client has gone.
	Will bool
	// Clears says that the message has no payload, and was to take back the retained one.
	Clears bool
	// Spoke says that something is kept that the message says for the device of an entity,
	// by which it is online. Committed says so as well. It does not block.
	Spoke func(id string)
	// Committed tells those who subscribe to the telemetry of an entity of readings that
	// the message had: call it when they are committed, before done. The payload is in the
	// form of entity.ParseReadings and is not changed any more. It does not block.
	Committed func(id string, payload []byte)
}

// Audience says who gets messages with a topic that a client publishes, or Host.Publish.
type Audience uint8

const (
	// Nobody gets them: what the layout has to say it sends to each client.
	Nobody Audience = iota
	// Readers are those who may read the entity.
	Readers
	// Everybody is each client.
	Everybody
)

// Layout is a convention of topics. All methods may be called concurrently, but those
// about one client are called one at a time. The broker calls Start once before all
// others.
type Layout interface {
	// Prefixes begin the topics of the layout, and no others, but for a Taker.
	Prefixes() []string
	// Start gives the layout its host.
	Start(h *Host)
	// About says which entity a topic is about, "" for none, and who gets what is
	// published to it.
	About(topic string) (id string, to Audience)
	// Receive takes a message. It either returns an error or calls done once, when what
	// the message says is committed; it may wait until then. A refusal.ErrTopic says that
	// nothing takes the topic.
	Receive(c Client, m *Message, done func(error)) error
	// Subscribed says that a client has subscribed to a filter that begins like the
	// layout's topics, or that a session with such a subscription was resumed. A
	// subscription may be said more than once.
	Subscribed(c Client, filter string)
	// Unsubscribed takes that back, and Left all of a connection that has ended. Of several filters
	// that are taken back together it may be given the first only.
	Unsubscribed(c Client, filter string)
	Left(c Client)
	// Edited says that an edit of an entity was committed, in the order of the commits.
	Edited(ctx context.Context, change *entity.Change)
}

// Authenticator is a Layout whose devices say who they are in a way of their own.
type Authenticator interface {
	Layout
	// Identify reads the user name and the password of a CONNECT; ok is false where they have not the form of the layout. It
	// does not block.
	Identify(user, password string) (id Identity, ok bool)
}

// Identity is who a device says that it is.
type Identity struct {
	// Name takes the place of the user name.
	Name string
	// Signature is what the device shows; nil where that is its password or a certificate.
	Signature *access.Signature
	// Until is when the connection ends because the signature has expired; zero for never.
	Until time.Time
}

// Retainer is a Layout with messages that the broker retains where their sender asks for it, for those
// who may read what they are about. Of other layouts only what is for everybody is retained.
type Retainer interface {
	Layout
	// Retained returns a filter that covers all that may be retained of an entity, and nothing that is
	// about another one; "" for none.
	Retained(id string) (filter string)
}

// Taker is a Layout that takes further topics, which no prefix has.
type Taker interface {
	Layout
	// Takes reports whether a topic that nobody else has is of the layout, or whether what the
	// layout sends may have a topic that a filter covers. It does not block.
	Takes(name string) bool
}
