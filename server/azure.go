package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/azure"
)

// azureAPI is the HTTP side of package azure: messages from and to devices, with the paths of Azure
// IoT Hub. Twins and methods are available over MQTT only.
type azureAPI struct {
	runtime   *entity.Runtime
	telemetry *telemetryAPI
	commands  *commandAPI
}

// mediaBatch is the media type of a batch of messages.
const mediaBatch = "application/vnd.microsoft.iothub.json"

func (a *azureAPI) operations() []operation {
	return []operation{
		rawOp("POST", "/devices/{id}/messages/events", "postDeviceMessage", "As a device made for Azure IoT Hub, send a message, or several.", a.post, needs(reportsEntity),
			accepts(entity.MaxPayloadBytes, content{mediaJSON, telemetryBody{}}, content{mediaBatch, []batchedBody{}}), answers(204), fails(422), onError(a.telemetry.refused)),
		rawOp("GET", "/devices/{id}/messages/devicebound", "getDeviceMessage", "As a device made for Azure IoT Hub, get the next command as a message.", a.next, needs(receivesEntity), awaits,
			answers(200, 204), sends(content{mediaJSON, json.RawMessage{}})),
		op("DELETE", "/devices/{id}/messages/devicebound/{command}", "completeDeviceMessage", "As a device made for Azure IoT Hub, complete a message, or reject it.", a.complete, needs(reportsEntity), fails(412)),
		op("POST", "/devices/{id}/messages/devicebound/{command}/abandon", "abandonDeviceMessage", "As a device made for Azure IoT Hub, abandon a message, so that it is delivered again.", a.abandon, needs(reportsEntity), fails(412)),
	}
}

// azureVersion says for which version of the API a request is made.
type azureVersion struct {
	// A date; ignored.
	Version string `query:"api-version" required:"true" minLength:"1" maxLength:"64" example:"2021-04-12"`
}

// batchedBody is one of several messages.
type batchedBody struct {
	// Base64 of JSON, unless base64Encoded is false.
	Body    string `json:"body" example:"eyJ0ZW1wZXJhdHVyZSI6MjEuNX0="`
	Encoded *bool  `json:"base64Encoded,omitempty"`
	// By the names of the headers that the message would have.
	Properties map[string]string `json:"properties,omitempty"`
}

type deviceMessageRequest struct {
	entityPath
	azureVersion
	Body payload
}

// post handles one message, whose properties are headers, or a batch, which is accepted or refused
// as a whole.
func (a *azureAPI) post(w http.ResponseWriter, r *http.Request, in *deviceMessageRequest) error {
	batch := []azure.Batched{{Body: in.Body.text}}
	if in.Body.media == mediaBatch {
		var err error
		if batch, err = azure.ParseBatch(in.Body.text); err != nil {
			return err
		}
	} else {
		for name, values := range r.Header {
			batch[0].Properties = append(batch[0].Properties, azure.HeaderProperty(name, strings.Join(values, ","))...)
		}
		slices.SortFunc(batch[0].Properties, func(x, y azure.Property) int { return strings.Compare(x.Name, y.Name) })
	}
	readings, payload, err := azure.BatchReadings(batch, time.Now())
	if err != nil {
		return err
	}
	if err := a.telemetry.store(r.Context(), in.ID, entity.Once{}, readings, payload); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type nextDeviceMessageRequest struct {
	entityPath
	azureVersion
}

// next returns the next command, whose id is the lock, or 204 if there is none. The command is
// returned again until it is completed.
func (a *azureAPI) next(w http.ResponseWriter, r *http.Request, in *nextDeviceMessageRequest) error {
	c, err := a.commands.take(r.Context(), in.ID, 0)
	if err != nil {
		return err
	}
	if c == nil {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	h := w.Header()
	h.Set("Content-Type", mediaJSON)
	h.Set("ETag", strconv.Quote(c.ID))
	h.Set("IoTHub-MessageId", c.ID)
	h.Set("IoTHub-To", "/devices/"+url.PathEscape(in.ID)+"/messages/deviceBound")
	h.Set("IoTHub-App-"+azure.CommandProperty, url.PathEscape(c.Name))
	_, _ = w.Write(azure.RequestBody(c)) // the client may have left
	return nil
}

type deviceMessagePath struct {
	commandPath
	azureVersion
}

type completeDeviceMessageRequest struct {
	deviceMessagePath
	// If present, the device rejects the message, and the command fails.
	Reject *string `query:"reject" maxLength:"64"`
}

// errLockLost is Azure's response about a message that does not exist any more.
var errLockLost = problemf(http.StatusPreconditionFailed, "the lock of the message is lost: it was completed, rejected or canceled, or there is none of that id")

// locked returns nil if a message exists and is not completed.
func (a *azureAPI) locked(ctx context.Context, in *deviceMessagePath) error {
	open, err := a.runtime.OpenCommands(ctx, in.ID)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	if !slices.ContainsFunc(open, func(c entity.Command) bool { return c.ID == in.Command }) {
		return errLockLost
	}
	return nil
}

// complete ends a command.
func (a *azureAPI) complete(ctx context.Context, in *completeDeviceMessageRequest) (*answer[nothing], error) {
	if err := a.locked(ctx, &in.deviceMessagePath); err != nil {
		return nil, err
	}
	if in.Reject != nil {
		return noContent(), a.runtime.Fail(ctx, in.ID, in.Command, "the device has rejected the message")
	}
	return noContent(), a.runtime.Done(ctx, in.ID, in.Command, value.Value{})
}

// abandon changes nothing: a message that is not completed is returned again.
func (a *azureAPI) abandon(ctx context.Context, in *deviceMessagePath) (*answer[nothing], error) {
	return noContent(), a.locked(ctx, in)
}
