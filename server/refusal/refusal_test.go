package refusal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
		r.Add(MQTT, entity.CauseSyntax, "e/a/telemetry", "a", "wrong")
	}
	r.Add(MQTT, CauseTopic, "x", "a", "wrong topic")
	r.Add(HTTP, entity.CauseSyntax, "/v1/entities/a/telemetry", "", "wrong")
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d lines, want one a cause and source:\n%s", n, log)
	}
	clock = clock.Add(logEvery)
	r.Add(MQTT, entity.CauseSyntax, "e/b/telemetry", "b", "still wrong")
	if text := log.String(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "where=e/b/telemetry client=b detail=\"still wrong\" since_last_line=5") {
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
		{fmt.Errorf("x: %w", entity.ErrTooManyCommands), CauseTooManyCommands, false},
		{fmt.Errorf("x: %w", entity.ErrMismatch), CauseType, false},
		{fmt.Errorf("x: %w", entity.ErrTestFailed), CauseConflict, false},
		{fmt.Errorf("x: %w", entity.ErrClosed), CauseClosing, true},
		{context.Canceled, CauseClosing, true},
		{context.DeadlineExceeded, CauseBusy, true},
		{fmt.Errorf("x: %w", entity.ErrFull), CauseFull, true},
		{entity.ErrFailed, CauseFailed, true},
		{entity.ErrStopped, CauseFailed, true},
		{errors.New("disk on fire"), CauseFailed, true},
	} {
		if v := Judge(tt.err); v.Cause != tt.cause || v.Retry != tt.again {
			t.Errorf("%v: %+v, want the cause %s and again %v", tt.err, v, tt.cause, tt.again)
		}
	}
}

func TestRepeatedRefusalsDoNotDriveOutOthers(t *testing.T) {
	t.Parallel()
	r := NewCounter(slog.New(slog.DiscardHandler))
	clock := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.now = func() time.Time {
		clock = clock.Add(time.Second)
		return clock
	}
	r.Add(MQTT, CauseType, "e/quiet/telemetry", "quiet", "101 is too much")
	for range 10 * MaxLatest {
		r.Add(MQTT, entity.CauseSyntax, "e/loud/telemetry", "loud", "nonsense")
	}
	latest := r.Latest()
	if len(latest) != 2 || latest[0].Client != "loud" || latest[0].Count != 10*MaxLatest || latest[1].Client != "quiet" {
		t.Errorf("latest: %+v", latest)
	}
	for i := range 2 * MaxLatest {
		r.Add(HTTP, CauseInvalid, fmt.Sprint(i)+strings.Repeat("x", 1000), "", strings.Repeat("y", 1000))
	}
	latest = r.Latest()
	if len(latest) != MaxLatest || len(latest[0].Where) > 320 || len(latest[0].Detail) > 520 {
		t.Errorf("%d are remembered, with %d and %d bytes", len(latest), len(latest[0].Where), len(latest[0].Detail))
	}
}

// elsewhere are the errors that no reading, patch or relation comes back with.
var elsewhere = map[string]string{
	"ErrTypeInUse":     "of the deletion of a type",
	"ErrCursorInvalid": "of lists and streams",
	"ErrCursorExpired": "of streams",
	"ErrCursorForeign": "of streams",
	"ErrLagged":        "of streams",
}

// TestEachErrorOfIngestHasARow reads the errors of package entity and of the table from
// their sources: a new one must be put into either.
func TestEachErrorOfIngestHasARow(t *testing.T) {
	t.Parallel()
	rows := map[string]bool{}
	for i := range Answers {
		name, ok := strings.CutPrefix(Answers[i].Name, "entity.")
		rows[name] = ok
		if a, ok := Find(fmt.Errorf("entity %q: %w", "a", Answers[i].Err)); !ok || a.Name != Answers[i].Name {
			t.Errorf("%s is answered as %s, which comes before it", Answers[i].Name, a.Name)
		}
	}
	sentinel := regexp.MustCompile(`(?m)^(?:var|\t)\s*(Err[A-Z]\w*)\s*=`)
	files, err := filepath.Glob("../../entity/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, m := range sentinel.FindAllStringSubmatch(string(text), -1) {
			found++
			if _, not := elsewhere[m[1]]; rows[m[1]] == not {
				t.Errorf("%s: entity.%s has %v rows; give it one in Answers, or say where else it belongs", file, m[1], rows[m[1]])
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d errors were found: is the expression still right?", found)
	}
}

// TestTheDocumentHasTheTable compares docs/errors.md with the table.
func TestTheDocumentHasTheTable(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../../docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, a := range append(slices.Clone(Answers), unknown) {
		name := "`" + a.Name + "`"
		if a.Err == nil {
			name = a.Name
		}
		v311, v5, again := "acknowledged", fmt.Sprintf("acknowledged with 0x%02x and the reason", a.Code), "no"
		if a.Retry {
			v311, v5, again = "not acknowledged, connection ended", fmt.Sprintf("not acknowledged, DISCONNECT with 0x%02x", a.Code), "yes"
		}
		if a.Connack != 0 {
			v311, v5 = fmt.Sprintf("CONNACK %d", a.Connack), fmt.Sprintf("CONNACK with 0x%02x and the reason", a.Code)
		}
		fmt.Fprintf(&want, "| %s | %s | %s | %s | %d | %s |\n", name, a.Cause, v311, v5, a.Status, again)
	}
	if !strings.Contains(string(document), want.String()) {
		t.Errorf("docs/errors.md must have these rows:\n%s", &want)
	}
}
