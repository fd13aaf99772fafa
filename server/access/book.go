package access

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// MaxPrincipals is the most principals that a server may have. They are kept in memory:
// about 1 kB each, plus their filters.
const MaxPrincipals = 100_000

// kindPrincipal is the kind of the principals' documents, which are keyed by name.
const kindPrincipal = "principal"

// Store keeps documents. An entity.Runtime is one, whatever its store.
type Store interface {
	Docs(ctx context.Context, kind string) ([]entity.Doc, error)
	Doc(ctx context.Context, kind, id string) (entity.Doc, error)
	PutDoc(ctx context.Context, kind, id string, body []byte, condition string) (entity.Doc, error)
	DeleteDoc(ctx context.Context, kind, id, condition string) error
}

// Config configures a Book.
type Config struct {
	// Required demands credentials even while there is no principal.
	Required bool
	// Rates are how much principals may send.
	Rates Rates
	// Logger logs failures in the background. The default is slog.Default.
	Logger *slog.Logger
}

// Book holds the principals of a server. Create one with Open; only one Book may use a
// store at a time. Its methods may be called concurrently.
type Book struct {
	store     Store
	log       *slog.Logger
	required  bool
	passwords *passwords
	uses      *uses

	// Failed logins by address and by name. Names count for passwords only: a token
	// cannot be guessed.
	addresses, names *limiter

	logins [loginResults]atomic.Uint64

	rates     Rates
	began     time.Time // from which allowances count
	newcomers newcomers
	// How often principals had to wait because of their rates, and the sum of these waits.
	waits, waited atomic.Int64

	writing sync.Mutex // held while principals are made and revoked

	mu      sync.RWMutex
	byName  map[string]*Principal    // guarded by mu
	keys    map[string]*provisionKey // guarded by mu
	made    map[string]int           // how many of byName each By has made; guarded by mu
	anyone  *Principal               // who everybody is where nobody has to log in; ended by the first principal
	guarded atomic.Bool              // byName is not empty, or required
}

// Open reads the principals of a store.
func Open(ctx context.Context, store Store, cfg Config) (*Book, error) {
	b := &Book{
		store: store, log: cmp.Or(cfg.Logger, slog.Default()), required: cfg.Required, passwords: newPasswords(),
		addresses: newLimiter(time.Now), names: newLimiter(time.Now), byName: make(map[string]*Principal),
		rates: cfg.Rates.withDefaults(), began: time.Now().Add(-time.Hour), // so that all allowances are full
	}
	b.anyone = &Principal{all: everything, some: everything}
	docs, err := store.Docs(ctx, kindPrincipal)
	if err != nil {
		return nil, fmt.Errorf("read the principals: %w", err)
	}
	for i := range docs {
		p, err := parsePrincipal(&docs[i])
		if err != nil {
			return nil, fmt.Errorf("read the principals: %w", err)
		}
		b.byName[p.name] = p
	}
	b.guarded.Store(cfg.Required || len(b.byName) > 0)
	if err := b.openProvision(ctx); err != nil {
		return nil, err
	}
	if b.uses, err = openUses(ctx, b); err != nil {
		return nil, err
	}
	return b, nil
}

// Everybody returns a Book without a store: it has no principals, none can be created, and
// nobody has to log in.
func Everybody() *Book {
	return &Book{anyone: &Principal{all: everything, some: everything}}
}

var everything = [actions]bool{Read: true, Report: true, Write: true, Manage: true, Receive: true}

// Close stores when principals were last used.
func (b *Book) Close(ctx context.Context) error { return b.uses.close(ctx) }

// Guarded reports whether clients must log in, because there is a principal or Config
// requires credentials. Once true, it stays true while the Book is open.
func (b *Book) Guarded() bool { return b.guarded.Load() }

// Empty reports whether there is no principal.
func (b *Book) Empty() bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.byName) == 0
}

// Attempt is the credentials presented at a login. A certificate takes precedence over an
// OpenID Connect name, that over a token, and that over a password.
type Attempt struct {
	// Certificate is the common name of a verified client certificate, and OIDC the name
	// proved by an OpenID Connect provider.
	Certificate, OIDC string
	// Token is a string in the form of a token, see IsToken.
	Token string
	// Signature is a text signed by the principal Name with its key, or nil. It takes precedence over a token.
	Signature      *Signature
	Name, Password string
	// Address is the client's address.
	Address netip.Addr
}

// Login results, as Stats counts them.
const (
	loginOK = iota
	loginFailed
	loginSlowed
	loginBusy

	loginResults
)

