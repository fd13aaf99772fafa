package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/netresearch/go-cron"
)

// ErrBadCron says that a text is not a cron expression. The error that wraps it names
// the field, its problem and what it must be.
var ErrBadCron = errors.New("bad cron expression")

// Cron returns the schedule of a cron expression, in [time.Local] unless the expression
// names a zone. The package documentation describes expressions. The error wraps
// [ErrBadCron].
func Cron(expr string) (Schedule, error) { return CronIn(nil, expr) }

// CronIn is [Cron] in a time zone; nil means [time.Local]. It is an error if the
// expression names a zone too.
func CronIn(loc *time.Location, expr string) (Schedule, error) {
	s, err := parse(loc, expr)
	if err != nil {
		return Schedule{}, fmt.Errorf("%w %q: %w", ErrBadCron, expr, err)
	}
	return s, nil
}

// MustCron is [Cron] for expressions that are constants of the program: it panics where
// Cron returns an error.
func MustCron(expr string) Schedule {
	s, err := Cron(expr)
	if err != nil {
		panic("schedule: " + err.Error())
	}
	return s
}

// macros are the names that stand for fields.
var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

const macroNames = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every with a duration"

// exprMax bounds the length of an expression: what is longer is a mistake.
const exprMax = 1000

func parse(loc *time.Location, expr string) (Schedule, error) {
	if len(expr) > exprMax {
		return Schedule{}, fmt.Errorf("%d bytes long; at most %d are allowed", len(expr), exprMax)
	}
	words := strings.Fields(expr)
	loc, words, err := zone(loc, words)
	if err != nil {
		return Schedule{}, err
	}
	if len(words) > 0 && strings.HasPrefix(words[0], "@") {
		if words[0] == "@every" {
			return parseEvery(words[1:])
		}
		spelled, ok := macros[words[0]]
		if !ok || len(words) > 1 {
			return Schedule{}, fmt.Errorf("%q is not known; want %s", strings.Join(words, " "), macroNames)
		}
		words = strings.Fields(spelled)
	}
	return parseFields(loc, expr, words)
}

// zone takes the time zone from the front of the expression, if there is one.
func zone(loc *time.Location, words []string) (*time.Location, []string, error) {
	if len(words) > 0 {
		if prefix, name, ok := strings.Cut(words[0], "="); ok {
			if prefix != "CRON_TZ" && prefix != "TZ" {
				return nil, nil, fmt.Errorf("%q is not known; a time zone is given as CRON_TZ=Europe/Berlin", words[0])
			}
			if loc != nil {
				return nil, nil, fmt.Errorf("two time zones, %q in the expression and %q beside it; give one", name, loc)
			}
			named, err := time.LoadLocation(name)
			if name == "" || err != nil {
				return nil, nil, fmt.Errorf("time zone %q is not known; want a name such as Europe/Berlin, and import time/tzdata where the system has no zone database", name)
			}
			return named, words[1:], nil
		}
	}
	if loc == nil {
		loc = time.Local
	}
	return loc, words, nil
}

func parseEvery(words []string) (Schedule, error) {
	if len(words) == 1 {
		if d, err := time.ParseDuration(words[0]); err == nil && d > 0 {
			return Every(d), nil
		}
	}
	return Schedule{}, fmt.Errorf("%q after @every; want one positive duration such as 90s or 1h30m", strings.Join(words, " "))
}

// searchYears is how far ahead a time is looked for. The rarest day there is, February
// 29, can be eight years away.
const searchYears = 10

// parser reads six fields. Its clock is UTC, which never changes: see cronRule.
var parser = cron.MustNewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.DowOrDom).
	WithMaxSearchYears(searchYears)

func parseFields(loc *time.Location, expr string, words []string) (Schedule, error) {
	switch len(words) {
	case len(fields) - 1:
		words = append([]string{"0"}, words...)
	case len(fields):
	default:
		return Schedule{}, fmt.Errorf("%d fields; want 5 (minute, hour, day of month, month, day of week), 6 with the second first, or %s", len(words), macroNames)
	}
	for i, f := range fields {
		if err := f.check(words[i]); err != nil {
			return Schedule{}, fmt.Errorf("%s %q: %w", f.name, words[i], err)
		}
	}
	parsed, err := parser.Parse("CRON_TZ=UTC " + strings.Join(words, " "))
	if err != nil {
		return Schedule{}, err
	}
	if parsed.Next(time.Unix(0, 0)).IsZero() {
		return Schedule{}, fmt.Errorf("day of month %q with month %q: it is never due, those months have no such day", words[3], words[4])
	}
	pattern := strings.HasPrefix(words[1], "*") || strings.HasPrefix(words[2], "*")
	return Schedule{&cronRule{expr: expr, loc: loc, calendar: parsed, pattern: pattern}}, nil
}
