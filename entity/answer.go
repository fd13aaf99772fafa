package entity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/greenroom-go/greenroom/entity/value"
)

// CommandAnswer is what a device reports about a command.
type CommandAnswer struct {
	// ID is the id of the command.
	ID string
	// State is CommandDelivered if the answer does not end the command, otherwise CommandDone or
	// CommandFailed.
	State CommandState
	// Value is the progress or the result, the zero Value for none.
	Value value.Value
	// Error is why the command failed.
	Error string
}

// commandForms lists the valid forms in the errors about an answer.
const commandForms = `{"id":"…","delivered":true}, {"id":"…","progress":50}, {"id":"…","result":{}} or {"id":"…","error":"why"}`

// ParseCommandAnswer reads what devices send about commands, one of
//
//	{"id":"0mb3k9x2a01","delivered":true}    the device has the command
//	{"id":"0mb3k9x2a01","progress":50}       its progress, any JSON
//	{"id":"0mb3k9x2a01","result":{"at":1}}   the command is done; any JSON or null
//	{"id":"0mb3k9x2a01","error":"jammed"}    the command has failed
//
// It keeps nothing of payload. The error wraps ErrInvalid.
func ParseCommandAnswer(payload []byte) (a CommandAnswer, err error) {
	var form struct {
		ID                      string
		Delivered               bool
		Progress, Result, Error json.RawMessage
	}
	if len(payload) > MaxPayloadBytes {
		return a, fmt.Errorf("answer: %w: must have at most %d bytes, not %d", ErrInvalid, MaxPayloadBytes, len(payload))
	}
	d := json.NewDecoder(bytes.NewReader(payload))
	d.DisallowUnknownFields()
	err = d.Decode(&form)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("something follows it")
		}
	}
	if err != nil {
		return a, fmt.Errorf("answer: %w: must be %s: %w", ErrInvalid, commandForms, err)
	}
	a = CommandAnswer{ID: form.ID, State: CommandDelivered}
	said := 0
	if form.Delivered {
		said++
	}
	if form.Progress != nil {
		said++
		if a.Value, err = ParseValue(form.Progress); err == nil && a.Value.Kind() == 0 {
			err = errors.New("it must not be null")
		}
	}
	if form.Result != nil {
		said++
		a.State = CommandDone
		a.Value, err = ParseValue(form.Result)
	}
	if form.Error != nil {
		said++
		a.State = CommandFailed
		err = json.Unmarshal(form.Error, &a.Error)
	}
	switch {
	case err != nil:
		return a, fmt.Errorf("answer: %w: must be %s: %w", ErrInvalid, commandForms, err)
	case said != 1 || a.ID == "":
		return a, fmt.Errorf("answer: %w: must be %s, with an id and one other member, not %d", ErrInvalid, commandForms, said)
	}
	return a, nil
}

// Answer handles what the device of an entity reports about a command. It calls Delivered,
// Progress, Done or Fail and returns their errors.
func (r *Runtime) Answer(ctx context.Context, id string, a CommandAnswer) error {
	switch {
	case a.State == CommandDone:
		return r.Done(ctx, id, a.ID, a.Value)
	case a.State == CommandFailed:
		return r.Fail(ctx, id, a.ID, a.Error)
	case a.State == CommandDelivered && a.Value.Kind() != 0:
		return r.Progress(ctx, id, a.ID, a.Value)
	case a.State == CommandDelivered:
		return r.Delivered(ctx, id, a.ID)
	default:
		return fmt.Errorf("answer: %w: its state must be delivered, done or failed, not %v", ErrInvalid, a.State)
	}
}

// AppendMessage appends the command as a device receives it:
//
//	{"id":"0mb3k9x2a01","name":"open","request":{"angle":30},"expires_ms":1451649600512,"timeout_ms":60000}
//
// request is absent if there is none.
func (c *Command) AppendMessage(dst []byte) []byte {
	dst = value.AppendQuoted(append(dst, `{"id":`...), c.ID)
	dst = value.AppendQuoted(append(dst, `,"name":`...), c.Name)
	if c.Request.Kind() != 0 {
		dst = c.Request.AppendJSON(append(dst, `,"request":`...))
	}
	dst = strconv.AppendInt(append(dst, `,"expires_ms":`...), c.Expires, 10)
	dst = strconv.AppendInt(append(dst, `,"timeout_ms":`...), c.Timeout, 10)
	return append(dst, '}')
}
