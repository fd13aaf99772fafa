package thingsboard

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// gatewayTelemetry handles readings of devices behind a gateway: an object with a member for each
// device. All are checked before any is committed.
func (l *Layout) gatewayTelemetry(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	list, err := members(m.Payload)
	if err != nil {
		return err
	}
	if len(list) > MaxDevices {
		return fmt.Errorf("%w: %d devices in one message; at most %d are allowed", entity.ErrInvalid, len(list), MaxDevices)
	}
	now := time.Now()
	all := make([]ingest, len(list))
	for i := range list {
		if err := mayReport(c, list[i].name); err != nil {
			return err
		}
		readings, err := entity.ParseReadings(list[i].value, now)
		if err != nil {
			return fmt.Errorf("device %.64q: %w", list[i].name, err)
		}
		all[i] = ingest{readings, list[i].value, m.Once, m}
		if m.Once.Token != 0 { // each device needs its own: a token is remembered with what it was used for
			all[i].once.Token = entity.TokenOf("gateway", strconv.FormatUint(m.Once.Token, 16), list[i].name)
		}
	}
	whole := &gathered{left: len(all), done: done}
	for i := range all {
		if err := l.ingest(c, list[i].name, &all[i], whole.settle); err != nil {
			whole.settle(err)
		}
	}
	return nil
}

// gathered calls done once, when all parts of a message are settled, with the first error.
type gathered struct {
	mu   sync.Mutex
	left int   // guarded by mu
	err  error // guarded by mu
	done func(error)
}

func (g *gathered) settle(err error) {
	g.mu.Lock()
	if g.err == nil {
		g.err = err
	}
	g.left--
	last, first := g.left == 0, g.err
	g.mu.Unlock()
	if last {
		g.done(first)
	}
}

func mayReport(c layout.Client, device string) error {
	if err := entity.CheckID(device); err != nil {
		return err
	}
	return c.May(access.Report, device)
}

// gatewayAttributes handles attributes that devices behind a gateway report.
func (l *Layout) gatewayAttributes(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	list, err := members(m.Payload)
	if err != nil {
		return err
	}
	for i := range list { // check as much as possible before anything is written
		if err := mayReport(c, list[i].name); err != nil {
			return err
		}
		if _, err := members(list[i].value); err != nil {
			return fmt.Errorf("device %.64q: %w", list[i].name, err)
		}
	}
	for i := range list {
		if err := l.report(c, list[i].name, list[i].value); err != nil {
			return fmt.Errorf("device %.64q: %w", list[i].name, err)
		}
		m.Spoke(list[i].name)
	}
	done(nil)
	return nil
}

// gatewayAttributesRequest answers with attributes of a device behind the gateway.
func (l *Layout) gatewayAttributesRequest(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	var in struct {
		ID     int64    `json:"id"`
		Device string   `json:"device"`
		Client bool     `json:"client"`
		Key    string   `json:"key"`
		Keys   []string `json:"keys"`
	}
	if err := decode(m.Payload, &in); err != nil {
		return err
	}
	single := in.Key != ""
	if single {
		in.Keys = []string{in.Key}
	}
	if len(in.Keys) == 0 || len(in.Keys) > entity.MaxAttributes {
		return fmt.Errorf("%w: key must be the name of an attribute, or keys a list of up to %d of them", entity.ErrInvalid, entity.MaxAttributes)
	}
	section := entity.Desired
	if in.Client {
		section = entity.Reported
	}
	keys := map[string]bool{}
	for _, key := range in.Keys {
		keys[key] = true
	}
	var have []entity.Attribute
	if err := l.view(c, in.Device, func(v entity.View) { have = chosen(v, section, keys, false) }); err != nil {
		return err
	}
	answer := append(strconv.AppendInt([]byte(`{"id":`), in.ID, 10), `,"device":`...)
	answer = value.AppendQuoted(answer, in.Device)
	switch {
	case len(have) == 0:
	case single: // {"name":value}, without the braces and the name
		doc := entity.AppendAttributes(nil, have)
		name := value.AppendQuoted(nil, in.Key)
		answer = append(append(answer, `,"value":`...), doc[len(name)+2:len(doc)-1]...)
	default:
		answer = entity.AppendAttributes(append(answer, `,"values":`...), have)
	}
	_ = c.Send("v1/gateway/attributes/response", append(answer, '}'), nil)
	done(nil)
	return nil
}

// gatewayReply is the answer of a device, as a gateway sends it.
type gatewayReply struct {
	Device string          `json:"device"`
	ID     int64           `json:"id"`
	Data   json.RawMessage `json:"data"`
}

// connected is the message of a gateway that a device has connected or disconnected.
type connected struct {
	Device string `json:"device"`
	Type   string `json:"type"`
}

func (d *connected) parse(c layout.Client, payload []byte) error {
	if err := decode(payload, d); err != nil {
		return err
	}
	return mayReport(c, d.Device)
}

// gatewayConnect records that a device is behind a gateway, and sends the gateway its shared
// attributes. If the device is new and the gateway may write it, its entity is created, with the
// type that the gateway names if there is such a type.
func (l *Layout) gatewayConnect(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if m.Will { // the client has gone
		return fmt.Errorf("%w: a will connects no device", refusal.ErrTopic)
	}
	var d connected
	if err := d.parse(c, m.Payload); err != nil {
		return err
	}
	if err := l.make(c, &d); err != nil {
		return err
	}
	gateway, ok := l.join(c, d.Device)
	if !ok {
		return fmt.Errorf("%w: the gateway has %d devices; no more are allowed", entity.ErrInvalid, MaxDevices)
	}
	if gateway {
		l.takeCalls(c, d.Device)
	}
	c.Joined(d.Device)
	m.Spoke(d.Device)
	done(nil)
	return nil
}

func (l *Layout) make(c layout.Client, d *connected) error {
	edits := entity.Edits{If: entity.IfNone}
	if d.Type != "" && c.May(access.Write, d.Device) == nil {
		edits.Type = &d.Type
	}
	_, err := l.host.Runtime.Edit(l.host.Running, d.Device, edits)
	if edits.Type != nil && errors.Is(err, entity.ErrInvalid) { // no such type
		_, err = l.host.Runtime.Edit(l.host.Running, d.Device, entity.Edits{If: entity.IfNone})
	}
	if errors.Is(err, entity.ErrConflict) { // it exists
		return nil
	}
	return err
}

// gatewayDisconnect records that a device is no longer behind a gateway.
func (l *Layout) gatewayDisconnect(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	var d connected
	if err := d.parse(c, m.Payload); err != nil {
		return err
	}
	l.leave(c, d.Device)
	c.Parted(d.Device)
	done(nil)
	return nil
}
