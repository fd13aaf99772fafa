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
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s on %q: %w; set %s to host:port, as in %s 127.0.0.1:8080", name, address, err, flag, flag)
	}
	if !isLoopback(host) && !open {
		return nil, fmt.Errorf("listen for %s on %s: %w: other machines reach it, so it needs --tls-cert and --tls-key, or --acme; or --insecure, and everyone on the way can read and change everything; or %s 127.0.0.1 and an SSH tunnel",
			name, address, ErrNotLoopback, flag)
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
