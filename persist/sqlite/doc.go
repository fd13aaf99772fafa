// Package sqlite is a journal in a directory, in a SQLite database: see [persist.Journal].
//
// A commit is one transaction with one fsync. The events of an id lie side by side, in
// their order, so that an actor recovers with one sweep; the feed of a partition refers to
// them.
package sqlite
