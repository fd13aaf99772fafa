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

// Claimer accepts the claims that devices offer. access.Claims implements it.
type Claimer interface {
	Offer(by, entity, secret string, d time.Duration) error
}

// claimRequest is the message of a device that offers itself to be claimed.
type claimRequest struct {
	Secret   string `json:"secretKey"`
	Duration int64  `json:"durationMs"`
}

// Claim offers a device to be claimed, as its message says. by is the principal that sent it. The
// error wraps entity.ErrInvalid.
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

// claim handles a device's offer to be claimed.
func (l *Layout) claim(c layout.Client, m *layout.Message, _ request, done func(error)) error {
	if err := l.offer(c, c.Self(), m.Payload); err != nil {
		return err
	}
	done(nil)
	return nil
}

// gatewayClaim handles the offers of devices behind a gateway to be claimed.
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
