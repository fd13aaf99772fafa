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

// ErrProxy is wrapped by the errors about Config.TrustedProxies.
var ErrProxy = errors.New("trusted proxies")

// proxies are the networks of those who pass requests on and are believed what they say of them.
type proxies []netip.Prefix

// CheckProxies returns nil if Config.TrustedProxies may be a list.
func CheckProxies(list []string) error {
	_, err := parseProxies(list)
	return err
}

// parseProxies reads addresses and networks.
func parseProxies(list []string) (proxies, error) {
	var all proxies
	for _, text := range list {
		network, err := netip.ParsePrefix(text)
		if err != nil {
			var at netip.Addr
			if at, err = netip.ParseAddr(text); err == nil {
				network = netip.PrefixFrom(at.Unmap(), at.Unmap().BitLen())
			}
		}
		if err != nil || network.Addr().Is4In6() {
			return nil, fmt.Errorf("%w: --trusted-proxies must be addresses or networks such as 10.0.0.7 or 10.0.0.0/24, not %.100q", ErrProxy, text)
		}
		if network.Bits() == 0 {
			return nil, fmt.Errorf("%w: --trusted-proxies must not be everybody, as %s is: anybody could say to come from anywhere", ErrProxy, text)
		}
		all = append(all, network.Masked())
	}
	return all, nil
}

// has reports whether an address is that of a proxy.
func (p proxies) has(at netip.Addr) bool {
	at = at.Unmap().WithZone("")
	return slices.ContainsFunc(p, func(network netip.Prefix) bool { return network.Contains(at) })
}

// secureKey is the key of a request's context that says that a proxy was reached over TLS.
type secureKey struct{}

// wrap returns a handler that sees a request as its first proxy got it: from which address, and
// whether over TLS. What others say about that is not looked at.
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

// client returns who has come to the first of the proxies: each has added whom it has heard, and
// what is before the last one that is no proxy, anybody may have written.
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

// lastOf is the last of the values of a header, which the nearest proxy has written.
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
