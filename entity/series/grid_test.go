package series

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	_ "time/tzdata" // the tests must not depend on what a machine has
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// at reads a time with its offset.
func at(t *testing.T, text string) int64 {
	t.Helper()
	ts, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return ts.UnixMilli()
}

// zones have all kinds of changes of the clock: by an hour, by half of one, at
// midnight, at a minute past it, over a whole day, and none.
var zones = []string{
	"UTC", "Europe/Brussels", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo",
	"America/St_Johns", "Pacific/Apia", "Africa/Casablanca", "Asia/Kathmandu", "Antarctica/Troll", "Pacific/Chatham",
}

// modelEdges returns the edges of a calendar in a range by going through it
// minute by minute with a clock on the wall.
func modelEdges(n int, unit Unit, z *time.Location, from, to int64) []int64 {
	var edges []int64
	var reached, before string // labels of buckets
	var wallBefore time.Time
	for ts := from; ts < to; ts += minuteMillis {
		wall := time.UnixMilli(ts).In(z)
		clock := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), wall.Second(), 0, time.UTC)
		label, edge := modelLabel(n, unit, clock)
		begins := label != before
		if unit <= Hour {
			begins = begins || edge && !clock.After(wallBefore) // put back onto an edge
		} else {
			begins = label > reached
			label = max(label, reached)
		}
		if begins && before != "" {
			edges = append(edges, ts)
		}
		before, reached, wallBefore = label, max(label, reached), clock
	}
	return edges
}

// modelLabel names the bucket that a clock shows, so that later ones sort later,
// and whether the clock is at the bucket's edge.
func modelLabel(n int, unit Unit, clock time.Time) (label string, edge bool) {
	day := clock.Truncate(24 * time.Hour)
	days := int(math.Floor(float64(day.Unix()) / 86400))
	floor := func(a int) int { return int(math.Floor(float64(a) / float64(n))) }
	const offset = 1_000_000
	switch unit {
	case Minute, Hour:
		length := time.Duration(n) * time.Minute
		if unit == Hour {
			length = time.Duration(n) * time.Hour
		}
		since := clock.Sub(day)
		return day.Format(time.DateOnly) + fmt.Sprintf(" %05d", since/length), since%length == 0
	case Day:
		return fmt.Sprintf("%09d", offset+floor(days)), false
	case Week:
		return fmt.Sprintf("%09d", offset+floor(int(math.Floor(float64(days+3)/7)))), false
	case Month:
		return fmt.Sprintf("%09d", offset+floor((clock.Year()-1970)*12+int(clock.Month())-1)), false
	default:
		return fmt.Sprintf("%09d", offset+floor(clock.Year())), false
	}
}

// changes are ranges around changes of the clock in the zones above.
var changes = map[string][]string{
	"UTC":                 {"2024-02-27T00:00:00Z", "1969-12-28T00:00:00Z"},
	"Europe/Brussels":     {"2015-03-28T00:00:00Z", "2015-10-24T00:00:00Z"},
	"America/New_York":    {"2024-03-09T00:00:00Z", "2024-11-02T00:00:00Z"},
	"Asia/Kolkata":        {"2024-12-30T00:00:00Z"},
	"Australia/Lord_Howe": {"2024-04-05T00:00:00Z", "2024-10-04T00:00:00Z"},
	"America/Sao_Paulo":   {"2018-02-16T00:00:00Z", "2018-11-02T00:00:00Z"},
	"America/St_Johns":    {"2006-04-01T00:00:00Z", "2006-10-28T00:00:00Z"},
	"Pacific/Apia":        {"2011-12-28T00:00:00Z"},
	"Africa/Casablanca":   {"2024-03-09T00:00:00Z", "2024-04-13T00:00:00Z"},
	"Asia/Kathmandu":      {"1985-12-30T00:00:00Z"},
	"Antarctica/Troll":    {"2024-03-30T00:00:00Z", "2024-10-26T00:00:00Z"},
	"Pacific/Chatham":     {"2024-04-05T00:00:00Z", "2024-09-27T00:00:00Z"},
}

func TestCalendarAgreesWithAClockOnTheWall(t *testing.T) {
	for name, starts := range changes {
		z := zone(t, name)
		for _, text := range starts {
			from := at(t, text)
			to := from + 5*dayMillis
			for unit, ns := range map[Unit][]int{Minute: {30}, Hour: {1, 2, 6}, Day: {1, 2}, Week: {1}, Month: {1}} {
				for _, n := range ns {
					g, err := Calendar(n, unit, z)
					if err != nil {
						t.Fatal(err)
					}
					var got []int64
					for _, end := g.Bucket(from); end < to; _, end = g.Bucket(end) {
						got = append(got, end)
					}
					for ts := from; ts < to; ts += 10 * minuteMillis {
						if start, end := g.Bucket(ts); ts < start || ts >= end || start > from && end < to && !slices.Contains(got, end) {
							t.Errorf("%s, %s: %d is in [%d, %d)", name, g, ts, start, end)
						}
					}
					if want := modelEdges(n, unit, z, from-2*dayMillis, to); fmt.Sprint(got) != fmt.Sprint(after(want, from)) {
						t.Errorf("%s, %s from %s:\n got %v\nwant %v", name, g, text, times(got, z), times(after(want, from), z))
					}
				}
			}
		}
	}
}

