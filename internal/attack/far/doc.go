// Package far has a test that looks for a loss, a doubling, a wrong order or a stall between two systems, connected by
// package remote over TCP, with random programs and faults of the network. It has nothing else.
//
//	go test ./internal/attack/far                          # some rounds
//	go test ./internal/attack/far -attack.time 10m -v      # rounds with new seeds
//	go test ./internal/attack/far -attack.seed 0x2f -v     # 100 rounds of one seed
//
// Longer than 10 minutes also needs the -timeout of go test. GOMAXPROCS counts where it is set in the environment;
// otherwise rounds have 1 and 2 in turn. The tag invariants and the race detector find more.
//
// A round has a node that is near, with players, and one that is far, with workers. A player has to
// do with one worker: it sends letters, watches, links, waits, stops and kills, as drawn from the
// seed. A letter says what the worker does: fail, stop, wait, link or watch back. Meanwhile
// connections are cut, the network is down for a moment or for so long that the nodes lose each
// other, one of them disconnects, or the node that is far is started again. The programs are the
// same for a seed, the interleaving is not. What must hold of all of them:
//
//   - a letter is handled once, or a dead letter once, there or here, or its sender has an error; one that is a dead letter
//     here may have been there only if it is among the unknown ones of a loss;
//   - every ask and every wait ends, without the help of a timeout, and an answer is that of its own request;
//   - the letters of a player come in order, over all connections; a worker has one handler at a time;
//   - a watch has one Down, on either side, after the last message of who has ended, and none after it was taken back;
//   - who is linked fails when the other fails, is killed or is lost, and nobody else does;
//   - what the events of losses say adds up to what Peers counts, and to dead letters;
//   - when the players or the workers have ended, or the nodes have lost each other, no watch and no link is left; Shutdown leaves nobody unfinished, and no goroutine.
//
// The same promises are checked by package remote under seeded schedules, with a network of its own and one that is
// simulated.
package far
