package filter

import (
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/greenroom-go/greenroom/internal/text"
)

// tokenKind tells the tokens of the grammar apart.
type tokenKind uint8

const (
	tokenEnd     tokenKind = iota
	tokenWord              // a reserved word, in lower case in text
	tokenPath              // a path or a name
	tokenLiteral           // value is what it stands for
	tokenSymbol            // text is one of ( ) , = != < <= > >= + -
)

// token is a piece of a filter.
type token struct {
	kind     tokenKind
	from, to int // where it is
	text     string
	value    Value
	path     Path
	name     string // of a path that is one name without a root: that name
}

// words are those that mean something. In backquotes, or as a later part of a
// path, they are names as any other.
var words = []string{
	"and", "or", "not", "true", "false", "exists", "in", "between", "is", "like", "ilike",
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
	case isDigit(c) || c == '-' && len(rest) > 1 && isDigit(rest[1]):
		err = l.number(&t)
	case c == '`' || scanName(rest) > 0:
		err = l.path(&t)
	default:
		err = l.symbol(&t)
	}
	t.to = l.at
	return t, err
}

// instead are signs of other languages, and what this one has for them.
var instead = map[string]string{
	"==": "=", "<>": "!=", "&&": "and", "||": "or", "!": "not", "&": "and", "|": "or",
	"*": "any", "=~": "like", "[": "(", "]": ")",
}

