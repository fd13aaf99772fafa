package filter

import (
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// The instants that can be written: the years 1 to 9999.
var (
	minInstant = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
	maxInstant = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli() - 1
)

// scanTime reads a date or an RFC 3339 date-time from the beginning of s and
// returns its milliseconds since the epoch and what follows. The seconds may be
// missing, and digits beyond the millisecond are passed over. A date alone is
// its midnight in UTC. It allocates nothing: matching calls it for strings that
// are compared with an instant.
func scanTime(s string) (ms int64, rest string, ok bool) {
	year, s, ok1 := scanDigits(s, 4, "-")
	month, s, ok2 := scanDigits(s, 2, "-")
	day, s, ok3 := scanDigits(s, 2, "")
	if !ok1 || !ok2 || !ok3 {
		return 0, s, false
	}
	date := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if year < 1 || date.Month() != time.Month(month) || date.Day() != day {
		return 0, s, false
	}
	ms = date.UnixMilli()
	if s == "" || s[0] != 'T' && s[0] != 't' {
		return ms, s, true
	}
	clock, s, ok1 := scanClock(s[1:])
	offset, s, ok2 := scanZone(s)
	ms += clock - offset
	return ms, s, ok1 && ok2 && ms >= minInstant && ms <= maxInstant
}

// scanDigits reads a number of n digits and what must follow it.
func scanDigits(s string, n int, after string) (value int, rest string, ok bool) {
	if len(s) < n {
		return 0, s, false
	}
	for i := range n {
		if !isDigit(s[i]) {
			return 0, s, false
		}
		value = value*10 + int(s[i]-'0')
	}
	rest, ok = strings.CutPrefix(s[n:], after)
	return value, rest, ok
}

// scanClock reads hh:mm, hh:mm:ss or hh:mm:ss.fff as milliseconds.
func scanClock(s string) (ms int64, rest string, ok bool) {
	hour, s, ok1 := scanDigits(s, 2, ":")
	minute, s, ok2 := scanDigits(s, 2, "")
	if !ok1 || !ok2 || hour > 23 || minute > 59 {
		return 0, s, false
	}
	ms = int64(hour)*3_600_000 + int64(minute)*60_000
	if s == "" || s[0] != ':' {
		return ms, s, true
	}
	second, s, ok := scanDigits(s[1:], 2, "")
	if !ok || second > 59 {
		return 0, s, false
	}
	ms += int64(second) * 1000
	if len(s) < 2 || s[0] != '.' || !isDigit(s[1]) {
		return ms, s, true
	}
	s = s[1:]
	for unit := int64(100); s != "" && isDigit(s[0]); unit /= 10 {
		ms += int64(s[0]-'0') * unit
		s = s[1:]
	}
	return ms, s, true
}

// scanZone reads Z or +hh:mm as milliseconds to the east.
func scanZone(s string) (ms int64, rest string, ok bool) {
	if s == "" {
		return 0, s, false
	}
	sign := int64(1)
	switch s[0] {
	case 'Z', 'z':
		return 0, s[1:], true
	case '+':
	case '-':
		sign = -1
	default:
		return 0, s, false
	}
	hour, s, ok1 := scanDigits(s[1:], 2, ":")
	minute, s, ok2 := scanDigits(s, 2, "")
	return sign * (int64(hour)*3_600_000 + int64(minute)*60_000), s, ok1 && ok2 && hour < 24 && minute < 60
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// units are those of a duration, from the longest. A day has 24 hours and a week
// seven of them: an age knows no time zone.
var units = [...]struct {
	name string
	ms   int64
}{
	{"w", 7 * 24 * 3_600_000}, {"d", 24 * 3_600_000}, {"h", 3_600_000}, {"m", 60_000}, {"s", 1000}, {"ms", 1},
}

// maxDuration bounds a duration, so that an instant and a duration can be added.
const maxDuration = math.MaxInt64 / 4

// parseDuration reads 1h30m. Its units go from longer to shorter, each at most
// once.
func parseDuration(s string) (ms int64, ok bool) {
	body, negative := strings.CutPrefix(s, "-")
	next := 0 // the longest unit that may still come
	for rest := body; rest != ""; {
		digits := 0
		for digits < len(rest) && isDigit(rest[digits]) {
			digits++
		}
		letters := digits
		for letters < len(rest) && !isDigit(rest[letters]) {
			letters++
		}
		n, err := strconv.ParseInt(rest[:digits], 10, 64)
		for next < len(units) && units[next].name != rest[digits:letters] {
			next++
		}
		if err != nil || next == len(units) || n > (maxDuration-ms)/units[next].ms {
			return 0, false
		}
		ms += n * units[next].ms
		next++
		rest = rest[letters:]
	}
	if negative {
		ms = -ms
	}
	return ms, body != ""
}

func appendDuration(dst []byte, ms int64) []byte {
	if ms == 0 {
		return append(dst, "0s"...)
	}
	left := uint64(ms)
	if ms < 0 {
		dst = append(dst, '-')
		left = -left
	}
	for _, u := range units {
		if n := left / uint64(u.ms); n > 0 {
			dst = append(strconv.AppendUint(dst, n, 10), u.name...)
			left -= n * uint64(u.ms)
		}
	}
	return dst
}

func appendTime(dst []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	if ms%units[1].ms == 0 {
		return t.AppendFormat(dst, time.DateOnly)
	}
	return t.AppendFormat(dst, "2006-01-02T15:04:05.999Z07:00")
}

// appendFloat writes a float64 so that it reads back as one and as the same.
func appendFloat(dst []byte, f float64) []byte {
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, 'g', -1, 64)
	for _, c := range dst[start:] {
		if c == '.' || c == 'e' || c == 'N' || c == 'I' {
			return dst
		}
	}
	return append(dst, ".0"...)
}

// appendLiteral writes a value the way the grammar reads it.
func appendLiteral(dst []byte, v Value) []byte {
	switch v.kind {
	case KindBool:
		return strconv.AppendBool(dst, v.bits == 1)
	case KindInt:
		return strconv.AppendInt(dst, int64(v.bits), 10)
	case KindFloat:
		return appendFloat(dst, math.Float64frombits(v.bits))
	case KindString, KindJSON:
		return appendString(dst, v.text)
	case KindTime:
		return appendTime(dst, int64(v.bits))
	case KindDuration:
		return appendDuration(dst, int64(v.bits))
	default:
		return append(dst, "none"...)
	}
}

// appendString writes a string in double quotes.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r == '\n':
			dst = append(dst, `\n`...)
		case r == '\r':
			dst = append(dst, `\r`...)
		case r == '\t':
			dst = append(dst, `\t`...)
		case r < ' ' || r == 0x7f:
			const hex = "0123456789abcdef"
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&0xf])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}

// unescape returns what follows a backslash at the beginning of s, and how many
// bytes it takes.
func unescape(s string) (r rune, size int, ok bool) {
	if s == "" {
		return 0, 0, false
	}
	switch s[0] {
	case '"', '\'', '\\', '/':
		return rune(s[0]), 1, true
	case 'n':
		return '\n', 1, true
	case 'r':
		return '\r', 1, true
	case 't':
		return '\t', 1, true
	case 'u':
		if len(s) < 5 {
			return 0, 0, false
		}
		code, err := strconv.ParseUint(s[1:5], 16, 16)
		r := rune(code)
		return r, 5, err == nil && utf8.ValidRune(r)
	default:
		return 0, 0, false
	}
}
