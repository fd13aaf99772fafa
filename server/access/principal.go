package access

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/filter"
	"github.com/greenroom-go/greenroom/entity/filter/entityview"
	"github.com/greenroom-go/greenroom/entity/value"
)

const (
	// MaxNameBytes is the longest name of a principal.
	MaxNameBytes = 128
	// MaxGrants is the most grants that a principal may have.
	MaxGrants = 16

	// MovedWithin is how long it may take until a change of an entity's type or attributes
	// affects which principals may see it. Grants by id have no such delay.
	MovedWithin = time.Second

	// maxDecisions bounds the decisions that a principal caches.
	maxDecisions = 256
)

// Entities is the part of the entity runtime that decisions need.
type Entities interface {
	View(ctx context.Context, id string, f func(entity.View) error) error
}

// Principal is an identity that has logged in. Principals come from a Book; the zero
// Principal may do nothing. Its methods may be called concurrently.
type Principal struct {
	name    string
	grants  []grant
	all     [actions]bool // over all entities
	some    [actions]bool // over some
	stored  record
	token   [sha256.Size]byte // the hash; unused where stored.Token is ""
	key     []byte            // nil where stored.Key is ""
	expires time.Time         // zero: never
	used    atomic.Int64      // milliseconds since the epoch, 0: never

	allowance allowance
	newcomer  *allowance // of a device that asks for credentials, instead of allowance; otherwise nil

	mu        sync.Mutex
	ended     bool               // revoked or expired; guarded by mu
	watches   map[*watch]bool    // guarded by mu
	expiry    *time.Timer        // guarded by mu; from the first watch on
	decisions map[asked]decision // guarded by mu
	proof     []byte             // of the password that was right, see secret.go; guarded by mu
	from      string             // the address of the last login by password; guarded by mu
}

type asked struct {
	action Action
	id     string
}

type decision struct {
	may   bool
	until time.Time
}

// record is the stored form of a principal.
type record struct {
	Grants      []Grant `json:"grants"`
	Token       string  `json:"token,omitempty"`    // SHA-256, hexadecimal
	Password    string  `json:"password,omitempty"` // argon2id, as a PHC string
	Key         string  `json:"key,omitempty"`      // Base64, as it is: a signature can be checked with nothing less
	Certificate bool    `json:"certificate,omitempty"`
	OIDC        bool    `json:"oidc,omitempty"`
	Created     int64   `json:"created_ms"`
	Identity    string  `json:"identity,omitempty"` // absent of those that earlier versions have made
	Expires     int64   `json:"expires_ms,omitempty"`
	By          string  `json:"by,omitempty"`
	Rate        int64   `json:"rate,omitempty"` // bytes per second; absent: that of the server
}

// newPrincipal compiles the stored form of a principal.
func newPrincipal(name string, r *record) (*Principal, error) {
	check := checkName
	if r.OIDC {
		check = checkProviderName
	}
	if err := check(name); err != nil {
		return nil, err
	}
	if len(r.Grants) == 0 || len(r.Grants) > MaxGrants {
		return nil, fmt.Errorf("%w: grants must be 1 to %d, not %d", ErrInvalid, MaxGrants, len(r.Grants))
	}
	if r.Rate < 0 || r.Rate > MaxRate {
		return nil, fmt.Errorf("%w: rate must be 0 to %d bytes per second, not %d", ErrInvalid, int64(MaxRate), r.Rate)
	}
	p := &Principal{name: name, stored: *r}
	size := 0
	for i := range r.Grants {
		g, err := r.Grants[i].compile(name)
		if err != nil {
			return nil, fmt.Errorf("grant %d of %q: %w", i, name, err)
		}
		size += len(g.text)
		p.grants = append(p.grants, g)
		for a := range Action(actions) {
			if g.role.allows(a) {
				p.some[a] = true
				p.all[a] = p.all[a] || g.text == ""
			}
		}
	}
	if size > MaxFilterBytes {
		return nil, fmt.Errorf("%w: the filters of all grants must have at most %d bytes together, not %d", ErrInvalid, MaxFilterBytes, size)
	}
	if r.Expires != 0 {
		p.expires = time.UnixMilli(r.Expires)
	}
	if r.Token != "" {
		if err := decodeHash(r.Token, &p.token); err != nil {
			return nil, fmt.Errorf("%w: token of %q: %w", ErrInvalid, name, err)
		}
	}
	if r.Key != "" {
		key, err := base64.StdEncoding.DecodeString(r.Key)
		if err != nil || len(key) == 0 {
			return nil, fmt.Errorf("%w: the key of %q must be Base64", ErrInvalid, name)
		}
		p.key = key
	}
	return p, nil
}

