// Package pgdb is what the stores on PostgreSQL share: addresses, connections that break,
// schemas and their versions.
package pgdb
