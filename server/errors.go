package server

import "errors"

var (
	// ErrAddressInUse says that another program listens on an address.
	ErrAddressInUse = errors.New("address in use")

	// ErrNotLoopback says that an address would be reachable from other
	// machines, which needs credentials that this version does not have.
	ErrNotLoopback = errors.New("not a loopback address")

	// ErrClosed says that a server was closed before it was run.
	ErrClosed = errors.New("server closed")
)
