package workload

import "errors"

// The errors of this package, for errors.Is.
var (
	// ErrNoWorkload is a name that no workload has.
	ErrNoWorkload = errors.New("no such workload")
	// ErrWrongCount is a run whose messages or answers were not what was sent.
	ErrWrongCount = errors.New("wrong count")
	// ErrUnsupported is a workload that the runtime's adapter has no means for.
	ErrUnsupported = errors.New("not supported by the adapter")
)
