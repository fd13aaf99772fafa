package access

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// Bounds of provision keys.
const (
	// MaxProvisionKeys is the most provision keys that a server may have.
	MaxProvisionKeys = 100
	// MaxProvisioned is the largest value of ProvisionSpec.Max.
	MaxProvisioned = MaxPrincipals
)

// kindProvision is the kind of the provision keys' documents, which are keyed by name.
const kindProvision = "provision"

// Strategy selects the devices that a provision key serves.
type Strategy string

const (
	// CreateNew serves devices that have neither an entity nor a principal.
	CreateNew Strategy = "create"
	// CheckPreProvisioned serves devices that have an entity and no principal.
	CheckPreProvisioned Strategy = "check"
)

// ProvisionSpec describes a provision key to create.
type ProvisionSpec struct {
	// Name identifies the key; devices send it as the key.
	Name     string
	Strategy Strategy
	// Prefix is the prefix of the devices' names. It must not be empty, so that a leaked key
	// cannot create devices of others.
	Prefix string
	// Type is the type of the entities that are created; "" for none.
	Type string
	// Max is the most devices that may use the key, not counting revoked ones; 0 means no limit.
	Max int
	// Expires is when the key expires; zero means never.
	Expires time.Time
	// By is the principal that creates it.
	By string
}

// ProvisionKey is the public part of a provision key.
type ProvisionKey struct {
	ProvisionSpec
	Created time.Time
	// Devices is how many devices have used the key, not counting revoked ones.
	Devices int
}

// provisionRecord is the stored form of a provision key.
type provisionRecord struct {
	Secret   string   `json:"secret"` // SHA-256, hexadecimal
	Strategy Strategy `json:"strategy"`
	Prefix   string   `json:"prefix"`
	Type     string   `json:"type,omitempty"`
	Max      int      `json:"max,omitempty"`
	Created  int64    `json:"created_ms"`
	Expires  int64    `json:"expires_ms,omitempty"`
	By       string   `json:"by,omitempty"`
}

// provisionKey is a provision key in memory.
type provisionKey struct {
	name   string
	stored provisionRecord
	secret [sha256.Size]byte
}

// MadeBy returns the Spec.By of principals created with a provision key. No principal has such a name.
func MadeBy(key string) string { return "provision key " + key }

// openProvision reads the provision keys. Only Open calls it.
func (b *Book) openProvision(ctx context.Context) error {
	docs, err := b.store.Docs(ctx, kindProvision)
	if err != nil {
		return fmt.Errorf("read the provision keys: %w", err)
	}
	b.keys, b.made = make(map[string]*provisionKey), make(map[string]int)
	for i := range docs {
		k := &provisionKey{name: docs[i].ID}
		if err := json.Unmarshal(docs[i].Body, &k.stored); err != nil {
			return fmt.Errorf("provision key %q: %w", k.name, err)
		}
		if err := decodeHash(k.stored.Secret, &k.secret); err != nil {
			return fmt.Errorf("provision key %q: %w", k.name, err)
		}
		b.keys[k.name] = k
	}
	for _, p := range b.byName {
		b.made[p.stored.By]++
	}
	return nil
}

func (s *ProvisionSpec) check() error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	if err := checkName(s.Prefix); err != nil {
		return fmt.Errorf("%w: prefix: %w", ErrInvalid, err)
	}
	switch {
	case s.Strategy != CreateNew && s.Strategy != CheckPreProvisioned:
		return fmt.Errorf("%w: strategy must be create or check, not %.32q", ErrInvalid, s.Strategy)
	case s.Strategy == CheckPreProvisioned && s.Type != "":
		return fmt.Errorf("%w: type is for devices that are made; those of the strategy check have one", ErrInvalid)
	case s.Max < 0 || s.Max > MaxProvisioned:
		return fmt.Errorf("%w: max must be an integer from 0 to %d, not %d", ErrInvalid, MaxProvisioned, s.Max)
	case !s.Expires.IsZero() && !s.Expires.After(time.Now()):
		return fmt.Errorf("%w: expires must be in the future, not %s", ErrInvalid, s.Expires.UTC().Format(time.RFC3339))
	case len(s.Type) > entity.MaxTypeBytes:
		return fmt.Errorf("%w: type must have at most %d bytes, not %d", ErrInvalid, entity.MaxTypeBytes, len(s.Type))
	}
	return nil
}

