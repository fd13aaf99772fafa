// Package sqlite keeps entities in SQLite: one file, no server, no cgo.
//
// A store is a directory with greenroom.db, SQLite's two companions of it
// (-wal and -shm) and greenroom.lock, by which a second process notices that the
// directory is in use. The database is in WAL mode with synchronous=FULL: a
// commit is on the disk when Commit returns. One connection writes, a few others
// read, and neither waits for the other.
//
// Telemetry is keyed by the hour first. New rows of all entities then go to the
// same few pages at the end of the tree, and the tree's size does not slow them
// down; keyed by entity first, the rate falls to a third at five million rows.
// The price is that a query of one series looks into each hour that has any
// data, about 4 µs each; the table hour lists those hours.
//
// Rows that nobody adds to any more are sealed: packed into blocks, of a tenth of their size
// (seal.go). Options.SealAfter says when.
//
// A commit writes the change log, and with it all that was acknowledged; entities,
// their types, relations and documents besides. Readings and edits of attributes move
// from the log into their tables some seconds later, many of a page at once, and with
// Close. The store adds them to whatever it is asked; who reads the file by
// other means, or a copy of it, finds them in the tables only then, and in the log
// before. Open finds those that a crash has left in the log, up to some ten megabytes
// of it.
package sqlite
