package value

import (
	"strings"
	"time"
)

// The instants that can be written: the years 1 to 9999, in milliseconds since the
// epoch.
const (
	MinTime = -62_135_596_800_000
	MaxTime = 253_402_300_799_999
)

// ScanTime reads a date or an RFC 3339 date-time from the beginning of s and
// returns its milliseconds since the epoch and what follows. The seconds may be
// missing, and digits beyond the millisecond are passed over. A date alone is
// its midnight in UTC. It allocates nothing: filters call it for strings that are
// compared with an instant.
func ScanTime(s string) (ms int64, rest string, ok bool) {
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
	return ms, s, ok1 && ok2 && ms >= MinTime && ms <= MaxTime
}

// AppendTime appends an instant as [ScanTime] reads it, in UTC: a date where it is
// a midnight.
func AppendTime(dst []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	if ms%dayMillis == 0 {
		return t.AppendFormat(dst, time.DateOnly)
	}
	return t.AppendFormat(dst, "2006-01-02T15:04:05.999Z07:00")
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
	ms = int64(hour)*hourMillis + int64(minute)*minuteMillis
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
	return sign * (int64(hour)*hourMillis + int64(minute)*minuteMillis), s, ok1 && ok2 && hour < 24 && minute < 60
}
