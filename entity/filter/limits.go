package filter

// [Parse] refuses what exceeds a limit, with an error that names the limit.
const (
	// MaxBytes bounds the text of a filter.
	MaxBytes = 16 << 10
	// MaxDepth bounds the nesting of parentheses, of not and of related.
	MaxDepth = 32
	// MaxConditions bounds the comparisons and tests of a filter.
	MaxConditions = 256
	// MaxTerms bounds the values, operators and calls of a filter or an expression.
	MaxTerms = 1000
	// MaxArguments bounds the arguments of a call.
	MaxArguments = 32
	// MaxItems bounds the values of all lists of a filter together.
	MaxItems = 1000
	// MaxRelated bounds how deeply related conditions are nested. Each level multiplies the cost of
	// a match.
	MaxRelated = 3
	// DefaultVisits is the MaxVisits of an Env that has none.
	DefaultVisits = 1_000_000
)