// CreateProvisionKey creates a provision key, durably, and returns its secret, which cannot be read
// again. The Book must be guarded. Its errors are ErrInvalid, ErrExists, or an error of the
// store.
func (b *Book) CreateProvisionKey(ctx context.Context, s *ProvisionSpec) (secret string, key ProvisionKey, err error) {
	if err := s.check(); err != nil {
		return "", key, err
	}
	if !b.Guarded() || b.Empty() {
		return "", key, fmt.Errorf("%w: devices cannot be provisioned where nobody has to log in; make an admin first", ErrInvalid)
	}
	secret = newToken("provision-" + s.Name)[len(tokenPrefix):]
	r := provisionRecord{
		Secret: hashToken(secret), Strategy: s.Strategy, Prefix: s.Prefix, Type: s.Type, Max: s.Max, Created: time.Now().UnixMilli(), By: s.By,
	}
	if !s.Expires.IsZero() {
		r.Expires = s.Expires.UnixMilli()
	}
	k := &provisionKey{name: s.Name, stored: r}
	if err := decodeHash(r.Secret, &k.secret); err != nil {
		return "", key, err
	}
	body, err := json.Marshal(&r)
	if err != nil {
		return "", key, err
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if n := len(b.ProvisionKeys()); n >= MaxProvisionKeys {
		return "", key, fmt.Errorf("%w: there are %d provision keys, which is the limit; revoke one", ErrInvalid, n)
	}
	_, err = b.store.PutDoc(ctx, kindProvision, s.Name, body, entity.IfNone)
	if errors.Is(err, entity.ErrConflict) {
		return "", key, fmt.Errorf("%w: provision key %q; revoke it first", ErrExists, s.Name)
	}
	if err != nil {
		return "", key, fmt.Errorf("keep provision key %q: %w", s.Name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys[k.name] = k
	return secret, b.keyInfo(k), nil
}

// keyInfo returns the public part of a key. The caller holds mu.
func (b *Book) keyInfo(k *provisionKey) ProvisionKey {
	r := &k.stored
	info := ProvisionKey{ProvisionSpec: ProvisionSpec{Name: k.name, Strategy: r.Strategy, Prefix: r.Prefix, Type: r.Type, Max: r.Max, By: r.By}, Created: time.UnixMilli(r.Created), Devices: b.made[MadeBy(k.name)]}
	if r.Expires != 0 {
		info.Expires = time.UnixMilli(r.Expires)
	}
	return info
}

// ProvisionKeys returns all provision keys, by name.
func (b *Book) ProvisionKeys() []ProvisionKey {
	b.mu.RLock()
	defer b.mu.RUnlock()
	list := make([]ProvisionKey, 0, len(b.keys))
	for _, k := range b.keys {
		list = append(list, b.keyInfo(k))
	}
	slices.SortFunc(list, func(x, y ProvisionKey) int { return strings.Compare(x.Name, y.Name) })
	return list
}

// RevokeProvisionKey removes a provision key, durably. Devices that have used it stay. Its errors are
// ErrNotFound and those of the store.
func (b *Book) RevokeProvisionKey(ctx context.Context, name string) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	b.mu.RLock()
	k := b.keys[name]
	b.mu.RUnlock()
	if k == nil {
		return fmt.Errorf("%w: provision key %q", ErrNotFound, name)
	}
	if err := b.store.DeleteDoc(ctx, kindProvision, name, ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
		return fmt.Errorf("revoke provision key %q: %w", name, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.keys, name)
	return nil
}

// provisionerName is the name of a device that has no principal yet. No principal can have it.
const provisionerName = "+provision"

// Provisioner returns the principal of a device that requests credentials from an address. It reports false if there
// is no provision key: then no device may connect to request any.
func (b *Book) Provisioner(from netip.Addr) (*Principal, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if len(b.keys) == 0 || !b.Guarded() {
		return nil, false
	}
	return &Principal{name: provisionerName, newcomer: b.newcomers.at(AddressKey(from), time.Since(b.began))}, true
}

// FindProvisionKey returns the provision key of a name if the secret is correct and the key has not
// expired. Otherwise the error is ErrCredentials, or ErrSlowed after too many failures from the
// address. Wrong secrets count as failed logins.
func (b *Book) FindProvisionKey(name, secret string, from netip.Addr) (ProvisionKey, error) {
	sum := sha256.Sum256([]byte(secret))
	b.mu.RLock()
	k := b.keys[name]
	var info ProvisionKey
	if k != nil {
		info = b.keyInfo(k)
	}
	b.mu.RUnlock()
	if k != nil && subtle.ConstantTimeCompare(sum[:], k.secret[:]) == 1 && (info.Expires.IsZero() || time.Now().Before(info.Expires)) {
		return info, nil
	}
	err := b.denied(&Attempt{Address: from})
	if errors.Is(err, ErrSlowed) {
		b.logins[loginSlowed].Add(1)
		return info, err
	}
	b.logins[loginFailed].Add(1)
	b.addresses.fail(AddressKey(from))
	return info, err
}

// Provision creates the principal of a device, with the role Device for the entity of its name. The
// credential is the password if there is one, and otherwise the token that is returned. The caller has
// found the key with FindProvisionKey and checked whether the entity exists. The errors are those of
// Create, and ErrInvalid also if the key was revoked, is for other names, or has reached its Max.
func (b *Book) Provision(ctx context.Context, key, device, password string) (token string, err error) {
	if !b.Guarded() || b.Empty() {
		return "", fmt.Errorf("%w: nobody has to log in", ErrInvalid)
	}
	token, _, err = b.create(ctx, &Spec{Name: device, Grants: []Grant{{Role: Device}}, Password: password, By: MadeBy(key)}, func() error {
		k := b.keys[key]
		switch {
		case k == nil:
			return fmt.Errorf("%w: there is no provision key %q", ErrInvalid, key)
		case !strings.HasPrefix(device, k.stored.Prefix):
			return fmt.Errorf("%w: the provision key %q is for names that begin with %s, not for %q", ErrInvalid, key, k.stored.Prefix, device)
		case k.stored.Max > 0 && b.made[MadeBy(key)] >= k.stored.Max:
			return fmt.Errorf("%w: the provision key %q has made %d devices, which is its limit", ErrInvalid, key, k.stored.Max)
		}
		return nil
	})
	return token, err
}