func parsePrincipal(d *entity.Doc) (*Principal, error) {
	var r record
	if err := json.Unmarshal(d.Body, &r); err != nil {
		return nil, fmt.Errorf("principal %q: %w", d.ID, err)
	}
	return newPrincipal(d.ID, &r)
}

// checkName allows only names that need no quoting in a token, an id, a log or a topic.
func checkName(name string) error { return checkNameOf(name, "._-:@") }

// checkProviderName is checkName for names from an OpenID Connect provider, which occur in
// no token and no topic: addresses may contain a +, and some providers' subjects a |.
func checkProviderName(name string) error {
	if strings.HasPrefix(name, "+") { // provisionerName
		return fmt.Errorf("%w: name must not begin with +", ErrInvalid)
	}
	return checkNameOf(name, "._-:@+|")
}

func checkNameOf(name, others string) error {
	if name == "" || len(name) > MaxNameBytes {
		return fmt.Errorf("%w: name must have 1 to %d bytes, not %d", ErrInvalid, MaxNameBytes, len(name))
	}
	for _, c := range name {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !plain && !strings.ContainsRune(others, c) {
			return fmt.Errorf("%w: name must have letters of ASCII, digits and %s only, not %q", ErrInvalid, strings.Join(strings.Split(others, ""), " "), c)
		}
	}
	return nil
}

// Name returns the principal's name: "" for everybody, if nobody has to log in.
func (p *Principal) Name() string { return p.name }

// Identity names this principal and no other: one that is made anew under the name has another
// identity. It is "" for everybody.
func (p *Principal) Identity() string {
	if p.stored.Identity == "" && p.stored.Created != 0 {
		return strconv.FormatInt(p.stored.Created, 10)
	}
	return p.stored.Identity
}

// IdentityAt is Identity for what versions without identities have stored of the principal at a time, in milliseconds
// since the epoch. It is "" for a principal who is of a later version, or was created after that time.
func (p *Principal) IdentityAt(ms int64) string {
	if p.stored.Identity != "" || p.stored.Created > ms {
		return ""
	}
	return p.Identity()
}

// MayAll reports whether the principal may perform an action on every entity, future ones
// included, and on what belongs to no entity.
func (p *Principal) MayAll(a Action) bool { return p.all[a] }

// MaySome reports whether the principal may perform an action on some entities, whether or
// not any exist.
func (p *Principal) MaySome(a Action) bool { return p.some[a] }

// Filter returns a filter that matches the entities on which the principal may perform an
// action, in the language of package filter; "" matches all.
func (p *Principal) Filter(a Action) string {
	if p.all[a] {
		return ""
	}
	var parts []string
	for i := range p.grants {
		if p.grants[i].role.allows(a) {
			parts = append(parts, "("+p.grants[i].text+")")
		}
	}
	if len(parts) == 0 {
		return `id = ""` // no entity has it
	}
	return strings.Join(parts, " or ")
}

// May returns nil if the principal may perform an action on an entity, and otherwise
// ErrForbidden or an error of the runtime. For an entity that does not exist only the id
// decides: it has no type and no attributes.
//
// May reads the entity only for grants by type or attributes, and then at most once in
// MovedWithin. It must not be called in a turn of the entity.
func (p *Principal) May(ctx context.Context, all Entities, a Action, id string) error {
	if p.all[a] {
		return nil
	}
	look := false
	for i := range p.grants {
		switch g := &p.grants[i]; {
		case !g.role.allows(a):
		case g.own != "":
			if g.own == id {
				return nil
			}
		case !g.byID:
			look = true
		case g.filter.Match(bareEntity(id), &filter.Env{}):
			return nil
		}
	}
	if look {
		may, err := p.decide(ctx, all, asked{a, id})
		if may || err != nil {
			return err
		}
	}
	return fmt.Errorf("%w: %q may not %v %q", ErrForbidden, p.name, a, id)
}

