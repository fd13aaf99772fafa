package entity

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/text"
)

// The parser's strings and error texts.

// readString reads a string. The result is a part of the payload unless it has escapes. REQUIRES:
// the next byte is '"'.
func (p *parser) readString() (string, *PayloadError) {
	start := p.i + 1
	escaped, err := p.skipString()
	if err != nil {
		return "", err
	}
	text := p.s[start : p.i-1]
	if escaped {
		text = value.Unquote(text)
	}
	return text, nil
}

// skipString skips and checks a string, and reports whether it has escapes. REQUIRES: the next byte
// is '"'.
func (p *parser) skipString() (escaped bool, err *PayloadError) {
	start := p.i
	for p.i++; p.i < len(p.s); {
		switch c := p.s[p.i]; {
		case c == '"':
			p.i++
			return escaped, nil
		case c == '\\':
			escaped = true
			if err := p.skipEscape(); err != nil {
				return false, err
			}
		case c < ' ':
			return false, p.fail(CauseSyntax, "%s inside a string; write control characters as escapes, such as \\n", p.found())
		default:
			p.i++
		}
	}
	p.i = start
	return false, p.fail(CauseSyntax, "a string without an end")
}

// skipEscape skips one escape, or two that form a surrogate pair.
func (p *parser) skipEscape() *PayloadError {
	if p.i+1 == len(p.s) {
		return p.fail(CauseSyntax, "an escape without an end")
	}
	if strings.IndexByte(`"\/bfnrt`, p.s[p.i+1]) >= 0 {
		p.i += 2
		return nil
	}
	r, ok := hex4(p.s[p.i:])
	if !ok {
		return p.fail(CauseSyntax, `an escape that JSON does not have; there are \" \\ \/ \b \f \n \r \t and \u with four hexadecimal digits`)
	}
	if !utf16.IsSurrogate(r) {
		p.i += 6
		return nil
	}
	low, ok := hex4(p.s[p.i+6:])
	if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
		return p.fail(CauseEncoding, `half of a surrogate pair; write characters beyond U+FFFF as two \u escapes or as UTF-8`)
	}
	p.i += 12
	return nil
}

// hex4 reads \uXXXX at the start of s.
func hex4(s string) (rune, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(s[2:6], 16, 16)
	return rune(code), err == nil
}

// fail returns the error, with the position.
func (p *parser) fail(cause, format string, args ...any) *PayloadError {
	where := "at byte " + strconv.Itoa(p.i)
	if p.reading >= 0 {
		where += ", reading " + strconv.Itoa(p.reading)
	}
	if p.key != "" {
		where += ", key " + strconv.Quote(brief(p.key))
	}
	return &PayloadError{cause, where + ": " + fmt.Sprintf(format, args...)}
}

// found describes the next byte.
func (p *parser) found() string {
	if p.i >= len(p.s) {
		return "the end of the payload"
	}
	r, _ := utf8.DecodeRuneInString(p.s[p.i:])
	return strconv.QuoteRune(r)
}

func (p *parser) formError() *PayloadError {
	switch c := p.peek(); {
	case p.i == len(p.s) && p.reading < 0:
		return p.fail(CauseEmpty, "the payload is empty, and must be %s", payloadForms)
	case strings.IndexByte(`"-0123456789tfn[`, c) >= 0 && p.i < len(p.s):
		return p.fail(CauseShape, "%s where an object is expected: %s", p.found(), payloadForms)
	default:
		return p.fail(CauseSyntax, "%s where an object is expected: %s", p.found(), payloadForms)
	}
}

func (p *parser) encodingError() *PayloadError {
	for p.i < len(p.s) {
		r, size := utf8.DecodeRuneInString(p.s[p.i:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		p.i += size
	}
	return p.fail(CauseEncoding, "the byte 0x%02x, which is not UTF-8", p.s[p.i])
}

func (p *parser) thirdMember() *PayloadError {
	return p.fail(CauseShape, `an object with "ts" and "values" has no other member but "seq"; put every key inside values`)
}

func (p *parser) textError(size int) *PayloadError {
	return p.fail(CauseTooLarge, "a value of %d bytes; at most %d are allowed", size, MaxTextBytes)
}

func (p *parser) checkTS(ts int64) *PayloadError {
	if ts >= MinTS && ts <= MaxTS {
		return nil
	}
	return p.fail(CauseTime, "ts must be milliseconds since the epoch, from %d to %d, not %d", MinTS, MaxTS, ts)
}

// brief shortens a piece of the payload to fit in a log line.
func brief(s string) string { return text.Shorten(s, 40) }
