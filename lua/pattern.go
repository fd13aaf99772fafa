package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// The limits of a pattern, as in Lua.
const (
	maxCaptures   = 32
	maxRecursions = 200
)

// What the length of a capture is before it has one.
const (
	captureOpen     = -1
	capturePosition = -2
)

// matcher matches Lua's patterns, as the manual of Lua 5.1 describes them, with %f. Each character
// that it looks at is a step of the handler: some patterns take exponential time.
type matcher struct {
	l     *glua.LState
	meter *meter
	src   string
	pat   string

	depth    int
	level    int // captures
	captures [maxCaptures]struct{ start, length int }
}

// at matches the pattern from p on with the source from s on. It returns where the match ends, or -1.
func (m *matcher) at(s, p int) int {
	m.depth++
	if m.depth > maxRecursions {
		m.l.RaiseError("pattern too complex")
	}
	end := m.run(s, p)
	m.depth--
	return end
}

func (m *matcher) run(s, p int) int {
	for p < len(m.pat) {
		m.meter.spend(m.l, 1)
		var done bool
		if s, p, done = m.item(s, p); done {
			return s
		}
	}
	return s
}

// item matches the item of the pattern at p. It returns where to go on, or with done the end of the whole match.
func (m *matcher) item(s, p int) (nextS, nextP int, done bool) {
	next := byte(0)
	if p+1 < len(m.pat) {
		next = m.pat[p+1]
	}
	switch c := m.pat[p]; {
	case c == '(' && next == ')':
		return m.open(s, p+2, capturePosition), 0, true
	case c == '(':
		return m.open(s, p+1, captureOpen), 0, true
	case c == ')':
		return m.close(s, p+1), 0, true
	case c == '$' && p+1 == len(m.pat):
		if s != len(m.src) {
			s = -1
		}
		return s, 0, true
	case c == '%' && next == 'b':
		s = m.balance(s, p+2)
		return s, p + 4, s < 0
	case c == '%' && next == 'f':
		return m.frontier(s, p+2)
	case c == '%' && '0' <= next && next <= '9':
		s = m.repeat(s, next)
		return s, p + 2, s < 0
	}
	return m.class(s, p)
}

// class matches a class of characters and how often it comes.
func (m *matcher) class(s, p int) (nextS, nextP int, done bool) {
	end := m.classEnd(p)
	quantity := byte(0)
	if end < len(m.pat) {
		quantity = m.pat[end]
	}
	switch quantity {
	case '?':
		if m.single(s, p, end) {
			if e := m.at(s+1, end+1); e >= 0 {
				return e, 0, true
			}
		}
		return s, end + 1, false
	case '*':
		return m.most(s, p, end), 0, true
	case '+':
		if !m.single(s, p, end) {
			return -1, 0, true
		}
		return m.most(s+1, p, end), 0, true
	case '-':
		return m.least(s, p, end), 0, true
	}
	if !m.single(s, p, end) {
		return -1, 0, true
	}
	return s + 1, end, false
}

// most matches the class as often as possible, and then what follows it.
func (m *matcher) most(s, p, end int) int {
	n := 0
	for m.single(s+n, p, end) {
		n++
	}
	for ; n >= 0; n-- {
		if e := m.at(s+n, end+1); e >= 0 {
			return e
		}
	}
	return -1
}

// least matches the class as seldom as possible.
func (m *matcher) least(s, p, end int) int {
	for {
		if e := m.at(s, end+1); e >= 0 {
			return e
		}
		if !m.single(s, p, end) {
			return -1
		}
		s++
	}
}

func (m *matcher) open(s, p, length int) int {
	if m.level == maxCaptures {
		m.l.RaiseError("too many captures")
	}
	m.captures[m.level].start, m.captures[m.level].length = s, length
	m.level++
	end := m.at(s, p)
	if end < 0 {
		m.level--
	}
	return end
}

func (m *matcher) close(s, p int) int {
	for i := m.level - 1; i >= 0; i-- {
		if m.captures[i].length != captureOpen {
			continue
		}
		m.captures[i].length = s - m.captures[i].start
		end := m.at(s, p)
		if end < 0 {
			m.captures[i].length = captureOpen
		}
		return end
	}
	m.l.RaiseError("invalid pattern capture")
	return -1
}

