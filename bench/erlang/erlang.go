// Package erlang carries the workloads in Erlang's own language. It is built in,
// so that the benchmark's command can be run from any folder.
package erlang

import _ "embed"

// Module is the name of the Erlang module in [Source].
const Module = "greenroom_bench"

// Source is the module's text.
//
//go:embed greenroom_bench.erl
var Source []byte
