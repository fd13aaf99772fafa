package thingsboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// attributes handles the attributes that a device reports.
func (l *Layout) attributes(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if err := l.report(c, c.Self(), m.Payload); err != nil {
		return err
	}
	m.Spoke(c.Self())
	done(nil)
	return nil
}

// report sets the reported attributes of a device.
func (l *Layout) report(c layout.Client, id string, payload []byte) error {
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	return Report(l.host.Running, layout.By(l.host.Runtime, c.Who().Name()), id, payload)
}

// Report sets the client attributes of a device, a JSON object, in the section reported. Like
// ThingsBoard it replaces each of them, where a merge patch would merge objects. It returns when
// the change is durable. Its errors are those of entity.Runtime.Edit.
func Report(ctx context.Context, rt layout.Runtime, id string, payload []byte) error {
	list, err := members(payload)
	if err != nil {
		return err
	}
	patch := []byte{'['}
	for i := range list {
		if i > 0 {
			patch = append(patch, ',')
		}
		patch = append(patch, `{"op":"add","path":`...)
		patch = value.AppendQuoted(patch, entity.Pointer(list[i].name))
		patch = append(append(append(patch, `,"value":`...), list[i].value...), '}')
	}
	_, err = rt.Edit(ctx, id, entity.Edits{Patches: []entity.Patch{
		{Section: entity.Reported, Form: entity.JSONPatch, Body: append(patch, ']')},
	}})
	return err
}

// wanted selects attributes by comma-separated lists of names.
type wanted struct {
	Client *string `json:"clientKeys"`
	Shared *string `json:"sharedKeys"`
}

// attributesRequest answers with attributes. A device that names none receives all of them.
func (l *Layout) attributesRequest(c layout.Client, m *layout.Message, r request, done func(error)) error {
	var in wanted
	if err := decode(m.Payload, &in); err != nil {
		return err
	}
	doc := []byte("{}") // for an entity that does not exist
	err := l.view(c, c.Self(), func(v entity.View) { doc = Attributes(v, in.Client, in.Shared) })
	if err != nil {
		return err
	}
	_ = c.Send(r.answer, doc, nil)
	done(nil)
	return nil
}

// Attributes returns attributes of an entity in the form of a ThingsBoard response: the members
// client and shared, each unless it is empty. client and shared are comma-separated lists of names;
// if both are nil, all attributes are returned.
func Attributes(v entity.View, client, shared *string) []byte {
	doc := []byte{'{'}
	all := client == nil && shared == nil
	for _, part := range []struct {
		name    string
		section entity.Section
		keys    *string
	}{{"client", entity.Reported, client}, {"shared", entity.Desired, shared}} {
		if part.keys == nil && !all {
			continue
		}
		var keys map[string]bool
		if !all {
			keys = splitKeys(*part.keys)
		}
		leaves := chosen(v, part.section, keys, all)
		if len(leaves) == 0 {
			continue
		}
		if len(doc) > 1 {
			doc = append(doc, ',')
		}
		doc = append(value.AppendQuoted(doc, part.name), ':')
		doc = entity.AppendAttributes(doc, leaves)
	}
	return append(doc, '}')
}

func splitKeys(text string) map[string]bool {
	keys := map[string]bool{}
	for key := range strings.SplitSeq(text, ",") {
		keys[strings.TrimSpace(key)] = true
	}
	return keys
}

// chosen returns the leaves of the attributes named in keys, or of all attributes.
func chosen(v entity.View, s entity.Section, keys map[string]bool, all bool) (list []entity.Attribute) {
	for a := range v.EachAttribute(s) {
		if name, _ := a.Member(); all || keys[name] {
			list = append(list, a)
		}
	}
	return list
}

// Edited sends devices their shared attributes that have changed.
func (l *Layout) Edited(ctx context.Context, change *entity.Change) {
	clients := l.speakers(change.Entity)
	if len(clients) == 0 {
		return
	}
	doc, err := sharedUpdate(ctx, l.host.Runtime, change)
	if doc == nil || err != nil {
		return // after an error, the server is shutting down
	}
	for _, c := range clients {
		if c.May(access.Read, change.Entity) != nil {
			continue
		}
		if c.Self() == change.Entity && (c.Send("v1/devices/me/attributes", doc, nil) == nil || c.Send("v2/a", doc, nil) == nil) {
			continue
		}
		wrapped := append(value.AppendQuoted([]byte(`{"device":`), change.Entity), `,"data":`...)
		_ = c.Send("v1/gateway/attributes", append(append(wrapped, doc...), '}'), nil)
	}
}

