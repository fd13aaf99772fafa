package entity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity/value"
)

// operation is one operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  *string         `json:"path"`
	From  *string         `json:"from"`
	Value json.RawMessage `json:"value"`
}

// applyJSONPatch applies the operations one after the other (RFC 6902). After an error the leaves
// must be discarded.
func (l *leaves) applyJSONPatch(body []byte) error {
	var ops []operation
	if err := json.Unmarshal(body, &ops); err != nil {
		return fmt.Errorf(`%w: not a JSON patch such as [{"op":"replace","path":"/a","value":1}]: %w`, ErrInvalid, err)
	}
	for i := range ops {
		op := &ops[i]
		if err := l.operate(op); err != nil {
			path := ""
			if op.Path != nil {
				path = brief(*op.Path)
			}
			return fmt.Errorf("operation %d (%s %s): %w", i, brief(op.Op), path, err)
		}
	}
	return l.closeArrays("")
}

func (l *leaves) operate(op *operation) error {
	if op.Path == nil {
		return fmt.Errorf("%w: it has no path", ErrInvalid)
	}
	if err := checkPointer(*op.Path); err != nil {
		return err
	}
	switch op.Op {
	case "add", "replace", "test":
		if op.Value == nil {
			return fmt.Errorf("%w: it has no value", ErrInvalid)
		}
	case "move", "copy":
		if op.From == nil {
			return fmt.Errorf("%w: it has no from", ErrInvalid)
		}
		if err := checkPointer(*op.From); err != nil {
			return err
		}
	}
	switch op.Op {
	case "add":
		return l.addAt(*op.Path, op.Value)
	case "remove":
		return l.removeAt(*op.Path)
	case "replace":
		return l.replaceAt(*op.Path, op.Value)
	case "test":
		return l.test(*op.Path, op.Value)
	case "copy":
		raw, err := l.textAt(*op.From)
		if err != nil {
			return err
		}
		return l.addAt(*op.Path, raw)
	case "move":
		return l.move(*op.From, *op.Path)
	}
	return fmt.Errorf("%w: there are add, remove, replace, move, copy and test", ErrInvalid)
}

func missing(path string) error {
	return fmt.Errorf("%w: there is nothing at %q", ErrInvalid, brief(path))
}

// array finds the array that path leads into: its leaf, and the rest of the path below the leaf.
func (l *leaves) array(path string) (leaf int, rest []string, ok bool) {
	for at := 1; at < len(path); at++ {
		if path[at] != '/' {
			continue
		}
		if i, ok := l.find(path[:at]); ok {
			v := l.section[i].Value
			if v.Kind() != value.KindJSON || v.Text()[0] != '[' {
				return 0, nil, false
			}
			rest = strings.Split(path[at+1:], "/")
			for j := range rest {
				rest[j] = unescapeMember(rest[j])
			}
			return i, rest, true
		}
	}
	return 0, nil, false
}

func (l *leaves) addAt(path string, raw []byte) error {
	if leaf, rest, ok := l.array(path); ok {
		return l.reshape(leaf, rest, addition, raw)
	}
	if err := l.closeArrays(path); err != nil {
		return err
	}
	if path != "" && !l.isObject(parentOf(path)) {
		return fmt.Errorf("%w: there is no object at %q to have a member", ErrInvalid, brief(parentOf(path)))
	}
	in := parser{s: string(raw), reading: -1}
	return l.write(&in, path)
}

func (l *leaves) replaceAt(path string, raw []byte) error {
	if leaf, rest, ok := l.array(path); ok {
		return l.reshape(leaf, rest, replacement, raw)
	}
	if path != "" && !l.has(path) {
		return missing(path)
	}
	return l.addAt(path, raw)
}

func (l *leaves) removeAt(path string) error {
	if leaf, rest, ok := l.array(path); ok {
		return l.reshape(leaf, rest, removal, nil)
	}
	if err := l.closeArrays(path); err != nil {
		return err
	}
	switch {
	case path == "":
		l.clear("")
	case !l.has(path):
		return missing(path)
	default:
		l.remove(path)
	}
	return nil
}

