package entity

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// ParseJSON returns the value of a JSON object or array. It does not retain raw. It returns the
// zero Value if raw is neither, is nested deeper than MaxDepth, or is larger than MaxTextBytes.
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

// ParseValue returns the value of any JSON text, and the zero Value for null or an empty text. It
// does not retain raw. It returns a *PayloadError if raw is not JSON, is nested deeper than
// MaxDepth, or has more than MaxTextBytes.
func ParseValue(raw []byte) (value.Value, error) {
	if len(raw) > MaxPayloadBytes {
		return value.Value{}, &PayloadError{CauseTooLarge, fmt.Sprintf("%d bytes; at most %d are allowed", len(raw), MaxPayloadBytes)}
	}
	p := parser{s: string(raw), reading: -1}
	if text := strings.TrimFunc(p.s, func(r rune) bool { return r < utf8.RuneSelf && isSpace(byte(r)) }); text == "" || text == "null" {
		return value.Value{}, nil
	}
	if !utf8.ValidString(p.s) {
		return value.Value{}, p.fail(CauseEncoding, "must be UTF-8")
	}
	v, err := p.readValue()
	if err != nil {
		return value.Value{}, err
	}
	if p.peek(); p.i < len(p.s) {
		return value.Value{}, p.fail(CauseSyntax, "%s after the end of the value", p.found())
	}
	return v, nil
}