// viewer is the part of the runtime that sharedUpdate needs.
type viewer interface {
	View(ctx context.Context, id string, view func(entity.View) error) error
}

// sharedUpdate returns what a device is told of an edit: its shared attributes that have changed, nil
// for none.
func sharedUpdate(ctx context.Context, rt viewer, change *entity.Change) ([]byte, error) {
	names := map[string]bool{}
	for i := range change.Edit.Attributes {
		if a := &change.Edit.Attributes[i]; a.Section == entity.Desired {
			name, _ := a.Member()
			names[name] = true
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	var have []entity.Attribute
	err := rt.View(ctx, change.Entity, func(v entity.View) error {
		have = chosen(v, entity.Desired, names, false)
		return nil
	})
	if err := notFoundIsNothing(err); err != nil {
		return nil, err
	}
	return updateDocument(names, have), nil
}

// NextUpdate waits for the next change of a device's shared attributes, and returns it as devices
// get it over MQTT. It returns nil if ctx ends before. Changes before the call are not seen: as in
// ThingsBoard, a device reads its attributes when it begins to wait.
func NextUpdate(ctx context.Context, rt *entity.Runtime, id string) ([]byte, error) {
	changes, err := rt.Follow(ctx, entity.ChangesQuery{Entities: []string{id}, EditsOnly: true})
	if err != nil {
		return nil, err
	}
	defer changes.Close()
	for {
		change, err := changes.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil, nil //nolint:nilnil // documented
		case errors.Is(err, entity.ErrClosed):
			return nil, err
		case err != nil || change.Edit == nil: // after other errors, Next continues
			continue
		}
		if doc, err := sharedUpdate(ctx, rt, &change); doc != nil || err != nil {
			return doc, err
		}
	}
}

// updateDocument returns the attributes that are set and, as the member deleted, the names of those
// that were removed.
func updateDocument(names map[string]bool, have []entity.Attribute) []byte {
	for i := range have {
		name, _ := have[i].Member()
		delete(names, name)
	}
	gone := slices.Sorted(maps.Keys(names))
	if len(gone) == 0 {
		return entity.AppendAttributes(nil, have)
	}
	deleted, _ := json.Marshal(gone) // it cannot fail
	doc := append([]byte(`{"deleted":`), deleted...)
	if len(have) == 0 {
		return append(doc, '}')
	}
	doc = append(doc, ',')
	return append(doc, entity.AppendAttributes(nil, have)[1:]...)
}

// clientCall answers a request of a device to the server. ThingsBoard leaves these to rules written
// by its users; devices without a clock ask for the time.
func (l *Layout) clientCall(c layout.Client, m *layout.Message, r request, done func(error)) error {
	answer, err := AnswerServerCall(m.Payload)
	if err != nil {
		return err
	}
	_ = c.Send(r.answer, answer, nil)
	done(nil)
	return nil
}

// AnswerServerCall answers a request of a device to the server, in ThingsBoard an RPC from the
// client. The error wraps entity.ErrInvalid.
func AnswerServerCall(payload []byte) ([]byte, error) {
	var call struct {
		Method string `json:"method"`
	}
	if err := decode(payload, &call); err != nil {
		return nil, err
	}
	switch call.Method {
	case "":
		return nil, fmt.Errorf(`%w: method must be the name of what is asked for, as in {"method":"getTime"}`, entity.ErrInvalid)
	case "getTime", "getCurrentTime":
		return fmt.Appendf(nil, `{"time":%d}`, time.Now().UnixMilli()), nil
	default:
		return append(value.AppendQuoted([]byte(`{"error":`), fmt.Sprintf("the server answers getTime, not %.64q", call.Method)), '}'), nil
	}
}

func notFoundIsNothing(err error) error {
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	return err
}