func (l *leaves) move(from, to string) error {
	if strings.HasPrefix(to, from+"/") {
		return fmt.Errorf("%w: %q lies inside of %q", ErrInvalid, brief(to), brief(from))
	}
	raw, err := l.textAt(from)
	if err != nil {
		return err
	}
	if from == to {
		return nil
	}
	if err := l.removeAt(from); err != nil {
		return err
	}
	return l.addAt(to, raw)
}

func (l *leaves) test(path string, raw []byte) error {
	have, err := l.textAt(path)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTestFailed, err)
	}
	if err := l.spend(decodeWork * (len(have) + len(raw))); err != nil {
		return err
	}
	if !sameJSON(have, raw) {
		return fmt.Errorf("%w: there is %s, not %s", ErrTestFailed, brief(string(have)), brief(string(raw)))
	}
	return nil
}

// textAt returns what is at path as JSON.
func (l *leaves) textAt(path string) ([]byte, error) {
	raw, err := l.readAt(path)
	if err != nil {
		return nil, err
	}
	return raw, l.spend(len(raw))
}

func (l *leaves) readAt(path string) ([]byte, error) {
	if leaf, rest, ok := l.array(path); ok {
		a, err := l.openArray(leaf)
		if err != nil {
			return nil, err
		}
		v := a.value
		for i, name := range rest {
			if v, ok = member(v, name); !ok {
				return nil, missing(a.path + Pointer(rest[:i+1]...))
			}
		}
		return encodeJSON(v)
	}
	if err := l.closeArrays(path); err != nil {
		return nil, err
	}
	if i, ok := l.find(path); ok {
		return l.section[i].Value.AppendJSON(nil), nil
	}
	if path == "" {
		return AppendAttributes(nil, l.section), nil
	}
	from, to := l.below(path)
	if from == to {
		return nil, missing(path)
	}
	return appendLeaves(nil, l.section[from:to], len(path), appendAttribute), nil
}

// openArrays bounds how many arrays a patch has decoded at the same time.
const openArrays = 4

// openArray is an array whose elements a patch changes. It is decoded once, and encoded when
// something else reads it.
type openArray struct {
	path    string
	value   any
	changed bool
}

// openArray returns the array of a leaf, decoded.
func (l *leaves) openArray(leaf int) (*openArray, error) {
	path := l.section[leaf].Path
	for _, a := range l.arrays {
		if a.path == path {
			return a, nil
		}
	}
	if len(l.arrays) == openArrays {
		if err := l.closeArrays(l.arrays[0].path); err != nil {
			return nil, err
		}
	}
	text := l.section[leaf].Value.Text()
	if err := l.spend(decodeWork * len(text)); err != nil {
		return nil, err
	}
	v, err := decodeJSON([]byte(text))
	if err != nil {
		return nil, err
	}
	a := &openArray{path: path, value: v}
	l.arrays = append(l.arrays, a)
	return a, nil
}

// closeArrays writes the arrays at a path and below it back to their leaves.
func (l *leaves) closeArrays(path string) error {
	kept := l.arrays[:0]
	for _, a := range l.arrays {
		if !strings.HasPrefix(a.path, path) || len(a.path) > len(path) && a.path[len(path)] != '/' {
			kept = append(kept, a)
		} else if err := l.closeArray(a); err != nil {
			return err
		}
	}
	clear(l.arrays[len(kept):])
	l.arrays = kept
	return nil
}

func (l *leaves) closeArray(a *openArray) error {
	if !a.changed {
		return nil
	}
	text, err := encodeJSON(a.value)
	if err == nil {
		err = l.spend(decodeWork * len(text))
	}
	if err != nil {
		return err
	}
	in := parser{s: string(text), reading: -1}
	value, perr := in.readValue()
	if perr != nil {
		return fmt.Errorf("%s: %w", brief(a.path), perr)
	}
	leaf, _ := l.find(a.path)
	l.section[leaf].Value, l.section[leaf].TS = value, l.now
	return nil
}

