// Package postgres keeps entities in PostgreSQL, for data that one file on one disk can no longer
// hold. It needs PostgreSQL 14 or newer and a direct connection: a pooler that shares sessions
// breaks the lock of the writer.
//
// A store is a schema in a database. One connection writes and holds an advisory lock as long as it
// lives, so that a second server learns that the schema is in use; a few others read. A commit is
// one transaction with synchronous_commit on. It counts itself in the table greenroom: if a
// connection breaks during a commit, the number shows whether the commit happened, and a commit
// that is tried again is never made twice.
//
// Telemetry is partitioned by time. Partitions are created ahead of time, and for older or later
// times on demand; they are dropped as a whole when everything in them has expired. New readings
// are copied in (COPY); if one of the same entity, key and time exists already, the rows are merged
// instead.
//
// When an hour of the history has received nothing for a while, its rows are sealed: packed into
// blocks (package block) in the background, at a tenth of their size, in short transactions on a
// separate connection. Options.SealAfter says when. Late and corrected readings are rows over the
// blocks, found at once and folded in later. Databases of earlier versions are sealed while they
// are in use.
//
// Others may read the tables as well: the view reading shows the telemetry that is not sealed, with
// the names of entities and keys. If you need all of it in SQL, set Options.SealAfter to years.
package postgres
