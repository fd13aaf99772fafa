package series

import (
	"fmt"

	"github.com/greenroom-go/greenroom/entity/value"
)

// Span is a length of time in milliseconds. Its text is a duration of package value: 90d, 1h30m,
// 2w.
type Span int64

// ParseSpan parses a span. The error wraps ErrInvalid.
func ParseSpan(text string) (Span, error) {
	ms, ok := value.ParseDuration(text)
	if text == "0" {
		return 0, nil
	}
	if !ok || ms < 0 {
		return 0, fmt.Errorf("span %q: %w: must be a duration such as 90d, 36h, 5m, 30s or 1d12h", text, ErrInvalid)
	}
	return Span(ms), nil
}

// String returns the text that ParseSpan reads.
func (s Span) String() string { return string(value.AppendDuration(nil, int64(s))) }

// MarshalText implements [encoding.TextMarshaler] with String.
func (s Span) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler] with ParseSpan.
func (s *Span) UnmarshalText(text []byte) (err error) {
	*s, err = ParseSpan(string(text))
	return err
}
