package series

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Span is a length of time in milliseconds, which reads and writes itself as
// text: 90d, 1h30m. Its units are those of a Go duration from h to ms, and d for
// 24 hours.
type Span int64

// ParseSpan returns the span of a text. The error wraps ErrInvalid.
func ParseSpan(text string) (Span, error) {
	days, rest, found := strings.Cut(text, "d")
	var s Span
	if found {
		n, err := strconv.ParseUint(days, 10, 24)
		if err != nil {
			return 0, invalidSpan(text)
		}
		s = Span(n) * dayMillis
		if rest == "" {
			return s, nil
		}
	} else {
		rest = text
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d%time.Millisecond != 0 {
		return 0, invalidSpan(text)
	}
	return s + Span(d.Milliseconds()), nil
}

func invalidSpan(text string) error {
	return fmt.Errorf("span %q: %w: 90d, 36h, 5m, 30s and 1d12h are right", text, ErrInvalid)
}

// String returns the text that ParseSpan reads.
func (s Span) String() string {
	days, rest := s/dayMillis, s%dayMillis
	switch {
	case days <= 0:
		return short(rest)
	case rest == 0:
		return fmt.Sprintf("%dd", int64(days))
	default:
		return fmt.Sprintf("%dd%s", int64(days), short(rest))
	}
}

// short is a Go duration without the units that are 0: 1h in place of 1h0m0s.
func short(s Span) string {
	text := (time.Duration(s) * time.Millisecond).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// MarshalText implements [encoding.TextMarshaler] with String.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with ParseSpan.
func (s *Span) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSpan(string(text))
	return err
}
