package access

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/crypto/argon2"
)

// Bounds of passwords. A token has 256 random bits and needs none of this.
const (
	MinPasswordBytes = 8
	MaxPasswordBytes = 1024

	// The parameters of argon2id: 19 MiB and two passes, the minimum that OWASP recommends
	// (2024), about 25 ms. Stored hashes name their own parameters.
	argonMemory  = 19 << 10 // KiB
	argonPasses  = 2
	argonKey     = 32
	argonSalt    = 16
	argonWaiting = 64 // passwords that wait to be checked; beyond it is ErrBusy
	argonFromOne = 16 // of them, those from one address
)

// tokenPrefix starts every token, so that scanners for leaked secrets recognize it.
const tokenPrefix = "gr_"

var tokenCoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// tokenSecret is the length of the random part.
var tokenSecret = tokenCoding.EncodedLen(sha256.Size)

// newToken returns a token for a principal. It contains the name, so that no table of all
// tokens is needed, and so that whoever finds a leaked one knows what to revoke.
func newToken(name string) string {
	random := make([]byte, sha256.Size)
	_, _ = rand.Read(random) // it does not fail
	return tokenPrefix + name + "_" + tokenCoding.EncodeToString(random)
}

// newKey returns a symmetric key of 256 random bits, in Base64.
func newKey() string {
	random := make([]byte, sha256.Size)
	_, _ = rand.Read(random) // it does not fail
	return base64.StdEncoding.EncodeToString(random)
}

// Signature is a text and its HMAC-SHA256 under a symmetric key. The zero Signature matches no key.
type Signature struct {
	Text string
	MAC  []byte
}

// hasSigned reports whether a signature was made with the principal's key.
func (p *Principal) hasSigned(s *Signature) bool {
	if len(p.key) == 0 {
		return false
	}
	mac := hmac.New(sha256.New, p.key)
	_, _ = mac.Write([]byte(s.Text)) // it takes all
	return hmac.Equal(mac.Sum(nil), s.MAC)
}

// tokenName returns the name in a token, and whether a text has the form of one.
func tokenName(token string) (name string, ok bool) {
	rest, ok := strings.CutPrefix(token, tokenPrefix)
	cut := len(rest) - tokenSecret - 1
	if !ok || cut < 1 || cut > MaxNameBytes || rest[cut] != '_' {
		return "", false
	}
	return rest[:cut], true
}

// IsToken reports whether a text has the form of a token.
func IsToken(text string) bool {
	_, ok := tokenName(text)
	return ok
}

func hashToken(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func decodeHash(text string, into *[sha256.Size]byte) error {
	raw, err := hex.DecodeString(text)
	if err == nil && len(raw) != len(into) {
		err = errors.New("the hash must have 32 bytes")
	}
	copy(into[:], raw)
	return err
}

// hasToken compares in constant time.
func (p *Principal) hasToken(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], p.token[:]) == 1 && p.stored.Token != ""
}

// passwords checks passwords. argon2id is expensive, so only a few are checked at a time,
// a few more wait, only some of them from one address, and a password that was right once is
// recognized by a keyed hash, whose key is only in memory.
type passwords struct {
	key     [sha256.Size]byte
	working chan struct{} // one for each that is checked
	nobody  string        // a hash that nothing matches, for names that do not exist

	mu      sync.Mutex
	waiting int            // those that wait or are checked, guarded by mu
	from    map[string]int // the same by address, guarded by mu
}

func newPasswords() *passwords {
	w := &passwords{working: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), from: make(map[string]int)}
	_, _ = rand.Read(w.key[:])
	salt := make([]byte, argonSalt)
	w.nobody = encodePassword(argonMemory, argonPasses, salt, make([]byte, argonKey))
	return w
}

// slot waits until a password may be hashed, for a client at an address, or for the server itself
// at "".
func (w *passwords) slot(ctx context.Context, from string) (release func(), err error) {
	if !w.enter(from) {
		return nil, ErrBusy
	}
	select {
	case w.working <- struct{}{}:
		return func() { <-w.working; w.leave(from) }, nil
	case <-ctx.Done():
		w.leave(from)
		return nil, ctx.Err()
	}
}

