package access

import (
	"crypto/tls"
	"encoding/asn1"
	"time"
)

// CertificateOf returns the common name of the client certificate that was verified when a connection began, and when the
// certificate, or one that vouches for it, expires. The name is "" if there is no such certificate, or if it has expired
// since: a connection can outlive it. It is also "" if the subject has several common names, of which the
// authority may have checked another one. A nil state is that of a connection without encryption.
func CertificateOf(state *tls.ConnectionState, now time.Time) (name string, until time.Time) {
	if state == nil {
		return "", until
	}
	for _, chain := range state.VerifiedChains { // one of them suffices
		end := chain[0].NotAfter
		for _, cert := range chain[1:] {
			if cert.NotAfter.Before(end) {
				end = cert.NotAfter
			}
		}
		if end.After(until) {
			until = end
		}
	}
	if !now.Before(until) {
		return "", time.Time{}
	}
	subject, names := &state.PeerCertificates[0].Subject, 0
	for _, a := range subject.Names {
		if a.Type.Equal(commonName) {
			names++
		}
	}
	if names > 1 {
		return "", time.Time{}
	}
	return subject.CommonName, until
}

// commonName identifies a common name, see X.520, 6.2.2.
var commonName = asn1.ObjectIdentifier{2, 5, 4, 3}
