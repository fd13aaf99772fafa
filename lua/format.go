package lua

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	glua "github.com/yuin/gopher-lua"
)

// format is string.format. A width and a precision have at most two digits, as in Lua.
func (s *service) format(l *glua.LState) int {
	layout := l.CheckString(1)
	s.meter.spend(l, len(layout)/16)
	var out []byte
	arg := 1
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' {
			out = append(out, layout[i])
			continue
		}
		if i++; i < len(layout) && layout[i] == '%' {
			out = append(out, '%')
			continue
		}
		end := directiveEnd(l, layout, i)
		arg++
		out = append(out, s.directive(l, layout[i:end], layout[end], arg)...)
		i = end
		if len(out) > maxString {
			l.RaiseError("%s", errString)
		}
	}
	s.meter.text(l, len(out))
	l.Push(glua.LString(out))
	return 1
}

// directiveEnd returns where the letter of a directive is, whose flags begin at i.
func directiveEnd(l *glua.LState, layout string, i int) int {
	end := i
	skip := func(set string, most int) {
		for n := 0; n < most && end < len(layout) && strings.IndexByte(set, layout[end]) >= 0; n++ {
			end++
		}
	}
	skip("-+ #0", 5)
	skip("0123456789", 2)
	if end < len(layout) && layout[end] == '.' {
		end++
		skip("0123456789", 2)
	}
	if end == len(layout) {
		l.RaiseError("invalid option '%%%s' to 'format'", layout[i:end])
	}
	return end
}

// stepsPerDirective is what it takes to write a number.
const stepsPerDirective = 40

// directive returns an argument as a directive says.
func (s *service) directive(l *glua.LState, flags string, letter byte, arg int) string {
	s.meter.spend(l, stepsPerDirective)
	switch letter {
	case 'd', 'i':
		return fmt.Sprintf("%"+flags+"d", formatInt(l, arg))
	case 'u':
		return fmt.Sprintf("%"+flags+"d", uint64(formatInt(l, arg)))
	case 'o', 'x', 'X':
		return fmt.Sprintf("%"+flags+string(letter), uint64(formatInt(l, arg)))
	case 'c':
		return fmt.Sprintf("%"+flags+"s", string([]byte{byte(l.CheckInt(arg))}))
	case 'e', 'E', 'f', 'g', 'G':
		return formatFloat(flags, letter, float64(l.CheckNumber(arg)))
	case 'q':
		return quote(l.CheckString(arg))
	case 's':
		l.CheckAny(arg)
		text := l.ToStringMeta(l.Get(arg)).String()
		s.meter.spend(l, len(text)/bytesPerStep)
		if !strings.Contains(flags, ".") {
			return fmt.Sprintf("%"+flags+"s", text)
		}
		return formatCut(flags, text)
	}
	l.RaiseError("invalid option '%%%s%c' to 'format'", flags, letter)
	return ""
}

// formatInt returns an argument as an integer. A fraction is cut off.
func formatInt(l *glua.LState, arg int) int64 {
	if u, ok := l.Get(arg).(*glua.LUserData); ok {
		if n, ok := u.Value.(int64); ok {
			return n
		}
	}
	n := math.Trunc(float64(l.CheckNumber(arg)))
	if !(-0x1p63 <= n && n < 0x1p63) { // also for what is not a number
		l.ArgError(arg, "number has no integer representation")
	}
	return int64(n)
}

// formatFloat writes a number as C does.
func formatFloat(flags string, letter byte, n float64) string {
	if math.IsInf(n, 0) || math.IsNaN(n) {
		text := strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(n, 'g', -1, 64), "+"))
		width, _, _ := strings.Cut(strings.TrimLeft(flags, "+ #0"), ".")
		return fmt.Sprintf("%"+width+"s", text)
	}
	if !strings.Contains(flags, ".") {
		flags += ".6"
	}
	return fmt.Sprintf("%"+flags+string(letter), n)
}

// formatCut writes a text of which the precision says how many bytes are wanted. Go would count runes.
func formatCut(flags, text string) string {
	width, most, _ := strings.Cut(flags, ".")
	n, _ := strconv.Atoi(most) // none is 0
	return fmt.Sprintf("%"+width+"s", text[:min(n, len(text))])
}

// quote returns a text as the source of a script has it.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(text) {
		switch c {
		case '"', '\\', '\n':
			b.WriteByte('\\')
			b.WriteByte(c)
		case '\r':
			b.WriteString(`\r`)
		case 0:
			b.WriteString(`\000`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
