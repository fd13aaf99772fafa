// Package sqlite is a journal in a directory, in a SQLite database: see [persist.Journal].
//
// A commit is one transaction with one fsync, and appends events to a log. The tables by which
// events are found are written later, for many events at a time (tail.go).
package sqlite
