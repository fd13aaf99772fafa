package filter

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// arrayHas reports whether an array, given as JSON without insignificant white
// space, has an element that equals a string, a number or a bool. Elements that
// are arrays or objects equal nothing. It reads the text as it is, without
// decoding it first, and trusts it to be valid: of other text it may say
// anything, but it ends.
func arrayHas(text string, want Value) bool {
	if len(text) < 2 || text[0] != '[' {
		return false
	}
	for rest := text[1:]; rest != "" && rest[0] != ']'; {
		end := elementEnd(rest)
		if elementIs(rest[:end], want) {
			return true
		}
		if end == len(rest) || rest[end] != ',' {
			return false
		}
		rest = rest[end+1:]
	}
	return false
}

// JSONAt returns what is at a JSON pointer (RFC 6901) in an object, given as JSON
// without insignificant white space, and whether there is anything but null. It
// allocates only for a string that has escapes. A [View] can answer with it for
// paths with [RootRelation]. The text is trusted to be valid: of other text it
// may say anything, but it ends.
func JSONAt(text, pointer string) (Value, bool) {
	for pointer != "" {
		token := pointer[1:]
		pointer = ""
		if i := strings.IndexByte(token, '/'); i >= 0 {
			token, pointer = token[:i], token[i:]
		}
		if strings.IndexByte(token, '~') >= 0 {
			token = memberUnescaper.Replace(token)
		}
		var ok bool
		if text, ok = jsonMember(text, token); !ok {
			return Value{}, false
		}
	}
	return jsonValue(text)
}

// jsonMember returns the text of a member of an object.
func jsonMember(text, name string) (member string, ok bool) {
	if len(text) < 2 || text[0] != '{' {
		return "", false
	}
	for rest := text[1:]; len(rest) > 1 && rest[0] == '"'; {
		end := quoteEnd(rest)
		if end+1 >= len(rest) || rest[end] != ':' {
			return "", false
		}
		value := rest[end+1:]
		stop := elementEnd(value)
		if quotedIs(rest[1:end-1], name) {
			return value[:stop], true
		}
		if stop == len(value) {
			return "", false
		}
		rest = value[stop+1:]
	}
	return "", false
}

// quoteEnd returns where the string at the beginning of s ends.
func quoteEnd(s string) int {
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(s)
}

// jsonValue returns the value of a text, and none for null.
func jsonValue(text string) (Value, bool) {
	switch {
	case text == "true" || text == "false":
		return Bool(text == "true"), true
	case text == "" || text == "null":
		return Value{}, false
	case text[0] == '{' || text[0] == '[':
		return JSON(text), true
	case text[0] == '"' && len(text) > 1:
		return String(unquote(text[1 : len(text)-1])), true
	default:
		v := jsonNumber(text)
		return v, v.kind != 0
	}
}

// unquote returns what the inside of a JSON string means.
func unquote(s string) string {
	if strings.IndexByte(s, '\\') < 0 {
		return s
	}
	var b strings.Builder
	for s != "" {
		if s[0] != '\\' {
			b.WriteByte(s[0])
			s = s[1:]
			continue
		}
		r, size := jsonEscape(s[1:])
		b.WriteRune(r)
		s = s[1+size:]
	}
	return b.String()
}

// elementEnd returns where the value at the beginning of s ends.
func elementEnd(s string) int {
	depth, quoted := 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			depth++
		case depth > 0 && (c == ']' || c == '}'):
			depth--
		case depth == 0 && (c == ',' || c == ']' || c == '}'):
			return i
		}
	}
	return len(s)
}

func elementIs(element string, want Value) bool {
	switch want.kind {
	case KindString:
		return len(element) >= 2 && element[0] == '"' && quotedIs(element[1:len(element)-1], want.text)
	case KindBool:
		return element == "true" && want.Bool() || element == "false" && !want.Bool()
	default:
		v := jsonNumber(element)
		return v.kind != 0 && relate(v, want) == equal
	}
}

// jsonNumber returns an integer where the text is one, as payloads are read.
func jsonNumber(s string) Value {
	if s == "" || s[0] != '-' && !isDigit(s[0]) {
		return Value{}
	}
	if !strings.ContainsAny(s, ".eE") && len(s) < 20 {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil {
			return Int(i)
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(f, 0) {
		return Value{}
	}
	return Float(f)
}

// quotedIs reports whether the inside of a JSON string means want.
func quotedIs(s, want string) bool {
	for s != "" {
		if s[0] != '\\' {
			if want == "" || s[0] != want[0] {
				return false
			}
			s, want = s[1:], want[1:]
			continue
		}
		r, size := jsonEscape(s[1:])
		got, n := utf8.DecodeRuneInString(want)
		if n == 0 || r != got {
			return false
		}
		s, want = s[1+size:], want[n:]
	}
	return want == ""
}

// jsonEscape returns the character that follows a backslash, and the bytes it
// takes. Half a pair of surrogates is U+FFFD, as in encoding/json.
func jsonEscape(s string) (r rune, size int) {
	if s == "" {
		return utf8.RuneError, 0
	}
	switch s[0] {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		r, ok := hexRune(s)
		if !ok {
			return utf8.RuneError, len(s)
		}
		if !utf16.IsSurrogate(r) {
			return r, 5
		}
		if len(s) > 6 && s[5] == '\\' {
			if low, ok := hexRune(s[6:]); ok {
				if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
					return pair, 11
				}
			}
		}
		return utf8.RuneError, 5
	default:
		return rune(s[0]), 1
	}
}

// hexRune reads u and four hexadecimal digits.
func hexRune(s string) (r rune, ok bool) {
	if len(s) < 5 || s[0] != 'u' {
		return 0, false
	}
	for _, c := range []byte(s[1:5]) {
		switch {
		case isDigit(c):
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
