package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/value"
)

// Error is a mistake in a template. It wraps entity.ErrInvalid, or ErrTaken.
type Error struct {
	// In is the member of the template: values.power, commands[0].topic.
	In string
	// Offset and Column are the place in an expression, in bytes from 0 and in characters from 1;
	// a Column of 0 is none.
	Offset, Column int
	Text           string // what is wrong there, and what must be

	taken bool // somebody else has the topic
}

// Error returns "values.power: column 7: expected a value after '+', found the end".
func (e *Error) Error() string {
	if e.Column == 0 {
		return e.In + ": " + e.Text
	}
	return fmt.Sprintf("%s: column %d: %s", e.In, e.Column, e.Text)
}

// Unwrap returns entity.ErrInvalid, or ErrTaken for a topic that something else has.
func (e *Error) Unwrap() error {
	if e.taken {
		return ErrTaken
	}
	return entity.ErrInvalid
}

// in makes an error one about a member of a template.
func in(member string, err error) error {
	if at, ok := errors.AsType[*filter.Error](err); ok {
		return &Error{In: member, Offset: at.Offset, Column: at.Column, Text: at.Text}
	}
	return &Error{In: member, Text: strings.TrimPrefix(err.Error(), entity.ErrInvalid.Error()+": ")}
}

// expression is a computation over a payload. Its paths are members of a JSON payload; a name of
// digits is an element of an array.
type expression struct {
	*filter.Expression
	paths [][]string // by slot
}

// compile reads an expression. names are those that it may begin with; nil for any.
func compile(source string, names []string) (*expression, error) {
	if len(source) > MaxExpressionBytes {
		return nil, fmt.Errorf("%w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxExpressionBytes, len(source))
	}
	x := &expression{}
	r := filter.NewReader(source)
	x.Expression = r.Expression(func(r *filter.Reader, ref filter.Reference) (slot int, text string) {
		if ref.Func != "" {
			r.Refuse(ref, "%s is over many values, and a message has one of each", ref.Func)
		}
		path := make([]string, len(ref.Names))
		shown := make([]string, len(ref.Names))
		for i, n := range ref.Names {
			path[i], shown[i] = n.Text, filter.QuoteName(n.Text)
		}
		if names != nil && (len(path) > 1 || path[0] != names[0]) {
			r.Refuse(ref, "a payload that is a text has one name only: %s", names[0])
		}
		x.paths = append(x.paths, path)
		return len(x.paths) - 1, strings.Join(shown, ".")
	})
	if r.Err() == nil && !r.End() {
		r.Expected("the end of the expression")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return x, nil
}

// of computes the expression of a payload. The zero Value is none: something that it needs is not
// there.
func (x *expression) of(d *document) (value.Value, error) {
	return x.Value(&view{d, x.paths}, &filter.Env{})
}

// view is a payload, as expressions see it.
type view struct {
	document *document
	paths    [][]string
}

// Lookup returns what is at a path.
func (v *view) Lookup(p *filter.Path) (value.Value, bool) { return v.document.at(v.paths[p.Slot]) }

// Time returns no time: a payload has none of its parts.
func (v *view) Time(*filter.Path) (int64, bool) { return 0, false }

// Is reports that a payload has no type.
func (v *view) Is(string) bool { return false }

// Related reports that a payload has no relations.
func (v *view) Related(*filter.Relation, *filter.Env) bool { return false }

// document is a payload.
type document struct {
	json string // valid, without insignificant white space; "" where the payload is a text
	text value.Value
}

// textName is the name of a payload that is a text.
const textName = "value"

// at returns what is at a path.
func (d *document) at(path []string) (value.Value, bool) {
	if d.json == "" {
		if len(path) != 1 || path[0] != textName {
			return value.Value{}, false
		}
		return d.text, true
	}
	found, ok := find(d.json, path)
	if !ok {
		return value.Value{}, false
	}
	return value.FromJSON(found)
}

// find returns the text at a path in JSON.
func find(text string, path []string) (string, bool) {
	for _, name := range path {
		var ok bool
		if strings.HasPrefix(text, "[") {
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 {
				return "", false
			}
			text, ok = value.Element(text, i)
		} else {
			text, ok = member(text, name)
		}
		if !ok {
			return "", false
		}
	}
	return text, true
}

func member(text, name string) (string, bool) {
	for n, v := range value.Members(text) {
		if n == name {
			return v, true
		}
	}
	return "", false
}
