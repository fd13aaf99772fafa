package thingsboard

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

// A device without credentials connects with the user name provision, publishes a ProvisionRequest
// to /provision/request, and receives the answer on /provision/response.
const (
	provisionPrefix   = "/provision/"
	provisionRequest  = "/provision/request"
	provisionResponse = "/provision/response"
)

// ProvisionUser is the user name of devices that have no credentials yet.
const ProvisionUser = "provision"

// Types of credentials.
const (
	AccessToken = "ACCESS_TOKEN"
	MQTTBasic   = "MQTT_BASIC"
)

// ProvisionRequest is a device's request for credentials.
type ProvisionRequest struct {
	Device string `json:"deviceName"`
	Key    string `json:"provisionDeviceKey"`
	Secret string `json:"provisionDeviceSecret"`
	// Type is the type of the credentials that the device has generated itself; "" for none.
	Type     string `json:"credentialsType"`
	Token    string `json:"token"`
	User     string `json:"username"`
	Password string `json:"password"`
	Client   string `json:"clientId"`
	Hash     string `json:"hash"`
}

// ParseProvision parses a request. The error wraps entity.ErrInvalid.
func ParseProvision(payload []byte) (*ProvisionRequest, error) {
	var r ProvisionRequest
	if err := decode(payload, &r); err != nil {
		return nil, err
	}
	if r.Key == "" || r.Secret == "" {
		return nil, fmt.Errorf(`%w: provisionDeviceKey and provisionDeviceSecret must be those of a provision key, as in {"deviceName":"pump-1","provisionDeviceKey":"…","provisionDeviceSecret":"…"}`, entity.ErrInvalid)
	}
	return &r, nil
}

// ProvisionAnswer is the response to a ProvisionRequest.
type ProvisionAnswer struct {
	// Status is SUCCESS, NOT_FOUND or FAILURE.
	Status string `json:"status"`
	// Error is ThingsBoard's text if the request was not successful.
	Error string `json:"errorMsg,omitempty"`
	Type  string `json:"credentialsType,omitempty"`
	// Value is the access token, or the name and the password.
	Value json.RawMessage `json:"credentialsValue,omitempty"`
}

// Answers to an unsuccessful request.
var (
	// ProvisionNotFound is for an unknown or expired key, and for a wrong secret.
	ProvisionNotFound = ProvisionAnswer{Status: "NOT_FOUND", Error: "Provision data was not found!"}
	// ProvisionFailed is for any other reason.
	ProvisionFailed = ProvisionAnswer{Status: "FAILURE", Error: "Failed to provision device!"}
)

// Provisioned returns the answer with a device's access token, or with its name and password.
func Provisioned(token, name, password, client string) ProvisionAnswer {
	if token != "" {
		value, _ := json.Marshal(token) // it cannot fail
		return ProvisionAnswer{Status: "SUCCESS", Type: AccessToken, Value: value}
	}
	value, _ := json.Marshal(map[string]string{"clientId": client, "userName": name, "password": password}) // it cannot fail
	return ProvisionAnswer{Status: "SUCCESS", Type: MQTTBasic, Value: value}
}

// Provisioner issues credentials to devices that know a provision key. It answers every request.
type Provisioner interface {
	Provision(ctx context.Context, from netip.Addr, r *ProvisionRequest) ProvisionAnswer
}

// provision handles the request of a device that has no credentials yet.
func (l *Layout) provision(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if m.Will {
		return fmt.Errorf("%w: a will asks for no credentials", refusal.ErrTopic)
	}
	r, err := ParseProvision(m.Payload)
	if err != nil {
		return err
	}
	answer := ProvisionNotFound
	if l.Provisioner != nil {
		answer = l.Provisioner.Provision(l.host.Running, c.Address(), r)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	_ = c.Send(provisionResponse, text, nil) // a device that does not subscribe loses its answer
	done(nil)
	return nil
}
