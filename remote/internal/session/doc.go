// Package session connects two nodes by frames that take effect at most once and in order,
// however often their connection breaks. It has no goroutine, no clock and no socket: bytes
// and times go in, bytes and events come out. Package transport runs it over sockets, and a
// test over whatever it likes.
//
// A [Host] knows the sessions of a node, one for each peer. What actors send is appended to
// the session's log (log.go) and stays there until the peer confirms it. A connection begins
// with a hello of each side that says what has been received; the rest of the log is written
// again. The numbers that stand for texts (interned.go) are part of the log, too, so both
// sides agree about them over all connections.
//
// # Who owns what
//
// The mutex of a [Session] guards what it sends and its timers. What it receives belongs to
// the one goroutine that calls [Session.Receive]. The one that makes a connection must have
// ended the reader and the writer of the one before. No method of a [Handler] is called
// with the mutex held.
package session
