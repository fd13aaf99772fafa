package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
	"github.com/greenroom-go/greenroom/server/thingsboard"
)

// thingsboardAPI is the HTTP side of package thingsboard: the device API, with the device's token
// in the path. Its paths are ThingsBoard's, and therefore not under /v1.
type thingsboardAPI struct {
	runtime   *entity.Runtime
	telemetry *telemetryAPI
	commands  *commandAPI
}

func (a *thingsboardAPI) operations() []operation {
	counted := onError(a.refused)
	return []operation{
		op("POST", "/api/v1/{token}/telemetry", "postDeviceTelemetry", "As a device made for ThingsBoard, store readings.", a.post, needs(reportsSelf),
			accepts(entity.MaxPayloadBytes, content{mediaJSON, telemetryBody{}}), answers(200), fails(422), counted),
		op("POST", "/api/v1/{token}/attributes", "postDeviceAttributes", "As a device made for ThingsBoard, report client attributes.", a.report, needs(reportsSelf),
			accepts(maxBodyBytes, content{mediaJSON, documentJSON{}}), answers(200), fails(422), counted),
		op("GET", "/api/v1/{token}/attributes", "getDeviceAttributes", "As a device made for ThingsBoard, read client and shared attributes.", a.attributes, needs(reportsSelf)),
		op("GET", "/api/v1/{token}/attributes/updates", "getDeviceUpdate", "As a device made for ThingsBoard, wait for a change of its shared attributes.", a.update, needs(reportsSelf), awaits, fails(408)),
		op("GET", "/api/v1/{token}/rpc", "getDeviceCommand", "As a device made for ThingsBoard, wait for a command.", a.next, needs(receivesSelf), awaits, fails(408)),
		op("POST", "/api/v1/{token}/rpc/{number}", "postDeviceAnswer", "As a device made for ThingsBoard, answer a command.", a.answer, needs(reportsSelf),
			accepts(entity.MaxPayloadBytes, content{mediaJSON, documentJSON{}}), answers(200), fails(422), counted),
		op("POST", "/api/v1/{token}/rpc", "postServerCall", "As a device made for ThingsBoard, ask the server for something.", a.call, needs(reportsSelf), counted),
	}
}

// refused counts a refused request, without the token in its path.
func (a *thingsboardAPI) refused(r *http.Request, err error) {
	if r.Context().Err() == nil {
		a.telemetry.refusals.Add(refusal.HTTP, refusedFor(err), r.Pattern, callerOf(r.Context()).who.Name(), problemOf(err).Detail)
	}
}

type tokenPath struct {
	// The token of the device. If nobody has to log in, the id of its entity.
	Token string `path:"token" minLength:"1" maxLength:"256" example:"room-1"`
}

// id returns the id of the device's own entity.
func (p *tokenPath) id(ctx context.Context) string { return selfOf(callerOf(ctx).who, p.Token) }

// done returns a response without a body. Devices expect the status 200.
func done() *answer[nothing] { return &answer[nothing]{status: http.StatusOK, text: []byte{}} }

type deviceMessage struct {
	tokenPath
	Body payload
}

func (a *thingsboardAPI) post(ctx context.Context, in *deviceMessage) (*answer[nothing], error) {
	_, err := a.telemetry.post(ctx, &postTelemetryRequest{entityPath: entityPath{in.id(ctx)}, Body: in.Body})
	return done(), err
}

func (a *thingsboardAPI) report(ctx context.Context, in *deviceMessage) (*answer[nothing], error) {
	return done(), thingsboard.Report(ctx, layout.By(a.runtime, callerOf(ctx).who.Name()), in.id(ctx), in.Body.text)
}

type deviceAttributesRequest struct {
	tokenPath
	// Names of client attributes, separated by commas. Without both, all attributes.
	Client *string `query:"clientKeys" example:"fw,hw"`
	// Names of shared attributes.
	Shared *string `query:"sharedKeys" example:"period"`
}

// deviceAttributesJSON has the attributes that there are.
type deviceAttributesJSON struct {
	Client documentJSON `json:"client,omitempty"`
	Shared documentJSON `json:"shared,omitempty"`
}

func (a *thingsboardAPI) attributes(ctx context.Context, in *deviceAttributesRequest) (*answer[deviceAttributesJSON], error) {
	doc := []byte("{}")
	err := a.runtime.View(ctx, in.id(ctx), func(v entity.View) error {
		doc = thingsboard.Attributes(v, in.Client, in.Shared)
		return nil
	})
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return nil, err
	}
	return encoded[deviceAttributesJSON](doc), nil
}

// deviceWait is a request that waits for something.
type deviceWait struct {
	tokenPath
	// How long to wait, in milliseconds.
	Timeout int `query:"timeout" minimum:"0" maximum:"25000" default:"10000"`
}

func (in *deviceWait) time() time.Duration { return time.Duration(in.Timeout) * time.Millisecond }

// update waits for a change of the device's shared attributes. The answer has those that were set,
// and the names of those that were removed as deleted.
func (a *thingsboardAPI) update(ctx context.Context, in *deviceWait) (*answer[documentJSON], error) {
	waiting, cancel := a.commands.waits(ctx, in.time())
	defer cancel()
	doc, err := thingsboard.NextUpdate(waiting, a.runtime, in.id(ctx))
	if err := callerOf(ctx).still(); err != nil {
		return nil, err
	}
	if err == nil && doc == nil {
		err = problemf(http.StatusRequestTimeout, "no shared attribute has changed within %d ms", in.Timeout)
	}
	if err != nil {
		return nil, err
	}
	return encoded[documentJSON](doc), nil
}

// deviceCommandJSON is a command as ThingsBoard has it.
type deviceCommandJSON struct {
	ID     int64       `json:"id" example:"17"`
	Method string      `json:"method" example:"setGpio"`
	Params value.Value `json:"params"`
}

func (a *thingsboardAPI) next(ctx context.Context, in *deviceWait) (*answer[deviceCommandJSON], error) {
	c, err := a.commands.take(ctx, in.id(ctx), in.time())
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, problemf(http.StatusRequestTimeout, "there was no command within %d ms", in.Timeout)
	}
	return encoded[deviceCommandJSON](thingsboard.AppendCall(nil, c)), nil
}

type deviceAnswerRequest struct {
	tokenPath
	// The id of the command, as the device received it.
	Number int `path:"number" minimum:"0" maximum:"2147483647" example:"17"`
	Body   payload
}

func (a *thingsboardAPI) answer(ctx context.Context, in *deviceAnswerRequest) (*answer[nothing], error) {
	return done(), thingsboard.Answer(ctx, a.runtime, in.id(ctx), int64(in.Number), in.Body.text)
}

type serverCallRequest struct {
	tokenPath
	Body serverCallBody
}

// serverCallBody is a request of a device.
type serverCallBody struct {
	Method string          `json:"method" example:"getTime"`
	Params json.RawMessage `json:"params,omitempty" type:"object"`
}

// serverCallJSON is the response to a device's request.
type serverCallJSON struct {
	// In milliseconds since the epoch.
	Time int64 `json:"time,omitempty" example:"1451649600512"`
	// The error, instead of another answer.
	Error string `json:"error,omitempty"`
}

func (a *thingsboardAPI) call(_ context.Context, in *serverCallRequest) (*answer[serverCallJSON], error) {
	text, err := encodeJSON(in.Body)
	if err == nil {
		text, err = thingsboard.AnswerServerCall(text)
	}
	if err != nil {
		return nil, err
	}
	return encoded[serverCallJSON](text), nil
}