func after(edges []int64, from int64) []int64 {
	for i, e := range edges {
		if e > from {
			return edges[i:]
		}
	}
	return nil
}

func times(list []int64, z *time.Location) []string {
	var out []string
	for _, ts := range list {
		out = append(out, time.UnixMilli(ts).In(z).Format("2006-01-02T15:04Z07"))
	}
	return out
}

func TestBucketsTileTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 7))
	for range 4000 {
		g := randomGrid(t, r)
		ts := int64(r.IntN(60*365))*dayMillis + int64(r.IntN(dayMillis))
		if r.IntN(4) == 0 {
			ts = -ts
		}
		start, end := g.Bucket(ts)
		if start > ts || ts >= end {
			t.Fatalf("%v in %v: %d is not in [%d, %d)", g, g.zone, ts, start, end)
		}
		for _, inside := range []int64{start, end - 1, start + (end-start)/2} {
			if s, e := g.Bucket(inside); s != start || e != end {
				t.Fatalf("%v in %v: the bucket of %d is [%d, %d), that of %d in it [%d, %d)", g, g.zone, ts, start, end, inside, s, e)
			}
		}
		if s, _ := g.Bucket(end); s != end {
			t.Fatalf("%v in %v: after [%d, %d) comes one from %d", g, g.zone, start, end, s)
		}
		if _, e := g.Bucket(start - 1); e != start {
			t.Fatalf("%v in %v: before [%d, %d) comes one to %d", g, g.zone, start, end, e)
		}
	}
}

