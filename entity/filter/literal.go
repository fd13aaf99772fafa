package filter

import (
	"strconv"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
)

// appendFloat writes a float64 so that it reads back as one and as the same.
func appendFloat(dst []byte, f float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' || c == 'N' || c == 'I' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendLiteral writes a value the way the grammar reads it.
func appendLiteral(dst []byte, v value.Value) []byte {
	switch v.Kind() {
	case value.KindBool:
		return strconv.AppendBool(dst, v.Bool())
	case value.KindInt:
		return strconv.AppendInt(dst, v.Int(), 10)
	case value.KindFloat:
		return appendFloat(dst, v.Float())
	case value.KindString, value.KindJSON:
		return appendString(dst, v.Text())
	case value.KindTime:
		return value.AppendTime(dst, v.Int())
	case value.KindDuration:
		return value.AppendDuration(dst, v.Int())
	default:
		return append(dst, "null"...)
	}
}

// appendString writes a string in double quotes.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r == 0x7f:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// unescape returns what follows a backslash at the beginning of s, and how many
// bytes it takes.
func unescape(s string) (r rune, size int, ok bool) {
	if s == "" {
		return 0, 0, false
	}
	switch s[0] {
	case '"', '\'', '\\', '/':
		return rune(s[0]), 1, true
	case 'n':
		return '\n', 1, true
	case 'r':
		return '\r', 1, true
	case 't':
		return '\t', 1, true
	case 'u':
		if len(s) < 5 {
			return 0, 0, false
		}
		code, err := strconv.ParseUint(s[1:5], 16, 16)
		r := rune(code)
		return r, 5, err == nil && utf8.ValidRune(r)
	default:
		return 0, 0, false
	}
}
