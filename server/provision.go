package server

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/thingsboard"
)

// provisioner creates credentials for devices that know a provision key.
type provisioner struct {
	book    *access.Book
	runtime *entity.Runtime
	audit   *access.Log
	log     *slog.Logger
}

func (s *Server) provisioner() *provisioner {
	return &provisioner{s.book, s.runtime, s.audit, s.log}
}

// Provision answers a device as ThingsBoard does: the answer does not distinguish a wrong key from
// an unknown one, or the other causes from each other.
func (p *provisioner) Provision(ctx context.Context, from netip.Addr, r *thingsboard.ProvisionRequest) thingsboard.ProvisionAnswer {
	key, err := p.book.FindProvisionKey(r.Key, r.Secret, from)
	if err != nil {
		return thingsboard.ProvisionNotFound
	}
	if r.Device == "" {
		r.Device = key.Prefix + strings.ToLower(rand.Text()[:16])
	}
	answer, err := p.provision(ctx, &key, r)
	if err != nil {
		p.log.LogAttrs(ctx, slog.LevelWarn, "a device was not provisioned", slog.String("key", key.Name),
			slog.String("device", shorten(r.Device, 100)), slog.String("from", from.String()), slog.Any("error", err))
		return thingsboard.ProvisionFailed
	}
	entry := access.Entry{Who: access.MadeBy(key.Name), From: from.String(), Action: "provisionDevice", What: r.Device, Outcome: "ok"}
	if err := p.audit.Add(context.WithoutCancel(ctx), entry); err != nil {
		p.log.LogAttrs(ctx, slog.LevelError, "cannot record a provisioned device in the audit log", slog.String("device", r.Device), slog.Any("error", err))
	}
	return answer
}

// provision creates the credentials of a device, and its entity if that should have a type.
func (p *provisioner) provision(ctx context.Context, key *access.ProvisionKey, r *thingsboard.ProvisionRequest) (answer thingsboard.ProvisionAnswer, err error) {
	password := ""
	switch {
	case r.Type == thingsboard.MQTTBasic && r.User == r.Device && r.Password != "":
		password = r.Password
	case r.Type == thingsboard.MQTTBasic:
		return answer, errors.New("username must be the name of the device, and password its password")
	case r.Type != "" && r.Type != thingsboard.AccessToken, r.Token != "":
		return answer, errors.New("the server makes access tokens itself, and takes no certificates this way")
	}
	if err := p.checkEntity(ctx, key, r.Device); err != nil {
		return answer, err
	}
	token, err := p.book.Provision(ctx, key.Name, r.Device, password)
	if err != nil {
		return answer, err
	}
	if key.Type != "" {
		if _, err := p.runtime.Edit(ctx, r.Device, entity.Edits{If: entity.IfNone, Type: &key.Type}); err != nil {
			return answer, errors.Join(err, p.book.Revoke(context.WithoutCancel(ctx), r.Device))
		}
	}
	return thingsboard.Provisioned(token, r.Device, password, r.Client), nil
}

// checkEntity checks that the entity of a new device does not exist, so that the device cannot
// acquire another's, and that the entity of a prepared device does.
func (p *provisioner) checkEntity(ctx context.Context, key *access.ProvisionKey, device string) error {
	if !strings.HasPrefix(device, key.Prefix) { // the device must not find out which entities exist
		return errors.New("the name does not begin as the provision key wants it")
	}
	err := p.runtime.View(ctx, device, func(entity.View) error { return nil })
	switch {
	case err != nil && !errors.Is(err, entity.ErrNotFound):
		return err
	case key.Strategy == access.CreateNew && err == nil:
		return errors.New("there is an entity of that name")
	case key.Strategy == access.CheckPreProvisioned && err != nil:
		return err
	}
	return nil
}

// provisionAPI manages provision keys, and answers the requests of devices over HTTP.
type provisionAPI struct {
	book        *access.Book
	provisioner *provisioner
}

func (a *provisionAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/provisioning", "listProvisionKeys", "List the provision keys, with which devices obtain their credentials, by name.", a.list, needs(manages)),
		op("POST", "/v1/provisioning", "postProvisionKey", "Create a provision key. Only this response contains its secret.", a.create, answers(201), fails(409), needs(manages)),
		op("DELETE", "/v1/provisioning/{name}", "deleteProvisionKey", "Revoke a provision key. The devices that have used it are kept.", a.remove, fails(404), needs(manages)),
		rawOp("POST", "/api/v1/provision", "provisionDevice", "As a device made for ThingsBoard, get credentials with a provision key.", a.provision, needs(public),
			accepts(maxPublicBodyBytes, content{mediaJSON, provisionBody{}}), sends(content{mediaJSON, provisionedJSON{}})),
	}
}

