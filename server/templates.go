package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/greenroom-go/greenroom/server/refusal"
	"github.com/greenroom-go/greenroom/server/template"
)

// templateAPI reads and writes templates, which map further topics to entities.
type templateAPI struct{ book *template.Book }

func (a *templateAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/templates", "listTemplates", "List all templates, by name, and ready-made ones.", a.list, needs(seesAll)),
		op("GET", "/v1/templates/{name}", "getTemplate", "Read one template.", a.get, needs(seesAll), fails(404)),
		op("PUT", "/v1/templates/{name}", "putTemplate", "Create or replace a template, which takes effect at once.", a.put, needs(writesAll),
			answers(200, 201), fails(409, 422, 428)),
		op("DELETE", "/v1/templates/{name}", "deleteTemplate", "Delete a template. Everything received through it is kept.", a.remove, needs(writesAll), fails(404)),
		op("POST", "/v1/templates/try", "tryTemplate", "Try a template on a message and on a command, without storing anything.", a.try, needs(seesAll), asks, fails(409, 422)),
	}
}

type templatePath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"zigbee2mqtt"`
}

// templateJSON is a template with its name and version.
type templateJSON struct {
	Name string `json:"name" example:"zigbee2mqtt"`
	// The version, for If-Match.
	ETag    string `json:"etag" example:"3k"`
	Updated int64  `json:"updated_ms" example:"1451649600512"`
	// Why it is not in force; absent if it is.
	Problem  string            `json:"problem,omitempty"`
	Template template.Template `json:"template"`
}

// readyTemplateJSON is a ready-made template.
type readyTemplateJSON struct {
	Name  string `json:"name" example:"zigbee2mqtt"`
	Title string `json:"title" example:"Zigbee2MQTT: what devices report"`
	// A message that it takes.
	Topic    string            `json:"topic" example:"zigbee2mqtt/lamp"`
	Payload  string            `json:"payload" example:"{\"state\":\"ON\",\"brightness\":215}"`
	Template template.Template `json:"template"`
}

// templateListJSON is all templates, by name.
type templateListJSON struct {
	Templates []templateJSON `json:"templates"`
	// Ready-made templates, for common devices.
	Ready []readyTemplateJSON `json:"ready"`
}

func newTemplateJSON(s *template.Stored) templateJSON {
	return templateJSON{Name: s.Name, ETag: s.ETag, Updated: s.Updated, Problem: s.Problem, Template: s.Template}
}

func (a *templateAPI) list(context.Context, *struct{}) (*answer[templateListJSON], error) {
	list := templateListJSON{Templates: []templateJSON{}, Ready: []readyTemplateJSON{}}
	for _, s := range a.book.List() {
		list.Templates = append(list.Templates, newTemplateJSON(&s))
	}
	for _, r := range template.AllReady() {
		list.Ready = append(list.Ready, readyTemplateJSON(r))
	}
	return ok(list), nil
}

type getTemplateRequest struct {
	templatePath
	ifChanged
}

func (a *templateAPI) get(_ context.Context, in *getTemplateRequest) (*answer[templateJSON], error) {
	s, err := a.book.Get(in.Name)
	if err != nil {
		return nil, err
	}
	return ok(newTemplateJSON(&s)).versioned(s.ETag), nil
}

type putTemplateRequest struct {
	templatePath
	precondition
	Body template.Template
}

func (a *templateAPI) put(ctx context.Context, in *putTemplateRequest) (*answer[templateJSON], error) {
	if in.Name == "try" {
		return nil, problemf(http.StatusBadRequest, "name must not be try, which is an operation of its own")
	}
	s, err := a.book.Put(ctx, in.Name, &in.Body, in.replacing())
	return replaced(&in.precondition, newTemplateJSON(&s), s.ETag, err)
}

type deleteTemplateRequest struct {
	templatePath
	precondition
}

func (a *templateAPI) remove(ctx context.Context, in *deleteTemplateRequest) (*answer[nothing], error) {
	return in.removed(a.book.Delete(ctx, in.Name, in.condition))
}

type tryTemplateRequest struct {
	Body tryTemplateBody
}

// tryTemplateBody is a template and a message.
type tryTemplateBody struct {
	// The name of the template that it would replace.
	Name     string            `json:"name,omitempty" maxLength:"128" example:"zigbee2mqtt"`
	Template template.Template `json:"template"`
	Topic    string            `json:"topic" maxLength:"65535" example:"zigbee2mqtt/lamp"`
	Payload  string            `json:"payload" example:"{\"state\":\"ON\",\"brightness\":215}"`
	// Replaces payload if that is not text, in Base64.
	Bytes []byte `json:"payload_bytes,omitempty" example:"eyJzdGF0ZSI6Ik9OIn0="`
	// A command of the entity, to see how it would be sent.
	Command *triedCommandBody `json:"command,omitempty"`
}

// triedCommandBody is a command to try.
type triedCommandBody struct {
	Name    string          `json:"name" minLength:"1" maxLength:"256" example:"set"`
	Request json.RawMessage `json:"request,omitempty" example:"{\"state\":\"OFF\"}"`
}

// triedTemplateJSON is the result of applying a template to a message.
type triedTemplateJSON struct {
	// The entity that the message is about.
	Entity string `json:"entity,omitempty" example:"lamp"`
	// The type of the entity if the message makes it.
	Type string `json:"type,omitempty" example:"Lamp"`
	// What the values become; empty if the message is dropped.
	Into template.Into `json:"into,omitempty" enum:"telemetry,reported,nothing" example:"telemetry"`
	// The time of the values, in milliseconds; absent if it is the time of arrival.
	TS *int64 `json:"ts,omitempty" example:"1451649600512"`
	// The values, by key.
	Values json.RawMessage `json:"values,omitempty" example:"{\"state\":\"ON\",\"brightness\":215}"`
	// The message with the command.
	Sent *sentMessageJSON `json:"sent,omitempty"`
	// Why the message would be refused; absent if it would be accepted.
	Refused *triedRefusalJSON `json:"refused,omitempty"`
}

// sentMessageJSON is a message that the server would send.
type sentMessageJSON struct {
	Topic   string `json:"topic" example:"zigbee2mqtt/lamp/set"`
	Payload string `json:"payload" example:"{\"state\":\"OFF\"}"`
}

// triedRefusalJSON is why a message would be refused.
type triedRefusalJSON struct {
	Cause string `json:"cause" example:"invalid"`
	// The member of the template that is at fault; absent if it is the message.
	In     string `json:"in,omitempty" example:"values.power"`
	Detail string `json:"detail" example:"values.power: a string where a number is needed"`
}

func (a *templateAPI) try(_ context.Context, in *tryTemplateRequest) (*answer[triedTemplateJSON], error) {
	payload := []byte(in.Body.Payload)
	if in.Body.Bytes != nil {
		payload = in.Body.Bytes
	}
	trial, err := a.book.NewTrial(in.Body.Name, &in.Body.Template)
	if err != nil {
		return nil, err
	}
	var reply triedTemplateJSON
	o, err := trial.Read(in.Body.Topic, payload)
	if err != nil {
		v := refusal.Judge(err)
		reply.Refused = &triedRefusalJSON{Cause: v.Cause, Detail: v.Detail}
		if at, ok := errors.AsType[*template.Error](err); ok {
			reply.Refused.In = at.In
		}
		return ok(reply), nil
	}
	reply.Entity, reply.Type, reply.Into, reply.Values = o.Entity, o.Type, o.Into, o.Values
	if o.Timed {
		reply.TS = &o.TS
	}
	if c := in.Body.Command; c != nil {
		sent, err := trial.Send(in.Body.Topic, c.Name, c.Request)
		if err != nil {
			return nil, err
		}
		reply.Sent = &sentMessageJSON{sent.Topic, string(sent.Payload)}
	}
	return ok(reply), nil
}

// templateProblem returns the problem for a mistake in a template.
func templateProblem(at *template.Error) *problem {
	p := problemf(http.StatusBadRequest, "%v", at)
	if errors.Is(at, template.ErrTaken) {
		p = problemf(http.StatusConflict, "%v", at)
	}
	p.In = at.In
	if at.Column > 0 {
		p.Column, p.Offset = &at.Column, &at.Offset
	}
	return p
}
