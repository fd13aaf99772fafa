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
	// In names the member of the template, such as values.power or commands[0].topic.
	In string
	// Offset and Column are the position in an expression, in bytes from 0 and in characters from
	// 1. A Column of 0 means that there is none.
	Offset, Column int
	Text           string // what is wrong, and what is expected

	taken bool // another owner has the topic
}

// Error returns "values.power: column 7: expected a value after '+', found the end".
func (e *Error) Error() string {
	if e.Column == 0 {
		return e.In + ": " + e.Text
	}
	return fmt.Sprintf("%s: column %d: %s", e.In, e.Column, e.Text)
}

// Unwrap returns ErrTaken for a topic that another owner has, and otherwise entity.ErrInvalid.
func (e *Error) Unwrap() error {
	if e.taken {
		return ErrTaken
	}
	return entity.ErrInvalid
}

// in returns an error about a member of a template.
func in(member string, err error) error {
	if at, ok := errors.AsType[*filter.Error](err); ok {
		return &Error{In: member, Offset: at.Offset, Column: at.Column, Text: at.Text}
	}
	return &Error{In: member, Text: strings.TrimPrefix(err.Error(), entity.ErrInvalid.Error()+": ")}
}

// expression is an expression over a payload. Its paths are members of a JSON payload; digits index
// an array.
type expression struct {
	*filter.Expression
	paths [][]string // by slot, each once
}

// compile compiles an expression. Paths must begin with one of names; nil allows any.
func compile(source string, names []string) (*expression, error) {
	if len(source) > MaxExpressionBytes {
		return nil, fmt.Errorf("%w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxExpressionBytes, len(source))
	}
	x := &expression{}
	slots := map[string]int{}
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
		text = strings.Join(shown, ".")
		slot, known := slots[text]
		if !known {
			slot = len(x.paths)
			slots[text] = slot
			x.paths = append(x.paths, path)
		}
		return slot, text
	})
	if r.Err() == nil && !r.End() {
		r.Expected("the end of the expression")
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return x, nil
}

// of evaluates the expression on a payload. It returns the zero Value if a path that it needs is
// missing.
func (x *expression) of(d *document) (value.Value, error) {
	return x.Value(&view{d, x.paths}, &filter.Env{})
}

// view presents a payload to expressions.
type view struct {
	document *document
	paths    [][]string
}

// Lookup returns the value at a path.
func (v *view) Lookup(p *filter.Path) (value.Value, bool) { return v.document.at(v.paths[p.Slot]) }

// Time returns false: the parts of a payload have no times.
func (v *view) Time(*filter.Path) (int64, bool) { return 0, false }

// Is returns false: a payload has no type.
func (v *view) Is(string) bool { return false }

// Related returns false: a payload has no relations.
func (v *view) Related(*filter.Relation, *filter.Env) bool { return false }

// document is a parsed payload.
type document struct {
	json string // valid, without insignificant white space; "" if the payload is text
	text value.Value
}

// textName is the path of the value of a text payload.
const textName = "value"

// at returns the value at a path.
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

// find returns the JSON at a path in text.
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
