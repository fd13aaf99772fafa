// Package schedule computes when something is due: at the times of a cron expression, at
// a fixed interval, or once. Actor timers take a [Schedule]; it is also useful without
// actors.
//
//	weekdays, err := schedule.Cron("30 9 * * mon-fri")
//	next := weekdays.Next(time.Now())
//
// # Cron expressions
//
// Five fields, separated by spaces, or six with the seconds first:
//
//	second        0-59   (only with six fields; otherwise 0)
//	minute        0-59
//	hour          0-23
//	day of month  1-31
//	month         1-12 or jan-dec
//	day of week   0-7 or sun-sat; 0 and 7 are Sunday
//
// A field is *, a value, a range a-b, or either with a step, */15 or 8-18/2, or several
// of these separated by commas. 5/10 is short for 5 to the end in steps of 10. A range may
// wrap around: 22-2 means the hours 22, 23, 0, 1 and 2. The two day fields may be ?
// instead of *; */1 is the same, */2 is not. If both restrict the day, one that matches either of them
// matches, as in POSIX: "0 0 13 * fri" means every Friday and every 13th.
//
// Instead of fields: @yearly (or @annually), @monthly, @weekly, @daily (or
// @midnight), @hourly, and "@every 90s" for [Every].
//
// # Time zones
//
// An expression is evaluated in [time.Local], in the zone given to [CronIn], or in the zone
// it begins with: "CRON_TZ=Europe/Berlin 0 9 * * *". On systems without a zone database,
// import time/tzdata.
//
// # When the clocks change
//
// An expression whose minute or hour begins with * is a pattern: it is due whenever the
// wall clock matches it. In a repeated hour it is due twice, in a skipped hour not at all,
// and "*/5 * * * *" continues every five minutes regardless.
//
// Any other expression is a time of day, and is due once on each matching day. If the clock
// skips that time, it is due at the moment of the change: "30 2 * * *" at 3:00 when the
// clock goes from 2:00 to 3:00. If the time occurs twice, it is due the first time. The cron
// of Debian and of the BSDs behaves the same way.
//
// # Why this parser
//
// The fields are parsed by github.com/netresearch/go-cron, a maintained fork of
// robfig/cron, whose last release is from 2020 and which panics on some zone prefixes. The
// fork has no dependencies and a fuzzed parser. Only its fields and its calendar search are
// used; zones, clock changes and error texts are handled here.
package schedule
