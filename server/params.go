package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/text"
)

// instant is a time in a request: milliseconds since the epoch, or RFC 3339. "" means no time.
type instant string

// UnmarshalJSON accepts a number or a string.
func (t *instant) UnmarshalJSON(text []byte) error {
	switch {
	case isNull(text):
		return nil
	case text[0] == '"':
		return json.Unmarshal(text, (*string)(t))
	default:
		*t = instant(text)
		return nil
	}
}

// ms returns the time in milliseconds since the epoch, or fallback for no time.
func (t instant) ms(name string, fallback int64) (int64, error) {
	if t == "" {
		return fallback, nil
	}
	if ms, err := strconv.ParseInt(string(t), 10, 64); err == nil {
		return min(max(ms, entity.MinTS), entity.MaxTS+1), nil
	}
	// An unescaped plus sign in a query means a space, and nobody escapes the one of a time zone.
	at, err := time.Parse(time.RFC3339Nano, strings.Replace(string(t), " ", "+", 1))
	if err != nil {
		return 0, problemf(http.StatusBadRequest, "%s must be milliseconds since the epoch, such as 1451649600512, or an RFC 3339 time, such as 2016-01-01T12:00:00Z, not %q",
			name, shorten(string(t), 64))
	}
	return min(max(at.UnixMilli(), entity.MinTS), entity.MaxTS+1), nil
}

// timeRange is the range [from, to).
type timeRange struct {
	// The start of the range, inclusive.
	From instant `query:"from" json:"from,omitempty" example:"1451606400000"`
	// The end of the range, exclusive.
	To instant `query:"to" json:"to,omitempty" example:"1451692800000"`
}

// bounds returns the range in milliseconds. The default is all time.
func (r *timeRange) bounds() (from, to int64, err error) {
	if from, err = r.From.ms("from", entity.MinTS); err != nil {
		return 0, 0, err
	}
	if to, err = r.To.ms("to", entity.MaxTS+1); err != nil {
		return 0, 0, err
	}
	if from >= to {
		return 0, 0, problemf(http.StatusBadRequest, "from must be before to: the range from %d to %d is empty", from, to)
	}
	return from, to, nil
}

// parseStep parses the length of a bucket: a duration in Go's syntax, which may also have days and
// weeks, or milliseconds.
func parseStep(text string) (time.Duration, error) {
	step, err := parseDuration(text)
	if err != nil || step < time.Millisecond || step%time.Millisecond != 0 {
		return 0, problemf(http.StatusBadRequest, "step must be a duration of whole milliseconds, such as 500ms, 15m, 1h, 1d or 1w, not %q", shorten(text, 32))
	}
	return step, nil
}

// parseDuration parses a duration, or milliseconds.
func parseDuration(text string) (time.Duration, error) {
	ms, ok := value.ParseDuration(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		ms, ok = n, true
	}
	if !ok || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, fmt.Errorf("duration %q must be one such as 500ms, 15m, 1h30m, 1d or 1w, or milliseconds", shorten(text, 32))
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// shorten shortens a client's text for an error or the log.
func shorten(s string, limit int) string { return text.Shorten(s, limit) }