// decide evaluates the grants that depend on the entity.
func (p *Principal) decide(ctx context.Context, all Entities, q asked) (bool, error) {
	now := time.Now()
	p.mu.Lock()
	d, known := p.decisions[q]
	p.mu.Unlock()
	if known && now.Before(d.until) {
		return d.may, nil
	}
	may := false
	err := all.View(ctx, q.id, func(v entity.View) error {
		may = p.covers(q.action, entityview.New(v, nil))
		return nil
	})
	if errors.Is(err, entity.ErrNotFound) {
		may, err = p.coversID(q.action, q.id), nil
	}
	if err != nil {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.decisions == nil || len(p.decisions) >= maxDecisions {
		p.decisions = make(map[asked]decision)
	}
	p.decisions[q] = decision{may, now.Add(MovedWithin)}
	return may, nil
}

// Covers is May for an entity that the caller has already read.
func (p *Principal) Covers(a Action, v entity.View) bool {
	return p.all[a] || p.covers(a, entityview.New(v, nil))
}

func (p *Principal) covers(a Action, v filter.View) bool {
	for i := range p.grants {
		g := &p.grants[i]
		if g.role.allows(a) && (g.filter == nil || g.filter.Match(v, &filter.Env{})) {
			return true
		}
	}
	return false
}

// CoversID is May for an entity of which only the id is known, such as a deleted one.
func (p *Principal) CoversID(a Action, id string) bool {
	return p.all[a] || p.coversID(a, id)
}

// coversID ignores grants that depend on more than the id: a filter with a negation would
// match every entity of which nothing is known.
func (p *Principal) coversID(a Action, id string) bool {
	for i := range p.grants {
		g := &p.grants[i]
		if g.role.allows(a) && (g.filter == nil || g.byID && g.filter.Match(bareEntity(id), &filter.Env{})) {
			return true
		}
	}
	return false
}

// Valid reports whether the principal is neither revoked nor expired.
func (p *Principal) Valid() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.valid()
}

// valid is Valid for a caller that holds mu.
func (p *Principal) valid() bool {
	return !p.ended && (p.expires.IsZero() || time.Now().Before(p.expires))
}

// watch is one call of Watch.
type watch struct{ end func() }

// Watch arranges for end to be called once, on its own goroutine, when the principal is
// revoked or expires, unless stop is called first. It reports false, and calls nothing, if
// that has already happened. Everything that outlives a request, such as a stream, must
// watch its principal.
func (p *Principal) Watch(end func()) (stop func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.valid() {
		return nil, false
	}
	w := &watch{end}
	if p.watches == nil {
		p.watches = make(map[*watch]bool)
	}
	p.watches[w] = true
	if p.expiry == nil && !p.expires.IsZero() {
		p.expiry = time.AfterFunc(time.Until(p.expires), p.end)
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.watches, w)
		if len(p.watches) == 0 && p.expiry != nil { // so that nothing keeps it in memory
			p.expiry.Stop()
			p.expiry = nil
		}
	}, true
}

// end calls the functions given to Watch.
func (p *Principal) end() {
	p.mu.Lock()
	p.ended = true
	watches := p.watches
	p.watches = nil
	if p.expiry != nil {
		p.expiry.Stop()
	}
	p.mu.Unlock()
	for w := range watches {
		go w.end()
	}
}

// bareEntity is an entity of which only the id is known.
type bareEntity string

// Lookup finds only the id.
func (id bareEntity) Lookup(p *filter.Path) (value.Value, bool) {
	if p.Root == filter.RootID {
		return value.String(string(id)), true
	}
	return value.Value{}, false
}

// Time finds nothing.
func (id bareEntity) Time(*filter.Path) (int64, bool) { return 0, false }

// Is reports false for every type.
func (id bareEntity) Is(string) bool { return false }

// Related finds nothing.
func (id bareEntity) Related(*filter.Relation, *filter.Env) bool { return false }
