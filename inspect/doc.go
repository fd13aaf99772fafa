// Package inspect shows the actors of a running system: as pages for people, as JSON
// for programs, and as metrics for Prometheus.
//
// [Handler] serves the pages: the tree of actors, the busiest and the fullest of them, one actor in
// detail, the last failures, the dead letters, and who waits for whom. Mount it under any prefix of
// any mux:
//
//	mux.Handle("/debug/actors/", http.StripPrefix("/debug/actors", inspect.Handler(sys, inspect.Config{})))
//
// It has no login of its own: whoever reaches it sees the types and addresses of all actors, and
// what their Inspect methods return. Put it behind the program's login, or on a loopback listener.
// Nobody can stop an actor through it unless [Config].Authorize allows that.
//
// [ReadTree], [ReadDetail] and [DeadLetters] return the same as values with JSON names, for
// programs that have an API of their own. [Collector] has the counters of a system.
package inspect
