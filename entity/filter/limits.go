package filter

// What goes beyond a limit is refused by [Parse] with an error that names it.
const (
	// MaxBytes bounds the text of a filter.
	MaxBytes = 16 << 10
	// MaxDepth bounds the nesting of parentheses, of not and of related.
	MaxDepth = 32
	// MaxConditions bounds the comparisons and tests of a filter.
	MaxConditions = 256
	// MaxTerms bounds the values, operators and calls of a filter or an expression.
	MaxTerms = 1000
	// MaxItems bounds the values of all lists of a filter together.
	MaxItems = 1000
	// MaxRelated bounds how many related conditions are inside of each other.
	// Each of them multiplies what one match costs.
	MaxRelated = 3
	// DefaultVisits is the MaxVisits of an Env that has none.
	DefaultVisits = 1_000_000
)
