// Package failure says what has failed.
package failure

import "fmt"

// In wraps the error of a function, if there is one, with what the function was about:
//
//	defer failure.In(&err, "load %q", id)
func In(err *error, format string, args ...any) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), *err)
	}
}
