package filter

import (
	"math"
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
	names    []name
	at       bool // of a path: an @ is between two names
}

// name is one name of a path.
type name struct {
	text   string
	quoted bool
}

// words are those that mean something. In backquotes, or as a later part of a
// path, they are names as any other.
var words = []string{
	"and", "or", "not", "true", "false", "null", "exists", "in", "between", "is", "like", "ilike",
	"prefix", "iprefix", "suffix", "isuffix", "contains", "icontains",
	"related", "to", "from", "any", "now", "age", "ts",
	"id", "type", "created", "updated", "attributes", "desired", "reported", "delta", "relation",
}

var reserved = func() map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}()

// isReserved reports whether a name is a word of the language, in any case.
func isReserved(name string) bool { return reserved[strings.ToLower(name)] }

// lexer cuts a text into tokens.
type lexer struct {
	text string
	at   int
}

func (l *lexer) errorf(offset int, format string, args ...any) error {
	return errorAt(l.text, offset, format, args...)
}

// next returns the next token, one of the kind tokenEnd at the end of the text.
func (l *lexer) next() (token, error) {
	for l.at < len(l.text) && strings.IndexByte(" \t\r\n", l.text[l.at]) >= 0 {
		l.at++
	}
	t := token{from: l.at}
	if l.at == len(l.text) {
		t.to = l.at
		return t, nil
	}
	var err error
	rest := l.text[l.at:]
	switch c := rest[0]; {
	case c == '"' || c == '\'':
		err = l.string(&t, c)
	case isDigit(c):
		err = l.number(&t)
	case c == '`' || scanName(rest) > 0:
		err = l.path(&t, nil)
	default:
		err = l.symbol(&t)
	}
	t.to = l.at
	return t, err
}

// symbols are the operators and punctuation marks, with what they are synonyms
// of; a longer one stands before those that it begins with.
var symbols = []struct{ written, means string }{
	{"**", "**"}, {"^", "**"}, {"<=", "<="}, {">=", ">="}, {"!=", "!="}, {"<>", "!="}, {"==", "="}, {"=", "="},
	{"&&", "and"}, {"||", "or"}, {"!", "not"}, {"??", "??"}, {"?", "?"}, {":", ":"}, {"<", "<"}, {">", ">"},
	{"(", "("}, {")", ")"}, {",", ","}, {";", ";"}, {"+", "+"}, {"-", "-"}, {"*", "*"}, {"/", "/"}, {"%", "%"},
}

// instead are signs of other languages, and what this one has for them.
var instead = map[string]string{"=~": "like", "[": "(", "]": ")", "&": "and", "|": "or"}

func (l *lexer) symbol(t *token) error {
	rest := l.text[l.at:]
	if strings.HasPrefix(rest, "=~") {
		return l.errorf(l.at, "'=~' is written 'like' here")
	}
	for _, s := range symbols {
		if strings.HasPrefix(rest, s.written) {
			t.kind, t.text = tokenSymbol, s.means
			if reserved[s.means] {
				t.kind = tokenWord
			}
			l.at += len(s.written)
			return nil
		}
	}
	r, size := utf8.DecodeRuneInString(rest)
	switch right := instead[rest[:size]]; {
	case right != "":
		return l.errorf(l.at, "'%c' is written '%s' here", r, right)
	case r == utf8.RuneError && size == 1:
		return l.errorf(l.at, "the text is not UTF-8")
	case unicode.IsPrint(r):
		return l.errorf(l.at, "'%c' has no meaning here; a name with it must be in backquotes", r)
	default:
		return l.errorf(l.at, "the character %U has no meaning here", r)
	}
}

// string reads a text in quotes, or a path that begins with one.
func (l *lexer) string(t *token, quote byte) error {
	text, err := l.quotedText(quote)
	if err != nil {
		return err
	}
	if l.at < len(l.text) && (l.text[l.at] == '.' || l.text[l.at] == '@') && text != "" {
		return l.path(t, &name{text, true})
	}
	t.kind, t.value = tokenLiteral, value.String(text)
	return nil
}

// quotedText reads a text in quotes. A quote in it has a backslash before it, or is
// written twice.
func (l *lexer) quotedText(quote byte) (string, error) {
	start := l.at
	var b strings.Builder
	for i := start + 1; i < len(l.text); {
		r, size := utf8.DecodeRuneInString(l.text[i:])
		switch {
		case l.text[i] == quote && i+1 < len(l.text) && l.text[i+1] == quote:
			size = 2
			b.WriteByte(quote)
			i += size
			continue
		case l.text[i] == quote:
			l.at = i + 1
			return b.String(), nil
		case r == '\\':
			r, n, ok := unescape(l.text[i+1:])
			if !ok {
				return "", l.errorf(i, `a backslash in a string must be followed by one of " ' \ / n r t, or by u and the four digits of a character`)
			}
			b.WriteRune(r)
			i += 1 + n
			continue
		case r == utf8.RuneError && size == 1:
			return "", l.errorf(i, "the text is not UTF-8")
		case r < ' ' || r == 0x7f:
			return "", l.errorf(i, `a control character in a string must be written \n, \t or \u%04x`, r)
		}
		b.WriteString(l.text[i : i+size])
		i += size
	}
	l.at = len(l.text)
	return "", l.errorf(start, "the string that begins here has no closing %c", quote)
}

