package server

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
	log := &logBuffer{}
	r := newRefusals(slog.New(slog.NewTextHandler(log, nil)))
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time { return clock }
	for range 5 {
		r.add(sourceMQTT, entity.CauseSyntax, "e/a/telemetry", "wrong")
	}
	r.add(sourceMQTT, causeTopic, "x", "wrong topic")
	r.add(sourceHTTP, entity.CauseSyntax, "/v1/entities/a/telemetry", "wrong")
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want one a cause and source:\n%s", n, log)
	}
	clock = clock.Add(refusalLogEvery)
	r.add(sourceMQTT, entity.CauseSyntax, "e/b/telemetry", "still wrong")
	if text := log.String(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "where=e/b/telemetry detail=\"still wrong\" since_last_line=5") {
		t.Errorf("after a minute:\n%s", text)
	}
	same(t, "count", r.counts()[refusalKey{sourceMQTT, entity.CauseSyntax}], 6)
	same(t, "total", r.total(), 8)
}

func TestOnlyWhatTheMessageIsToBlameForIsAnswered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err   error
		cause string
		again bool
	}{
		{&entity.PayloadError{Cause: entity.CauseSyntax}, entity.CauseSyntax, false},
		{fmt.Errorf("x: %w", entity.ErrInvalid), causeInvalid, false},
		{fmt.Errorf("x: %w", entity.ErrTooManyKeys), causeTooManyKeys, false},
		{fmt.Errorf("x: %w", entity.ErrClosed), causeClosing, true},
		{context.Canceled, causeClosing, true},
		{entity.ErrFailed, causeFailed, true},
		{entity.ErrStopped, causeFailed, true},
		{errors.New("disk on fire"), causeFailed, true},
	} {
		if v := judge(tt.err); v.cause != tt.cause || v.again != tt.again || v.code.Code < 0x80 {
			t.Errorf("%v: %+v, want the cause %s and again %v", tt.err, v, tt.cause, tt.again)
		}
	}
}
