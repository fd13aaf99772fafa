package schedule_test

import (
	"errors"
	"testing"

	"github.com/greenroom-go/greenroom/schedule"
)

func TestABadExpressionIsToldByErrorsIs(t *testing.T) {
	_, err := schedule.Cron("every full moon")
	if !errors.Is(err, schedule.ErrBadCron) {
		t.Errorf("got %v", err)
	}
}