// enter takes a place among those that wait, and reports whether there was one.
func (w *passwords) enter(from string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting >= argonWaiting || from != "" && w.from[from] >= argonFromOne {
		return false
	}
	w.waiting++
	w.from[from]++
	return true
}

// leave gives it back.
func (w *passwords) leave(from string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting--
	if w.from[from]--; w.from[from] == 0 {
		delete(w.from, from)
	}
}

// hash returns the stored form of a password.
func (w *passwords) hash(ctx context.Context, password string) (string, error) {
	if len(password) < MinPasswordBytes || len(password) > MaxPasswordBytes {
		return "", fmt.Errorf("%w: password must have %d to %d bytes, not %d", ErrInvalid, MinPasswordBytes, MaxPasswordBytes, len(password))
	}
	release, err := w.slot(ctx, "")
	if err != nil {
		return "", err
	}
	defer release()
	salt := make([]byte, argonSalt)
	_, _ = rand.Read(salt)
	return encodePassword(argonMemory, argonPasses, salt, argon2.IDKey([]byte(password), salt, argonPasses, argonMemory, 1, argonKey)), nil
}

// check reports whether a password is that of a principal. A nil principal, which stands for
// one that does not exist, takes as long. from is where the client is. slowed is called before the
// password is checked, because others from the same address may have failed while this one waited.
func (w *passwords) check(ctx context.Context, p *Principal, password, from string, slowed func() error) (bool, error) {
	if len(password) > MaxPasswordBytes {
		return false, nil
	}
	proof := w.proof(password)
	kept := w.nobody
	if p != nil && p.stored.Password != "" {
		kept = p.stored.Password
		p.mu.Lock()
		known := p.proof
		p.mu.Unlock()
		if known != nil && hmac.Equal(known, proof) {
			return true, nil
		}
	}
	release, err := w.slot(ctx, from)
	if err != nil {
		return false, err
	}
	defer release()
	if err := slowed(); err != nil {
		return false, err
	}
	right, err := checkPassword(kept, password)
	if err != nil || !right || kept == w.nobody {
		return false, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proof = proof
	return true, nil
}

func (w *passwords) proof(password string) []byte {
	mac := hmac.New(sha256.New, w.key[:])
	_, _ = mac.Write([]byte(password)) // a hash takes all
	return mac.Sum(nil)
}

const argonForm = "$argon2id$v=19$m=%d,t=%d,p=1$"

// encodePassword returns the PHC string format, which other programs read too.
func encodePassword(memory, passes uint32, salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf(argonForm, memory, passes) + b64.EncodeToString(salt) + "$" + b64.EncodeToString(key)
}

func checkPassword(kept, password string) (bool, error) {
	var memory, passes uint32
	parts := strings.Split(kept, "$")
	if len(parts) != 6 {
		return false, fmt.Errorf("%w: the kept password has not the form of argon2id", ErrInvalid)
	}
	if _, err := fmt.Sscanf(strings.Join(parts[:4], "$")+"$", argonForm, &memory, &passes); err != nil {
		return false, fmt.Errorf("%w: the kept password has not the form of argon2id: %w", ErrInvalid, err)
	}
	salt, err := base64.RawStdEncoding.DecodeString(parts[4])
	if err != nil {
		return false, fmt.Errorf("%w: the salt of the kept password: %w", ErrInvalid, err)
	}
	key, err := base64.RawStdEncoding.DecodeString(parts[5])
	if err != nil || len(key) == 0 {
		return false, fmt.Errorf("%w: the key of the kept password is none", ErrInvalid)
	}
	got := argon2.IDKey([]byte(password), salt, passes, memory, 1, uint32(len(key)))
	return subtle.ConstantTimeCompare(got, key) == 1, nil
}
