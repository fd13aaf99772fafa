package schedule_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/schedule"
)

// A schedule is what Context.On takes.
func Example() {
	sys := actor.NewSystem("night", actor.WithLogger(slog.New(slog.DiscardHandler)))
	done := make(chan struct{})
	actor.SpawnFunc(sys, "watchman", func(ctx *actor.Context[string], m string) error {
		switch m {
		case "go on duty":
			ctx.On("round", schedule.Every(time.Millisecond), "go round")
		case "go round":
			fmt.Println("all is well")
			close(done)
			return actor.ErrStop
		}
		return nil
	}).Tell(context.Background(), "go on duty")
	<-done
	_, _ = sys.Shutdown(context.Background())
	// Output: all is well
}

func ExampleAt() {
	newYear := schedule.At(time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC))
	fmt.Println(newYear)
	next := newYear.Next(time.Date(2026, time.March, 6, 12, 0, 0, 0, time.UTC))
	fmt.Println(next)
	fmt.Println(newYear.Next(next).IsZero()) // once
	// Output:
	// at 2027-01-01T00:00:00Z
	// 2027-01-01 00:00:00 +0000 UTC
	// true
}

// An expression that is part of the program need not be checked at run time.
func ExampleMustCron() {
	lunch := schedule.MustCron("CRON_TZ=UTC 0 12 * * mon-fri")
	friday := time.Date(2026, time.March, 6, 12, 0, 0, 0, time.UTC)
	fmt.Println(lunch.Next(friday).Format(time.RFC1123))
	// Output: Mon, 09 Mar 2026 12:00:00 UTC
}

func ExampleCronIn() {
	tokyo, err := time.LoadLocation("Asia/Tokyo")
	if err != nil {
		tokyo = time.FixedZone("JST", 9*60*60) // where there is no zone database; Tokyo's clocks never change
	}
	opening, err := schedule.CronIn(tokyo, "0 9 * * *")
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(opening.Next(time.Date(2026, time.March, 6, 12, 0, 0, 0, time.UTC)))
	// Output: 2026-03-07 09:00:00 +0900 JST
}

func ExampleSchedule_String() {
	for _, s := range []schedule.Schedule{schedule.MustCron("*/5 * * * *"), schedule.Every(90 * time.Second), {}} {
		fmt.Println(s.String())
	}
	// Output:
	// */5 * * * *
	// @every 1m30s
	// never
}
