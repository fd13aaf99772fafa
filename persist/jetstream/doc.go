// Package jetstream is a journal in a NATS JetStream stream to which several processes can write:
// see [persist.Journal]. It is for programs that already keep their data in NATS.
//
// The stream is a log of batches. A commit publishes its batch as one message, or as several if it
// is larger than the server accepts, and is done when the server has acknowledged it. Which appends
// of a batch are refused, because of their number or epoch, is decided by the batch's place in the
// log: each process that has the journal open reads the log and comes to the same decision. So a
// process that was stopped, and wakes up after another one has claimed its shard, is refused
// whenever its message arrives. Two processes wait for each other no longer than the server takes
// for a message.
//
// Each process has the whole journal in memory, and Open reads the whole stream: an event takes
// some hundred bytes more than its data. So the journal must fit into memory. Nothing is removed
// from the stream, not even by [persist.Persistence.Erase], after which it is only no longer read.
// More than a few messages are read by a consumer of the stream, which is deleted afterwards: a
// user whose subjects the server restricts needs those of its API for consumers as well.
//
// # Durability
//
// By default JetStream acknowledges before the disk has a message, and syncs every two minutes:
// acknowledged messages are lost when a machine loses power, or, for a stream with three replicas,
// when all three machines do. So the server must run with
//
//	jetstream { sync_interval: always }
//
// A client cannot find out whether it does. With three replicas on machines that do not lose power
// together, some choose sync_interval: 1s; that is not what [persist.Journal] promises.
//
// A process that has read messages that a server has lost since refuses everything once it finds
// out, see [ErrLost]: the stream is then shorter, or has other messages in their place. A process
// checks the last message that it has read when it reconnects, and all of them when it reads a
// message of a process that has read the new ones; each message says what its writer had read.
// Whatever the process has written before it finds out has no effect for processes that have read
// the stream as it is.
package jetstream