// Stats counts the results of Login.
type Stats struct {
	OK, Failed, Slowed, Busy uint64
	Principals               int
	// Waits counts how often principals had to wait because they sent more than their rate, see
	// Rates; Waited is the sum of these waits. Held is how many principals have waited within the
	// last HeldFor.
	Waits  int64
	Waited time.Duration
	Held   int
}

// HeldFor is how long Stats counts a principal as held after it had to wait.
const HeldFor = 10 * time.Second

// Stats returns the counters.
func (b *Book) Stats() Stats {
	b.mu.RLock()
	defer b.mu.RUnlock()
	s := Stats{
		OK: b.logins[loginOK].Load(), Failed: b.logins[loginFailed].Load(), Slowed: b.logins[loginSlowed].Load(), Busy: b.logins[loginBusy].Load(),
		Principals: len(b.byName), Waits: b.waits.Load(), Waited: time.Duration(b.waited.Load()),
	}
	since := time.Since(b.began) - HeldFor
	for _, p := range b.byName {
		if late := time.Duration(p.allowance.late.Load()); late != 0 && late > since {
			s.Held++
		}
	}
	return s
}

// Login returns the principal that an attempt identifies. If nobody has to log in, that is
// everybody, whatever the attempt contains. Its errors are ErrMissing, ErrCredentials,
// ErrSlowed and ErrBusy, or that of ctx. A password that was not checked before takes about
// 25 ms, and may wait for others.
func (b *Book) Login(ctx context.Context, a *Attempt) (*Principal, error) {
	if !b.Guarded() {
		return b.anyone, nil
	}
	p, err := b.recognize(ctx, a)
	switch {
	case err == nil:
		b.logins[loginOK].Add(1)
		b.uses.note(p)
	case errors.Is(err, ErrSlowed):
		b.logins[loginSlowed].Add(1)
	case errors.Is(err, ErrBusy):
		b.logins[loginBusy].Add(1)
	case errors.Is(err, ErrCredentials):
		b.logins[loginFailed].Add(1)
		b.addresses.fail(AddressKey(a.Address))
	default:
	}
	return p, err
}

// Slowed returns how long a client at an address must wait before the caller should ask
// another authority to identify it; 0 means no wait.
func (b *Book) Slowed(from netip.Addr) time.Duration {
	if !b.Guarded() {
		return 0
	}
	wait := b.addresses.wait(AddressKey(from))
	if wait > 0 {
		b.logins[loginSlowed].Add(1)
	}
	return wait
}

// Failed counts a login that another authority has refused.
func (b *Book) Failed(from netip.Addr) {
	if b.Guarded() {
		b.logins[loginFailed].Add(1)
		b.addresses.fail(AddressKey(from))
	}
}

func (b *Book) recognize(ctx context.Context, a *Attempt) (*Principal, error) {
	switch {
	case a.Certificate != "":
		if p := b.find(a.Certificate); p != nil && p.stored.Certificate && p.Valid() {
			return p, nil
		}
		return nil, b.denied(a)
	case a.OIDC != "":
		if p := b.find(a.OIDC); p != nil && p.stored.OIDC && p.Valid() {
			return p, nil
		}
		return nil, b.denied(a)
	case a.Signature != nil:
		if p := b.find(a.Name); p != nil && p.hasSigned(a.Signature) && p.Valid() {
			return p, nil
		}
		return nil, b.denied(a)
	case a.Token != "":
		name, ok := tokenName(a.Token)
		if !ok {
			return nil, b.denied(a)
		}
		if p := b.find(name); p != nil && p.hasToken(a.Token) && p.Valid() {
			return p, nil
		}
		return nil, b.denied(a)
	case a.Name == "" && a.Password == "":
		return nil, ErrMissing
	default:
		return b.byPassword(ctx, a)
	}
}

// denied returns the error for wrong credentials. Right ones are always accepted, so that a
// misconfigured device does not lock out others behind the same address.
func (b *Book) denied(a *Attempt) error {
	if wait := b.addresses.wait(AddressKey(a.Address)); wait > 0 {
		return &SlowedError{wait}
	}
	return ErrCredentials
}

