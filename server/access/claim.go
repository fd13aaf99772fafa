package access

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of claims.
const (
	// MaxClaims bounds the devices that let themselves be claimed at one time.
	MaxClaims = 10_000
	// DefaultClaim is how long a device lets itself be claimed that does not say it, and MaxClaim the
	// most.
	DefaultClaim = 24 * time.Hour
	MaxClaim     = 7 * 24 * time.Hour

	maxClaimBytes = 1024 // of a secret
)

// Claims are the devices that let somebody who knows a secret have them. They are in memory: after a
// restart a device has to offer itself again. The methods may be called concurrently. Make it with NewClaims.
type Claims struct {
	book *Book
	now  func() time.Time

	mu     sync.Mutex
	offers map[string]offer // by entity; guarded by mu
}

type offer struct {
	secret [sha256.Size]byte
	until  time.Time
}

// NewClaims returns Claims that slow guesses as the Book slows logins.
func NewClaims(b *Book) *Claims {
	return &Claims{book: b, now: time.Now, offers: make(map[string]offer)}
}

// Offer lets an entity be claimed with a secret for some time, DefaultClaim for 0, in the place of
// what it offered before. The error is ErrInvalid.
func (c *Claims) Offer(entity, secret string, d time.Duration) error {
	switch {
	case secret == "" || len(secret) > maxClaimBytes:
		return fmt.Errorf("%w: secretKey must have 1 to %d bytes, not %d", ErrInvalid, maxClaimBytes, len(secret))
	case d < 0 || d > MaxClaim:
		return fmt.Errorf("%w: durationMs must be an integer from 0 to %d, not %d", ErrInvalid, MaxClaim.Milliseconds(), d.Milliseconds())
	case d == 0:
		d = DefaultClaim
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if _, again := c.offers[entity]; !again && len(c.offers) >= MaxClaims {
		for id, o := range c.offers {
			if now.After(o.until) {
				delete(c.offers, id)
			}
		}
		if len(c.offers) >= MaxClaims {
			return fmt.Errorf("%w: %d devices wait to be claimed, which is the limit", ErrInvalid, len(c.offers))
		}
	}
	c.offers[entity] = offer{sha256.Sum256([]byte(secret)), now.Add(d)}
	return nil
}

// Offered is a device that lets itself be claimed.
type Offered struct {
	Entity string
	// Until is when that ends by itself.
	Until time.Time
}

// Offers returns the devices that let themselves be claimed now, by the ids of their entities: those after
// one, limit at most, and whether there are more.
func (c *Claims) Offers(after string, limit int) (list []Offered, more bool) {
	c.mu.Lock()
	now := c.now()
	for id, o := range c.offers {
		if id > after && now.Before(o.until) {
			list = append(list, Offered{id, o.until})
		}
	}
	c.mu.Unlock()
	slices.SortFunc(list, func(x, y Offered) int { return strings.Compare(x.Entity, y.Entity) })
	if len(list) > limit {
		return list[:limit], true
	}
	return list, false
}

// Take ends an offer, and returns nil if the secret is its own. Otherwise the error is ErrCredentials,
// or ErrSlowed where too much was wrong of who asks, or from an address or of the entity: then the
// secret was not looked at. What others did wrong, at the same address or with the same entity, slows
// nobody who was right so far: otherwise anybody could keep an entity from who has its secret.
func (c *Claims) Take(entity, secret, who string, from netip.Addr) error {
	b, address := c.book, addressKey(from)
	name, guesser := "claim "+entity, "claims by "+who // no principal has such a name
	wait := b.names.wait(guesser)
	if forgiven := b.names.forgiven(guesser); forgiven > 0 {
		wait = max(wait, min(forgiven, max(b.addresses.wait(address), b.names.wait(name))))
	}
	if wait > 0 {
		b.logins[loginSlowed].Add(1)
		return &SlowedError{wait}
	}
	sum := sha256.Sum256([]byte(secret))
	c.mu.Lock()
	o, ok := c.offers[entity]
	ok = ok && subtle.ConstantTimeCompare(sum[:], o.secret[:]) == 1 && c.now().Before(o.until)
	if ok {
		delete(c.offers, entity)
	}
	c.mu.Unlock()
	if ok {
		return nil
	}
	b.logins[loginFailed].Add(1)
	b.addresses.fail(address)
	b.names.fail(name)
	b.names.fail(guesser)
	return ErrCredentials
}
