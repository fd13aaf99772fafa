package actortest

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
)

// diff returns where two messages differ, a line each and at most diffMax of them, none
// if they are equal.
func diff(want, got any) []string {
	d := differ{seen: make(map[[2]uintptr]bool)}
	d.compare("", reflect.ValueOf(want), reflect.ValueOf(got))
	if d.more > 0 {
		d.lines = append(d.lines, fmt.Sprintf("… and %d more", d.more))
	}
	return d.lines
}

// diffMax bounds how many differences are listed, showLen how long a value is printed.
const (
	diffMax = 10
	showLen = 1000
)

type differ struct {
	lines []string
	more  int
	seen  map[[2]uintptr]bool // pairs of pointers under comparison: a cycle ends there
}

func (d *differ) differs(path, format string, args ...any) {
	if len(d.lines) == diffMax {
		d.more++
		return
	}
	line := fmt.Sprintf(format, args...)
	if path != "" {
		line = strings.TrimPrefix(path, ".") + ": " + line
	}
	d.lines = append(d.lines, line)
}

func (d *differ) values(path string, want, got reflect.Value) {
	d.differs(path, "want %s, got %s", showValue(want), showValue(got))
}

func (d *differ) compare(path string, want, got reflect.Value) {
	if !want.IsValid() || !got.IsValid() {
		if want.IsValid() != got.IsValid() {
			d.values(path, want, got)
		}
		return
	}
	if want.Type() != got.Type() {
		d.differs(path, "want a %s, got a %s", want.Type(), got.Type())
		return
	}
	if equal, ok := ownEqual(want, got); ok {
		if !equal {
			d.values(path, want, got)
		}
		return
	}
	switch want.Kind() {
	case reflect.Struct:
		for i := range want.NumField() {
			d.compare(path+"."+want.Type().Field(i).Name, want.Field(i), got.Field(i))
		}
	case reflect.Pointer, reflect.Interface:
		d.indirect(path, want, got)
	case reflect.Slice, reflect.Array:
		d.lists(path, want, got)
	case reflect.Map:
		d.maps(path, want, got)
	case reflect.Func:
		if !want.IsNil() || !got.IsNil() {
			d.differs(path, "functions cannot be compared; take the message with ExpectMsg")
		}
	default:
		if !want.Equal(got) && !bothNaN(want, got) {
			d.values(path, want, got)
		}
	}
}

// bothNaN: an expected NaN is met by a NaN.
func bothNaN(want, got reflect.Value) bool {
	return want.CanFloat() && math.IsNaN(want.Float()) && math.IsNaN(got.Float())
}

func (d *differ) indirect(path string, want, got reflect.Value) {
	if want.IsNil() || got.IsNil() {
		if want.IsNil() != got.IsNil() {
			d.values(path, want, got)
		}
		return
	}
	if want.Kind() == reflect.Pointer {
		pair := [2]uintptr{want.Pointer(), got.Pointer()}
		if pair[0] == pair[1] || d.seen[pair] {
			return
		}
		d.seen[pair] = true
	}
	d.compare(path, want.Elem(), got.Elem())
}

func (d *differ) lists(path string, want, got reflect.Value) {
	if want.Len() != got.Len() {
		d.differs(path, "want %s, got %s", count(want.Len(), "element", "elements"), count(got.Len(), "element", "elements"))
	}
	for i := range min(want.Len(), got.Len()) {
		d.compare(fmt.Sprintf("%s[%d]", path, i), want.Index(i), got.Index(i))
	}
}

func (d *differ) maps(path string, want, got reflect.Value) {
	keys := want.MapKeys()
	for _, key := range got.MapKeys() {
		if !want.MapIndex(key).IsValid() {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(showValue(a), showValue(b)) })
	for _, key := range keys {
		name := fmt.Sprintf("%s[%s]", path, showValue(key))
		w, g := want.MapIndex(key), got.MapIndex(key)
		switch {
		case !w.IsValid():
			d.differs(name, "not wanted, got %s", showValue(g))
		case !g.IsValid():
			d.differs(name, "want %s, missing", showValue(w))
		default:
			d.compare(name, w, g)
		}
	}
}

// ownEqual asks the type's own Equal method, if it has one of the usual form and the
// value can be had.
func ownEqual(want, got reflect.Value) (equal, ok bool) {
	if !want.CanInterface() || !got.CanInterface() || isNil(want) || isNil(got) || want.Kind() == reflect.Interface {
		return false, false
	}
	m := want.MethodByName("Equal")
	if !m.IsValid() {
		return false, false
	}
	t := m.Type()
	if t.NumIn() != 1 || t.NumOut() != 1 || t.In(0) != want.Type() || t.Out(0).Kind() != reflect.Bool {
		return false, false
	}
	return m.Call([]reflect.Value{got})[0].Bool(), true
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map, reflect.Func, reflect.Chan:
		return v.IsNil()
	default:
		return false
	}
}

// show prints a message with its type.
func show(v any) string { return showValue(reflect.ValueOf(v)) }

func showValue(v reflect.Value) string {
	text := ""
	switch {
	case !v.IsValid():
		return "nil"
	case v.Kind() == reflect.Interface:
		return showValue(v.Elem())
	case v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct:
		return "&" + showValue(v.Elem())
	case v.Kind() == reflect.Struct && v.Type().String() == "time.Time", v.Kind() == reflect.Int64 && v.Type().String() == "time.Duration":
		text = fmt.Sprint(v)
	case v.Kind() == reflect.Struct, v.Kind() == reflect.Map, v.Kind() == reflect.Slice, v.Kind() == reflect.Array:
		text = v.Type().String() + braces(fmt.Sprintf("%+v", v))
	default:
		text = fmt.Sprintf("%#v", v)
	}
	if len(text) > showLen {
		text = fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(text[:showLen], ""), len(text))
	}
	return text
}

// braces gives the text of a type that prints itself a frame.
func braces(text string) string {
	if strings.HasPrefix(text, "{") || strings.HasPrefix(text, "map[") || strings.HasPrefix(text, "[") {
		return strings.TrimPrefix(text, "map")
	}
	return "(" + text + ")"
}