// byPassword does not check the password after too many wrong ones: a check would be a
// guess. A client that has logged in from the same address before is not slowed by failures
// with its name from elsewhere.
func (b *Book) byPassword(ctx context.Context, a *Attempt) (*Principal, error) {
	if checkName(a.Name) != nil { // nor is it counted: it is nobody's, and may be long
		return nil, ErrCredentials
	}
	p, from := b.find(a.Name), AddressKey(a.Address)
	slowed := func() error {
		if wait := b.addresses.wait(from); wait > 0 {
			return &SlowedError{wait}
		}
		if wait := b.names.wait(a.Name); wait > 0 && (p == nil || p.lastFrom() != from) {
			return &SlowedError{wait}
		}
		return nil
	}
	if err := slowed(); err != nil {
		return nil, err
	}
	right, err := b.passwords.check(ctx, p, a.Password, from, slowed)
	if err != nil {
		return nil, err
	}
	if !right || !p.Valid() {
		b.names.fail(a.Name)
		return nil, ErrCredentials
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from = from
	return p, nil
}

func (p *Principal) lastFrom() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.from
}

// AddressKey returns the key that an address is counted by: for IPv6, the prefix that a
// provider assigns as a whole.
func AddressKey(a netip.Addr) string {
	a = a.Unmap()
	if a.Is6() {
		prefix, err := a.WithZone("").Prefix(64)
		if err == nil {
			return prefix.String()
		}
	}
	return a.String()
}

// Find returns the principal of a name and whether there is one. For "" it returns
// everybody, if nobody has to log in.
func (b *Book) Find(name string) (*Principal, bool) {
	if !b.Guarded() {
		return b.anyone, name == ""
	}
	p := b.find(name)
	return p, p != nil
}

func (b *Book) find(name string) *Principal {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.byName[name]
}

// Spec describes a principal to create.
type Spec struct {
	Name   string
	Grants []Grant
	// Expires is when the principal expires; zero means never.
	Expires time.Time
	// Password, Key, Certificate or OIDC selects the credential; without any of them it is a token.
	// Key means a symmetric key, for devices that sign what they present; the store keeps it in clear.
	Password    string
	Key         bool
	Certificate bool
	OIDC        bool
	// By is the principal that creates it.
	By string
	// Rate is how many bytes it may send in a second, at most MaxRate, instead of that of Rates; 0
	// for that.
	Rate int64
}

// Info is the public part of a principal.
type Info struct {
	Name       string
	Grants     []Grant
	Credential string // token, password, key, certificate or oidc
	Created    time.Time
	Expires    time.Time // zero: never
	Used       time.Time // zero: never
	By         string
	Rate       int64 // Spec.Rate
	// Held is until when it last had to wait, or would have had to if that had not been refused,
	// because it sent more than its rate; zero for never since the start of the server. Waited is the
	// sum of the waits of its connections and requests.
	Held   time.Time
	Waited time.Duration
}

// Create creates a principal, durably, and returns its token, or with Spec.Key its key in Base64; neither can
// be read again. The result is "" for other credentials. The first principal must be an admin
// that does not expire. Once it exists everybody must log in, and connections without a login end.
//
// Its errors are ErrInvalid, ErrExists, ErrBusy, or that of the store.
func (b *Book) Create(ctx context.Context, s *Spec) (token string, info Info, err error) {
	return b.create(ctx, s, func() error { return nil })
}

// create is Create with a further condition, which is asked with mu held.
func (b *Book) create(ctx context.Context, s *Spec, also func() error) (token string, info Info, err error) {
	r := record{Grants: s.Grants, Certificate: s.Certificate, OIDC: s.OIDC, Rate: s.Rate, Created: time.Now().UnixMilli(), Identity: rand.Text(), By: s.By}
	if !s.Expires.IsZero() {
		if r.Expires = s.Expires.UnixMilli(); !s.Expires.After(time.Now()) {
			return "", info, fmt.Errorf("%w: expires must be in the future, not %s", ErrInvalid, s.Expires.UTC().Format(time.RFC3339))
		}
	}
	given := 0
	for _, is := range []bool{s.Password != "", s.Key, s.Certificate, s.OIDC} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		return "", info, fmt.Errorf("%w: only one of password, key, certificate and oidc may be given", ErrInvalid)
	case s.Key:
		token = newKey()
		r.Key = token
	case s.Password != "":
		if r.Password, err = b.passwords.hash(ctx, s.Password); err != nil {
			return "", info, err
		}
	case !s.Certificate && !s.OIDC:
		token = newToken(s.Name)
		r.Token = hashToken(token)
	}
	p, err := newPrincipal(s.Name, &r)
	if err != nil {
		return "", info, err
	}
	b.writing.Lock()
	defer b.writing.Unlock()
	if err := b.mayAdd(p, also); err != nil {
		return "", info, err
	}
	body, err := json.Marshal(&r)
	if err == nil {
		_, err = b.store.PutDoc(ctx, kindPrincipal, s.Name, body, entity.IfNone)
	}
	if errors.Is(err, entity.ErrConflict) { // made, but its answer was lost
		return "", info, fmt.Errorf("%w: %q", ErrExists, s.Name)
	}
	if err != nil {
		return "", info, fmt.Errorf("keep principal %q: %w", s.Name, err)
	}
	b.mu.Lock()
	b.byName[p.name] = p
	b.made[p.stored.By]++
	b.guarded.Store(true)
	b.mu.Unlock()
	b.anyone.end()
	return token, b.info(p), nil
}