func (l *lexer) symbol(t *token) error {
	rest := l.text[l.at:]
	for _, wrong := range []string{"==", "<>", "&&", "||", "=~"} {
		if strings.HasPrefix(rest, wrong) {
			return l.errorf(l.at, "'%s' is written '%s' here", wrong, instead[wrong])
		}
	}
	for _, s := range []string{"<=", ">=", "!=", "<", ">", "=", "(", ")", ",", "+", "-"} {
		if strings.HasPrefix(rest, s) {
			t.kind, t.text = tokenSymbol, s
			l.at += len(s)
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
		return l.errorf(l.at, "'%c' has no meaning here; a name with it is written in backquotes", r)
	default:
		return l.errorf(l.at, "the character %U has no meaning here", r)
	}
}

// string reads a text in quotes.
func (l *lexer) string(t *token, quote byte) error {
	start := l.at
	var b strings.Builder
	for i := start + 1; i < len(l.text); {
		r, size := utf8.DecodeRuneInString(l.text[i:])
		switch {
		case l.text[i] == quote:
			l.at = i + 1
			t.kind, t.value = tokenLiteral, String(b.String())
			return nil
		case r == '\\':
			r, n, ok := unescape(l.text[i+1:])
			if !ok {
				return l.errorf(i, `a backslash in a string is followed by one of " ' \ / n r t, or by u and the four digits of a character`)
			}
			b.WriteRune(r)
			i += 1 + n
			continue
		case r == utf8.RuneError && size == 1:
			return l.errorf(i, "the text is not UTF-8")
		case r < ' ' || r == 0x7f:
			return l.errorf(i, `a control character in a string is written \n, \t or \u%04x`, r)
		}
		b.WriteString(l.text[i : i+size])
		i += size
	}
	l.at = len(l.text)
	return l.errorf(start, "the string that begins here has no closing %c", quote)
}

// number reads what begins with a digit: a number, a duration, a date or a time.
func (l *lexer) number(t *token) error {
	t.kind = tokenLiteral
	start := l.at
	if ms, rest, ok := scanTime(l.text[start:]); ok {
		l.at = len(l.text) - len(rest)
		t.value = Time(ms)
		return l.separated(start, "time")
	}
	if _, rest, ok := scanDigits(l.text[start:], 4, "-"); ok && rest != "" && isDigit(rest[0]) {
		return l.errorf(start, "%q is no time; 2026-11-21 is one, and 2026-11-21T07:30:00Z", word(l.text[start:]))
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
		ms, ok := parseDuration(body)
		if !ok {
			return l.errorf(start, "%q is no duration: whole numbers with the units w, d, h, m, s, ms, in this order, as in 1h30m", brief(body))
		}
		t.value = Duration(ms)
		return l.separated(start, "duration")
	case strings.Contains(body, "."):
		return l.float(t, start, end)
	}
	i, err := strconv.ParseInt(body, 10, 64)
	if err != nil {
		return l.errorf(start, "%s is beyond the integers of 64 bits; write it with a decimal point for a float", brief(body))
	}
	t.value = Int(i)
	return l.separated(start, "number")
}

// float reads a number with a point or an exponent, whose digits end at end.
func (l *lexer) float(t *token, start, end int) error {
	if end < len(l.text) && (l.text[end] == 'e' || l.text[end] == 'E') {
		end++
		if end < len(l.text) && (l.text[end] == '+' || l.text[end] == '-') {
			end++
		}
		for end < len(l.text) && isDigit(l.text[end]) {
			end++
		}
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
	t.value = Float(f)
	return l.separated(start, "number")
}

// separated refuses a literal that runs into a name or another literal.
func (l *lexer) separated(start int, what string) error {
	rest := l.text[l.at:]
	if rest == "" || rest[0] != '.' && !isDigit(rest[0]) && scanName(rest) == 0 {
		return nil
	}
	return l.errorf(start, "%q is no %s; a name like this is written in backquotes, a string in quotes", word(l.text[start:]), what)
}

// word is the beginning of s up to a space or a bracket, for a message.
func word(s string) string {
	if i := strings.IndexAny(s, " \t\r\n(),"); i >= 0 {
		s = s[:i]
	}
	return brief(s)
}

// path reads names with dots in between: a word, a key, or a root and the names
// of members.
func (l *lexer) path(t *token) error {
	var names []string
	first := ""
	for i := 0; ; i++ {
		name, quoted, err := l.name()
		if err != nil {
			return err
		}
		if i == 0 && !quoted && isReserved(name) {
			first = strings.ToLower(name)
		}
		names = append(names, name)
		if l.at == len(l.text) || l.text[l.at] != '.' {
			break
		}
		l.at++
	}
	if first == "" {
		t.kind, t.path = tokenPath, Path{Root: RootLatest, Name: strings.Join(names, ".")}
		if len(names) == 1 {
			t.name = names[0]
		}
		return nil
	}
	if len(names) == 1 {
		t.kind, t.text = tokenWord, first
		return nil
	}
	for root := RootAttributes; root <= RootRelation; root++ {
		if root.String() == first {
			t.kind, t.path = tokenPath, Path{Root: root, Name: pointer(names[1:])}
			return nil
		}
	}
	return l.errorf(t.from, "'%s' has nothing below it; a key of this name is written `%s` in backquotes", names[0], strings.Join(names, "."))
}

// name reads one name of a path.
func (l *lexer) name() (name string, quoted bool, err error) {
	rest := l.text[l.at:]
	if rest == "" || rest[0] != '`' {
		n := scanName(rest)
		if n == 0 {
			return "", false, l.errorf(l.at, "expected a name after '.'; one with other than letters, digits, _ and - is written in backquotes")
		}
		l.at += n
		return rest[:n], false, nil
	}
	start := l.at
	for i := 1; i < len(rest); i++ {
		switch {
		case rest[i] < ' ' || rest[i] == 0x7f:
			return "", true, l.errorf(start+i, "a control character in a name")
		case rest[i] != '`':
		case i+1 < len(rest) && rest[i+1] == '`':
			i++
		default:
			l.at = start + i + 1
			return l.quoted(start+1, rest[1:i])
		}
	}
	l.at = len(l.text)
	return "", true, l.errorf(start, "the name that begins here has no closing backquote")
}

func (l *lexer) quoted(at int, body string) (name string, quoted bool, err error) {
	name = strings.ReplaceAll(body, "``", "`")
	switch {
	case name == "":
		return "", true, l.errorf(at, "a name is empty")
	case !utf8.ValidString(name):
		return "", true, l.errorf(at, "the text is not UTF-8")
	default:
		return name, true, nil
	}
}

// pointer is the JSON pointer of member names.
func pointer(names []string) string {
	var b strings.Builder
	for _, name := range names {
		b.WriteByte('/')
		b.WriteString(memberEscaper.Replace(name))
	}
	return b.String()
}

// brief keeps a message short.
func brief(s string) string { return text.Shorten(s, 40) }
