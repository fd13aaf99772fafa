package wire

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/fxamacker/cbor/v2"
)

// The versions of the protocol that this build speaks.
const (
	OldestVersion = 1
	NewestVersion = 1
)

// Hello is the first frame of each side. What a later version adds is ignored.
type Hello struct {
	Oldest      uint32 `cbor:"1,keyasint"` // version of the protocol
	Newest      uint32 `cbor:"2,keyasint"`
	Cluster     string `cbor:"3,keyasint"`
	Node        string `cbor:"4,keyasint"`
	Incarnation uint32 `cbor:"5,keyasint"`
	Session     uint64 `cbor:"6,keyasint"`  // chosen by who dials
	Resume      bool   `cbor:"7,keyasint"`  // the session was open
	Received    uint64 `cbor:"8,keyasint"`  // frames of the session that have taken effect
	Features    uint64 `cbor:"9,keyasint"`  // bits that are not known are ignored
	Frame       uint32 `cbor:"10,keyasint"` // the length of the longest frame it accepts
	Build       string `cbor:"11,keyasint"`
}

// FeatureProof is the feature of a hello after which a proof follows.
const FeatureProof = 1 << 0

// helloReader allows what a Hello needs and not much more.
var helloReader = must(cbor.DecOptions{
	DupMapKey:        cbor.DupMapKeyEnforcedAPF,
	MaxNestedLevels:  4,
	MaxArrayElements: 64,
	MaxMapPairs:      64,
	IndefLength:      cbor.IndefLengthForbidden,
	TagsMd:           cbor.TagsForbidden,
	UTF8:             cbor.UTF8RejectInvalid,
}.DecMode())

var helloWriter = must(cbor.CoreDetEncOptions().EncMode())

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// AppendHello appends the body of a hello.
func AppendHello(dst []byte, h *Hello) []byte {
	return append(dst, must(helloWriter.Marshal(h))...)
}

// ReadHello reads the body of a hello. The error is a [*ViolationError].
func ReadHello(body []byte) (Hello, error) {
	var h Hello
	if err := helloReader.Unmarshal(body, &h); err != nil {
		return Hello{}, &ViolationError{"malformed hello", "a hello must be a CBOR map: " + err.Error()}
	}
	if err := h.check(); err != nil {
		return Hello{}, err
	}
	return h, nil
}

func (h *Hello) check() error {
	wrong := func(format string, args ...any) error {
		return &ViolationError{"malformed hello", fmt.Sprintf(format, args...)}
	}
	switch {
	case h.Oldest == 0 || h.Newest < h.Oldest:
		return wrong("the versions of a hello must be a range from 1 on, not %d to %d", h.Oldest, h.Newest)
	case !IsNodeName(h.Node):
		return wrong("the node of a hello must be a name, not %q", h.Node)
	case len(h.Cluster) > MaxNodeName:
		return wrong("the cluster of a hello must have at most %d bytes, not %d", MaxNodeName, len(h.Cluster))
	case len(h.Build) > MaxNodeName:
		return wrong("the build of a hello must have at most %d bytes, not %d", MaxNodeName, len(h.Build))
	case h.Incarnation == 0:
		return wrong("the incarnation of a hello must not be 0")
	case h.Session == 0:
		return wrong("the session of a hello must not be 0")
	case h.Frame < DefaultFrame || h.Frame > MaxFrame:
		return wrong("the longest frame of a hello must be from %d to %d bytes, not %d", DefaultFrame, MaxFrame, h.Frame)
	}
	return nil
}

// IsNodeName reports whether a text may be the name of a node: 1 to [MaxNodeName] bytes
// without the characters that a PID is divided by.
func IsNodeName(name string) bool {
	return name != "" && len(name) <= MaxNodeName && !strings.ContainsAny(name, "/#~\x00\n")
}

// Version returns the version that two nodes speak: the lower of the newest. It is false
// if one of them does not speak that any more.
func Version(a, b *Hello) (version uint32, ok bool) {
	version = min(a.Newest, b.Newest)
	return version, version >= a.Oldest && version >= b.Oldest
}

// Code says why a connection is refused or ended.
type Code uint64

// The codes of a [Refusal].
const (
	CodeProtocol        Code = 1  // what came breaks the protocol
	CodeWrongCluster    Code = 2  // the nodes are of different clusters
	CodeBadSecret       Code = 3  // the nodes have different secrets
	CodeDuplicateName   Code = 4  // another node has the name
	CodeTooOld          Code = 5  // there is no version that both speak
	CodeNotAllowed      Code = 6  // the certificate is not of the node
	CodeUnknownSession  Code = 7  // the session that is to be resumed is not there
	CodeLostIncarnation Code = 8  // the session with that incarnation is lost for good
	CodeBusy            Code = 9  // both dial, or too many do: try again
	CodeClosed          Code = 10 // the node leaves
)

var codeNames = map[Code]string{
	CodeProtocol: "protocol violation", CodeWrongCluster: "wrong cluster", CodeBadSecret: "bad secret",
	CodeDuplicateName: "duplicate name", CodeTooOld: "too old", CodeNotAllowed: "not allowed",
	CodeUnknownSession: "unknown session", CodeLostIncarnation: "lost incarnation", CodeBusy: "busy", CodeClosed: "closed",
}

// Known reports whether the code is one of this build's.
func (c Code) Known() bool {
	_, ok := codeNames[c]
	return ok
}

// String returns the code's name, "code 77" for one without.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return fmt.Sprintf("code %d", uint64(c))
}

// Refusal is why a node refuses a connection or ends it.
type Refusal struct { //nolint:errname // a frame first, and an error for who gets it
	Code Code
	Text string
}

// Error returns the code's name and the text.
func (r *Refusal) Error() string { return "refused: " + r.Code.String() + ": " + r.Text }

// Refuse returns a refusal with a formatted text.
func Refuse(c Code, format string, args ...any) *Refusal {
	return &Refusal{c, fmt.Sprintf(format, args...)}
}

// AppendRefusal appends the body of a refuse.
func AppendRefusal(dst []byte, r *Refusal) []byte {
	return append(binary.AppendUvarint(dst, uint64(r.Code)), clip(r.Text, MaxErrorText/4)...)
}

// ReadRefusal reads the body of a refuse. The error is a [*ViolationError].
func ReadRefusal(body []byte) (*Refusal, error) {
	r := reader{p: body}
	code := Code(r.number())
	if r.bad || len(r.p) > MaxErrorText {
		return nil, malformed(KindRefuse)
	}
	return &Refusal{code, strings.ToValidUTF8(string(r.p), "?")}, nil
}
