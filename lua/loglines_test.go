package lua_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/lua"
)

func TestTheLogHasABoundedNumberOfLines(t *testing.T) {
	var log bytes.Buffer
	actortest.Run(t, func(k *actortest.Kit) {
		s := stage{k, open(k.T(), k.System(), scripts{"a.lua": `
			greenroom.dispatch(function(how, n)
				if how == "says" then for i = 1, n do greenroom.error("says", i) end end
				if how == "fails" then error("wrong") end
				greenroom.ret(n)
			end)`})}
		ref := s.spawn("a.lua")
		s.expect(1000.0, ref, "says", 1000)
		s.requireLines(&log, 100, "")
		s.Advance(time.Second)
		for range 150 {
			s.send(ref, "fails")
		}
		s.expect(0.0, ref, "says", 0)
		s.requireLines(&log, 200, "lines_left_out=900")
		s.Advance(time.Second)
		var all []actor.Ref[lua.Message]
		for range 8 {
			one, err := s.rt.Spawn(s.System(), "", "a.lua")
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, one)
		}
		for _, one := range all {
			s.expect(100.0, one, "says", 100)
		}
		s.requireLines(&log, 700, "")
		s.Advance(time.Second)
		s.expect(1.0, all[7], "says", 1)
		s.requireLines(&log, 701, "lines_left_out=100")
	}, actor.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
}

func (s stage) send(to actor.Ref[lua.Message], args ...any) {
	s.T().Helper()
	if err := lua.Send(s.Context(), to, args...); err != nil {
		s.T().Fatal(err)
	}
}

// requireLines fails the test unless the log has so many lines of scripts, and this text in the last hundred.
func (s stage) requireLines(log *bytes.Buffer, n int, text string) {
	s.T().Helper()
	var lines []string
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, "a script says") || strings.Contains(line, "a handler failed") {
			lines = append(lines, line)
		}
	}
	if len(lines) != n {
		s.T().Fatalf("the log has %d lines, not %d", len(lines), n)
	}
	if last := strings.Join(lines[max(n-100, 0):], ""); !strings.Contains(last, text) {
		s.T().Fatalf("nowhere %s in %s", text, last)
	}
}