// mayAdd returns why a principal cannot be created, or nil. The caller holds writing.
func (b *Book) mayAdd(p *Principal, also func() error) error {
	b.mu.RLock()
	defer b.mu.RUnlock()
	switch {
	case b.byName[p.name] != nil:
		return fmt.Errorf("%w: %q; revoke it first", ErrExists, p.name)
	case len(b.byName) >= MaxPrincipals:
		return fmt.Errorf("%w: there are %d, which is the limit; revoke one", ErrInvalid, len(b.byName))
	case len(b.byName) == 0 && !p.lasting():
		return fmt.Errorf("%w: the first principal must be an admin that does not expire, with a token or a password: from then on everybody must log in, and only an admin makes others", ErrInvalid)
	}
	return also()
}

// Revoke removes a principal, durably, and ends its connections and streams. It returns
// ErrLastAdmin for the last admin that does not expire, ErrNotFound, or an error of the
// store.
func (b *Book) Revoke(ctx context.Context, name string) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	p := b.find(name)
	if p == nil {
		return fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	if b.isLastAdmin(p) {
		return fmt.Errorf("%w: %q cannot be revoked, because nobody could make another one; make one first", ErrLastAdmin, name)
	}
	if err := b.store.DeleteDoc(ctx, kindPrincipal, name, ""); err != nil && !errors.Is(err, entity.ErrNotFound) {
		return fmt.Errorf("revoke %q: %w", name, err)
	}
	b.mu.Lock()
	delete(b.byName, name)
	if b.made[p.stored.By]--; b.made[p.stored.By] == 0 {
		delete(b.made, p.stored.By)
	}
	b.mu.Unlock()
	p.end()
	return nil
}

// lasting reports whether the principal can always create others. Certificates expire, and
// need a server that has their CA; an OpenID Connect provider may be unavailable.
func (p *Principal) lasting() bool {
	return p.all[Manage] && p.expires.IsZero() && !p.stored.Certificate && !p.stored.OIDC
}

func (b *Book) isLastAdmin(p *Principal) bool {
	if !p.lasting() {
		return false
	}
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, other := range b.byName {
		if other != p && other.lasting() {
			return false
		}
	}
	return true
}

// Info returns the public part of a principal, or ErrNotFound.
func (b *Book) Info(name string) (Info, error) {
	p := b.find(name)
	if p == nil {
		return Info{}, fmt.Errorf("%w: %q", ErrNotFound, name)
	}
	return b.info(p), nil
}

// List returns up to limit principals whose names follow after, in the order of names, and whether there
// are more. If by is not "", it lists only those that by has created (see Spec.By).
func (b *Book) List(by, after string, limit int) (list []Info, more bool) {
	b.mu.RLock()
	all := make([]*Principal, 0, len(b.byName))
	for _, p := range b.byName {
		if p.name > after && (by == "" || p.stored.By == by) {
			all = append(all, p)
		}
	}
	b.mu.RUnlock()
	slices.SortFunc(all, func(x, y *Principal) int { return strings.Compare(x.name, y.name) })
	if len(all) > limit {
		all, more = all[:limit], true
	}
	for _, p := range all {
		list = append(list, b.info(p))
	}
	return list, more
}

func (b *Book) info(p *Principal) Info {
	i := Info{Name: p.name, Rate: p.stored.Rate, Waited: time.Duration(p.allowance.waited.Load()), Grants: slices.Clone(p.stored.Grants), Credential: "token", Created: time.UnixMilli(p.stored.Created), Expires: p.expires, By: p.stored.By}
	switch {
	case p.stored.Certificate:
		i.Credential = "certificate"
	case p.stored.OIDC:
		i.Credential = "oidc"
	case p.stored.Key != "":
		i.Credential = "key"
	case p.stored.Password != "":
		i.Credential = "password"
	}
	if used := p.used.Load(); used != 0 {
		i.Used = time.UnixMilli(used)
	}
	if late := p.allowance.late.Load(); late != 0 {
		i.Held = time.Now().Add(time.Duration(late) - time.Since(b.began)) // whatever the clock was set to since
	}
	return i
}
