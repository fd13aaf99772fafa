package access

import (
	"crypto/tls"
	"time"
)

// CertificateOf returns the common name of the client certificate that was verified when a connection began, and when the
// certificate, or one that vouches for it, expires. The name is "" if there is no such certificate, or if it has expired
// since: a connection can outlive it. A nil state is that of a connection without encryption.
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
	return state.PeerCertificates[0].Subject.CommonName, until
}
