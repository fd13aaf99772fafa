package persist

import (
	"fmt"
	"log/slog"
)

// cause is why something fails that is tried again: each is logged once. The zero value is none.
type cause string

// isNew takes an error over, and reports whether it says something else than the one before.
func (c *cause) isNew(err error) bool {
	before := *c
	*c = cause(textOf(err))
	return *c != before
}

// end says that it fails no more, and reports whether it did.
func (c *cause) end() (failed bool) {
	failed = *c != ""
	*c = ""
	return failed
}

// textOf returns the text of an error that may be anybody's: fmt outlives an Error method that
// panics.
func textOf(err error) string { return fmt.Sprint(err) }

// errorAttr is textOf for the log.
func errorAttr(err error) slog.Attr { return slog.String("error", textOf(err)) }
