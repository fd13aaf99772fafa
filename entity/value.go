package entity

import (
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// ParseJSON returns the value of a JSON object or array, keeping nothing of raw. What
// is neither, or is nested deeper than MaxDepth, or is larger than MaxTextBytes,
// gives the zero Value.
func ParseJSON(raw []byte) value.Value {
	p := parser{s: string(raw)}
	if c := p.peek(); (c != '{' && c != '[') || !utf8.ValidString(p.s) {
		return value.Value{}
	}
	v, err := p.readJSON()
	if p.peek(); err != nil || p.i < len(p.s) {
		return value.Value{}
	}
	return v
}
