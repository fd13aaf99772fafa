package thingsboard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// An RPC to a device in ThingsBoard is a command, see layout.NumberOf.

// takeCalls starts the delivery of a device's commands to a client, if the client may receive them.
func (l *Layout) takeCalls(c layout.Client, id string) {
	if entity.CheckID(id) != nil || c.May(access.Receive, id) != nil {
		return // the subscription has no effect
	}
	receiving := l.begin(c, id)
	if receiving == nil {
		return
	}
	err := receiving.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return l.sendCall(c, command, receipt)
	})
	if err != nil {
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "cannot deliver commands to a device", slog.String("entity", id), slog.Any("error", err))
	}
}

// sendCall sends a command to a device on the topic that the client subscribes to.
func (l *Layout) sendCall(c layout.Client, command *entity.Command, receipt *layout.Receipt) error {
	number, body := layout.NumberOf(command), callBody(command)
	if command.Entity == c.Self() {
		topic := strconv.FormatInt(number, 10)
		text := append(append([]byte{'{'}, body...), '}')
		err := c.Send(callTopic+topic, text, receipt)
		if errors.Is(err, layout.ErrNotSubscribed) {
			err = c.Send(shortCallTopic+topic, text, receipt)
		}
		if !errors.Is(err, layout.ErrNotSubscribed) {
			return err
		}
	}
	text := append(value.AppendQuoted([]byte(`{"device":`), command.Entity), fmt.Sprintf(`,"data":{"id":%d,`, number)...)
	return c.Send(gatewayCalls, append(append(text, body...), "}}"...), receipt)
}

// AppendCall appends a command in the form for devices that poll over HTTP.
func AppendCall(dst []byte, command *entity.Command) []byte {
	dst = append(strconv.AppendInt(append(dst, `{"id":`...), layout.NumberOf(command), 10), ',')
	return append(append(dst, callBody(command)...), '}')
}

// callBody returns the members method and params of a command.
func callBody(command *entity.Command) []byte {
	body := append(value.AppendQuoted([]byte(`"method":`), command.Name), `,"params":`...)
	if command.Request.Kind() == 0 {
		return append(body, "{}"...)
	}
	return command.Request.AppendJSON(body)
}

// answerCall handles the answer of a device to a command.
func (l *Layout) answerCall(c layout.Client, m *layout.Message, r request, done func(error)) error {
	number, err := strconv.ParseInt(r.number, 10, 64)
	if err != nil {
		return checkNumber("x" + r.number)
	}
	if err := l.answer(c, c.Self(), number, m.Payload); err != nil {
		return err
	}
	m.Spoke(c.Self())
	done(nil)
	return nil
}

// gatewayAnswer handles the answer of a device behind a gateway.
func (l *Layout) gatewayAnswer(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	var in gatewayReply
	if err := decode(m.Payload, &in); err != nil {
		return err
	}
	if err := l.answer(c, in.Device, in.ID, in.Data); err != nil {
		return err
	}
	m.Spoke(in.Device)
	done(nil)
	return nil
}

func (l *Layout) answer(c layout.Client, id string, number int64, payload []byte) error {
	if err := mayReport(c, id); err != nil {
		return err
	}
	return Answer(l.host.Running, l.host.Runtime, id, number, payload)
}

// Answer completes the command of an entity that was sent with a number; payload is any JSON, or
// empty. If there is no such command, or it has ended, the answer changes nothing. The errors are
// those of entity.Runtime.Done.
func Answer(ctx context.Context, rt layout.Runtime, id string, number int64, payload []byte) error {
	result, err := entity.ParseValue(payload)
	if err != nil {
		return err
	}
	looking, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	command, err := layout.Answered(looking, rt, id, number)
	if err != nil || command == "" {
		return err
	}
	return rt.Done(ctx, id, command, result)
}
