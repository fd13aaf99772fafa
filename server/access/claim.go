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
	// MaxClaims bounds the devices that offer to be claimed at one time.
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

// NewClaims returns Claims that slow guesses as the Book slows logins.
func NewClaims(b *Book) *Claims {
	return &Claims{book: b, now: time.Now, offers: make(map[string]*offer), made: make(map[string]int)}
}

// Offer lets an entity be claimed with a secret for some time, DefaultClaim for 0, in the place of
// what it offered before. by is the principal that offers it, "" where nobody has to log in: it may
// have as many offers as are left for others. The error is ErrInvalid.
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

// room returns why a principal may not make one more offer, nil where it may. The caller holds mu.
func (c *Claims) room(by string) error {
	switch free := MaxClaims - len(c.offers); {
	case free <= 0:
		return fmt.Errorf("%w: %d devices wait to be claimed, which is the limit", ErrInvalid, len(c.offers))
	case by != "" && c.made[by] >= free:
		return fmt.Errorf("%w: %d devices that %q speaks for wait to be claimed, and only %d more of others could", ErrInvalid, c.made[by], by, free)
	}
	return nil
}

// end takes an offer out. The caller holds mu.
func (c *Claims) end(o *offer) {
	delete(c.offers, o.entity)
	c.ends.Set(&o.end, 0)
	if c.made[o.by]--; c.made[o.by] == 0 {
		delete(c.made, o.by)
	}
}

// Offered is a device that offers to be claimed.
type Offered struct {
	Entity string
	// Until is when that ends by itself.
	Until time.Time
}

// Offers returns the devices that now offer to be claimed, by the ids of their entities: those
// after one, limit at most, and whether there are more.
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
