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
	// ErrNotFound says that there is no script of this name, or no such version of it. It is an
	// [entity.ErrNotFound] as well.
	ErrNotFound = fmt.Errorf("no such script: %w", entity.ErrNotFound)

	// ErrLimit says that there are too many scripts.
	ErrLimit = errors.New("too many scripts")

	// ErrBusy says that MaxTrials trials are under way.
	ErrBusy = fmt.Errorf("%d scripts are being tried, which is the limit", MaxTrials)
)

// Error says what is wrong with a script, and where. It wraps [entity.ErrInvalid].
type Error struct {
	// In is the member that it is about: source, type, where, keys or note.
	In string
	// Line is that of the source, from 1, 0 where none is known.
	Line int
	Text string
}

// Error returns the member and the text.
func (e *Error) Error() string { return e.In + ": " + e.Text }

// Unwrap returns [entity.ErrInvalid].
func (e *Error) Unwrap() error { return entity.ErrInvalid }

// places are the forms in which the interpreter names a line.
var places = regexp.MustCompile(`line:(\d+)\(column:\d+\)|near line\((\d+)\)|^[^\s:]+:(\d+):`)

// LineOf returns the line of a source that an error is about, 0 where it names none.
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
