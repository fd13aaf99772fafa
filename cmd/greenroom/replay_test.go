package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/internal/soaktest"
)

// replayAndCheck replays a file in the first so many of four ways, each into a
// directory of its own, and compares, also after a restart; with twice, again after
// a second replay, which must change nothing.
func replayAndCheck(t *testing.T, file string, ways int, twice bool) {
	t.Helper()
	recorded := readRecording(t, file)
	one := func(string) string { return "room" }
	each := func(key string) string { return "room-" + key }
	for _, tt := range []struct {
		name  string
		id    func(key string) string
		flags []string
	}{
		{"one entity", one, nil},
		{"an entity for each column", each, []string{"--entity-per-column", "--connections", "3"}},
		{"shuffled", one, []string{"--shuffle", "42", "--connections", "2"}},
		{"shuffled, an entity for each column", each, []string{"--entity-per-column", "--shuffle", "-7"}},
	}[:ways] {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			s, stop := startServer(t, dir)
			out, _ := command(t, 0, append([]string{"replay", "--file", file, "--mqtt", s.MQTTAddr(), "--entity", "room"}, tt.flags...)...)
			messages := len(recorded.times)
			if tt.id("x") != "room" {
				messages *= len(recorded.keys)
			}
			if want := fmt.Sprintf("%d messages acknowledged (%d readings, %d values), 0 refused", messages, messages, len(recorded.times)*len(recorded.keys)); !strings.Contains(out, want) {
				t.Errorf("the report is %q, want %q in it", out, want)
			}
			recorded.check(t, s.HTTPAddr(), tt.id)
			stop()
			s, _ = startServer(t, dir)
			recorded.check(t, s.HTTPAddr(), tt.id)
			if !twice {
				return
			}
			command(t, 0, append([]string{"replay", "--file", file, "--mqtt", s.MQTTAddr(), "--entity", "room"}, tt.flags...)...)
			recorded.check(t, s.HTTPAddr(), tt.id)
		})
	}
}

func TestReplayOfASmallFileIsWhatTheServerHas(t *testing.T) {
	t.Parallel()
	replayAndCheck(t, writeRecording(t, 400), 4, true)
}

// The other ways, with five more times the messages, are in the long form; the
// small file goes all ways in both.
func TestReplayOfTheRealDataIsWhatTheServerHas(t *testing.T) {
	t.Parallel()
	if n := len(readRecording(t, realData).times); n != 8143 {
		t.Fatalf("%s has %d rows, want 8143", realData, n)
	}
	replayAndCheck(t, realData, soaktest.Rounds(t, 1, 4), false)
}

func TestReplayKeepsThePaceOfTheRecording(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "pace.csv")
	if err := os.WriteFile(file, []byte("ts,n\n1000000000000,1\n1000000060000,2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	// One minute, 3000 times faster, takes at least 20 ms.
	out, _ := command(t, 0, "replay", "--file", file, "--mqtt", s.MQTTAddr(), "--speed", "3000")
	if !strings.HasPrefix(out, "2 messages acknowledged") {
		t.Errorf("the report is %q", out)
	}
	if points := history(t, s.HTTPAddr(), "pace", "n"); len(points) != 2 || points[1] != (point{1000000060000, 2}) {
		t.Errorf("the history is %v", points)
	}
}

func TestReplayReportsBadRowsAndPublishesTheOthers(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "bad.csv")
	if err := os.WriteFile(file, []byte("time,Temperature,Door\n2015-02-04 17:51:00,21.5,true\nyesterday,22,true\n2015-02-04 17:53:00,warm,true\n2015-02-04 17:54:00,23\n2015-02-04 17:55:00,24,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs := command(t, exitFailed, "replay", "--file", file, "--mqtt", s.MQTTAddr(), "--entity", "x")
	if !strings.HasPrefix(out, "2 messages acknowledged") {
		t.Errorf("the report is %q", out)
	}
	for _, want := range []string{"line 3: column time", "line 4: column Temperature", "line 5: 2 cells", "greenroom: 3 rows of"} {
		if !strings.Contains(errs, want) {
			t.Errorf("standard error has no %q:\n%s", want, errs)
		}
	}
	if points := history(t, s.HTTPAddr(), "x", "temperature"); len(points) != 2 {
		t.Errorf("the history is %v", points)
	}
}

func TestReplayPassesARefusalOn(t *testing.T) {
	t.Parallel()
	s, _ := startServer(t, t.TempDir())
	file := filepath.Join(t.TempDir(), "long.csv")
	if err := os.WriteFile(file, []byte("ts,n\n1000,"+strings.Repeat("x", 100_000)+"\n2000,y\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, errs := command(t, exitFailed, "replay", "--file", file, "--mqtt", s.MQTTAddr())
	if !strings.Contains(out, "1 refused") || !strings.Contains(errs, "65536") {
		t.Errorf("the report is %q, the error %q", out, errs)
	}
}

func TestReplayWithoutABrokerSaysWhatToDo(t *testing.T) {
	t.Parallel()
	_, errs := command(t, exitFailed, "replay", "--file", writeRecording(t, 1), "--mqtt", "127.0.0.1:1")
	if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "127.0.0.1:1") || !strings.Contains(errs, "greenroom serve") {
		t.Errorf("the error is %q", errs)
	}
}