// number reads what begins with a digit: a number, a duration, a date or a time.
func (l *lexer) number(t *token) error {
	t.kind = tokenLiteral
	start := l.at
	if ms, rest, ok := value.ScanTime(l.text[start:]); ok {
		l.at = len(l.text) - len(rest)
		t.value = value.Time(ms)
		return l.separated(start, "time")
	}
	if s := l.text[start:]; len(s) > 5 && s[4] == '-' && digits(s) == 4 && isDigit(s[5]) {
		return l.errorf(start, "%q is no time; 2026-11-21 is one, and 2026-11-21T07:30:00Z", word(s))
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
	if letters > end && (l.text[end] == 'e' || l.text[end] == 'E') {
		return l.float(t, start, end)
	}
	l.at = letters
	switch {
	case letters > end:
		ms, ok := value.ParseDuration(body)
		if !ok {
			return l.errorf(start, "%q is no duration: numbers with the units w, d, h, m, s, ms, in this order, as in 1h30m", brief(body))
		}
		t.value = value.Duration(ms)
		return l.separated(start, "duration")
	case strings.Contains(body, "."):
		return l.float(t, start, end)
	}
	i, err := strconv.ParseInt(body, 10, 64)
	t.value, t.least = value.Int(i), strings.TrimLeft(body, "0") == "9223372036854775808"
	if err != nil && !t.least {
		return l.tooLarge(start, body)
	}
	return l.separated(start, "number")
}

func (l *lexer) tooLarge(at int, body string) error {
	return l.errorf(at, "%s is beyond the integers of 64 bits; write it with a decimal point for a float", brief(body))
}

// float reads a number with a point or an exponent, whose digits end at end.
func (l *lexer) float(t *token, start, end int) error {
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
		return l.errorf(start, "%s is beyond the floats of 64 bits", brief(body))
	case err != nil || body[len(body)-1] == '.':
		return l.errorf(start, "%q is no number", brief(body))
	}
	t.value = value.Float(f)
	return l.separated(start, "number")
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
func (l *lexer) separated(start int, what string) error {
	rest := l.text[l.at:]
	if rest == "" || rest[0] != '.' && !isDigit(rest[0]) && scanName(rest) == 0 {
		return nil
	}
	return l.errorf(start, "%q is no %s; a name like this must be in backquotes, a string in quotes", word(l.text[start:]), what)
}

// word is the beginning of s up to a space or a bracket, for a message.
func word(s string) string {
	if i := strings.IndexAny(s, " \t\r\n(),"); i >= 0 {
		s = s[:i]
	}
	return brief(s)
}

// path reads names with dots in between, or a word. first is a name that was read
// already.
func (l *lexer) path(t *token, first *name) error {
	if first != nil {
		t.names = append(t.names, *first)
	} else if err := l.name(t); err != nil {
		return err
	}
	for l.at < len(l.text) && (l.text[l.at] == '.' || l.text[l.at] == '@') {
		t.at = t.at || l.text[l.at] == '@'
		l.at++
		if err := l.name(t); err != nil {
			return err
		}
	}
	if err := l.hyphen(t); err != nil {
		return err
	}
	t.kind = tokenPath
	if n := t.names[0]; len(t.names) == 1 && !n.quoted && isReserved(n.text) {
		t.kind, t.text = tokenWord, strings.ToLower(n.text)
	}
	return nil
}

// hyphen refuses a-b: it was a name, and could be a difference.
func (l *lexer) hyphen(t *token) error {
	last := t.names[len(t.names)-1]
	if l.at+1 >= len(l.text) || l.text[l.at] != '-' || last.quoted || len(t.names) == 1 && isReserved(last.text) {
		return nil
	}
	n := digits(l.text[l.at+1:])
	if n += scanName(l.text[l.at+1+n:]); n == 0 {
		return nil
	}
	from := l.at - len(last.text)
	after := l.text[l.at+1 : l.at+1+n]
	return l.errorf(from, "%s could be a name or a difference: write `%s` or %s - %s", brief(last.text+"-"+after), brief(last.text+"-"+after), brief(last.text), brief(after))
}

// name reads one name of a path.
func (l *lexer) name(t *token) error {
	rest := l.text[l.at:]
	switch n := scanName(rest); {
	case n > 0:
		l.at += n
		t.names = append(t.names, name{rest[:n], false})
		return nil
	case rest != "" && rest[0] == '`':
		return l.backquoted(t, rest)
	case rest != "" && (rest[0] == '"' || rest[0] == '\''):
		start := l.at
		text, err := l.quotedText(rest[0])
		if err == nil && text == "" {
			err = l.errorf(start, "a name is empty")
		}
		t.names = append(t.names, name{text, true})
		return err
	default:
		return l.errorf(l.at, "expected a name after '.'; one with other than letters, digits and _ must be in backquotes")
	}
}

func (l *lexer) backquoted(t *token, rest string) error {
	start := l.at
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] < ' ' || rest[i] == 0x7f:
			return l.errorf(start+i, "a control character in a name")
		case rest[i] != '`':
		case i+1 < len(rest) && rest[i+1] == '`':
			i++
		default:
			l.at = start + i + 1
			text := strings.ReplaceAll(rest[1:i], "``", "`")
			if text == "" {
				return l.errorf(start+1, "a name is empty")
			}
			if !utf8.ValidString(text) {
				return l.errorf(start+1, "the text is not UTF-8")
			}
			t.names = append(t.names, name{text, true})
			return nil
		}
	}
	l.at = len(l.text)
	return l.errorf(start, "the name that begins here has no closing backquote")
}

// pointer is the JSON pointer of member names.
func pointer(names []name) string {
	var b strings.Builder
	for _, n := range names {
		b.WriteByte('/')
		b.WriteString(memberEscaper.Replace(n.text))
	}
	return b.String()
}

// brief keeps a message short.
func brief(s string) string { return text.Shorten(s, 40) }
