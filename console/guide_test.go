package console_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/actor"
	"github.com/greenroom-go/greenroom/actortest"
	"github.com/greenroom-go/greenroom/console"
	"github.com/greenroom-go/greenroom/internal/guidetest"
)

func TestTheGuidesGoIsCompiled(t *testing.T) {
	guidetest.Compiled(t, "../docs/guides/console.md", "guide_test.go", 1)
}

// guideConsole has the Go of the guide as it is.
//
//nolint:errcheck // which leaves the end of the console to the reader
func guideConsole(ctx context.Context, sys *actor.System, level *slog.LevelVar, count func() int) (*console.Console, error) {
	c := console.New(sys, console.Config{Level: level})
	c.Add(console.Command{
		Name: "players", Help: "Counts the players.",
		Run: func(ctx context.Context, _ []string) (any, error) { return strconv.Itoa(count()), nil },
	})
	ln, err := console.Listen("game.sock")
	go c.Serve(ctx, ln)
	return c, err
}

func TestTheGuidesConsoleAnswers(t *testing.T) {
	t.Chdir(t.TempDir())
	c, err := guideConsole(t.Context(), actortest.NewSystem(t), new(slog.LevelVar), func() int { return 7 })
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.Run(t.Context(), "players"); err != nil || strings.TrimSpace(got) != "7" {
		t.Errorf("%q, %v", got, err)
	}
}
