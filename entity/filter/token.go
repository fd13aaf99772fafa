package filter

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/text"
)

// tokenKind says what a token is.
type tokenKind uint8

const (
	tokenEnd     tokenKind = iota
	tokenWord              // a reserved word, in lower case in text; also for && || and !
	tokenPath              // names with dots between them
	tokenLiteral           // value is what it stands for
	tokenSymbol            // text is one of symbols, for a synonym the first of its kind
)

// token is a piece of a text.
type token struct {
	kind     tokenKind
	from, to int // where it is
	text     string
	value    value.Value
	least    bool // 9223372036854775808, which is an integer with a minus only
	names    []Name
	at       bool // of a path: an @ is between two names
}

// words are the reserved words. In backquotes, or as a later part of a path, they are names like
// any other.
var words = []string{
	"and", "or", "not", "true", "false", "null", "exists", "in", "between", "is", "like", "ilike",
	"prefix", "iprefix", "suffix", "isuffix", "contains", "icontains",
	"related", "to", "from", "any", "now", "age", "ts",
	"id", "type", "created", "updated", "attributes", "desired", "reported", "delta", "relation",
}

// isReserved reports whether a name is a word of the language, in any case.
func isReserved(name string) bool { return slices.Contains(words, strings.ToLower(name)) }

// lexer cuts a text into tokens.
type lexer struct {
	text string
	at   int
	err  error // the first, after which there are no more tokens
}

// fail records what is wrong at an offset, unless there was an error before.
func (l *lexer) fail(offset int, format string, args ...any) {
	if l.err == nil {
		l.err = errorAt(l.text, offset, format, args...)
	}
	l.at = len(l.text)
}

// next returns the next token, of the kind tokenEnd at the end of the text and after an error.
func (l *lexer) next() token {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
	t := token{from: l.at}
	if l.at == len(l.text) {
		t.to = l.at
		return t
	}
	rest := l.text[l.at:]
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		l.string(&t, c)
	case isDigit(c):
		l.number(&t)
	case c == '`' || scanName(rest) > 0:
		l.name(&t)
		l.path(&t)
	default:
		l.symbol(&t)
	}
	if t.to = l.at; l.err != nil {
		t.kind = tokenEnd
	}
	return t
}

// symbols are the operators and punctuation marks, each with the symbol of which it is a synonym; a
// longer one comes before its prefixes.
var symbols = []struct{ written, means string }{
	{"**", "**"},
	{"^", "**"},
	{"<=", "<="},
	{">=", ">="},
	{"!=", "!="},
	{"<>", "!="},
	{"==", "="},
	{"=", "="},
	{"&&", "and"},
	{"||", "or"},
	{"!", "not"},
	{"??", "??"},
	{"?", "?"},
	{":", ":"},
	{"<", "<"},
	{">", ">"},
	{"(", "("},
	{")", ")"},
	{",", ","},
	{";", ";"},
	{"+", "+"},
	{"-", "-"},
	{"*", "*"},
	{"/", "/"},
	{"%", "%"},
}

// instead maps signs of other languages to what this one has in their place.
var instead = map[string]string{"=~": "like", "[": "(", "]": ")", "&": "and", "|": "or"}