// reshape applies an operation inside an array.
func (l *leaves) reshape(leaf int, rest []string, what alteration, raw []byte) error {
	a, err := l.openArray(leaf)
	if err != nil {
		return err
	}
	work := decodeWork * len(raw)
	if what != replacement { // all elements may move, 16 bytes each
		work += 2 * longest(a.value, rest)
	}
	if err := l.spend(work); err != nil {
		return err
	}
	a.changed = true
	a.value, err = alter(a.value, rest, what, raw)
	return err
}

// longest returns the length of the longest array along the path.
func longest(v any, rest []string) (n int) {
	for _, name := range rest {
		if list, ok := v.([]any); ok {
			n = max(n, len(list))
		}
		v, _ = member(v, name)
	}
	return n
}

// alteration is what alter does at the end of the path.
type alteration uint8

const (
	addition alteration = iota
	replacement
	removal
)

// alter changes a value at a path inside v and returns the new v.
func alter(v any, rest []string, what alteration, raw []byte) (any, error) {
	if len(rest) > 1 {
		inner, ok := member(v, rest[0])
		if !ok {
			return nil, missing("/" + strings.Join(rest, "/"))
		}
		inner, err := alter(inner, rest[1:], what, raw)
		if err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case []any:
			i, _ := index(rest[0], len(v))
			v[i] = inner
		case map[string]any:
			v[rest[0]] = inner
		}
		return v, nil
	}
	var value any
	if what != removal {
		var err error
		if value, err = decodeJSON(raw); err != nil {
			return nil, err
		}
	}
	switch v := v.(type) {
	case []any:
		return alterArray(v, rest[0], what, value)
	case map[string]any:
		if _, ok := v[rest[0]]; !ok && what != addition {
			return nil, missing("/" + rest[0])
		}
		if what == removal {
			delete(v, rest[0])
		} else {
			v[rest[0]] = value
		}
		return v, nil
	}
	return nil, fmt.Errorf("%w: there is neither an array nor an object to have %q", ErrInvalid, brief(rest[0]))
}

func alterArray(list []any, name string, what alteration, value any) (any, error) {
	if what == addition {
		if name == "-" {
			return append(list, value), nil
		}
		i, ok := index(name, len(list)+1)
		if !ok {
			return nil, fmt.Errorf("%w: no place %q in an array of %d", ErrInvalid, brief(name), len(list))
		}
		return slices.Insert(list, i, value), nil
	}
	i, ok := index(name, len(list))
	if !ok {
		return nil, fmt.Errorf("%w: no element %q in an array of %d", ErrInvalid, brief(name), len(list))
	}
	if what == removal {
		return slices.Delete(list, i, i+1), nil
	}
	list[i] = value
	return list, nil
}

// index reads the index of an element: digits without a leading zero.
func index(name string, n int) (int, bool) {
	i, err := strconv.ParseUint(name, 10, 31)
	if err != nil || len(name) > 1 && name[0] == '0' || name[0] == '+' || int(i) >= n {
		return 0, false
	}
	return int(i), true
}

func member(v any, name string) (any, bool) {
	switch v := v.(type) {
	case []any:
		if i, ok := index(name, len(v)); ok {
			return v[i], true
		}
	case map[string]any:
		inner, ok := v[name]
		return inner, ok
	}
	return nil, false
}

func decodeJSON(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber() // int64 would not survive float64
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: something follows the JSON value", ErrInvalid)
	}
	return v, nil
}

func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// sameJSON reports whether two JSON texts have the same value: numbers are
// compared as numbers, and the order of members has no meaning (RFC 6902, 4.6).
func sameJSON(a, b []byte) bool {
	x, err1 := decodeJSON(a)
	y, err2 := decodeJSON(b)
	return err1 == nil && err2 == nil && reflect.DeepEqual(normal(x), normal(y))
}

// normal replaces the texts of numbers by int64 where they are whole and fit, and
// by float64 otherwise.
func normal(v any) any {
	switch v := v.(type) {
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i
		}
		f, err := v.Float64()
		if err == nil && f == math.Trunc(f) && f >= -1<<63 && f < 1<<63 {
			return int64(f)
		}
		return f
	case []any:
		for i := range v {
			v[i] = normal(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = normal(v[name])
		}
	}
	return v
}
