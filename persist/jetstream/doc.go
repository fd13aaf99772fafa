// Package jetstream is a journal in a stream of NATS JetStream, which several processes can write
// to: see [persist.Journal]. It is for programs for which NATS is where the truth is already.
//
// The stream is a log of batches. A commit publishes its batch as one message, or as several where
// it is larger than the server takes, and is done when the server has acknowledged it. What of a
// batch is refused, because of its number or of its epoch, is decided by its place in the log:
// each process that has the journal open reads the log and comes to the same decision. So a process
// that was stopped, and wakes up after somebody else has claimed its shard, is refused whenever its
// message arrives. Two processes wait for each other no longer than the server takes for a message.
//
// Each process has all that the journal has in memory, and Open reads the whole stream: some
// hundred bytes more for an event than its data. It is for journals that fit. Nothing is removed
// from the stream, also not by [persist.Persistence.Erase], which makes that it is not read any more.
//
// # Durability
//
// JetStream acknowledges before the disk by default, and syncs every two minutes: acknowledged
// messages are lost when a machine loses power, and of a stream with three replicas when all of them
// do. So the server must be run with
//
//	jetstream { sync_interval: always }
//
// and nothing that a client can ask says whether it is. With three replicas on machines that do not
// lose power together sync_interval: 1s is a choice that some make; it is not what [persist.Journal]
// promises.
//
// A process that has read what a server has lost refuses everything from when it finds out, see
// [ErrLost]: the stream is shorter, or has other messages where it has been filled again. It looks at the
// last message that it has read when its connection was made anew, and at all when it reads a message of a process that has read the others; each
// message says what its writer had read. What it has written before it finds out has no effect for
// those that have read the stream as it is.
package jetstream
