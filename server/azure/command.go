package azure

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// receive starts the delivery of a device's commands to a client, if it may receive them and does
// not do so already.
func (l *Layout) receive(c layout.Client, id string) {
	if c.May(access.Receive, id) != nil {
		return // the subscription has no effect
	}
	l.mu.Lock()
	k := l.known(c, id)
	if k.receiving != nil && !k.receiving.Ended() {
		l.mu.Unlock()
		return
	}
	receiving := &layout.Receiving{}
	k.receiving = receiving
	l.mu.Unlock()
	err := receiving.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error {
		return l.send(c, command, receipt)
	})
	if err != nil {
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "cannot deliver commands to a device", slog.String("entity", id), slog.Any("error", err))
	}
}

// send sends a command as a direct method, or, to a client that does not subscribe to methods, as a
// message. The command is then done when the client has acknowledged the message.
func (l *Layout) send(c layout.Client, command *entity.Command, receipt *layout.Receipt) error {
	method := methodPrefix + url.PathEscape(command.Name) + "/?" + requestID + "=" + strconv.FormatInt(layout.NumberOf(command), 16)
	err := c.Send(method, RequestBody(command), receipt)
	if !errors.Is(err, layout.ErrNotSubscribed) {
		return err
	}
	id, name := command.Entity, command.ID
	return c.Send(devicesPrefix+id+boundPart+boundProperties(command), RequestBody(command), receipt.With(func(err error) {
		if err == nil {
			go l.host.Finish(id, name)
			return
		}
		receipt.Settled(err)
	}))
}

// RequestBody returns the request of a command, null if it has none.
func RequestBody(command *entity.Command) []byte {
	if command.Request.IsZero() {
		return []byte("null")
	}
	return command.Request.AppendJSON(nil)
}

// CommandProperty is the property of a message to a device that contains the name of the command.
const CommandProperty = "command"

// boundProperties returns the properties of a message to a device: its destination, the id of the
// command, and its name.
func boundProperties(command *entity.Command) string {
	escape := func(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
	return "%24.to=" + escape("/devices/"+command.Entity+"/messages/devicebound") + "&%24.mid=" + escape(command.ID) +
		"&%24.ct=application%2Fjson&%24.ce=utf-8&" + CommandProperty + "=" + escape(command.Name)
}

// methodAnswered handles the answer of a device to a method:
// $iothub/methods/res/{status}/?$rid={id}. A status from 200 to 299 means success.
func (l *Layout) methodAnswered(c layout.Client, m *layout.Message, done func(error)) error {
	text, bag, _ := strings.Cut(strings.TrimPrefix(m.Topic, methodAnswer), "/")
	status, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%w: the status of a method must be an integer, not %.32q", refusal.ErrTopic, text)
	}
	rid, err := requestOf(bag)
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(rid, 16, 64)
	if err != nil {
		return fmt.Errorf("%w: %s must be that of a method, not %.64q", refusal.ErrTopic, requestID, rid)
	}
	id := deviceOf(c)
	if err := entity.CheckID(id); err != nil {
		return err
	}
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	if err := l.answer(id, number, status, m.Payload); err != nil {
		return err
	}
	m.Spoke(id)
	done(nil)
	return nil
}

// maxReasonBytes bounds the part of a payload that is quoted in the reason of a failure.
const maxReasonBytes = 1000

// answer ends the command with a number. If it has ended, the answer changes nothing.
func (l *Layout) answer(id string, number int64, status int, payload []byte) error {
	result, err := entity.ParseValue(payload)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(l.host.Running, lookTimeout)
	defer cancel()
	command, err := layout.Answered(ctx, l.host.Runtime, id, number)
	if err != nil || command == "" {
		return err
	}
	if status >= 200 && status <= 299 {
		return l.host.Runtime.Done(l.host.Running, id, command, result)
	}
	reason := fmt.Sprintf("the device has answered with the status %d", status)
	if !result.IsZero() {
		reason += ": " + string(payload[:min(len(payload), maxReasonBytes)])
	}
	return l.host.Runtime.Fail(l.host.Running, id, command, strings.ToValidUTF8(reason, ""))
}
