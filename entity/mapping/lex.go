package mapping

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/internal/text"
)

// tokenKind tells what a token is.
type tokenKind uint8

const (
	tokenEnd    tokenKind = iota
	tokenName             // a name without quotes; a keyword where one is expected
	tokenQuoted           // a name in double quotes
	tokenText             // a text in single quotes
	tokenNumber
	tokenSign // an operator or a punctuation mark
)

// token is a piece of a statement. For names and texts, text is without quotes.
type token struct {
	kind tokenKind
	text string
	at   int // where it begins, in bytes
	end  int // where it has ended
}

// is reports whether the token is this sign.
func (t token) is(sign string) bool { return t.kind == tokenSign && t.text == sign }

// word reports whether the token is this keyword, in any case.
func (t token) word(keyword string) bool {
	return t.kind == tokenName && strings.EqualFold(t.text, keyword)
}

// String describes the token for an error.
func (t token) String() string {
	switch t.kind {
	case tokenEnd:
		return "the end"
	case tokenQuoted:
		return brief(`"` + t.text + `"`)
	case tokenText:
		return brief("'" + t.text + "'")
	default:
		return brief(t.text)
	}
}

// brief shortens a text for an error.
func brief(s string) string { return text.Shorten(s, 40) }

// signs are the operators and punctuation marks, those of two characters first.
var signs = [...]string{
	"**", "<=", ">=", "==", "!=", "<>", "&&", "||", "??",
	"+", "-", "*", "/", "%", "^", "<", ">", "=", "!", "?", ":", "(", ")", ",", ".", ";", "@",
}

// lex cuts a statement into tokens. The last one is a tokenEnd.
func lex(src string) ([]token, error) {
	if len(src) > MaxStatementBytes {
		return nil, syntaxError(src, 0, "%d bytes; at most %d are allowed", len(src), MaxStatementBytes)
	}
	if !utf8.ValidString(src) {
		return nil, syntaxError("", 0, "it is not UTF-8")
	}
	var tokens []token
	for i := 0; ; {
		for i < len(src) && strings.IndexByte(" \t\r\n", src[i]) >= 0 {
			i++
		}
		if i == len(src) {
			return append(tokens, token{kind: tokenEnd, at: i, end: i}), nil
		}
		t, err := nextToken(src, i)
		if err != nil {
			return nil, err
		}
		tokens = append(tokens, t)
		i = t.end
	}
}

// nextToken reads the token at i, where something is.
func nextToken(src string, i int) (token, error) {
	r, _ := utf8.DecodeRuneInString(src[i:])
	switch {
	case r == '"' || r == '\'':
		return quoted(src, i)
	case r >= '0' && r <= '9':
		return numeral(src, i)
	case r == '_' || unicode.IsLetter(r):
		end := i + nameLen(src[i:])
		return token{kind: tokenName, text: src[i:end], at: i, end: end}, nil
	}
	for _, sign := range signs {
		if strings.HasPrefix(src[i:], sign) {
			return token{kind: tokenSign, text: sign, at: i, end: i + len(sign)}, nil
		}
	}
	return token{}, syntaxError(src, i, "%q has no meaning here; a name with it goes in double quotes", r)
}

// nameLen is the length of the name that src begins with: letters, digits and _.
func nameLen(src string) int {
	for i, r := range src {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return i
		}
	}
	return len(src)
}

// quoted reads a name or a text. A quote in it is written twice.
func quoted(src string, at int) (token, error) {
	quote := src[at]
	kind, what := tokenQuoted, "name"
	if quote == '\'' {
		kind, what = tokenText, "text"
	}
	var b strings.Builder
	for i := at + 1; i < len(src); i++ {
		c := src[i]
		if c == quote {
			if i+1 == len(src) || src[i+1] != quote {
				return token{kind: kind, text: b.String(), at: at, end: i + 1}, nil
			}
			i++
		}
		b.WriteByte(c)
	}
	return token{}, syntaxError(src, at, "the %s that begins here has no end; the closing %c is missing", what, quote)
}

// numeral reads digits with an optional fraction and exponent.
func numeral(src string, at int) (token, error) {
	i := digits(src, at)
	if i+1 < len(src) && src[i] == '.' && isDigit(src[i+1]) {
		i = digits(src, i+1)
	}
	if i < len(src) && (src[i] == 'e' || src[i] == 'E') {
		j := i + 1
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		if j < len(src) && isDigit(src[j]) {
			i = digits(src, j)
		}
	}
	return token{kind: tokenNumber, text: src[at:i], at: at, end: i}, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func digits(src string, i int) int {
	for i < len(src) && isDigit(src[i]) {
		i++
	}
	return i
}

// syntaxError returns an error at a place of src.
func syntaxError(src string, at int, format string, args ...any) *SyntaxError {
	at = min(at, len(src))
	before := src[:at]
	line := strings.LastIndexByte(before, '\n') + 1
	return &SyntaxError{
		Line: strings.Count(before, "\n") + 1, Column: utf8.RuneCountInString(before[line:]) + 1, Offset: at,
		Detail: fmt.Sprintf(format, args...),
	}
}
