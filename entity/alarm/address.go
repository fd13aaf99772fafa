package alarm

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// Where webhooks are sent is the decision of an administrator, and may be this machine or its
// network. An administrator of the server need not be one of the machine, though: what only the
// machine itself may ask, such as the service of a cloud that hands out its credentials, is at
// link-local addresses, and gets no webhook.

// metadataIPv6 is the one of these services that has another address.
var metadataIPv6 = netip.MustParseAddr("fd00:ec2::254")

// newDialer returns what webhooks are sent with. It looks at the address to which a connection is
// made, so that it does not matter which names stand for it, or what they stood for before.
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
	if ip.IsLinkLocalUnicast() || ip.IsMulticast() || ip == metadataIPv6 {
		return fmt.Errorf("address: %w: must not be link-local, multicast or that of a cloud's metadata: %s", entity.ErrInvalid, ip)
	}
	return nil
}
