// Package sqlite is a journal in a directory, in a SQLite database: see [persist.Journal].
//
// A commit is one transaction with one fsync, and appends events to a log. The tables by which
// events are found are written later, for many events at a time (tail.go).
//
// While the disk is full, commits fail. The directory has a file of its own, journal.reserve, which
// holds 256 KiB of the disk so that the journal can be opened when the disk is full.
package sqlite
