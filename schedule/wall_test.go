package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/schedule"
)

func TestClockChanges(t *testing.T) {
	tests := []struct {
		name, zone, expr, after string // after is in UTC
		want                    []string
	}{
		{
			"a time of day that is left out is due at the change", "America/New_York", "30 2 * * *", "2025-03-08 12:00:00",
			[]string{"2025-03-09 03:00:00 EDT", "2025-03-10 02:30:00 EDT"},
		},
		{
			"several times that are left out are due once", "America/New_York", "0,15,30 2,3 * * *", "2025-03-09 05:00:00",
			[]string{"2025-03-09 03:00:00 EDT", "2025-03-09 03:15:00 EDT", "2025-03-09 03:30:00 EDT", "2025-03-10 02:00:00 EDT"},
		},
		{
			"a time of day that comes twice is due the first time", "America/New_York", "30 1 * * *", "2025-11-02 00:00:00",
			[]string{"2025-11-02 01:30:00 EDT", "2025-11-03 01:30:00 EST"},
		},
		{
			"also if one asks between the two", "America/New_York", "30 1 * * *", "2025-11-02 06:10:00",
			[]string{"2025-11-03 01:30:00 EST"},
		},
		{
			"a time right at the change is due once", "America/New_York", "0 1,2 * * *", "2025-11-02 00:00:00",
			[]string{"2025-11-02 01:00:00 EDT", "2025-11-02 02:00:00 EST", "2025-11-03 01:00:00 EST"},
		},
		{
			"a pattern goes on through an hour that is left out", "America/New_York", "*/30 * * * *", "2025-03-09 06:10:00",
			[]string{"2025-03-09 01:30:00 EST", "2025-03-09 03:00:00 EDT", "2025-03-09 03:30:00 EDT"},
		},
		{
			"a pattern goes on through an hour that comes twice", "America/New_York", "*/30 * * * *", "2025-11-02 05:00:00",
			[]string{"2025-11-02 01:30:00 EDT", "2025-11-02 01:00:00 EST", "2025-11-02 01:30:00 EST", "2025-11-02 02:00:00 EST"},
		},
		{
			"an hourly one is due each hour there is", "Europe/Berlin", "15 * * * *", "2025-10-25 23:30:00",
			[]string{"2025-10-26 02:15:00 CEST", "2025-10-26 02:15:00 CET", "2025-10-26 03:15:00 CET"},
		},
		{
			"a pattern within one hour is not due when that is left out", "Europe/Berlin", "*/30 2 * * *", "2025-03-29 12:00:00",
			[]string{"2025-03-31 02:00:00 CEST", "2025-03-31 02:30:00 CEST"},
		},
		{
			"a change of half an hour", "Australia/Lord_Howe", "15 2 * * *", "2025-10-04 00:00:00",
			[]string{"2025-10-05 02:30:00 +11", "2025-10-06 02:15:00 +11"},
		},
		{
			"half an hour that comes twice", "Australia/Lord_Howe", "45 1 * * *", "2025-04-05 00:00:00",
			[]string{"2025-04-06 01:45:00 +11", "2025-04-07 01:45:00 +1030"},
		},
		{
			"a midnight that is left out", "Africa/Cairo", "0 0 * * *", "2025-04-24 12:00:00",
			[]string{"2025-04-25 01:00:00 EEST", "2025-04-26 00:00:00 EEST"},
		},
		{
			"a day that is left out", "Pacific/Apia", "0 12 * * *", "2011-12-29 00:00:00",
			[]string{"2011-12-29 12:00:00 -10", "2011-12-31 00:00:00 +14", "2011-12-31 12:00:00 +14"},
		},
		{
			"a pattern and the day that is left out", "Pacific/Apia", "0 */12 * * *", "2011-12-29 23:00:00",
			[]string{"2011-12-31 00:00:00 +14", "2011-12-31 12:00:00 +14", "2012-01-01 00:00:00 +14"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, _ := inZone(t, test.zone, test.expr)
			after, err := time.Parse(time.DateTime, test.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := due(s, after, len(test.want)); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
		})
	}
}

// TestNextAgreesWithAClockThatIsWatched compares with the plainest way to do it: look
// at the clock each minute of the days around a change.
func TestNextAgreesWithAClockThatIsWatched(t *testing.T) {
	changes := []struct {
		zone string
		day  time.Time
	}{
		{"America/New_York", time.Date(2025, 3, 9, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2025, 11, 2, 0, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2025, 3, 30, 0, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2025, 10, 26, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2025, 4, 5, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2025, 10, 4, 0, 0, 0, 0, time.UTC)},
		{"Africa/Cairo", time.Date(2025, 4, 24, 0, 0, 0, 0, time.UTC)},
		{"Asia/Kathmandu", time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)},
	}
	const seed = 20260301
	random := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		change := changes[random.IntN(len(changes))]
		minutes, hours := someOf(random, 60, 4), someOf(random, 24, 8)
		minuteText, hourText := list(minutes), list(hours)
		pattern := random.IntN(2) == 0
		if pattern { // a list that begins with *, and so means them all
			hours, hourText = all(24), "*"
		}
		expr := fmt.Sprintf("%s %s * * *", minuteText, hourText)
		s, loc := inZone(t, change.zone, expr)

		from := change.day.Add(-24 * time.Hour)
		want := watch(from, loc, minutes, hours, pattern)
		var got []time.Time
		for next := s.Next(from); next.Before(from.Add(watched)); next = s.Next(next) {
			got = append(got, next)
		}
		if !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Fatalf("%s, %q, from %v:\ngot  %v\nwant %v", change.zone, expr, from, got, want)
		}
	}
}

