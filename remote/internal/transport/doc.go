// Package transport runs the sessions of a node over connections: it listens and dials,
// finds out who is at the other end, and has a reader and a writer for each connection.
//
// A connection begins with TLS, unless it is one within the machine, and a hello of each
// side (handshake.go). The peers prove who they are by certificates (certificate.go) or
// that they know the same secret (secret.go). What then comes and goes is the session's
// business, package session.
//
// Two nodes have one connection. Several, each with the messages of some pairs of actors, would take
// away an order that is there now, Downs after messages for example, and need books for each; a
// session without actors moves a message of 99 bytes in 140 ns (go test -bench . in this package),
// which is less than what its actor takes, so there is nothing to gain until a node has more than two
// processors for one peer. A long message holds up those behind it: 4 MiB are a third of a second at
// 100 Mbit/s.
package transport
