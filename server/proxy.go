package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ErrProxy is wrapped by errors about Config.TrustedProxies.
var ErrProxy = errors.New("trusted proxies")

// proxies are the networks of trusted proxies.
type proxies []netip.Prefix

// CheckProxies returns nil if a list is valid for Config.TrustedProxies.
func CheckProxies(list []string) error {
	_, err := parseProxies(list)
	return err
}

// parseProxies parses addresses and networks.
func parseProxies(list []string) (proxies, error) {
	var all proxies
	var failed []error
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			var at netip.Addr
			if at, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(at.Unmap(), at.Unmap().BitLen())
			}
		}
		if err != nil || network.Addr().Is4In6() {
			failed = append(failed, fmt.Errorf("%w: --trusted-proxies must be addresses or networks such as 10.0.0.7 or 10.0.0.0/24, not %.100q", ErrProxy, text))
			continue
		}
		if network.Bits() == 0 {
			failed = append(failed, fmt.Errorf("%w: --trusted-proxies must not be everybody, as %s is: anybody could say to come from anywhere", ErrProxy, text))
		}
		all = append(all, network.Masked())
	}
	return all, errors.Join(failed...)
}

// has reports whether an address is that of a proxy.
func (p proxies) has(at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(at) })
}

// secureKey is the context key of requests that reached a proxy over TLS.
type secureKey struct{}

// wrap returns a handler that sees requests as the first proxy received them: with its client's
// address, and whether it used TLS. Forwarding headers of others are ignored.
func (p proxies) wrap(next http.Handler) http.Handler {
	if len(p) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !p.has(addressOf(r)) {
			next.ServeHTTP(w, r)
			return
		}
		ctx := r.Context()
		if proto := lastOf(r.Header.Values("X-Forwarded-Proto")); strings.EqualFold(proto, "https") {
			ctx = context.WithValue(ctx, secureKey{}, true)
		}
		passed := r.WithContext(ctx)
		if from, ok := p.client(r.Header.Values("X-Forwarded-For")); ok {
			passed.RemoteAddr = netip.AddrPortFrom(from, 0).String()
		}
		next.ServeHTTP(w, passed)
	})
}

// client returns the client of the first proxy. Each proxy has appended the address of its peer,
// and anything before the last one that is not a proxy may be forged.
func (p proxies) client(values []string) (from netip.Addr, ok bool) {
	for _, text := range slices.Backward(strings.Split(strings.Join(values, ","), ",")) {
		text = strings.TrimSpace(text)
		at, err := netip.ParseAddr(strings.Trim(text, "[]"))
		if err != nil {
			with, err := netip.ParseAddrPort(text)
			if err != nil {
				return from, ok
			}
			at = with.Addr()
		}
		from, ok = at.Unmap(), true
		if !p.has(from) {
			break
		}
	}
	return from, ok
}

// lastOf returns the last value of a header, which the nearest proxy has written.
func lastOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	last := values[len(values)-1]
	return strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
}

// isSecure reports whether a browser has sent a request over TLS.
func isSecure(r *http.Request) bool {
	return r.TLS != nil || r.Context().Value(secureKey{}) != nil
}
