package alarm

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// An administrator decides where webhooks are sent, and may choose this machine or its network. But
// an administrator of the server need not be one of the machine, so no webhook is sent to services
// that only the machine itself may ask, such as a cloud's service that hands out the machine's
// credentials.

// noWebhooks are the addresses to which no webhooks are sent. The services of most clouds are
// link-local; the others are documented by their clouds.
var noWebhooks = []netip.Prefix{
	netip.MustParsePrefix("169.254.0.0/16"),         // link-local (RFC 3927)
	netip.MustParsePrefix("fe80::/10"),              // link-local (RFC 4291)
	netip.MustParsePrefix("224.0.0.0/4"),            // multicast (RFC 5771)
	netip.MustParsePrefix("ff00::/8"),               // multicast (RFC 4291)
	netip.MustParsePrefix("fd00:ec2::/32"),          // AWS: instance metadata is at ::254, EKS Pod Identity at ::23
	netip.MustParsePrefix("fd20:ce::254/128"),       // Google Cloud: metadata server
	netip.MustParsePrefix("168.63.129.16/32"),       // Azure: WireServer
	netip.MustParsePrefix("100.100.100.200/32"),     // Alibaba Cloud: instance metadata
	netip.MustParsePrefix("192.0.0.192/32"),         // Oracle Cloud Infrastructure Classic: instance metadata
	netip.MustParsePrefix("fd00:c1::a9fe:a9fe/128"), // Oracle Cloud Infrastructure: instance metadata
	netip.MustParsePrefix("fd00:a9fe:a9fe::1/128"),  // Akamai (Linode): metadata service
	netip.MustParsePrefix("fd00:42::42/128"),        // Scaleway: instance metadata
}

// wrappings are the ranges of IPv6 addresses that contain an IPv4 address reached by a gateway or a
// tunnel, and the offset of its four bytes. netip unwraps ::ffff:0:0/96.
var wrappings = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},          // IPv4-compatible (RFC 4291)
	{netip.MustParsePrefix("64:ff9b::/96"), 12},   // NAT64 (RFC 6052)
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12}, // NAT64 of a network's own (RFC 8215), with a prefix of 96 bits
	{netip.MustParsePrefix("2002::/16"), 2},       // 6to4 (RFC 3056)
}

// newDialer returns the dialer for webhooks. It checks the address to which a connection is made,
// so that it does not matter which names resolve to it, or resolved to before.
func newDialer() *net.Dialer {
	return &net.Dialer{Timeout: deliveryTimeout, KeepAlive: 30 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return checkAddress(address)
	}}
}

// checkAddress returns nil if webhooks may be sent to an address with a port.
func checkAddress(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address: %w: must have an IP address and a port, not %q", entity.ErrInvalid, address)
	}
	ip := at.Addr().Unmap().WithZone("")
	inner := unwrap(ip)
	if slices.ContainsFunc(noWebhooks, func(p netip.Prefix) bool { return p.Contains(ip) || p.Contains(inner) }) {
		return fmt.Errorf("address: %w: must not be link-local, multicast or that of a cloud's metadata: %s", entity.ErrInvalid, ip)
	}
	return nil
}

// unwrap returns the IPv4 address that an address contains, or the address itself.
func unwrap(ip netip.Addr) netip.Addr {
	for _, w := range wrappings {
		if w.prefix.Contains(ip) {
			b := ip.As16()
			return netip.AddrFrom4([4]byte(b[w.at:]))
		}
	}
	return ip
}
