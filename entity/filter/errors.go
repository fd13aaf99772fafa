package filter

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

var (
	// ErrSyntax says that a text is no filter: a word at the wrong place, a
	// comparison of things that cannot be compared, a limit that was passed.
	// What [Parse] returns wraps it and is an [*Error].
	ErrSyntax = errors.New("filter")

	// ErrVisits says that matching looked at more related entities than
	// [Env.MaxVisits]. What was matched with that Env so far is worth nothing.
	ErrVisits = errors.New("filter looks at too many related entities")
)

// Error is what is wrong with the text of a filter, and where.
type Error struct {
	// Offset is the place in the text in bytes, from 0.
	Offset int
	// Column is the same place in characters, from 1, for people.
	Column int
	// Text says what is wrong there and what must be.
	Text string
}

// Error returns "filter: column 17: expected a value after '>', found ')'".
func (e *Error) Error() string {
	return fmt.Sprintf("%v: column %d: %s", ErrSyntax, e.Column, e.Text)
}

// Unwrap returns ErrSyntax.
func (e *Error) Unwrap() error { return ErrSyntax }

// errorAt makes the error for an offset in text.
func errorAt(text string, offset int, format string, args ...any) *Error {
	offset = min(max(offset, 0), len(text))
	return &Error{
		Offset: offset,
		Column: utf8.RuneCountInString(text[:offset]) + 1,
		Text:   fmt.Sprintf(format, args...),
	}
}
