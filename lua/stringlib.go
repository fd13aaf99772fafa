package lua

import (
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// maxResults is how many values a function may return.
const maxResults = 8000

// strings is the library of strings. That of the interpreter has patterns that nothing stops, strings without a limit,
// and parts of strings that keep the whole in memory.
func (s *service) strings() map[string]glua.LGFunction {
	return map[string]glua.LGFunction{
		"len":     func(l *glua.LState) int { l.Push(glua.LNumber(len(l.CheckString(1)))); return 1 },
		"lower":   s.eachByte(lower),
		"upper":   s.eachByte(upper),
		"reverse": s.reverse,
		"byte":    s.bytes,
		"char":    s.chars,
		"sub":     s.sub,
		"rep":     s.rep,
		"find":    func(l *glua.LState) int { return s.find(l, true) },
		"match":   func(l *glua.LState) int { return s.find(l, false) },
		"gmatch":  s.gmatch,
		"gsub":    s.gsub,
		"format":  s.format,
	}
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c &^= 0x20
	}
	return c
}

// eachByte is a function that maps each byte of its argument.
func (s *service) eachByte(f func(byte) byte) glua.LGFunction {
	return func(l *glua.LState) int {
		text := []byte(l.CheckString(1))
		s.meter.text(l, 2*len(text))
		for i, c := range text {
			text[i] = f(c)
		}
		l.Push(glua.LString(text))
		return 1
	}
}

func (s *service) reverse(l *glua.LState) int {
	text := l.CheckString(1)
	s.meter.text(l, len(text))
	out := make([]byte, len(text))
	for i := range len(text) {
		out[len(text)-1-i] = text[i]
	}
	l.Push(glua.LString(out))
	return 1
}

// part returns the bytes between two arguments, which count from 1, or from the end if they are negative.
func part(l *glua.LState, text string, first, firstDefault, last, lastDefault int) (start, end int) {
	start, end = l.OptInt(first, firstDefault), l.OptInt(last, lastDefault)
	if start < 0 {
		start = max(start+len(text)+1, 1)
	}
	if end < 0 {
		end += len(text) + 1
	}
	start, end = max(start, 1), min(end, len(text))
	if start > end {
		return 0, 0
	}
	return start - 1, end
}

func (s *service) bytes(l *glua.LState) int {
	text := l.CheckString(1)
	start, end := part(l, text, 2, 1, 3, l.OptInt(2, 1))
	if end-start > maxResults {
		l.RaiseError("string slice too long: at most %d bytes", maxResults)
	}
	s.meter.spend(l, (end-start)/4)
	for _, c := range []byte(text[start:end]) {
		l.Push(glua.LNumber(c))
	}
	return end - start
}

func (s *service) chars(l *glua.LState) int {
	out := make([]byte, l.GetTop())
	for i := range out {
		c := l.CheckInt(i + 1)
		if c < 0 || c > 255 {
			l.ArgError(i+1, "invalid value")
		}
		out[i] = byte(c)
	}
	s.meter.text(l, len(out))
	l.Push(glua.LString(out))
	return 1
}

func (s *service) sub(l *glua.LState) int {
	text := l.CheckString(1)
	start, end := part(l, text, 2, 1, 3, -1)
	s.meter.text(l, end-start)
	l.Push(glua.LString(strings.Clone(text[start:end])))
	return 1
}

func (s *service) rep(l *glua.LState) int {
	text, n := l.CheckString(1), l.CheckInt(2)
	if len(text) == 0 || n <= 0 {
		l.Push(glua.LString(""))
		return 1
	}
	if n > maxString {
		l.RaiseError("%s", errString)
	}
	s.meter.text(l, len(text)*n)
	l.Push(glua.LString(strings.Repeat(text, n)))
	return 1
}

// find is string.find, and without positions string.match.
func (s *service) find(l *glua.LState, positions bool) int {
	m := matcher{l: l, meter: s.meter, src: l.CheckString(1), pat: l.CheckString(2)}
	init := l.OptInt(3, 1)
	if init < 0 {
		init = max(init+len(m.src)+1, 1)
	}
	init = min(max(init, 1)-1, len(m.src))
	if positions && (l.ToBool(4) || !strings.ContainsAny(m.pat, "^$*+?.([%-")) {
		return s.findPlain(l, &m, init)
	}
	start, end := m.find(init)
	if start < 0 {
		l.Push(glua.LNil)
		return 1
	}
	if !positions {
		return m.push(start, end, true)
	}
	l.Push(glua.LNumber(start + 1))
	l.Push(glua.LNumber(end))
	return 2 + m.push(start, end, false)
}

