// Package virtual has a test that looks for a loss, a doubling, a wrong order or a stall in virtual actors, of package
// cluster on one node, with random senders on the real scheduler. It has nothing else.
//
//	go test ./internal/attack/virtual                          # some rounds
//	go test ./internal/attack/virtual -attack.time 10m -v      # rounds with new seeds
//	go test ./internal/attack/virtual -attack.seed 0x2f -v     # 100 rounds of one seed
//
// Longer than 10 minutes also needs the -timeout of go test. GOMAXPROCS counts where it is set in the environment;
// otherwise rounds have 1 and 2 in turn. The tag invariants and the race detector find more.
//
// A round has a kind of one to eight keys, whose options are drawn from its seed. Goroutines and
// actors send letters to the keys, and stop, drain, restart, kill, watch and look at them. A letter
// says what its handler does: stop, fail, wait, ask, tell, forward, watch, link. Activations are
// slow or fail in some rounds. The programs are the same for a seed, the interleaving is not. What
// must hold of all of them:
//
//   - a letter is handled once or a dead letter once, or its sender has an error; all add up to what Stats says;
//   - every ask ends, without the help of a timeout, and its answer is that of its own request;
//   - the letters of one sender to a key come in order, over all activations;
//   - one activation of a key lives at a time, and one of its callbacks runs; each whose Init has succeeded has one
//     Terminate; with kills the handlers that a Kill leaves behind are not looked at;
//   - a watch has one Down, which says that the activation is passivated, has failed or was killed, if it can have been;
//   - at the end no activation, no watch and no link is left; Shutdown leaves nobody unfinished, and no goroutine.
//
// Every fourth round is shut down while letters are sent. Many nodes and their shards are the subject of the tests of
// package cluster, under seeded schedules, and of cluster/chaos.
package virtual
