package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/thingsboard"
)

// claimedBy is the attribute with the name of the principal that has claimed an entity. A grant
// with the filter attributes.claimedBy = "alice" covers the entities that alice has claimed.
const claimedBy = "/claimedBy"

// claimAPI lets people claim devices whose secret they know.
type claimAPI struct {
	runtime *entity.Runtime
	claims  *access.Claims
	refused option
}

func (a *claimAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/claims", "listOffers", "List the devices that offer to be claimed, by the ids of their entities.", a.list, needs(manages)),
		rawOp("POST", "/v1/entities/{id}/claim", "claimEntity", "Claim an entity whose device has offered to be claimed, with its secret.", a.claim, needs(claims), answers(204), fails(404, 409)),
		op("POST", "/api/v1/{token}/claim", "postDeviceClaim", "As a device made for ThingsBoard, offer to be claimed by somebody who knows a secret.", a.offer, needs(reportsSelf),
			accepts(maxBodyBytes, content{mediaJSON, offerBody{}}), answers(200), a.refused),
	}
}

// offerBody is what a device sends to offer itself.
type offerBody struct {
	// 1 to 1024 bytes.
	Secret string `json:"secretKey" example:"from-the-label"`
	// How long the offer lasts; 0 or absent for a day.
	Duration int64 `json:"durationMs,omitempty" minimum:"0" maximum:"604800000" example:"60000"`
}

func (a *claimAPI) offer(ctx context.Context, in *deviceMessage) (*answer[nothing], error) {
	return done(), thingsboard.Claim(a.claims, callerOf(ctx).who.Name(), in.id(ctx), in.Body.text)
}

// offersJSON is a page of the devices that offer to be claimed.
type offersJSON struct {
	Offers []offerJSON `json:"offers"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

// offerJSON is a device that offers to be claimed by whoever knows its secret.
type offerJSON struct {
	Entity string `json:"entity" example:"pump-1"`
	// When the offer expires.
	Until int64 `json:"until_ms" example:"1451649660512"`
}

type listOffersRequest struct {
	cursorParam
	// The maximum number of devices to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

func (a *claimAPI) list(_ context.Context, in *listOffersRequest) (*answer[offersJSON], error) {
	after, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, more := a.claims.Offers(after, in.Limit)
	page := offersJSON{Offers: []offerJSON{}}
	for _, o := range list {
		page.Offers = append(page.Offers, offerJSON{o.Entity, o.Until.UnixMilli()})
	}
	if more {
		page.Next = pageCursor(list[len(list)-1].Entity)
	}
	return ok(page), nil
}

type claimRequest struct {
	entityPath
	Body claimBody
}

// claimBody is the secret with which somebody claims a device.
type claimBody struct {
	// The secret of the device.
	Secret string `json:"secret" example:"from-the-label"`
}

func (a *claimAPI) claim(w http.ResponseWriter, r *http.Request, in *claimRequest) error {
	who := callerOf(r.Context()).who.Name()
	if who == "" {
		return problemf(http.StatusBadRequest, "where nobody has to log in there is nobody who could claim an entity")
	}
	err := a.claims.Take(in.ID, in.Body.Secret, who, addressOf(r))
	if errors.Is(err, access.ErrCredentials) {
		return problemf(http.StatusNotFound, "no device of that name has offered to be claimed with that secret, or not of late")
	}
	if err != nil {
		return err
	}
	if err := a.give(r.Context(), in.ID, who); err != nil {
		return err
	}
	callerOf(r.Context()).changed()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// maxClaimTries is how often a claim is tried if other edits intervene.
const maxClaimTries = 10

// give records that a principal has claimed an entity, unless another one has. If two claim it
// concurrently, one succeeds: the device may have offered itself to both, one after the other.
func (a *claimAPI) give(ctx context.Context, id, who string) error {
	name, err := json.Marshal(who)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		owner, etag := "", entity.IfNone
		err := a.runtime.View(ctx, id, func(v entity.View) error {
			etag = v.ETag()
			if have, ok := v.Attribute(entity.Attributes, claimedBy); ok {
				owner = have.Value.Text()
			}
			return nil
		})
		if err != nil && !errors.Is(err, entity.ErrNotFound) {
			return err
		}
		if owner != "" && owner != who {
			return problemf(http.StatusConflict, "the entity is claimed; who has it must give it up, by removing the attribute claimedBy")
		}
		_, err = a.runtime.Edit(ctx, id, entity.Edits{By: who, If: etag, Patches: []entity.Patch{{Section: entity.Attributes, Body: fmt.Appendf(nil, `{"claimedBy":%s}`, name)}}})
		if try == maxClaimTries || !errors.Is(err, entity.ErrConflict) && !errors.Is(err, entity.ErrNotFound) {
			return err
		}
	}
}