func (s *service) findPlain(l *glua.LState, m *matcher, init int) int {
	s.meter.spend(l, (len(m.src)-init+len(m.pat))/16)
	at := strings.Index(m.src[init:], m.pat)
	if at < 0 {
		l.Push(glua.LNil)
		return 1
	}
	l.Push(glua.LNumber(init + at + 1))
	l.Push(glua.LNumber(init + at + len(m.pat)))
	return 2
}

// matches is what an iterator of gmatch goes through.
type matches struct {
	src, pat string
	next     int
}

func (m *matches) hold(w *walker) {
	w.add(glua.LString(m.src))
	w.add(glua.LString(m.pat))
}

func (s *service) gmatch(l *glua.LState) int {
	state := &glua.LUserData{Value: &matches{src: l.CheckString(1), pat: l.CheckString(2)}, Metatable: glua.LNil}
	s.meter.take(l, functionSize*3+userdataSize)
	l.Push(l.NewClosure(s.nextMatch, state))
	return 1
}

func (s *service) nextMatch(l *glua.LState) int {
	it := l.Get(glua.UpvalueIndex(1)).(*glua.LUserData).Value.(*matches)
	m := matcher{l: l, meter: s.meter, src: it.src, pat: it.pat}
	if it.next > len(it.src) {
		l.Push(glua.LNil)
		return 1
	}
	start, end := m.find(it.next)
	if start < 0 {
		it.next = len(it.src) + 1
		l.Push(glua.LNil)
		return 1
	}
	it.next = end
	if end == start {
		it.next++
	}
	return m.push(start, end, true)
}

// gsub replaces matches by a text, by the values of a table or by what a function returns.
func (s *service) gsub(l *glua.LState) int {
	m := matcher{l: l, meter: s.meter, src: l.CheckString(1), pat: l.CheckString(2)}
	l.CheckTypes(3, glua.LTString, glua.LTNumber, glua.LTTable, glua.LTFunction)
	with, most := l.Get(3), l.OptInt(4, len(m.src)+1)
	anchored := strings.HasPrefix(m.pat, "^")
	p := 0
	if anchored {
		p = 1
	}
	var out []byte
	n, at := 0, 0
	for n < most {
		m.level, m.depth = 0, 0
		s.meter.spend(l, 1)
		end := m.at(at, p)
		if end >= 0 {
			n++
			out = s.replace(l, &m, out, with, at, end)
		}
		switch {
		case end > at:
			at = end
		case at < len(m.src):
			out = append(out, m.src[at])
			at++
		default:
			at++
		}
		if at > len(m.src) || anchored {
			break
		}
	}
	if at < len(m.src) {
		out = append(out, m.src[at:]...)
	}
	s.meter.text(l, len(out))
	l.Push(glua.LString(out))
	l.Push(glua.LNumber(n))
	return 2
}

// replace appends what a match is replaced with.
func (s *service) replace(l *glua.LState, m *matcher, out []byte, with glua.LValue, start, end int) []byte {
	var v glua.LValue
	switch with := with.(type) {
	case *glua.LTable:
		v = l.GetTable(with, m.capture(0, start, end))
	case *glua.LFunction:
		l.Push(with)
		n := m.push(start, end, true)
		l.Call(n, 1)
		v = l.Get(-1)
		l.Pop(1)
	default:
		out = m.expand(out, glua.LVAsString(with), start, end)
		v = glua.LString("")
	}
	switch v := v.(type) {
	case glua.LString, glua.LNumber:
		text := glua.LVAsString(v)
		s.meter.spend(l, len(text)/bytesPerStep)
		out = append(out, text...)
	default:
		if glua.LVAsBool(v) {
			l.RaiseError("invalid replacement value (a %s)", v.Type())
		}
		out = append(out, m.src[start:end]...)
	}
	if len(out) > maxString {
		l.RaiseError("%s", errString)
	}
	return out
}

// expand appends a replacement, in which %1 stands for a capture.
func (m *matcher) expand(out []byte, with string, start, end int) []byte {
	m.meter.spend(m.l, len(with)/16)
	for i := 0; i < len(with); i++ {
		c := with[i]
		if c != '%' || i+1 == len(with) {
			out = append(out, c)
			continue
		}
		i++
		switch c = with[i]; {
		case c == '0':
			out = append(out, m.src[start:end]...)
		case isDigit(c):
			out = append(out, glua.LVAsString(m.capture(int(c-'1'), start, end))...)
		default:
			out = append(out, c)
		}
		if len(out) > maxString {
			m.l.RaiseError("%s", errString)
		}
	}
	return out
}
