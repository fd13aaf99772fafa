// Package schedule says when something is due: at the times of a cron expression,
// each so and so long, or once. Its [Schedule] is what an actor's timer takes, and is of
// use without actors as well.
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
// of these with commas between them. 5/10 is short for 5 to the end in steps of 10. A
// range may go over the end: 22-2 are the hours 22, 23, 0, 1 and 2. The two fields
// for days may be ? in place of *. When both say something else than *, one of them
// suffices, as POSIX has it: "0 0 13 * fri" is every Friday and every 13th.
//
// In place of the fields: @yearly (or @annually), @monthly, @weekly, @daily (or
// @midnight), @hourly, and "@every 90s" for [Every].
//
// # Time zones
//
// An expression is read on the clock of [time.Local], of the zone given to [CronIn],
// or of the one at its beginning: "CRON_TZ=Europe/Berlin 0 9 * * *". Where there is
// no zone database a program imports time/tzdata.
//
// # When the clocks change
//
// An expression whose minute or hour begins with * is a pattern: it is due whenever
// the clock on the wall fits it. In an hour that comes twice it is due twice, in an
// hour that is left out not at all, and "*/5 * * * *" goes on every five minutes as if
// nothing had happened.
//
// Any other expression is a time of day, and due once each day that it names. If the
// clock leaves that time out it is due at the moment of the change: "30 2 * * *" at
// 3:00 when the clock goes from 2:00 to 3:00. If the time comes twice it is due the
// first time. This is how the cron of Debian and of the BSDs does it.
//
// # Why this parser
//
// The fields are read by github.com/netresearch/go-cron, a maintained fork of
// robfig/cron, whose last release is of 2020 and which panics on some zone prefixes. The
// fork has no dependencies of its own and a fuzzed parser. Only its fields and its search
// over the calendar are used: zones, clock changes and what an error says are done here.
package schedule
