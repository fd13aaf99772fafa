// Package jetstream is a journal in a NATS JetStream stream to which several processes can write:
// see [persist.Journal]. It is for programs that already keep their data in NATS.
//
// The stream is a log of batches. A commit publishes its batch as one message, or as several if it
// is larger than the server accepts, and is done when the server has acknowledged it. What of a
// batch is refused, because of its number or of its epoch, is decided by its place in the log: each
// process that has the journal open reads the log and comes to the same decision. So a process that
// was stopped, and wakes up after another one has claimed its shard, is refused whenever its
// message arrives. Two processes wait for each other no longer than the server takes for a message.
//
// Each process has the whole journal in memory, and Open reads the whole stream: an event takes
// some hundred bytes more than its data. So the journal must fit. Nothing is removed from the
// stream, not even by [persist.Persistence.Erase], after which it is only no longer read. What is more
// than a few messages is read by a consumer of the stream, which is deleted afterwards: so a user whom
// the server allows only some subjects needs those of its API for consumers as well.
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
// A process that has read messages that a server has lost refuses everything from the time it finds
// out, see [ErrLost]: the stream is shorter, or has other messages where it was filled again. It
// examines the last message that it has read when its connection is made anew, and all of them when
// it reads a message of a process that has read the new ones; each message says what its writer had
// read. What the process has written before it finds out has no effect for those that have read the
// stream as it is.
package jetstream