// balance matches %bxy, of which x is at p.
func (m *matcher) balance(s, p int) int {
	if p+1 >= len(m.pat) {
		m.l.RaiseError("unbalanced pattern")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	deep := 1
	for i := s + 1; i < len(m.src); i++ {
		m.meter.spend(m.l, 1)
		switch m.src[i] {
		case m.pat[p+1]:
			if deep--; deep == 0 {
				return i + 1
			}
		case m.pat[p]:
			deep++
		}
	}
	return -1
}

// frontier matches %f[set], of which the set is at p.
func (m *matcher) frontier(s, p int) (nextS, nextP int, done bool) {
	if p >= len(m.pat) || m.pat[p] != '[' {
		m.l.RaiseError("missing '[' after '%%f' in pattern")
	}
	end := m.classEnd(p)
	before, after := byte(0), byte(0)
	if s > 0 {
		before = m.src[s-1]
	}
	if s < len(m.src) {
		after = m.src[s]
	}
	if m.inSet(before, p, end-1) || !m.inSet(after, p, end-1) {
		return -1, 0, true
	}
	return s, end, false
}

// repeat matches what a capture has matched.
func (m *matcher) repeat(s int, digit byte) int {
	i := int(digit) - '1'
	if i < 0 || i >= m.level || m.captures[i].length == captureOpen {
		m.l.RaiseError("invalid capture index")
	}
	c := m.captures[i]
	text := m.src[c.start : c.start+max(c.length, 0)]
	m.meter.spend(m.l, len(text)/bytesPerStep)
	if !strings.HasPrefix(m.src[s:], text) {
		return -1
	}
	return s + len(text)
}

// classEnd returns where the class that begins at p ends.
func (m *matcher) classEnd(p int) int {
	c := m.pat[p]
	p++
	switch c {
	case '%':
		if p == len(m.pat) {
			m.l.RaiseError("malformed pattern (ends with '%%')")
		}
		return p + 1
	case '[':
		return m.setEnd(p)
	}
	return p
}

func (m *matcher) setEnd(p int) int {
	if p < len(m.pat) && m.pat[p] == '^' {
		p++
	}
	for first := true; ; first = false {
		if p >= len(m.pat) {
			m.l.RaiseError("malformed pattern (missing ']')")
		}
		m.meter.spend(m.l, 1)
		c := m.pat[p]
		p++
		switch {
		case c == ']' && !first:
			return p
		case c == '%':
			p++
		}
	}
}

// single reports whether the character at s is of the class from p to end.
func (m *matcher) single(s, p, end int) bool {
	if s >= len(m.src) {
		return false
	}
	m.meter.spend(m.l, 1)
	c := m.src[s]
	switch m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, end-1)
	}
	return m.pat[p] == c
}

// inSet reports whether c is in the set from the bracket at p to the one at end.
func (m *matcher) inSet(c byte, p, end int) bool {
	in := true
	p++
	if m.pat[p] == '^' {
		in = false
		p++
	}
	m.meter.spend(m.l, (end-p)/8)
	for ; p < end; p++ {
		switch {
		case m.pat[p] == '%' && p+1 < end:
			p++
			if inClass(c, m.pat[p]) {
				return in
			}
		case p+2 < end && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

// inClass reports whether c is in the class that a letter stands for, or is that character if it is no class.
func inClass(c, class byte) bool {
	var in bool
	switch class | 0x20 {
	case 'a':
		in = isLetter(c)
	case 'd':
		in = isDigit(c)
	case 'l':
		in = 'a' <= c && c <= 'z'
	case 'u':
		in = 'A' <= c && c <= 'Z'
	case 's':
		in = c == ' ' || '\t' <= c && c <= '\r'
	case 'w':
		in = isLetter(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f'
	case 'p':
		in = '!' <= c && c <= '~' && !isLetter(c) && !isDigit(c)
	case 'c':
		in = c < ' ' || c == 0x7f
	case 'z':
		in = c == 0
	default:
		return class == c
	}
	if !isLetter(class) {
		return class == c
	}
	return in == (class >= 'a')
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return '0' <= c && c <= '9' }

// find returns the first match from init on.
func (m *matcher) find(init int) (start, end int) {
	anchored := strings.HasPrefix(m.pat, "^")
	p := 0
	if anchored {
		p = 1
	}
	for s := init; s <= len(m.src); s++ {
		m.level, m.depth = 0, 0
		m.meter.spend(m.l, 1)
		if e := m.at(s, p); e >= 0 {
			return s, e
		}
		if anchored {
			break
		}
	}
	return -1, -1
}

// capture returns the capture with that number, or the whole match as the first if there is none.
func (m *matcher) capture(i, start, end int) glua.LValue {
	if i >= m.level {
		if i != 0 {
			m.l.RaiseError("invalid capture index")
		}
		return m.text(start, end)
	}
	c := m.captures[i]
	switch c.length {
	case captureOpen:
		m.l.RaiseError("unfinished capture")
	case capturePosition:
		return glua.LNumber(c.start + 1)
	}
	return m.text(c.start, c.start+c.length)
}

// text returns a copy of a part of the source: a slice would keep all of it in memory.
func (m *matcher) text(start, end int) glua.LValue {
	m.meter.text(m.l, end-start)
	return glua.LString(strings.Clone(m.src[start:end]))
}

// push pushes all captures, or the whole match if there is none and whole says so.
func (m *matcher) push(start, end int, whole bool) int {
	n := m.level
	if n == 0 && whole {
		n = 1
	}
	for i := range n {
		m.l.Push(m.capture(i, start, end))
	}
	return n
}
