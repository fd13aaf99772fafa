package lua

import (
	"fmt"
	"math"

	"github.com/greenroom-go/greenroom/internal/text"
)

// Table is a Lua table as Go gets or sends it. It is plain data, and not safe for concurrent use
// while somebody changes it. The zero Table is empty.
type Table struct {
	// List has the values of the keys 1, 2, 3 and so on. A nil in it is a hole.
	List []any
	// Fields are all other keys, in the order in which the script has added them. A key is a
	// string, a bool, or a float64 that is not one of the keys of a list.
	Fields []Field
}

// Field is a key of a [Table] and its value.
type Field struct{ Key, Value any }

// Field returns the value of a string key, nil if there is none.
func (t *Table) Field(key string) any {
	for _, f := range t.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// exact is the largest integer up to which a double has every integer.
const exact = 1 << 53

// listKeys is above the largest key that the interpreter keeps in the list of a table.
const listKeys = 67108864

// isListKey reports whether the interpreter keeps the value of this key in the list of a table.
func isListKey(n float64) bool { return n > 0 && n < listKeys && n == math.Trunc(n) }

// ValueError says that a value cannot be sent from one service to another, or that bytes are not
// packed values.
type ValueError struct {
	Path string // where the value stands, as in "argument 2.items.3"; empty if it is about all of them
	Text string // what is wrong
}

// Error returns the path and the text.
func (e *ValueError) Error() string {
	if e.Path == "" {
		return e.Text
	}
	return e.Path + ": " + e.Text
}

// refuse returns the error for a value that stands at the place from which it is returned.
func refuse(format string, args ...any) *ValueError {
	return &ValueError{Text: fmt.Sprintf(format, args...)}
}

// maxPathKey is how many bytes of a key a path has.
const maxPathKey = 64

// within returns the error as one of the table that has the value at key.
func (e *ValueError) within(key any) *ValueError {
	if s, ok := key.(string); ok {
		key = text.Shorten(s, maxPathKey)
	}
	e.Path = fmt.Sprintf(".%v%s", key, e.Path)
	return e
}

// of returns the error as one of the argument with that number.
func (e *ValueError) of(argument int) *ValueError {
	e.Path = fmt.Sprintf("argument %d%s", argument, e.Path)
	return e
}
