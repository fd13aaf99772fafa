// Package inspect shows the actors of a running system: as pages for people, as JSON
// for programs, and as metrics for Prometheus.
//
// [Handler] has the pages: the tree of actors, the busiest and the fullest of them, one
// actor closely, the last failures, the dead letters, and who waits for whom. Mount it
// under any prefix of any mux:
//
//	mux.Handle("/debug/actors/", http.StripPrefix("/debug/actors", inspect.Handler(sys, inspect.Config{})))
//
// It has no login of its own: who reaches it sees the types and addresses of all actors,
// and what their Inspect methods tell. Put it behind the program's own, or on a listener
// of the loopback interface. Nobody can stop an actor by it unless [Config].Authorize says so.
//
// [ReadTree], [ReadDetail] and [DeadLetters] return the same as values with JSON names, for
// programs that have an API of their own. [Collector] has the counters of a system.
package inspect
