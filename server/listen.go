package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
)

// listen opens a TCP listener; unless open is set, only on a loopback address. name and flag are
// for the error.
func listen(ctx context.Context, name, flag, address string, open bool) (net.Listener, error) {
	if err := CheckAddress(flag, address, open); err != nil {
		return nil, fmt.Errorf("listen for %s on %q: %w", name, address, err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen for %s on %s: %w: another program has it; stop that, or choose another with %s", name, address, ErrAddressInUse, flag)
	case err != nil:
		return nil, fmt.Errorf("listen for %s (%s): %w", name, flag, err)
	}
	// A name such as localhost may resolve to any address.
	if !onLoopback(ln) && !open {
		_ = ln.Close()
		return nil, fmt.Errorf("listen for %s on %s, which is %s: %w; set %s to 127.0.0.1", name, address, ln.Addr(), ErrNotLoopback, flag)
	}
	return ln, nil
}

// CheckAddress returns nil if a server may listen on an address, host:port, as far as can be said
// without trying to. Unless open is set, as with TLS or Config.Insecure, the host must be localhost or
// a loopback address; if it is not, the error wraps ErrNotLoopback. The error begins with the flag.
func CheckAddress(flag, address string, open bool) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("%s must be host:port, as in %s 127.0.0.1:8080: %w", flag, flag, err)
	}
	if _, err := net.DefaultResolver.LookupPort(context.Background(), "tcp", port); err != nil {
		return fmt.Errorf("%s must be host:port with a port from 0 to 65535, not port %.100q", flag, port)
	}
	if !isLoopback(host) && !open {
		return fmt.Errorf("%s: %w: other machines reach it, so it needs --tls-cert and --tls-key, or --acme; or --insecure, and anyone on the network path can read and change everything; or %s 127.0.0.1 and an SSH tunnel",
			flag, ErrNotLoopback, flag)
	}
	return nil
}

// onLoopback reports whether only this machine can reach a listener.
func onLoopback(ln net.Listener) bool {
	tcp, ok := ln.Addr().(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}

// isLoopback reports whether a host, as written in a URL or an address, can only mean this machine:
// localhost or a loopback IP.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
