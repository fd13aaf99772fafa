// Package chaos contains only tests, in which the processes of a cluster are killed, stopped and
// cut off from each other and from their engine, while they are under load.
//
//	go test ./cluster/chaos -v                     # one round, half a minute
//	go test ./cluster/chaos -chaos.time 10m -v     # rounds of the long form, each with a seed of its own
//	GREENROOM_CHAOS_SEEDS=0x2f,7 go test ./cluster/chaos -run Trouble -v    # rounds of the long form again
//
// Longer than 10 minutes also needs the -timeout of go test; `make soak` does that for half an hour.
//
// A round has three nodes, each a process, whose durable virtual actors are registers: a message
// swaps the value of one for another. The test's own process has references to them, and checks the
// results:
//
//   - at most one: no activation has handled a message with a valid lease after one of a later epoch has;
//   - fenced: the epochs in the journal for a key never decrease;
//   - nothing is lost: each swap that was acknowledged is in the journal, and none is there twice;
//   - linearizable: the answers are those of one register for each key, as porcupine finds;
//   - in order: across planned moves everything that one actor has told another arrives, in order;
//   - converged: in the end all keys answer on all nodes, which know the same owners.
//
// The same is simulated, thousands of times as often and with planted mistakes, by the tests of package
// cluster whose names begin with TestSim.
package chaos
