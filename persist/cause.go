package persist

import (
	"fmt"
	"log/slog"
)

// cause is the reason why a retried operation fails: each is logged once. The zero value means
// none.
type cause string

// isNew records an error, and reports whether its text differs from that of the previous one.
func (c *cause) isNew(err error) bool {
	before := *c
	*c = cause(textOf(err))
	return *c != before
}

// end records a success, and reports whether the operation had failed before.
func (c *cause) end() (failed bool) {
	failed = *c != ""
	*c = ""
	return failed
}

// textOf returns the text of an error of any type: fmt recovers from an Error method that panics.
func textOf(err error) string { return fmt.Sprint(err) }

// errorAttr is textOf for the log.
func errorAttr(err error) slog.Attr { return slog.String("error", textOf(err)) }
