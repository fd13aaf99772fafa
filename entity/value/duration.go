package value

import (
	"math"
	"strconv"
	"strings"
)

const (
	minuteMillis = 60_000
	hourMillis   = 60 * minuteMillis
	dayMillis    = 24 * hourMillis
)

// units are those of a duration, from the longest to the shortest. A day has 24
// hours: a duration knows no time zone.
var units = [...]struct {
	name string
	ms   int64
}{
	{"w", 7 * dayMillis}, {"d", dayMillis}, {"h", hourMillis}, {"m", minuteMillis}, {"s", 1000}, {"ms", 1},
}

// MaxDuration bounds a duration in milliseconds, so that the sum of an instant and
// a duration fits.
const MaxDuration = math.MaxInt64 / 4

// ParseDuration returns the milliseconds of a text such as 90s, 1h30m, 1.5d or 2w,
// and whether it is one: numbers with the units w, d, h, m, s and ms, from longer to
// shorter units and each at most once, which come to whole milliseconds. A minus may
// stand in front.
func ParseDuration(text string) (ms int64, ok bool) {
	body, negative := strings.CutPrefix(text, "-")
	next := 0 // the longest unit that may still come
	for rest := body; rest != ""; {
		digits := 0
		for digits < len(rest) && (isDigit(rest[digits]) || rest[digits] == '.') {
			digits++
		}
		letters := digits
		for letters < len(rest) && !isDigit(rest[letters]) {
			letters++
		}
		for next < len(units) && units[next].name != rest[digits:letters] {
			next++
		}
		if next == len(units) {
			return 0, false
		}
		n, ok := times(rest[:digits], units[next].ms)
		if !ok || n > MaxDuration-ms {
			return 0, false
		}
		ms += n
		next++
		rest = rest[letters:]
	}
	if negative {
		ms = -ms
	}
	return ms, body != ""
}

// times multiplies a decimal number with a unit, where that gives a whole number.
func times(number string, unit int64) (ms int64, ok bool) {
	whole, fraction, point := strings.Cut(number, ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > MaxDuration/unit || point && fraction == "" || len(fraction) > 9 {
		return 0, false
	}
	if fraction == "" {
		return n * unit, true
	}
	part, err := strconv.ParseInt(fraction, 10, 64)
	scale := int64(math.Pow10(len(fraction)))
	return n*unit + part*unit/scale, err == nil && part*unit%scale == 0
}

// AppendDuration appends a duration in milliseconds as [ParseDuration] reads it, in
// whole units of days and less: 1d12h, 0s for none.
func AppendDuration(dst []byte, ms int64) []byte {
	if ms == 0 {
		return append(dst, "0s"...)
	}
	left := uint64(ms)
	if ms < 0 {
		dst = append(dst, '-')
		left = -left
	}
	for _, u := range units[1:] {
		if n := left / uint64(u.ms); n > 0 {
			dst = append(strconv.AppendUint(dst, n, 10), u.name...)
			left -= n * uint64(u.ms)
		}
	}
	return dst
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