// provisionKeyBody is a provision key as it is made.
type provisionKeyBody struct {
	// The name of the key, which devices send as provisionDeviceKey: ASCII letters, digits and . _
	// - : @.
	Name string `json:"name" example:"sensors"`
	// create is for new devices, check for devices whose entity exists.
	Strategy string `json:"strategy" enum:"create,check" example:"create"`
	// The prefix that the names of the devices must have.
	Prefix string `json:"prefix" example:"sensor-"`
	// The type of the created entities; absent for none.
	Type string `json:"type,omitempty"`
	// How many devices may use it, not counting revoked ones; 0 or absent for any number.
	Max int `json:"max,omitempty" minimum:"0" maximum:"100000" example:"100"`
	// When it expires, in milliseconds since the epoch; absent for never.
	Expires int64 `json:"expires_ms,omitempty" minimum:"0" maximum:"253402300799999"`
}

// provisionKeyJSON is a provision key.
type provisionKeyJSON struct {
	Name     string `json:"name" example:"sensors"`
	Strategy string `json:"strategy" enum:"create,check" example:"create"`
	Prefix   string `json:"prefix" example:"sensor-"`
	Type     string `json:"type,omitempty"`
	Max      int    `json:"max,omitempty" example:"100"`
	Created  int64  `json:"created_ms" example:"1451649600512"`
	Expires  int64  `json:"expires_ms,omitempty"`
	// Who made it.
	By string `json:"by,omitempty" example:"alice"`
	// How many devices have used it and were not revoked.
	Devices int `json:"devices" example:"7"`
	// Only in the response to the request that made it: it cannot be read again.
	Secret string `json:"secret,omitempty"`
}

// provisionKeyListJSON is all provision keys.
type provisionKeyListJSON struct {
	Keys []provisionKeyJSON `json:"keys"`
}

func newProvisionKeyJSON(k *access.ProvisionKey) provisionKeyJSON {
	j := provisionKeyJSON{
		Name: k.Name, Strategy: string(k.Strategy), Prefix: k.Prefix, Type: k.Type, Max: k.Max, Created: k.Created.UnixMilli(), By: k.By, Devices: k.Devices,
	}
	if !k.Expires.IsZero() {
		j.Expires = k.Expires.UnixMilli()
	}
	return j
}

func (a *provisionAPI) list(context.Context, *struct{}) (*answer[provisionKeyListJSON], error) {
	list := provisionKeyListJSON{Keys: []provisionKeyJSON{}}
	for _, k := range a.book.ProvisionKeys() {
		list.Keys = append(list.Keys, newProvisionKeyJSON(&k))
	}
	return ok(list), nil
}

type createProvisionKeyRequest struct{ Body provisionKeyBody }

func (a *provisionAPI) create(ctx context.Context, in *createProvisionKeyRequest) (*answer[provisionKeyJSON], error) {
	b := &in.Body
	spec := access.ProvisionSpec{Name: b.Name, Strategy: access.Strategy(b.Strategy), Prefix: b.Prefix, Type: b.Type, Max: b.Max, By: callerOf(ctx).who.Name()}
	if b.Expires != 0 {
		spec.Expires = time.UnixMilli(b.Expires)
	}
	secret, key, err := a.book.CreateProvisionKey(ctx, &spec)
	if err != nil {
		return nil, principalProblem(err)
	}
	callerOf(ctx).about = key.Name + " for " + key.Prefix
	j := newProvisionKeyJSON(&key)
	j.Secret = secret
	return ok(j).withStatus(http.StatusCreated), nil
}

type provisionKeyPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"sensors"`
}

func (a *provisionAPI) remove(ctx context.Context, in *provisionKeyPath) (*answer[nothing], error) {
	if err := a.book.RevokeProvisionKey(ctx, in.Name); err != nil {
		return nil, principalProblem(err)
	}
	return noContent(), nil
}

// provisionBody is a device's request for credentials.
type provisionBody struct {
	// The name of the device, and the id of its entity; by default the server makes one.
	Device string `json:"deviceName,omitempty" example:"sensor-1"`
	// The name of a provision key.
	Key    string `json:"provisionDeviceKey" example:"sensors"`
	Secret string `json:"provisionDeviceSecret" example:"provision-sensors_qz3k"`
	// MQTT_BASIC for a password chosen by the device; ACCESS_TOKEN, or absent, for a token made by
	// the server.
	Type     string `json:"credentialsType,omitempty"`
	User     string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
	Client   string `json:"clientId,omitempty"`
}

// provisionedJSON is the response to the device, also if it gets nothing.
type provisionedJSON struct {
	Status string `json:"status" enum:"SUCCESS,NOT_FOUND,FAILURE" example:"SUCCESS"`
	// Why it got no credentials; absent for SUCCESS.
	Error string `json:"errorMsg,omitempty"`
	Type  string `json:"credentialsType,omitempty" example:"ACCESS_TOKEN"`
	// The access token, or clientId, userName and password.
	Value json.RawMessage `json:"credentialsValue,omitempty" example:"\"gr_sensor-1_…\""`
}

type provisionDeviceRequest struct{ Body payload }

func (a *provisionAPI) provision(w http.ResponseWriter, r *http.Request, in *provisionDeviceRequest) error {
	ask, err := thingsboard.ParseProvision(in.Body.text)
	if err != nil {
		return err
	}
	text, err := json.Marshal(provisionedJSON(a.provisioner.Provision(r.Context(), addressOf(r), ask)))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", mediaJSON)
	_, _ = w.Write(text) // the client may have left
	return nil
}
