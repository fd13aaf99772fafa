// Package pgtest runs PostgreSQL for tests: the real server, in a temporary
// directory, on a unix socket, with fsync on.
//
// [Database] gives a test an empty database of its own on a server that all
// tests of the binary share; [Start] gives it a server of its own, which it may
// crash. A [Proxy] in between cuts connections. [Again] and [Address] run tests that were written for any store on it.
// Where PostgreSQL is not installed the test is skipped, and says so.
//
// PostgreSQL refuses to run as root. A test that does runs the server as the user
// postgres, or nobody.
//
// The server outlives no test binary, however that ends: a small shell waits for
// the end of a pipe that only the binary holds, stops the server and removes the
// directory.
package pgtest
