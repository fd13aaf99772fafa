// Package postgres is a journal in PostgreSQL to which several processes can write: see
// [persist.Journal]. It needs PostgreSQL 14 or newer and a direct connection: a pooler that shares
// sessions breaks the lock of a process.
//
// A journal is a schema in a database. Each partition has its counters in a row that a commit
// locks, so commits to a partition come one after the other, and positions are in the order in
// which commits become visible: followers of a partition miss nothing, whoever writes to it. Under
// that lock the number of an id cannot change, and two processes cannot both extend an id.
//
// An erasure removes all events of an id in its transaction, under that lock: commits to the
// partition, and all commits of the process, wait for it. This is much simpler than slices, of
// which each process would have to know, and fast enough: see docs/limits.md.
//
// Each process has a row with the number of its last batch, and an advisory lock for as long as its
// connection lives. When a connection breaks in the middle of a commit, the next one waits for the
// lock, which shows that the server has finished with the old connection, and reads from the row
// whether the commit has happened.
package postgres
