package series_test

import (
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/entity/series"
	"github.com/greenroom-go/greenroom/entity/value"
)

func readings() []series.Point {
	start := time.Date(2024, 10, 27, 0, 0, 0, 0, time.FixedZone("CEST", 7200)).UnixMilli()
	var points []series.Point
	for i := range int64(50) { // every half hour of a day of 25 hours
		points = append(points, series.Point{TS: start + i*1_800_000, Value: value.Int(i)})
	}
	return points
}

func ExampleQuery_Aggregate() {
	brussels, err := time.LoadLocation("Europe/Brussels")
	if err != nil {
		fmt.Println(err)
		return
	}
	grid, err := series.ParseGrid("6hour", 0, brussels)
	if err != nil {
		fmt.Println(err)
		return
	}
	q := series.Query{Grid: grid, Funcs: []series.Func{series.Min, series.Avg, series.Count, series.Rate, "p90"}}
	for b, err := range q.Aggregate(series.Each(readings())) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(time.UnixMilli(b.Start).In(brussels).Format("02 Jan 15:04 MST"), b.Values)
	}
	// Output:
	// 27 Oct 00:00 CEST [0 6.5 14 0.0005555555555555556 11.7]
	// 27 Oct 06:00 CET [14 19.5 12 0.0005555555555555556 23.9]
	// 27 Oct 12:00 CET [26 31.5 12 0.0005555555555555556 35.9]
	// 27 Oct 18:00 CET [38 43.5 12 0.0005555555555555556 47.9]
}

func ExampleAcross() {
	hour, err := series.Fixed(time.Hour, 0)
	if err != nil {
		fmt.Println(err)
		return
	}
	q := series.Query{Grid: hour, Funcs: []series.Func{series.Avg}}
	one := q.Aggregate(series.Each([]series.Point{{TS: 0, Value: value.Int(10)}, {TS: 1, Value: value.Int(10)}, {TS: 2, Value: value.Int(10)}}))
	two := q.Aggregate(series.Each([]series.Point{{TS: 0, Value: value.Int(20)}}))
	for b, err := range series.Across(series.Avg, series.Align(one, two)) {
		fmt.Println(b.Values, err) // each counts the same, however often it reported
	}

	g, err := series.NewGroup(q)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, points := range [][]series.Point{{{TS: 0, Value: value.Int(10)}, {TS: 1, Value: value.Int(10)}, {TS: 2, Value: value.Int(10)}}, {{TS: 0, Value: value.Int(20)}}} {
		if err := g.Add(series.Each(points)); err != nil {
			fmt.Println(err)
		}
	}
	for b, err := range g.Buckets() {
		fmt.Println(b.Values, err) // each point counts the same
	}
	// Output:
	// [15] <nil>
	// [12.5] <nil>
}

func ExampleDownsample() {
	points := readings()
	points[20].Value = value.Int(500)
	for _, p := range series.Downsample(points, 5) {
		fmt.Print(p.Value, " ")
	}
	fmt.Println()
	// Output: 0 16 500 33 49
}

func ExampleRule_Plan() {
	const minute, hour, day = 60_000, 3_600_000, 86_400_000
	rule := series.Rule{Key: "power", Raw: 7 * day, Tiers: []series.Tier{{Step: 5 * minute, Keep: 90 * day}, {Step: hour}}}
	if err := rule.Check(); err != nil {
		fmt.Println(err)
		return
	}
	var kept series.Kept
	now := time.Date(2024, 10, 27, 12, 3, 0, 0, time.UTC).UnixMilli()
	for _, task := range rule.Plan(kept, now, nil) {
		fmt.Println(task.Action, task.Step, "until", time.UnixMilli(task.To).UTC().Format(time.DateTime))
		kept.Done(task)
	}
	day1, err := series.ParseGrid("day", 0, time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	sources, err := kept.Sources(day1, now-30*day, now, false)
	for _, s := range sources {
		fmt.Println("read", s.Step, "from", time.UnixMilli(s.From).UTC().Format(time.DateTime), err)
	}
	// Output:
	// roll up 5m until 2024-10-27 12:00:00
	// roll up 1h until 2024-10-27 12:00:00
	// delete 0s until 2024-10-20 12:00:00
	// delete 5m until 2024-07-29 12:00:00
	// read 5m from 2024-09-27 12:00:00 <nil>
	// read 1h from 2024-09-27 13:00:00 <nil>
	// read 0s from 2024-10-27 12:00:00 <nil>
}
