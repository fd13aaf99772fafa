package script

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

var (
	// ErrNotFound is returned if there is no script of a name, or no such version of it. It wraps
	// [entity.ErrNotFound].
	ErrNotFound = fmt.Errorf("no such script: %w", entity.ErrNotFound)

	// ErrLimit is returned if there are too many scripts.
	ErrLimit = errors.New("too many scripts")

	// ErrBusy says that MaxTrials trials are under way, or one of the same owner.
	ErrBusy = fmt.Errorf("only %d scripts can be tried at once, and one of each principal", MaxTrials)
)

// Error describes a mistake in a script. It wraps [entity.ErrInvalid].
type Error struct {
	// In is the member that is wrong: source, type, where, keys or note.
	In string
	// Line is the line of the source, from 1; 0 if it is not known.
	Line int
	Text string
}

// Error returns the member and the text.
func (e *Error) Error() string { return e.In + ": " + e.Text }

// Unwrap returns [entity.ErrInvalid].
func (e *Error) Unwrap() error { return entity.ErrInvalid }

// places matches the ways in which the interpreter mentions a line.
var places = regexp.MustCompile(`line:(\d+)\(column:\d+\)|near line\((\d+)\)|^[^\s:]+:(\d+):`)

// LineOf returns the line of a source in the text of an error, or 0 if there is none.
func LineOf(text, source string) int {
	text, _, _ = strings.Cut(text, "\n")
	for _, found := range places.FindStringSubmatch(text)[min(1, len(places.FindStringSubmatch(text))):] {
		if n, err := strconv.Atoi(found); err == nil {
			return n
		}
	}
	if strings.Contains(text, " at EOF:") {
		return strings.Count(strings.TrimRight(source, "\n"), "\n") + 1
	}
	return 0
}
