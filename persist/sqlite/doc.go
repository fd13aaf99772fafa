// Package sqlite is a journal in a directory, in a SQLite database: see [persist.Journal].
//
// A commit is one transaction with one fsync, and writes events one after the other; what
// they are found by is written later, many at a time (tail.go).
package sqlite
