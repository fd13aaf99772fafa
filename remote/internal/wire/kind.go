package wire

import "fmt"

// Kind is the kind of a frame.
type Kind uint8

// The kinds that have no number of their own in a session: they belong to the connection.
const (
	KindHello  Kind = 0x01 // the first frame of each side
	KindProof  Kind = 0x02 // after a hello, where nodes have a secret
	KindRefuse Kind = 0x03 // why the connection ends
	KindAck    Kind = 0x04
	KindPing   Kind = 0x05
	KindPong   Kind = 0x06
)

// The kinds that are numbered by their position, kept until they are confirmed and sent
// again after a reconnect.
const (
	KindDefine  Kind = 0x10 // gives a text a number
	KindTell    Kind = 0x11
	KindAsk     Kind = 0x12
	KindAnswer  Kind = 0x13
	KindFail    Kind = 0x14
	KindCancel  Kind = 0x15
	KindWatch   Kind = 0x16
	KindUnwatch Kind = 0x17
	KindDown    Kind = 0x18
	KindLink    Kind = 0x19
	KindUnlink  Kind = 0x1a
	KindExit    Kind = 0x1b
	KindOrder   Kind = 0x1c // stop, drain, kill
	KindFind    Kind = 0x1d
	KindSpawn   Kind = 0x1e
	KindBye     Kind = 0x1f // the last frame of a node that leaves

	// KindOptional is the first of the kinds that who does not know them skips.
	KindOptional Kind = 0x80
)

var kindNames = map[Kind]string{
	KindHello: "hello", KindProof: "proof", KindRefuse: "refuse", KindAck: "ack", KindPing: "ping", KindPong: "pong",
	KindDefine: "define", KindTell: "tell", KindAsk: "ask", KindAnswer: "answer", KindFail: "fail", KindCancel: "cancel",
	KindWatch: "watch", KindUnwatch: "unwatch", KindDown: "down", KindLink: "link", KindUnlink: "unlink",
	KindExit: "exit", KindOrder: "order", KindFind: "find", KindSpawn: "spawn", KindBye: "bye",
}

// String returns the kind's name, "frame 0x7f" for one without.
func (k Kind) String() string {
	if name, ok := kindNames[k]; ok {
		return name
	}
	return fmt.Sprintf("frame 0x%02x", uint8(k))
}

// IsSignal reports whether the body of a frame of the kind is a [Signal].
func (k Kind) IsSignal() bool { return k >= KindWatch && k <= KindOrder }

// IsRequest reports whether the body of a frame of the kind is a [Request].
func (k Kind) IsRequest() bool { return k == KindFind || k == KindSpawn }

// Class says what a numbered text is.
type Class uint8

// The classes of texts.
const (
	ClassAddress Class = 1 // of an actor
	ClassType    Class = 2 // the name of a message's type
	ClassKey     Class = 3 // of a header's entry
)

// String returns what a text of the class is.
func (c Class) String() string {
	switch c {
	case ClassAddress:
		return "address"
	case ClassType:
		return "type"
	case ClassKey:
		return "header key"
	}
	return fmt.Sprintf("class %d", uint8(c))
}
