package filter

import (
	"errors"
	"fmt"
	"unicode/utf8"
)

var (
	// ErrSyntax says that a text is not a filter: a misplaced word, a comparison of things that
	// cannot be compared, an exceeded limit. The errors of [Parse] wrap it and are an [*Error].
	ErrSyntax = errors.New("filter")

	// ErrVisits says that matching examined more related entities than [Env.MaxVisits]. Everything
	// matched with that Env so far is invalid.
	ErrVisits = errors.New("filter looks at too many related entities")
)

// Error says what is wrong with the text of a filter, and where.
type Error struct {
	// Offset is the place in the text in bytes, from 0.
	Offset int
	// Column is the same place in characters, from 1, for people.
	Column int
	// Text says what is wrong there and what is expected.
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
