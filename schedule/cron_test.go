package schedule_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // the tests mean the same where there is no zone database

	"github.com/greenroom-go/greenroom/schedule"
)

func inZone(t testing.TB, name, expr string) (schedule.Schedule, *time.Location) {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := schedule.CronIn(loc, expr)
	if err != nil {
		t.Fatal(err)
	}
	return s, loc
}

// due returns the next n times, as the zone's clock shows them.
func due(s schedule.Schedule, after time.Time, n int) []string {
	var out []string
	for range n {
		after = s.Next(after)
		if after.IsZero() {
			break
		}
		out = append(out, after.Format("2006-01-02 15:04:05 MST"))
	}
	return out
}

func TestCronIsDueWhenTheExpressionSays(t *testing.T) {
	tests := []struct {
		expr, after string
		want        []string
	}{
		{"*/5 * * * *", "2026-03-01 11:57:30", []string{"2026-03-01 12:00:00 UTC", "2026-03-01 12:05:00 UTC"}},
		{"* * * * *", "2026-12-31 23:59:00", []string{"2027-01-01 00:00:00 UTC"}},
		{"*/20 * * * * *", "2026-03-01 11:59:45", []string{"2026-03-01 12:00:00 UTC", "2026-03-01 12:00:20 UTC"}},
		{"15 30 9 * * *", "2026-03-01 09:30:15", []string{"2026-03-02 09:30:15 UTC"}},
		{"30 9 * * mon-fri", "2026-03-06 10:00:00", []string{"2026-03-09 09:30:00 UTC", "2026-03-10 09:30:00 UTC"}},
		{"30 9 * * MON-Fri", "2026-03-06 10:00:00", []string{"2026-03-09 09:30:00 UTC"}},
		{"0 0 29 2 *", "2026-01-01 00:00:00", []string{"2028-02-29 00:00:00 UTC", "2032-02-29 00:00:00 UTC"}},
		{"0 0 29 2 *", "2096-03-01 00:00:00", []string{"2104-02-29 00:00:00 UTC"}},
		{"0 0 31 * *", "2026-01-31 00:00:00", []string{"2026-03-31 00:00:00 UTC", "2026-05-31 00:00:00 UTC"}},
		{"0 0 13 * fri", "2026-03-01 00:00:00", []string{"2026-03-06 00:00:00 UTC", "2026-03-13 00:00:00 UTC", "2026-03-20 00:00:00 UTC"}},
		{"0 0 13 * */3", "2026-03-10 00:00:00", []string{"2026-03-11 00:00:00 UTC", "2026-03-13 00:00:00 UTC", "2026-03-14 00:00:00 UTC", "2026-03-15 00:00:00 UTC"}},
		{"0 0 13 * */1", "2026-03-01 00:00:00", []string{"2026-03-13 00:00:00 UTC", "2026-04-13 00:00:00 UTC"}},
		{"0 0 1,*/12 * mon,*/1", "2026-03-01 00:00:00", []string{"2026-03-13 00:00:00 UTC", "2026-03-25 00:00:00 UTC", "2026-04-01 00:00:00 UTC"}},
		{"0 0 13 * ?", "2026-03-01 00:00:00", []string{"2026-03-13 00:00:00 UTC", "2026-04-13 00:00:00 UTC"}},
		{"0 0 * * 7", "2026-03-01 00:00:00", []string{"2026-03-08 00:00:00 UTC"}},
		{"0 0 * * sat-sun", "2026-03-02 00:00:00", []string{"2026-03-07 00:00:00 UTC", "2026-03-08 00:00:00 UTC", "2026-03-14 00:00:00 UTC"}},
		{"0 22-1 * * *", "2026-03-01 12:00:00", []string{"2026-03-01 22:00:00 UTC", "2026-03-01 23:00:00 UTC", "2026-03-02 00:00:00 UTC", "2026-03-02 01:00:00 UTC", "2026-03-02 22:00:00 UTC"}},
		{"5/20,59 12 * * *", "2026-03-01 12:00:00", []string{"2026-03-01 12:05:00 UTC", "2026-03-01 12:25:00 UTC", "2026-03-01 12:45:00 UTC", "2026-03-01 12:59:00 UTC"}},
		{"0 8-18/5 * jan,mar *", "2026-01-31 18:00:00", []string{"2026-03-01 08:00:00 UTC", "2026-03-01 13:00:00 UTC", "2026-03-01 18:00:00 UTC"}},
		{"@yearly", "2026-03-01 12:00:00", []string{"2027-01-01 00:00:00 UTC"}},
		{"@annually", "2026-03-01 12:00:00", []string{"2027-01-01 00:00:00 UTC"}},
		{"@monthly", "2026-03-01 12:00:00", []string{"2026-04-01 00:00:00 UTC"}},
		{"@weekly", "2026-03-01 12:00:00", []string{"2026-03-08 00:00:00 UTC"}},
		{"@daily", "2026-03-01 12:00:00", []string{"2026-03-02 00:00:00 UTC"}},
		{"@midnight", "2026-03-01 12:00:00", []string{"2026-03-02 00:00:00 UTC"}},
		{"@hourly", "2026-03-01 12:00:00", []string{"2026-03-01 13:00:00 UTC"}},
		{"@every 90s", "2026-03-01 12:00:00", []string{"2026-03-01 12:01:30 UTC"}},
		{"  0   12  *\t* * ", "2026-03-01 12:00:00", []string{"2026-03-02 12:00:00 UTC"}},
	}
	for _, test := range tests {
		t.Run(test.expr, func(t *testing.T) {
			s, loc := inZone(t, "UTC", test.expr)
			after, err := time.ParseInLocation(time.DateTime, test.after, loc)
			if err != nil {
				t.Fatal(err)
			}
			if got := due(s, after, len(test.want)); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

func TestCronIsReadOnTheClockOfItsZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for name, parse := range map[string]func() (schedule.Schedule, error){
		"in the expression":          func() (schedule.Schedule, error) { return schedule.Cron("CRON_TZ=Europe/Berlin 0 9 * * *") },
		"in the expression, shorter": func() (schedule.Schedule, error) { return schedule.Cron("TZ=Europe/Berlin 0 9 * * *") },
		"before a name":              func() (schedule.Schedule, error) { return schedule.CronIn(berlin, "0 9 * * *") },
	} {
		s, err := parse()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		next := s.Next(epoch) // 13:00 in Berlin
		if want := time.Date(2026, time.March, 2, 8, 0, 0, 0, time.UTC); !next.Equal(want) || next.Location().String() != "Europe/Berlin" {
			t.Errorf("%s: got %v, want %v", name, next, want)
		}
	}
	s, err := schedule.Cron("CRON_TZ=Europe/Berlin @daily")
	if err != nil {
		t.Fatal(err)
	}
	if next := s.Next(epoch); !next.Equal(time.Date(2026, time.March, 1, 23, 0, 0, 0, time.UTC)) {
		t.Errorf("@daily in Berlin: got %v", next)
	}
}

func TestCronIsReadOnTheLocalClockUnlessToldOtherwise(t *testing.T) {
	next := schedule.MustCron("0 9 * * *").Next(epoch)
	if next.Location() != time.Local || next.Hour() != 9 {
		t.Errorf("got %v", next)
	}
}

func TestCronPrintsAsItsExpression(t *testing.T) {
	for _, expr := range []string{"*/5 * * * *", "@daily", "CRON_TZ=Europe/Berlin 0 9 * * mon-fri", "@every 1m30s"} {
		if got := schedule.MustCron(expr).String(); got != expr {
			t.Errorf("%q prints %q", expr, got)
		}
	}
}

func TestABadExpressionIsExplained(t *testing.T) {
	tests := []struct{ expr, want string }{
		{"", "0 fields; want 5 (minute, hour, day of month, month, day of week), 6 with the second first, or @yearly"},
		{"* * * *", "4 fields; want 5"},
		{"* * * * * * *", "7 fields; want 5"},
		{"61 * * * *", `minute "61": 61 is not in the range; want 0-59, a range a-b, *, a step */n or a-b/n, or several of these with commas`},
		{"* 24 * * *", `hour "24": 24 is not in the range; want 0-23`},
		{"60 * * * * *", `second "60": 60 is not in the range`},
		{"* * 0 * *", `day of month "0": 0 is not in the range; want 1-31`},
		{"* * * 13 *", `month "13": 13 is not in the range; want 1-12 or jan-dec`},
		{"* * * jann *", `month "jann": "jann" is not a value; want 1-12 or jan-dec`},
		{"* * * * 8", `day of week "8": 8 is not in the range; want 0-7 or sun-sat`},
		{"* * * * monday", `day of week "monday": "monday" is not a value`},
		{"*/0 * * * *", `minute "*/0": the step "0" is not a positive number`},
		{"*/x * * * *", `the step "x" is not a positive number`},
		{"*/60 * * * *", `the step 60 is not smaller than the 60 values that it goes through`},
		{"1-5/9 * * * *", `the step 9 is not smaller than the 5 values`},
		{"1/2/3 * * * *", `the step "2/3" is not a positive number`},
		{"1-2-3 * * * *", `"2-3" is not a value`},
		{"*-5 * * * *", `"*" is not a value`},
		{"+5 * * * *", `"+5" is not a value`},
		{"-5 * * * *", `"" is not a value`},
		{", * * * *", `minute ",": an element of the list is missing`},
		{"1,,2 * * * *", "an element of the list is missing"},
		{"? * * * *", `minute "?": "?" is not a value`},
		{"0 0 * * sat-tue/2", "a step in a range that goes over Sunday is ambiguous; list the days"},
		{"0 0 30 2 *", `day of month "30" with month "2": it is never due`},
		{"0 0 31 feb,apr,jun ?", "it is never due"},
		{"H * * * *", `"H" is not a value`},
		{"0 0 L * *", `"L" is not a value`},
		{"@reboot", `"@reboot" is not known; want @yearly`},
		{"@daily 5", `"@daily 5" is not known`},
		{"@every", `"" after @every; want one positive duration such as 90s or 1h30m`},
		{"@every -5s", `"-5s" after @every`},
		{"@every soon", `"soon" after @every`},
		{"CRON_TZ=Mars/Base 0 0 * * *", `time zone "Mars/Base" is not known; want a name such as Europe/Berlin`},
		{"CRON_TZ=", `time zone "" is not known`},
		{"CRON_TZ=UTC", "0 fields; want 5"},
		{"TZ=../../etc/passwd * * * * *", "is not known"},
		{"ZONE=UTC 0 0 * * *", `"ZONE=UTC" is not known; a time zone is given as CRON_TZ=Europe/Berlin`},
		{strings.Repeat("*", 1001), "1001 bytes long; at most 1000 are allowed"},
	}
	for _, test := range tests {
		_, err := schedule.Cron(test.expr)
		if err == nil {
			t.Errorf("%q was accepted", test.expr)
			continue
		}
		if !errors.Is(err, schedule.ErrBadCron) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q:\ngot  %v\nwant %s", test.expr, err, test.want)
		}
	}
	if _, err := schedule.CronIn(time.UTC, "CRON_TZ=Europe/Berlin * * * * *"); err == nil || !strings.Contains(err.Error(), "two time zones") {
		t.Errorf("two zones: %v", err)
	}
}

func TestMustCronPanicsWithTheReason(t *testing.T) {
	defer func() {
		if text, ok := recover().(string); !ok || !strings.Contains(text, `hour "25"`) {
			t.Errorf("got %q", text)
		}
	}()
	schedule.MustCron("0 25 * * *")
}

// FuzzCron looks for expressions that are accepted and then never end, go back or are
// not on a whole second.
func FuzzCron(f *testing.F) {
	for _, expr := range []string{
		"*/5 * * * *", "0 0 29 2 *", "1-5,7/2 22-2 25-5 nov-feb fri-mon", "@daily", "@every 1h", "CRON_TZ=America/New_York 30 2 * * *",
		"TZ=TZ=TZ=", "CRON_TZ=", ",", "*-5 * * * *", "59 59 23 31 12 7", "0 0 30 2 */2", "CRON_TZ=Pacific/Apia 0 0 30 12 *", "TZ=Africa/Cairo 0 0 * * *",
	} {
		f.Add(expr, int64(1_772_366_400))
		f.Add(expr, int64(-6_000_000_000))
	}
	f.Fuzz(func(t *testing.T, expr string, unix int64) {
		s, err := schedule.Cron(expr)
		if err != nil {
			if !errors.Is(err, schedule.ErrBadCron) {
				t.Errorf("%v does not wrap ErrBadCron", err)
			}
			return
		}
		after := time.Unix(unix%100_000_000_000, 5)
		for range 5 {
			next := s.Next(after)
			if !next.After(after) {
				t.Fatalf("%q: after %v comes %v", expr, after, next)
			}
			if !strings.HasPrefix(s.String(), "@every") && next.Nanosecond() != 0 {
				t.Fatalf("%q: %v is not on a whole second", expr, next)
			}
			if again := s.Next(next.Add(-1)); !again.Equal(next) && !strings.HasPrefix(strings.TrimSpace(s.String()), "@every") {
				t.Fatalf("%q: just before %v the next is %v", expr, next, again)
			}
			after = next
		}
	})
}
