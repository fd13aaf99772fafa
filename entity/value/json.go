package value

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// AppendJSON appends the value as JSON to dst. A float is written with the
// fewest digits that read back as the same float64, so 21.0 appears as 21. The
// zero Value appears as null, and so does a float that JSON cannot express.
func (v Value) AppendJSON(dst []byte) []byte {
	switch v.kind {
	case KindFloat:
		return appendFloat(dst, math.Float64frombits(v.bits))
	case KindInt, KindTime, KindDuration:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case KindBool:
		return strconv.AppendBool(dst, v.bits == 1)
	case KindString:
		return AppendQuoted(dst, v.text)
	case KindJSON:
		return append(dst, v.text...)
	default:
		return append(dst, "null"...)
	}
}

// appendFloat writes a float the way encoding/json does: plain digits where they
// stay short, an exponent beyond.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return append(dst, "null"...)
	}
	if f == 0 && math.Signbit(f) {
		return append(dst, "-0.0"...) // -0 would read back as the integer 0
	}
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, f, format, -1, 64)
}

const hexDigits = "0123456789abcdef"

// AppendQuoted appends s as a JSON string to dst. U+2028 and U+2029 are escaped because
// JavaScript once took them for line ends; what is not UTF-8 becomes U+FFFD.
func AppendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c < utf8.RuneSelf {
			if c >= ' ' && c != '"' && c != '\\' {
				i++
				continue
			}
			dst = appendEscape(append(dst, s[start:i]...), c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(append(dst, s[start:i]...), `\ufffd`...)
		case r == '\u2028' || r == '\u2029':
			dst = append(append(dst, s[start:i]...), '\\', 'u', '2', '0', '2', hexDigits[r&0xf])
		default:
			i += size
			continue
		}
		i += size
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

func appendEscape(dst []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', c)
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	default:
		return append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
}

// Contains reports whether an array, given as JSON without insignificant white
// space, has an element that equals a string, a number or a bool. Elements that
// are arrays or objects equal nothing. It reads the text as it is, without
// decoding it first, and trusts it to be valid: of other text it may say
// anything, but it ends.
func Contains(text string, want Value) bool {
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

// At returns what is at a JSON pointer (RFC 6901) in an object, given as JSON
// without insignificant white space, and whether there is anything but null. It
// allocates only for a string that has escapes. The text is trusted to be valid: of other text it
// may say anything, but it ends.
func At(text, pointer string) (Value, bool) {
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
	return FromJSON(text)
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

// Members yields the names of the members of an object and their texts, in their order. As At, it
// trusts the text to be valid and without insignificant white space; of no object there are none.
func Members(text string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if len(text) < 2 || text[0] != '{' {
			return
		}
		for rest := text[1:]; len(rest) > 1 && rest[0] == '"'; {
			end := quoteEnd(rest)
			if end+1 >= len(rest) || rest[end] != ':' {
				return
			}
			value := rest[end+1:]
			stop := elementEnd(value)
			if !yield(Unquote(rest[1:end-1]), value[:stop]) || stop == len(value) {
				return
			}
			rest = value[stop+1:]
		}
	}
}

// Element returns the text of the element of an array at an index, and whether there is one. It
// trusts the text as Members does.
func Element(text string, index int) (string, bool) {
	if len(text) < 2 || text[0] != '[' || text[1] == ']' {
		return "", false
	}
	for rest := text[1:]; rest != ""; index-- {
		end := elementEnd(rest)
		if index == 0 {
			return rest[:end], true
		}
		if end == len(rest) || rest[end] != ',' {
			break
		}
		rest = rest[end+1:]
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

// FromJSON returns the value of a text, and none for null.
func FromJSON(text string) (Value, bool) {
	switch {
	case text == "true" || text == "false":
		return Bool(text == "true"), true
	case text == "" || text == "null":
		return Value{}, false
	case text[0] == '{' || text[0] == '[':
		return JSON(text), true
	case text[0] == '"' && len(text) > 1:
		return String(Unquote(text[1 : len(text)-1])), true
	default:
		v := jsonNumber(text)
		return v, v.kind != 0
	}
}

// Unquote returns what the inside of a JSON string means.
func Unquote(s string) string {
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
		return v.kind != 0 && Compare(v, want) == Equal
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
	code, err := strconv.ParseUint(s[1:5], 16, 16)
	return rune(code), err == nil
}

// memberUnescaper undoes the escapes of RFC 6901.
var memberUnescaper = strings.NewReplacer("~1", "/", "~0", "~")
