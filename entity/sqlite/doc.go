// Package sqlite keeps entities in SQLite: one file, no server, no cgo.
//
// A store is a directory with greenroom.db, SQLite's two companion files (-wal and -shm),
// greenroom.lock, by which a second process notices that the directory is in use,
// greenroom.reserve, which holds 256 KiB of the disk so that the store can be opened when the disk
// is full, and, until it is closed, greenroom.open, by which the next Open notices that the -wal is
// missing, was cut off or was changed before its last commit. The database is in WAL mode with
// synchronous=FULL: a commit is on disk when Commit returns. One connection writes, a few others
// read, and neither waits for the other.
//
// Telemetry is keyed by the hour first. So new rows of all entities go to the same few pages at the
// end of the tree, and the size of the tree does not slow them down; with keys that begin with the
// entity, the rate falls to a third at five million rows. The price is that a query of one series
// searches each hour in which it has rows, at about 4 µs each; the table series_hour lists those.
//
// Rows of finished hours are sealed: packed into blocks, at a tenth of their size (seal.go).
// Options.SealAfter says when. If a series has many new values, they are packed at once.
//
// A commit writes the change log, which has everything acknowledged, and also entities, their
// types, relations and documents. Readings and edits of attributes move from the log into their
// tables some seconds later, many of a page at once, and on Close. The store merges them into all
// its answers; a program that reads the file by other means, or a copy of it, finds them in the
// tables only then, and before that in the log. Open moves those that a crash has left in the log,
// up to some ten megabytes.
package sqlite
