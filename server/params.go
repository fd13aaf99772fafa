package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
)

// repeated are the query parameters that may be given several times.
var repeated = []string{"entity", "key", "name[]"}

// checkQuery refuses parameters that the operation does not know: a typo in one
// would otherwise give an answer to another question.
func checkQuery(r *http.Request, known []string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return problemf(http.StatusBadRequest, "the query cannot be read: %v; escape special characters as %%XX", err)
	}
	for name, values := range query {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return problemf(http.StatusBadRequest, "unknown query parameter %q; this path takes none", shorten(name, 64))
			}
			return problemf(http.StatusBadRequest, "unknown query parameter %q; there are %s", shorten(name, 64), strings.Join(known, ", "))
		}
		if len(values) > 1 && !slices.Contains(repeated, name) {
			return problemf(http.StatusBadRequest, "query parameter %q is given %d times; once is right", name, len(values))
		}
	}
	return nil
}

// limitParam reads limit; 0 stands for its absence.
func limitParam(q url.Values, most int) (int, error) {
	text := q.Get("limit")
	if !q.Has("limit") {
		return 0, nil
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > most {
		return 0, problemf(http.StatusBadRequest, "limit=%s is not possible; a whole number from 1 to %d is right", shorten(text, 32), most)
	}
	return limit, nil
}

// timeParam reads a time: milliseconds since the epoch, or RFC 3339. The
// fallback stands for its absence.
func timeParam(q url.Values, name string, fallback int64) (int64, error) {
	if !q.Has(name) {
		return fallback, nil
	}
	return parseTime(name, q.Get(name))
}

func parseTime(name, text string) (int64, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return min(max(ms, entity.MinTS), entity.MaxTS+1), nil
	}
	// A plus sign in a query is a space unless it was escaped, and nobody
	// escapes the one of a time zone.
	t, err := time.Parse(time.RFC3339Nano, strings.Replace(text, " ", "+", 1))
	if err != nil {
		return 0, problemf(http.StatusBadRequest, "%s=%s is not a time; milliseconds since the epoch such as 1451649600512, or RFC 3339 such as 2016-01-01T12:00:00Z, are right",
			name, shorten(text, 64))
	}
	return min(max(t.UnixMilli(), entity.MinTS), entity.MaxTS+1), nil
}

// rangeParam reads from and to.
func rangeParam(q url.Values) (from, to int64, err error) {
	if from, err = timeParam(q, "from", entity.MinTS); err != nil {
		return 0, 0, err
	}
	if to, err = timeParam(q, "to", entity.MaxTS+1); err != nil {
		return 0, 0, err
	}
	return from, to, checkRange(from, to)
}

func checkRange(from, to int64) error {
	if from >= to {
		return problemf(http.StatusBadRequest, "from=%d is not before to=%d; the range has from and not to: [from, to)", from, to)
	}
	return nil
}

// rangeMembers is rangeParam for the members of a body, which are numbers or
// strings.
func rangeMembers(rawFrom, rawTo json.RawMessage) (from, to int64, err error) {
	from, to = entity.MinTS, entity.MaxTS+1
	for _, m := range []struct {
		name string
		raw  json.RawMessage
		into *int64
	}{{"from", rawFrom, &from}, {"to", rawTo, &to}} {
		if m.raw == nil || isNull(m.raw) {
			continue
		}
		text := string(m.raw)
		if text[0] == '"' {
			if err := json.Unmarshal(m.raw, &text); err != nil {
				return 0, 0, problemf(http.StatusBadRequest, "%s: %v", m.name, jsonError(err))
			}
		}
		if *m.into, err = parseTime(m.name, text); err != nil {
			return 0, 0, err
		}
	}
	return from, to, checkRange(from, to)
}

// parseStep reads the length of a bucket: a duration of Go's syntax, which may
// also have days and weeks, or milliseconds.
func parseStep(text string) (time.Duration, error) {
	step, err := parseDuration(text)
	if err != nil || step < time.Millisecond || step%time.Millisecond != 0 {
		return 0, problemf(http.StatusBadRequest, "step=%s is not possible; a duration of whole milliseconds such as 500ms, 15m, 1h, 1d or 1w is right", shorten(text, 32))
	}
	return step, nil
}

func parseDuration(text string) (time.Duration, error) {
	if ms, err := strconv.ParseInt(text, 10, 64); err == nil {
		return scale(ms, time.Millisecond)
	}
	for suffix, unit := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		if number, ok := strings.CutSuffix(text, suffix); ok {
			n, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("duration %q: %w", text, err)
			}
			return scale(n, unit)
		}
	}
	return time.ParseDuration(text)
}

func scale(n int64, unit time.Duration) (time.Duration, error) {
	if n < 0 || n > math.MaxInt64/int64(unit) {
		return 0, fmt.Errorf("duration of %d times %v: %w", n, unit, strconv.ErrRange)
	}
	return time.Duration(n) * unit, nil
}

// shorten cuts a text of the client's for an error or the log.
func shorten(s string, limit int) string { return text.Shorten(s, limit) }
