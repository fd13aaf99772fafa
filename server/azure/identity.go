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

// Device returns the device that the user name of a CONNECT names, {hub}/{device}/?api-version=…;
// ok is false for user names of another form. Modules of devices are not known.
func Device(user string) (id string, ok bool) {
	_, rest, _ := strings.Cut(user, "/")
	id, query, _ := strings.Cut(rest, "/")
	return id, id != "" && strings.HasPrefix(strings.TrimPrefix(query, "?"), "api-version=")
}

// scheme begins shared access signatures.
const scheme = "SharedAccessSignature "

// IsSignature reports whether a password, or what follows Authorization:, is to be a shared access
// signature.
func IsSignature(text string) bool { return strings.HasPrefix(text, scheme) }

// maxSignatureBytes bounds a shared access signature.
const maxSignatureBytes = 4096

// Signature is a shared access signature.
type Signature struct {
	// Device is for whom it is.
	Device string
	// Expires is when it counts no more.
	Expires time.Time
	// Signed is what the device has signed.
	Signed access.Signature
}

// ParseSignature reads SharedAccessSignature sr={hub}%2Fdevices%2F{device}&sig=…&se=…, which must not
// have expired. Whether the device has signed it the Book finds out. The hub may have any name: a key is one of this
// server. What policies of a hub have signed is refused, as there are none. The error wraps
// access.ErrCredentials.
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

// Identify makes the user names of Azure's SDKs those of devices, and finds out what they have
// signed. A signature that cannot be read is one of nobody.
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
