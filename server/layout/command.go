package layout

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pause"
)

// Pauses before something about a command is tried again, doubled from one to the next.
const (
	commandPauseMin = 50 * time.Millisecond
	commandPauseMax = 2 * time.Second
)

// Settler is what Settle needs of the entity runtime.
type Settler interface {
	// Delivered says that a device has a command, and Fail that it cannot have it.
	Delivered(ctx context.Context, id, command string) error
	Fail(ctx context.Context, id, command, reason string) error
}

// Settle tells an entity that its device has a command, or, with refused, why it cannot have it.
// It tries until that is durable, since nothing else ends the wait of the commands behind it, or
// until the runtime is closed. Call it on a goroutine of its own.
func Settle(rt Settler, log *slog.Logger, id, command string, refused error) {
	ctx := context.Background() // the runtime ends it
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		var err error
		if refused == nil {
			err = rt.Delivered(ctx, id, command)
		} else {
			err = rt.Fail(ctx, id, command, refused.Error())
		}
		if err == nil || errors.Is(err, entity.ErrClosed) || errors.Is(err, entity.ErrNotFound) || errors.Is(err, entity.ErrInvalid) {
			return
		}
		if wait == commandPauseMin {
			log.LogAttrs(ctx, slog.LevelWarn, "that a device has a command is not kept; it is tried again",
				slog.String("entity", id), slog.String("command", command), slog.Any("error", err))
		}
		_ = pause.For(ctx, wait) // it has no end
	}
}

// SendCommand sends a command to a device and has it settled. Where there is no room it waits and
// tries again, for as long as the command is to be sent: other commands of the device come after
// it. The error says why the client gets no commands any more.
func (h *Host) SendCommand(command *entity.Command, send func(settled func(error)) error) error {
	id, name := command.Entity, command.ID
	settled := func(err error) {
		if !errors.Is(err, ErrGone) { // otherwise it is sent again, by the next connection
			go Settle(h.Runtime, h.Logger, id, name, err)
		}
	}
	for wait := commandPauseMin; ; wait = min(2*wait, commandPauseMax) {
		err := send(settled)
		if !errors.Is(err, ErrNoRoom) {
			return err
		}
		if err := pause.For(h.Running, wait); err != nil {
			return err
		}
		if !h.Runtime.CommandHeld(id, name) {
			return nil // it was canceled, or has expired
		}
	}
}