func (l *lexer) symbol(t *token) {
	rest := l.text[l.at:]
	if strings.HasPrefix(rest, "=~") {
		l.fail(l.at, "'=~' is written 'like' here")
		return
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s.written) {
			t.kind, t.text = tokenSymbol, s.means
			if isReserved(s.means) {
				t.kind = tokenWord
			}
			l.at += len(s.written)
			return
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch right := instead[rest[:size]]; {
	case right != "":
		l.fail(l.at, "'%c' is written '%s' here", r, right)
	case r == utf8.RuneError && size == 1:
		l.fail(l.at, notUTF8)
	case unicode.IsPrint(r):
		l.fail(l.at, "'%c' has no meaning here; a name with it must be in backquotes", r)
	default:
		l.fail(l.at, "the character %U has no meaning here", r)
	}
}

const notUTF8 = "the text is not UTF-8"

// string reads a text in quotes, or a path that begins with one.
func (l *lexer) string(t *token, quote byte) {
	text := l.quotedText(quote)
	if l.at < len(l.text) && (l.text[l.at] == '.' || l.text[l.at] == '@') && text != "" {
		t.names = append(t.names, Name{text, true})
		l.path(t)
		return
	}
	t.kind, t.value = tokenLiteral, value.String(text)
}

// quotedText reads a text in quotes. A quote in it has a backslash before it, or is
// written twice.
func (l *lexer) quotedText(quote byte) string {
	start := l.at
	var b strings.Builder
	for i := start + 1; i < len(l.text); {
		r, size := utf8.DecodeRuneInString(l.text[i:])
		switch {
		case l.text[i] == quote && i+1 < len(l.text) && l.text[i+1] == quote:
			size = 2
		case l.text[i] == quote:
			l.at = i + 1
			return b.String()
		case r == '\\':
			var ok bool
			if r, size, ok = unescape(l.text[i+1:]); !ok {
				l.fail(i, `a backslash in a string must be followed by one of " ' \ / n r t, or by u and the four digits of a character`)
			}
			size++
		case r == utf8.RuneError && size == 1:
			l.fail(i, notUTF8)
		case r < ' ' || r == 0x7f:
			l.fail(i, `a control character in a string must be written \n, \t or \u%04x`, r)
		}
		b.WriteRune(r)
		i += size
	}
	l.fail(start, "the string that begins here has no closing %c", quote)
	return ""
}

// number reads what begins with a digit: a number, a duration, a date or a time.
func (l *lexer) number(t *token) {
	t.kind = tokenLiteral
	start := l.at
	if ms, rest, ok := value.ScanTime(l.text[start:]); ok {
		l.at = len(l.text) - len(rest)
		t.value = value.Time(ms)
		l.separated(start, "time")
		return
	}
	if s := l.text[start:]; len(s) > 5 && s[4] == '-' && digits(s) == 4 && isDigit(s[5]) {
		l.fail(start, "a time must be written as 2026-11-21 or 2026-11-21T07:30:00Z, not %q", word(s))
		return
	}
	end := start + 1
	for end < len(l.text) && (isDigit(l.text[end]) || l.text[end] == '.') {
		end++
	}
	letters := end
	for letters < len(l.text) && ('a' <= l.text[letters]|0x20 && l.text[letters]|0x20 <= 'z' || isDigit(l.text[letters])) {
		letters++
	}
	body := l.text[start:letters]
	isFloat := strings.Contains(body, ".")
	if letters > end {
		isFloat = l.text[end] == 'e' || l.text[end] == 'E'
	}
	l.at = letters
	switch {
	case isFloat:
		l.float(t, start, end)
	case letters > end:
		ms, ok := value.ParseDuration(body)
		if !ok {
			l.fail(start, "a duration must be numbers with the units w, d, h, m, s, ms, in this order, as in 1h30m, not %q", brief(body))
		}
		t.value = value.Duration(ms)
		l.separated(start, "duration")
	default:
		i, err := strconv.ParseInt(body, 10, 64)
		t.value, t.least = value.Int(i), strings.TrimLeft(body, "0") == "9223372036854775808"
		if err != nil && !t.least {
			l.fail(start, tooLarge, brief(body))
		}
		l.separated(start, "number")
	}
}

const tooLarge = "%s is beyond the integers of 64 bits; write it with a decimal point for a float"

// float reads a number with a point or an exponent, whose digits end at end.
func (l *lexer) float(t *token, start, end int) {
	if end < len(l.text) && (l.text[end] == 'e' || l.text[end] == 'E') {
		end++
		if end < len(l.text) && (l.text[end] == '+' || l.text[end] == '-') {
			end++
		}
		end += digits(l.text[end:])
	}
	l.at = end
	body := l.text[start:end]
	f, err := strconv.ParseFloat(body, 64)
	switch {
	case math.IsInf(f, 0):
		l.fail(start, "%s is beyond the floats of 64 bits", brief(body))
	case err != nil || body[len(body)-1] == '.':
		l.fail(start, "a number must be written as 21, 21.5 or 1e-3, not %q", brief(body))
	}
	t.value = value.Float(f)
	l.separated(start, "number")
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits returns how many digits s begins with.
func digits(s string) (n int) {
	for n < len(s) && isDigit(s[n]) {
		n++
	}
	return n
}

// separated refuses a literal that runs into a name or another literal.
func (l *lexer) separated(start int, what string) {
	rest := l.text[l.at:]
	if rest != "" && (rest[0] == '.' || isDigit(rest[0]) || scanName(rest) > 0) {
		l.fail(start, "%q is no %s; a name like this must be in backquotes, a string in quotes", word(l.text[start:]), what)
	}
}

// word returns the beginning of s up to a space or a bracket, for a message.
func word(s string) string {
	if i := strings.IndexAny(s, " \t\r\n(),"); i >= 0 {
		s = s[:i]
	}
	return brief(s)
}

// path reads what follows the first name: more names separated by dots, or nothing, in which case
// the name may be a word.
func (l *lexer) path(t *token) {
	for l.at < len(l.text) && (l.text[l.at] == '.' || l.text[l.at] == '@') {
		t.at = t.at || l.text[l.at] == '@'
		l.at++
		l.name(t)
	}
	if l.err != nil {
		return
	}
	l.hyphen(t)
	t.kind = tokenPath
	if n := t.names[0]; len(t.names) == 1 && !n.Quoted && isReserved(n.Text) {
		t.kind, t.text = tokenWord, strings.ToLower(n.Text)
	}
}

// hyphen refuses a-b, which used to be a name and could be a difference.
func (l *lexer) hyphen(t *token) {
	last := t.names[len(t.names)-1]
	if l.at+1 >= len(l.text) || l.text[l.at] != '-' || last.Quoted || len(t.names) == 1 && isReserved(last.Text) {
		return
	}
	n := digits(l.text[l.at+1:])
	if n += scanName(l.text[l.at+1+n:]); n == 0 {
		return
	}
	from := l.at - len(last.Text)
	after := l.text[l.at+1 : l.at+1+n]
	l.fail(from, "%s could be a name or a difference: write `%s` or %s - %s", brief(last.Text+"-"+after), brief(last.Text+"-"+after), brief(last.Text), brief(after))
}

// name reads one name of a path.
func (l *lexer) name(t *token) {
	start, rest := l.at, l.text[l.at:]
	name := Name{Quoted: true}
	switch n := scanName(rest); {
	case n > 0:
		l.at += n
		name = Name{Text: rest[:n]}
	case rest != "" && rest[0] == '`':
		start++
		name.Text = l.backquoted(rest)
	case rest != "" && (rest[0] == '"' || rest[0] == '\''):
		name.Text = l.quotedText(rest[0])
	default:
		l.fail(l.at, "expected a name after '.'; one with other than letters, digits and _ must be in backquotes")
	}
	if name.Text == "" {
		l.fail(start, "a name is empty")
	}
	t.names = append(t.names, name)
}

func (l *lexer) backquoted(rest string) string {
	start := l.at
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] < ' ' || rest[i] == 0x7f:
			l.fail(start+i, "a control character in a name")
		case rest[i] != '`':
		case i+1 < len(rest) && rest[i+1] == '`':
			i++
		default:
			l.at = start + i + 1
			text := strings.ReplaceAll(rest[1:i], "``", "`")
			if !utf8.ValidString(text) {
				l.fail(start+1, notUTF8)
			}
			return text
		}
	}
	l.fail(start, "the name that begins here has no closing backquote")
	return ""
}

// pointer is the JSON pointer of member names.
func pointer(names []Name) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteByte('/')
		b.WriteString(memberEscaper.Replace(n.Text))
	}
	return b.String()
}

// brief keeps a message short.
func brief(s string) string { return text.Shorten(s, 40) }