const watched = 96 * time.Hour

// watch looks at the clock each minute after from. Of times of day it remembers what the
// clock has shown already, and makes up for what it has left out.
func watch(from time.Time, loc *time.Location, minutes, hours []int, pattern bool) []time.Time {
	var out []time.Time
	shown := wallMinute(from.In(loc))
	for t := from.Add(time.Minute); t.Before(from.Add(watched)); t = t.Add(time.Minute) {
		wall := wallMinute(t.In(loc))
		first := shown + 1
		if pattern {
			first = wall
		}
		for m := first; m <= wall; m++ {
			if slices.Contains(minutes, m%60) && slices.Contains(hours, m/60%24) {
				out = append(out, t)
				break
			}
		}
		shown = max(shown, wall)
	}
	return out
}

// wallMinute counts the minutes on the clock, not those that have passed.
func wallMinute(t time.Time) int {
	return int(time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC).Unix() / 60)
}

func someOf(random *rand.Rand, n, most int) []int {
	return random.Perm(n)[:1+random.IntN(most)]
}

func all(n int) []int {
	var out []int
	for i := range n {
		out = append(out, i)
	}
	return out
}

func list(values []int) string {
	text := ""
	for i, v := range values {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprint(v)
	}
	return text
}

func ExampleCron() {
	s, err := schedule.Cron("CRON_TZ=Europe/Berlin 30 9 * * mon-fri")
	if err != nil {
		panic(err)
	}
	friday := time.Date(2026, time.March, 6, 12, 0, 0, 0, time.UTC)
	fmt.Println(s.Next(friday))

	_, err = schedule.Cron("0 25 * * *")
	fmt.Println(err)
	// Output:
	// 2026-03-09 09:30:00 +0100 CET
	// bad cron expression "0 25 * * *": hour "25": 25 is not in the range; want 0-23, a range a-b, *, a step */n or a-b/n, or several of these with commas
}

func ExampleEvery() {
	noon := time.Date(2026, time.March, 6, 12, 0, 0, 0, time.UTC)
	fmt.Println(schedule.Every(90 * time.Minute).Next(noon))
	// Output: 2026-03-06 13:30:00 +0000 UTC
}
