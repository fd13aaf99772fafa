// Package postgres keeps entities in PostgreSQL, the store for what one file on
// one disk no longer holds. It needs PostgreSQL 14 or newer and a direct
// connection: a pooler that shares sessions breaks the lock of the writer.
//
// A store is a schema in a database. One connection writes and holds an advisory
// lock as long as it lives, so that a second server is told that the schema is in
// use; a few others read. A commit is one transaction with synchronous_commit on.
// It counts itself in the table greenroom: after a connection broke while a commit
// was under way, the number says if it happened, and a commit that is tried
// again is never made twice.
//
// Telemetry is partitioned by time. Partitions are made ahead, and for older or
// later times on demand; they are dropped as a whole when all they have has
// expired. New readings are copied in (COPY); where one of the same entity, key
// and time is there already, the rows are merged instead.
//
// The tables are there to be read by others as well: the view reading has the
// telemetry by the names of entities and keys.
package postgres
