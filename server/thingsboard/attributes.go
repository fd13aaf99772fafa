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

// attributes takes what a device reports of itself.
func (l *Layout) attributes(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if err := l.report(c, c.Self(), m.Payload); err != nil {
		return err
	}
	m.Spoke(c.Self())
	done(nil)
	return nil
}

// report sets attributes of a device.
func (l *Layout) report(c layout.Client, id string, payload []byte) error {
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	return Report(l.host.Running, layout.By(l.host.Runtime, c.Who().Name()), id, payload)
}

// Report sets what a device reports of itself: a JSON object of its client attributes.
// ThingsBoard replaces the whole of each, where a merge patch would merge objects. It returns
// when that is durable. The error is one of entity.Runtime.Edit.
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

// wanted is what a device asks for: lists of names with commas in between.
type wanted struct {
	Client *string `json:"clientKeys"`
	Shared *string `json:"sharedKeys"`
}

// attributesRequest answers with attributes. A device that names none gets all of them.
func (l *Layout) attributesRequest(c layout.Client, m *layout.Message, r request, done func(error)) error {
	var in wanted
	if err := decode(m.Payload, &in); err != nil {
		return err
	}
	doc := []byte("{}") // where there is no entity
	err := l.view(c, c.Self(), func(v entity.View) { doc = Attributes(v, in.Client, in.Shared) })
	if err != nil {
		return err
	}
	_ = c.Send(r.answer, doc, nil)
	done(nil)
	return nil
}

// Attributes returns attributes of an entity as ThingsBoard answers a request for them: the
// members client and shared, each where there is something to say. client and shared are lists
// of names with commas in between; where both are nil, all attributes are returned.
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

// chosen returns the leaves of the attributes of these names, or of all.
func chosen(v entity.View, s entity.Section, keys map[string]bool, all bool) (list []entity.Attribute) {
	for a := range v.EachAttribute(s) {
		if name, _ := a.Member(); all || keys[name] {
			list = append(list, a)
		}
	}
	return list
}

// Edited tells devices which of their shared attributes have changed.
func (l *Layout) Edited(ctx context.Context, change *entity.Change) {
	clients := l.speakers(change.Entity)
	if len(clients) == 0 {
		return
	}
	names := map[string]bool{}
	for i := range change.Edit.Attributes {
		if a := &change.Edit.Attributes[i]; a.Section == entity.Desired {
			name, _ := a.Member()
			names[name] = true
		}
	}
	if len(names) == 0 {
		return
	}
	var have []entity.Attribute
	err := l.host.Runtime.View(ctx, change.Entity, func(v entity.View) error {
		have = chosen(v, entity.Desired, names, false)
		return nil
	})
	if notFoundIsNothing(err) != nil {
		return // the server shuts down
	}
	doc := updateDocument(names, have)
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

// updateDocument has the attributes that are set, and under deleted the names of those
// that are gone.
func updateDocument(names map[string]bool, have []entity.Attribute) []byte {
	for i := range have {
		name, _ := have[i].Member()
		delete(names, name)
	}
	gone := slices.Sorted(maps.Keys(names))
	if len(gone) == 0 {
		return entity.AppendAttributes(nil, have)
	}
	deleted, _ := json.Marshal(gone) // strings can be written
	doc := append([]byte(`{"deleted":`), deleted...)
	if len(have) == 0 {
		return append(doc, '}')
	}
	doc = append(doc, ',')
	return append(doc, entity.AppendAttributes(nil, have)[1:]...)
}

// clientCall answers what a device asks of the server. ThingsBoard leaves that to rules
// that its users write; the time is what devices without a clock ask for.
func (l *Layout) clientCall(c layout.Client, m *layout.Message, r request, done func(error)) error {
	answer, err := AnswerServerCall(m.Payload)
	if err != nil {
		return err
	}
	_ = c.Send(r.answer, answer, nil)
	done(nil)
	return nil
}

// AnswerServerCall answers a request of a device to the server, an RPC from the client. The error
// wraps entity.ErrInvalid.
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