func randomGrid(t *testing.T, r *rand.Rand) Grid {
	t.Helper()
	var g Grid
	var err error
	switch unit := Unit(r.IntN(7)); unit {
	case 0:
		g, err = Fixed(time.Duration(1+r.IntN(100_000))*time.Millisecond, int64(r.IntN(10_000_000))-5_000_000)
	case Minute:
		g, err = Calendar([]int{1, 5, 15, 30, 90, 720}[r.IntN(6)], unit, zone(t, zones[r.IntN(len(zones))]))
	case Hour:
		g, err = Calendar([]int{1, 2, 3, 6, 12, 24}[r.IntN(6)], unit, zone(t, zones[r.IntN(len(zones))]))
	default:
		g, err = Calendar(1+r.IntN(5), unit, zone(t, zones[r.IntN(len(zones))]))
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestCalendarOnKnownDays has days that people have looked up.
func TestCalendarOnKnownDays(t *testing.T) {
	for _, x := range []struct {
		grid, zone, ts, start, end string
	}{
		{"day", "Europe/Brussels", "2015-03-29T12:00:00+02:00", "2015-03-29T00:00:00+01:00", "2015-03-30T00:00:00+02:00"}, // 23 hours
		{"day", "Europe/Brussels", "2015-10-25T12:00:00+01:00", "2015-10-25T00:00:00+02:00", "2015-10-26T00:00:00+01:00"}, // 25 hours
		{"hour", "Europe/Brussels", "2015-10-25T02:30:00+02:00", "2015-10-25T02:00:00+02:00", "2015-10-25T02:00:00+01:00"},
		{"hour", "Europe/Brussels", "2015-10-25T02:30:00+01:00", "2015-10-25T02:00:00+01:00", "2015-10-25T03:00:00+01:00"},
		{"6hour", "Europe/Brussels", "2015-10-25T02:30:00+01:00", "2015-10-25T00:00:00+02:00", "2015-10-25T06:00:00+01:00"},
		{"6hour", "Europe/Brussels", "2015-03-29T04:00:00+02:00", "2015-03-29T00:00:00+01:00", "2015-03-29T06:00:00+02:00"},
		{"hour", "Asia/Kolkata", "2024-01-01T05:40:00+05:30", "2024-01-01T05:00:00+05:30", "2024-01-01T06:00:00+05:30"},
		{"day", "America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}, // midnight was skipped
		{"day", "Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},      // the 30th was skipped
		{"week", "Europe/Brussels", "2015-02-04T12:00:00+01:00", "2015-02-02T00:00:00+01:00", "2015-02-09T00:00:00+01:00"},
		{"month", "Europe/Brussels", "2024-02-29T23:30:00Z", "2024-03-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		{"3month", "UTC", "2024-02-29T00:00:00Z", "2024-01-01T00:00:00Z", "2024-04-01T00:00:00Z"},
		{"year", "America/New_York", "2024-01-01T04:00:00Z", "2023-01-01T00:00:00-05:00", "2024-01-01T00:00:00-05:00"},
		{"10year", "UTC", "2024-01-01T00:00:00Z", "2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"},
		{"1h", "Asia/Kolkata", "2024-01-01T00:40:00Z", "2024-01-01T00:00:00Z", "2024-01-01T01:00:00Z"}, // a fixed step knows no zone
	} {
		g, err := ParseGrid(x.grid, 0, zone(t, x.zone))
		if err != nil {
			t.Fatal(err)
		}
		start, end := g.Bucket(at(t, x.ts))
		if start != at(t, x.start) || end != at(t, x.end) {
			t.Errorf("%s in %s, %s: %v, want %s to %s", x.grid, x.zone, x.ts, times([]int64{start, end}, zone(t, x.zone)), x.start, x.end)
		}
	}
}

func TestFixedGridHasAnEdgeAtItsOrigin(t *testing.T) {
	for _, origin := range []int64{0, 1, 999, 12_345, -1, -7000} {
		g, err := Fixed(7*time.Second, origin)
		if err != nil {
			t.Fatal(err)
		}
		if start, end := g.Bucket(origin); start != origin || end != origin+7000 {
			t.Errorf("the bucket at %d is [%d, %d)", origin, start, end)
		}
		if start, end := g.Bucket(origin - 1); start != origin-7000 || end != origin {
			t.Errorf("the bucket before %d is [%d, %d)", origin, start, end)
		}
	}
}

func TestWhatIsNoGridIsRefused(t *testing.T) {
	for _, text := range []string{"0s", "-5m", "1us", "1ns", "x", "0day", "7hour", "25hour", "11minute", "999999day", "99999999999999999999day", "1.5day", "day2", "days", "1y", "minute "} {
		if g, err := ParseGrid(text, 0, nil); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q is %v, %v", text, g, err)
		}
	}
	if _, err := Calendar(1, 9, nil); !errors.Is(err, ErrInvalid) {
		t.Errorf("unit 9: %v", err)
	}
	for _, text := range []string{"", "1h0m0s", "1.5s", "minute", "15minute", "hour", "day", "2week", "month", "year"} {
		g, err := ParseGrid(text, 0, nil)
		if err != nil || g.String() != text {
			t.Errorf("%q is %q, %v", text, g, err)
		}
	}
}

// TestAlignedRowsFit looks whether rows that are said to fit lie in one bucket
// each.
func TestAlignedRowsFit(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 8))
	fit := 0
	for range 3000 {
		g := randomGrid(t, r)
		step := []int64{1, 1000, minuteMillis, 5 * minuteMillis, 15 * minuteMillis, hourMillis, dayMillis, 7 * dayMillis}[r.IntN(8)]
		from := int64(r.IntN(50*365)) * dayMillis
		to := from + int64(r.IntN(400*dayMillis))
		if !g.aligned(step, from, to) {
			continue
		}
		fit++
		edges := 0
		for _, end := g.Bucket(from); end < to && edges < 2000; _, end = g.Bucket(end) {
			edges++
			if floorMod(end, step) != 0 {
				t.Fatalf("%v in %v: rows of %d ms are cut at %d", g, g.zone, step, end)
			}
		}
	}
	if fit < 500 {
		t.Errorf("only %d of 3000 fit", fit)
	}
}

func TestCommonRollupsFitCommonGrids(t *testing.T) {
	from, to := at(t, "2020-01-01T00:00:00Z"), at(t, "2026-01-01T00:00:00Z")
	for _, x := range []struct {
		grid, zone string
		step       time.Duration
		want       bool
	}{
		{"1h", "UTC", 5 * time.Minute, true},
		{"1h", "UTC", time.Hour, true},
		{"90s", "UTC", time.Minute, false},
		{"day", "Europe/Brussels", time.Hour, true},
		{"month", "Europe/Brussels", time.Hour, true},
		{"day", "Europe/Brussels", 24 * time.Hour, false},
		{"day", "UTC", 24 * time.Hour, true},
		{"week", "UTC", 24 * time.Hour, true},
		{"week", "UTC", 7 * 24 * time.Hour, false},
		{"year", "UTC", 24 * time.Hour, true},
		{"hour", "Asia/Kolkata", time.Hour, false},
		{"hour", "Asia/Kolkata", 30 * time.Minute, true},
		{"day", "Asia/Kathmandu", 15 * time.Minute, true},
		{"", "UTC", time.Hour, true},
	} {
		g, err := ParseGrid(x.grid, 0, zone(t, x.zone))
		if err != nil {
			t.Fatal(err)
		}
		if got := g.aligned(x.step.Milliseconds(), from, to); got != x.want {
			t.Errorf("rows of %v fit %q in %s: %v", x.step, x.grid, x.zone, got)
		}
	}
}
