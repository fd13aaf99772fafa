package series

import "errors"

var (
	// ErrInvalid is wrapped by every error about what the caller passed: a function, a step, a
	// fill, a rule. The text says what is expected.
	ErrInvalid = errors.New("invalid")

	// ErrOrder says that points or rows are not in the order of their time.
	ErrOrder = errors.New("points are not in the order of their time")

	// ErrTooManyBuckets says that an answer would have more than the query's
	// MaxBuckets: ask for a longer step or a shorter range.
	ErrTooManyBuckets = errors.New("too many buckets")

	// ErrCut says that a row of a rollup lies in two buckets, or only partly in the range: its
	// numbers cannot be divided.
	ErrCut = errors.New("row of a rollup does not fit into the buckets")

	// ErrNoPercentiles says that percentiles were requested of rows without them.
	ErrNoPercentiles = errors.New("rollup has no percentiles")

	// ErrTooFine says that a part of the range is kept only in rows that are too
	// long for the buckets.
	ErrTooFine = errors.New("step is finer than what is kept")

	// ErrEncoding says that bytes are not an encoded Summary.
	ErrEncoding = errors.New("encoded summary is damaged")

	// ErrTotal says that the number of points was not the announced one.
	ErrTotal = errors.New("number of points is not the announced one")
)
