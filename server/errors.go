package server

import "errors"

var (
	// ErrAddressInUse says that another program listens on an address.
	ErrAddressInUse = errors.New("address in use")

	// ErrNotLoopback says that an address would be reachable from other
	// machines, which needs TLS, or Config.Insecure.
	ErrNotLoopback = errors.New("not a loopback address")

	// ErrTLS says that Config.TLS cannot be used.
	ErrTLS = errors.New("TLS")

	// ErrStoreAddress says that Config.Store is no address of a store.
	ErrStoreAddress = errors.New("store not known")

	// ErrBackup says that a backup cannot be made or restored as asked. The text
	// says what it must be.
	ErrBackup = errors.New("backup")

	// ErrClosed says that a server was closed before it was run.
	ErrClosed = errors.New("server closed")
)
