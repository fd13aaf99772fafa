package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/awsshadow"
	"github.com/greenroom-go/greenroom/server/layout"
)

// shadowAPI is the HTTP side of package awsshadow, with the paths of AWS.
type shadowAPI struct{ runtime *entity.Runtime }

func (a *shadowAPI) operations() []operation {
	return []operation{
		op("GET", "/things/{id}/shadow", "getShadow", "Read the device shadow of an entity, as AWS IoT has it.", a.get, needs(seesEntity), fails(404)),
		op("POST", "/things/{id}/shadow", "updateShadow", "Update a device shadow.", a.update, needs(reportsEntity),
			accepts(maxBodyBytes, content{mediaJSON, shadowBody{}}), fails(409)),
		op("DELETE", "/things/{id}/shadow", "deleteShadow", "Delete a device shadow: desired and reported, not the entity.", a.remove, needs(reportsEntity), fails(404)),
		op("GET", "/api/things/shadow/ListNamedShadowsForThing/{id}", "listShadows", "List the named shadows of an entity.", a.list, needs(seesEntity), fails(404)),
	}
}

// shadowPath names a shadow.
type shadowPath struct {
	entityPath
	// The named shadow, which is the member of that name in desired and reported. By default the
	// classic shadow, which is all of both.
	Name *string `query:"name" minLength:"1" maxLength:"64" example:"config"`
}

// shadow returns the shadow of a request.
func (p *shadowPath) shadow() (awsshadow.Shadow, error) {
	s := awsshadow.Shadow{Thing: p.ID}
	if p.Name == nil {
		return s, nil
	}
	s.Name = *p.Name
	return s, rejected(awsshadow.CheckName(s.Name))
}

// rejected gives a rejection the status that AWS uses.
func rejected(err error) error {
	if r, ok := errors.AsType[*awsshadow.Rejection](err); ok {
		return problemf(r.Code, "%s", r.Message)
	}
	return err
}

// shadowBody is an update of a shadow.
type shadowBody struct {
	State struct {
		Desired  documentJSON `json:"desired,omitempty" example:"{\"color\":\"red\"}"`
		Reported documentJSON `json:"reported,omitempty"`
	} `json:"state" required:"true"`
	// The version that the shadow must have.
	Version uint64 `json:"version,omitempty"`
	// Returned in the response.
	ClientToken string `json:"clientToken,omitempty" maxLength:"64"`
}

// shadowJSON is a document of a shadow.
type shadowJSON struct {
	State    documentJSON `json:"state,omitempty"`
	Metadata documentJSON `json:"metadata,omitempty"`
	Version  uint64       `json:"version" example:"7"`
	// In seconds since the epoch.
	Timestamp   int64  `json:"timestamp" example:"1451649600"`
	ClientToken string `json:"clientToken,omitempty"`
}

func (a *shadowAPI) get(ctx context.Context, in *shadowPath) (*answer[shadowJSON], error) {
	s, err := in.shadow()
	if err != nil {
		return nil, err
	}
	text, err := awsshadow.Get(ctx, a.runtime, s, nil)
	if err != nil {
		return nil, rejected(err)
	}
	return encoded[shadowJSON](text), nil
}

type updateShadowRequest struct {
	shadowPath
	Body payload
}

func (a *shadowAPI) update(ctx context.Context, in *updateShadowRequest) (*answer[shadowJSON], error) {
	s, err := in.shadow()
	if err != nil {
		return nil, err
	}
	text, _, err := awsshadow.Update(ctx, layout.By(a.runtime, callerOf(ctx).who.Name()), s, in.Body.text)
	if err != nil {
		return nil, rejected(err)
	}
	return encoded[shadowJSON](text), nil
}

func (a *shadowAPI) remove(ctx context.Context, in *shadowPath) (*answer[shadowJSON], error) {
	s, err := in.shadow()
	if err != nil {
		return nil, err
	}
	text, err := awsshadow.Delete(ctx, a.runtime, s, nil)
	if err != nil {
		return nil, rejected(err)
	}
	return encoded[shadowJSON](text), nil
}

// shadowListJSON has the names of shadows.
type shadowListJSON struct {
	Results   []string `json:"results" example:"[\"config\"]"`
	Timestamp int64    `json:"timestamp" example:"1451649600"`
}

func (a *shadowAPI) list(ctx context.Context, in *entityPath) (*answer[shadowListJSON], error) {
	names, err := awsshadow.Names(ctx, a.runtime, in.ID)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	return ok(shadowListJSON{Results: names, Timestamp: time.Now().Unix()}), nil
}
