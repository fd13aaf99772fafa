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

	"github.com/greenroom-go/greenroom/internal/due"
)

// Bounds of claims.
const (
	// MaxClaims is the most devices that can be open to claims at a time.
	MaxClaims = 10_000
	// DefaultClaim is how long a device can be claimed unless it says otherwise, and MaxClaim
	// the longest that it can say.
	DefaultClaim = 24 * time.Hour
	MaxClaim     = 7 * 24 * time.Hour

	maxClaimBytes = 1024 // of a secret
)

// Claims holds the devices that can be claimed by whoever knows their secret. It is in memory only:
// after a restart a device must offer itself again. Create it with NewClaims. Its methods may be
// called concurrently.
type Claims struct {
	book *Book
	now  func() time.Time

	mu     sync.Mutex
	offers map[string]*offer // by entity; guarded by mu
	ends   due.Queue[*offer] // of all offers, in nanoseconds since the epoch; guarded by mu
	made   map[string]int    // how many of them a principal has made; guarded by mu, none is 0
}

// offer is guarded by Claims.mu.
type offer struct {
	entity, by string
	secret     [sha256.Size]byte
	until      time.Time
	end        due.Timer[*offer] // at until
}

// NewClaims returns Claims that slow down guesses as the Book slows down logins.
func NewClaims(b *Book) *Claims {
	return &Claims{book: b, now: time.Now, offers: make(map[string]*offer), made: make(map[string]int)}
}

// Offer allows an entity to be claimed with a secret for a time, DefaultClaim for 0. It replaces the
// entity's previous offer. by is the principal that makes the offer, or "" if nobody has to log in; it
// may have as many offers as remain for others. The error is ErrInvalid.
func (c *Claims) Offer(by, entity, secret string, d time.Duration) error {
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
	for c.ends.Next() < now.UnixNano() {
		c.end(c.ends.First().Value)
	}
	if old := c.offers[entity]; old != nil {
		c.end(old)
	} else if err := c.room(by); err != nil {
		return err
	}
	o := &offer{entity: entity, by: by, secret: sha256.Sum256([]byte(secret)), until: now.Add(d)}
	c.offers[entity] = o
	c.made[by]++
	o.end.Value = o
	c.ends.Set(&o.end, o.until.UnixNano())
	return nil
}

// room returns why a principal may not make another offer, or nil. The caller holds mu.
func (c *Claims) room(by string) error {
	switch free := MaxClaims - len(c.offers); {
	case free <= 0:
		return fmt.Errorf("%w: %d devices wait to be claimed, which is the limit", ErrInvalid, len(c.offers))
	case by != "" && c.made[by] >= free:
		return fmt.Errorf("%w: %d devices that %q speaks for wait to be claimed, and only %d more of others could", ErrInvalid, c.made[by], by, free)
	}
	return nil
}

// end removes an offer. The caller holds mu.
func (c *Claims) end(o *offer) {
	delete(c.offers, o.entity)
	c.ends.Set(&o.end, 0)
	if c.made[o.by]--; c.made[o.by] == 0 {
		delete(c.made, o.by)
	}
}

// Offered is a device that can be claimed.
type Offered struct {
	Entity string
	// Until is when the offer expires.
	Until time.Time
}

// Offers returns up to limit devices that can be claimed now, with ids after the given one, in the
// order of their entities' ids, and whether there are more.
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

// Take ends an offer and returns nil if the secret is correct. Otherwise the error is ErrCredentials, or
// ErrSlowed if the principal, the address or the entity has too many failures; the secret was then not
// checked. Failures of others, at the same address or with the same entity, do not slow down a
// principal without failures: otherwise anybody could keep the holder of the secret from its entity.
func (c *Claims) Take(entity, secret, who string, from netip.Addr) error {
	b, address := c.book, AddressKey(from)
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
	o := c.offers[entity]
	ok := o != nil && subtle.ConstantTimeCompare(sum[:], o.secret[:]) == 1 && c.now().Before(o.until)
	if ok {
		c.end(o)
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
