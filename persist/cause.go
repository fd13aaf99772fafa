package persist

import "fmt"

// cause is why something fails that is tried again: each is logged once. The zero value is none.
type cause string

// isNew takes an error over, and reports whether it says something else than the one before.
func (c *cause) isNew(err error) bool {
	before := *c
	*c = cause(fmt.Sprint(err)) // which outlives an Error method that panics
	return *c != before
}

// end says that it fails no more, and reports whether it did.
func (c *cause) end() (failed bool) {
	failed = *c != ""
	*c = ""
	return failed
}
