package thingsboard

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// Claimer lets devices be claimed. access.Claims is one.
type Claimer interface {
	Offer(by, entity, secret string, d time.Duration) error
}

// claimRequest is what a device sends that lets itself be claimed.
type claimRequest struct {
	Secret   string `json:"secretKey"`
	Duration int64  `json:"durationMs"`
}

// Claim lets a device be claimed as its message says, which a principal sends. The error wraps entity.ErrInvalid.
func Claim(claims Claimer, by, id string, payload []byte) error {
	var in claimRequest
	if len(bytes.TrimSpace(payload)) > 0 {
		if err := decode(payload, &in); err != nil {
			return err
		}
	}
	in.Duration = min(max(in.Duration, -1), access.MaxClaim.Milliseconds()+1)
	err := claims.Offer(by, id, in.Secret, time.Duration(in.Duration)*time.Millisecond)
	if errors.Is(err, access.ErrInvalid) {
		return fmt.Errorf("%w: %w", entity.ErrInvalid, err)
	}
	return err
}

// claim lets the device itself be claimed.
func (l *Layout) claim(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if err := l.offer(c, c.Self(), m.Payload); err != nil {
		return err
	}
	done(nil)
	return nil
}

// gatewayClaim lets devices behind a gateway be claimed.
func (l *Layout) gatewayClaim(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	list, err := members(m.Payload)
	if err != nil {
		return err
	}
	for i := range list {
		if err := l.offer(c, list[i].name, list[i].value); err != nil {
			return fmt.Errorf("device %.64q: %w", list[i].name, err)
		}
	}
	done(nil)
	return nil
}

func (l *Layout) offer(c layout.Client, id string, payload []byte) error {
	if err := mayReport(c, id); err != nil {
		return err
	}
	if l.Claims == nil {
		return fmt.Errorf("%w: no device can be claimed here", entity.ErrInvalid)
	}
	return Claim(l.Claims, c.Who().Name(), id, payload)
}
