// Package transport runs the sessions of a node over connections: it listens and dials,
// finds out who is at the other end, and has a reader and a writer for each connection.
//
// A connection begins with TLS, unless it is one within the machine, and a hello of each
// side (handshake.go). The peers prove who they are by certificates (certificate.go) or
// that they know the same secret (secret.go). What then comes and goes is the session's
// business, package session.
package transport
