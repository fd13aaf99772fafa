package refusal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

func TestACauseIsLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	log := &strings.Builder{}
	r := NewCounter(slog.New(slog.NewTextHandler(log, nil)))
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return clock }
	for range 5 {
		r.Add(MQTT, entity.CauseSyntax, "e/a/telemetry", "wrong")
	}
	r.Add(MQTT, CauseTopic, "x", "wrong topic")
	r.Add(HTTP, entity.CauseSyntax, "/v1/entities/a/telemetry", "wrong")
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want one a cause and source:\n%s", n, log)
	}
	clock = clock.Add(logEvery)
	r.Add(MQTT, entity.CauseSyntax, "e/b/telemetry", "still wrong")
	if text := log.String(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "where=e/b/telemetry detail=\"still wrong\" since_last_line=5") {
		t.Errorf("after a minute:\n%s", text)
	}
	if n := r.Counts()[Key{MQTT, entity.CauseSyntax}]; n != 6 {
		t.Errorf("counted %d, want 6", n)
	}
	if n := r.Total(); n != 8 {
		t.Errorf("%d in all, want 8", n)
	}
}

func TestOnlyWhatTheMessageIsToBlameForIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err   error
		cause string
		again bool
	}{
		{&entity.PayloadError{Cause: entity.CauseSyntax}, entity.CauseSyntax, false},
		{fmt.Errorf("x: %w", entity.ErrInvalid), CauseInvalid, false},
		{fmt.Errorf("x: %w", entity.ErrTooManyKeys), CauseTooManyKeys, false},
		{fmt.Errorf("x: %w", entity.ErrClosed), CauseClosing, true},
		{context.Canceled, CauseClosing, true},
		{entity.ErrFailed, CauseFailed, true},
		{entity.ErrStopped, CauseFailed, true},
		{errors.New("disk on fire"), CauseFailed, true},
	} {
		if v := Judge(tt.err); v.Cause != tt.cause || v.Retry != tt.again {
			t.Errorf("%v: %+v, want the cause %s and again %v", tt.err, v, tt.cause, tt.again)
		}
	}
}
