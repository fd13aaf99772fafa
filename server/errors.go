package server

import "errors"

var (
	// ErrAddressInUse is returned if another program listens on an address.
	ErrAddressInUse = errors.New("address in use")

	// ErrNotLoopback is returned if an address would be reachable from other machines, which
	// requires TLS or Config.Insecure.
	ErrNotLoopback = errors.New("not a loopback address")

	// ErrTLS is returned if Config.TLS is invalid.
	ErrTLS = errors.New("TLS")

	// ErrStoreAddress is returned if Config.Store is not the address of a store.
	ErrStoreAddress = errors.New("store not known")

	// ErrBackup is returned if a backup cannot be made or restored as requested. The text says what
	// must be changed.
	ErrBackup = errors.New("backup")

	// ErrClosed is returned by Run if the server was closed before.
	ErrClosed = errors.New("server closed")
)
