// Package groupcommit makes many items durable with one commit.
//
// Items gather while a commit runs, so that a batch is as large as the time of a commit
// makes it (natural group commit). Before each commit the batch may grow for a moment, but
// only while more keeps coming: to write the pages of a small batch costs nearly as much
// as those of a large one, and without the moment a moderate load would keep a core busy
// with small ones. A fixed timer alone would make everybody wait; a commit for each item
// alone is bound by the disk's fsyncs. A commit that fails is tried again, with the same
// items first, until it succeeds.
//
// A Policy decides that and does nothing itself: an actor can ask it, on a clock that a
// simulation has. A Committer asks it on goroutines.
package groupcommit
