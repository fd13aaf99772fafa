package azure

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// Device returns the device in the user name of a CONNECT, {hub}/{device}/?api-version=…. It
// returns false for user names of another form. Modules are not supported.
func Device(user string) (id string, ok bool) {
	_, rest, _ := strings.Cut(user, "/")
	id, query, _ := strings.Cut(rest, "/")
	return id, id != "" && strings.HasPrefix(strings.TrimPrefix(query, "?"), "api-version=")
}

// scheme is the prefix of shared access signatures.
const scheme = "SharedAccessSignature "

// IsSignature reports whether a password, or the value of an Authorization header, has the prefix
// of a shared access signature.
func IsSignature(text string) bool { return strings.HasPrefix(text, scheme) }

// maxSignatureBytes bounds a shared access signature.
const maxSignatureBytes = 4096

// Signature is a shared access signature.
type Signature struct {
	// Device is the id of the device.
	Device string
	// Expires is when the signature expires.
	Expires time.Time
	// Signed is the signed text, with its signature.
	Signed access.Signature
}

// ParseSignature parses SharedAccessSignature sr={hub}%2Fdevices%2F{device}&sig=…&se=…, which must
// not have expired. The Book verifies that the device has signed it. The hub may have any name,
// because keys belong to this server. Signatures of a hub's policies are refused, since there are
// no policies. The error wraps access.ErrCredentials.
func ParseSignature(text string, now time.Time) (s Signature, err error) {
	rest, ok := strings.CutPrefix(text, scheme)
	if !ok || len(rest) > maxSignatureBytes {
		return s, fmt.Errorf("%w: must be SharedAccessSignature sr=…&sig=…&se=…, of %d bytes at most", access.ErrCredentials, maxSignatureBytes)
	}
	raw := map[string]string{}
	for part := range strings.SplitSeq(strings.TrimSpace(rest), "&") {
		name, v, _ := strings.Cut(part, "=")
		raw[name] = v
	}
	if raw["skn"] != "" {
		return s, fmt.Errorf("%w: skn must be absent: the server has no policies, each device has a key of its own", access.ErrCredentials)
	}
	resource, err := url.PathUnescape(raw["sr"])
	_, s.Device, ok = strings.Cut(resource, "/devices/")
	if err != nil || !ok || s.Device == "" {
		return s, fmt.Errorf("%w: sr must be {hub}%%2Fdevices%%2F{device}, not %.200q", access.ErrCredentials, raw["sr"])
	}
	seconds, err := strconv.ParseInt(raw["se"], 10, 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return s, fmt.Errorf("%w: se must be the second since 1970 at which it expires, not %.40q", access.ErrCredentials, raw["se"])
	}
	if s.Expires = time.Unix(seconds, 0); !now.Before(s.Expires) {
		return s, fmt.Errorf("%w: the signature has expired at %s", access.ErrCredentials, s.Expires.UTC().Format(time.RFC3339))
	}
	sum, err := url.PathUnescape(raw["sig"])
	if err != nil {
		return s, fmt.Errorf("%w: sig must be Base64, escaped as in a URL", access.ErrCredentials)
	}
	s.Signed.Text = raw["sr"] + "\n" + raw["se"]
	if s.Signed.MAC, err = base64.StdEncoding.DecodeString(sum); err != nil {
		return s, fmt.Errorf("%w: sig must be Base64, escaped as in a URL", access.ErrCredentials)
	}
	return s, nil
}

// maxSeconds is the end of the year 9999.
const maxSeconds = 253402300799

// Identify returns the device in a user name of Azure's SDKs, and what it has signed. A signature
// that cannot be parsed matches no key.
func (l *Layout) Identify(user, password string) (id layout.Identity, ok bool) {
	device, ok := Device(user)
	if !ok {
		return id, false
	}
	id.Name = device
	if !IsSignature(password) {
		return id, true
	}
	id.Signature = &access.Signature{}
	if s, err := ParseSignature(password, time.Now()); err == nil && s.Device == device {
		id.Signature, id.Until = &s.Signed, s.Expires
	}
	return id, true
}
