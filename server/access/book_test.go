package access

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/pause"
)

func TestPrincipalsSurviveARestart(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open func() *entity.Runtime) {
		rt := open()
		b, token := guarded(t, rt)
		create(t, b, &Spec{Name: "pump-1", Grants: []Grant{{Role: Device}}, Password: "a long password"})
		gone := create(t, b, &Spec{Name: "gone", Grants: []Grant{{Role: Viewer, Filter: `type is "Meter"`}}})
		if _, err := login(t, b, Attempt{Token: token}); err != nil {
			t.Fatal(err)
		}
		if err := b.Revoke(t.Context(), "gone"); err != nil {
			t.Fatal(err)
		}
		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, d := range mustDocs(t, rt) {
			if strings.Contains(string(d.Body), token) || strings.Contains(string(d.Body), "a long password") {
				t.Errorf("the store has a secret: %s", d.Body)
			}
		}
		b = openBook(t, open())
		if !b.Guarded() {
			t.Error("after a restart nobody has to log in")
		}
		if p, err := login(t, b, Attempt{Token: token}); err != nil || p.Name() != "root" || !p.MayAll(Manage) {
			t.Errorf("the admin: %v, %v", p, err)
		}
		if p, err := login(t, b, Attempt{Name: "pump-1", Password: "a long password"}); err != nil || p.Name() != "pump-1" {
			t.Errorf("the password: %v, %v", p, err)
		}
		if _, err := login(t, b, Attempt{Token: gone}); !errors.Is(err, ErrCredentials) {
			t.Errorf("a revoked token: %v, want %v", err, ErrCredentials)
		}
		if i, err := b.Info("root"); err != nil || i.Used.IsZero() {
			t.Errorf("the last use is forgotten: %+v, %v", i, err)
		}
		list, more := b.List("", "", 1)
		if len(list) != 1 || list[0].Name != "pump-1" || !more {
			t.Errorf("List: %+v, %v", list, more)
		}
	})
}

func mustDocs(t *testing.T, s Store) []entity.Doc {
	t.Helper()
	docs, err := s.Docs(t.Context(), kindPrincipal)
	if err != nil || len(docs) != 2 {
		t.Fatalf("%d principals are kept, %v, want 2", len(docs), err)
	}
	return docs
}

func TestNobodyHasToLogInBeforeTheFirstPrincipal(t *testing.T) {
	t.Parallel()
	b := openBook(t, newMemory())
	p, err := login(t, b, Attempt{})
	if err != nil || !p.MayAll(Manage) || p.Name() != "" {
		t.Fatalf("Login: %v, %v", p, err)
	}
	var ended sync.WaitGroup
	ended.Add(1)
	if _, ok := p.Watch(ended.Done); !ok {
		t.Fatal("what is open without credentials cannot be watched")
	}
	for name, s := range map[string]Spec{
		"no admin":         {Name: "a", Grants: []Grant{{Role: Operator}}},
		"one that expires": {Name: "a", Grants: []Grant{{Role: Admin}}, Expires: time.Now().Add(time.Hour)},
	} {
		if _, _, err := b.Create(t.Context(), &s); !errors.Is(err, ErrInvalid) || b.Guarded() {
			t.Errorf("the first is %s: %v, want %v", name, err, ErrInvalid)
		}
	}
	create(t, b, &Spec{Name: "root", Grants: []Grant{{Role: Admin}}})
	ended.Wait()
	if _, err := login(t, b, Attempt{}); !errors.Is(err, ErrMissing) {
		t.Errorf("without credentials: %v, want %v", err, ErrMissing)
	}
	if err := b.Revoke(t.Context(), "root"); !errors.Is(err, ErrLastAdmin) {
		t.Errorf("the last admin: %v, want %v", err, ErrLastAdmin)
	}
}

func TestRequiredDemandsCredentialsFromTheStart(t *testing.T) {
	t.Parallel()
	b, err := Open(t.Context(), newMemory(), Config{Required: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := login(t, b, Attempt{}); !errors.Is(err, ErrMissing) || !b.Empty() {
		t.Errorf("Login: %v, want %v", err, ErrMissing)
	}
}

func TestOnlyTheCredentialThatWasGivenCounts(t *testing.T) {
	t.Parallel()
	b, token := guarded(t, newMemory())
	create(t, b, &Spec{Name: "cert", Grants: []Grant{{Role: Device}}, Certificate: true})
	create(t, b, &Spec{Name: "word", Grants: []Grant{{Role: Device}}, Password: "12345678"})
	for name, a := range map[string]Attempt{
		"another secret":                {Token: newToken("root")},
		"the token of another":          {Token: strings.Replace(token, "root", "word", 1)},
		"a token cut off":               {Token: token[:len(token)-1]},
		"a name that is not there":      {Token: newToken("nobody")},
		"certificate of a token":        {Certificate: "root"},
		"certificate of nobody":         {Certificate: "nobody"},
		"no password":                   {Name: "word"},
		"a wrong password":              {Name: "word", Password: "12345679"},
		"a password for a certificate":  {Name: "cert", Password: ""},
		"a password for a token":        {Name: "root", Password: token},
		"the password of nobody":        {Name: "nobody", Password: "12345678"},
		"a token of a certificate":      {Token: newToken("cert")},
		"a wrong token, and a password": {Token: newToken("root"), Name: "word", Password: "12345678"},
	} {
		if p, err := login(t, b, a); !errors.Is(err, ErrCredentials) && !errors.Is(err, ErrSlowed) {
			t.Errorf("%s: %v, %v, want %v", name, p, err, ErrCredentials)
		}
	}
	if p, err := login(t, b, Attempt{Certificate: "cert"}); err != nil || p.Name() != "cert" {
		t.Errorf("the certificate: %v, %v", p, err)
	}
}

func TestRevocationAndExpiryEndWhatIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, _ := guarded(t, newMemory())
		token := create(t, b, &Spec{Name: "a", Grants: []Grant{{Role: Viewer}}})
		short := create(t, b, &Spec{Name: "b", Grants: []Grant{{Role: Viewer}}, Expires: time.Now().Add(time.Hour)})
		began := time.Now()
		var ended [3]atomic.Int64
		times := func() (d [3]time.Duration) {
			for i := range d {
				d[i] = time.Duration(ended[i].Load())
			}
			return d
		}
		for i, token := range []string{token, short, token} {
			p, err := login(t, b, Attempt{Token: token})
			if err != nil {
				t.Fatal(err)
			}
			stop, ok := p.Watch(func() { ended[i].Store(1 + int64(time.Since(began))) })
			if !ok {
				t.Fatal("a principal that is let in cannot be watched")
			}
			if i == 2 {
				stop()
			}
		}
		p := b.find("a")
		if err := b.Revoke(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := times(); got != [3]time.Duration{1, 0, 0} {
			t.Errorf("after the revocation: ended %v", got)
		}
		if _, ok := p.Watch(func() {}); ok || p.Valid() {
			t.Error("a revoked principal can open more")
		}
		_ = pause.For(t.Context(), time.Hour)
		synctest.Wait()
		if got := times(); got != [3]time.Duration{1, time.Hour + 1, 0} {
			t.Errorf("after the expiry: ended %v", got)
		}
		if _, err := login(t, b, Attempt{Token: short}); !errors.Is(err, ErrCredentials) {
			t.Errorf("an expired token: %v, want %v", err, ErrCredentials)
		}
	})
}

func TestFailedLoginsAreSlowedByAddressAndName(t *testing.T) {
	t.Parallel()
	b, token := guarded(t, newMemory())
	create(t, b, &Spec{Name: "word", Grants: []Grant{{Role: Device}}, Password: "12345678"})
	clock := time.Now()
	b.names.now, b.addresses.now = func() time.Time { return clock }, func() time.Time { return clock }
	home := netip.MustParseAddr("198.51.100.7")
	if _, err := login(t, b, Attempt{Name: "word", Password: "12345678", Address: home}); err != nil {
		t.Fatal(err)
	}
	for range FreeFailures {
		b.names.fail("word")
		if _, err := login(t, b, Attempt{Token: newToken("root")}); !errors.Is(err, ErrCredentials) {
			t.Fatalf("within what is free: %v", err)
		}
	}
	var slowed *SlowedError
	if _, err := login(t, b, Attempt{Token: newToken("root")}); !errors.As(err, &slowed) || slowed.Wait != FailureForgiven {
		t.Errorf("a wrong token from the address: %v", err)
	}
	if _, err := login(t, b, Attempt{Token: token}); err != nil {
		t.Errorf("the right token from the address: %v", err)
	}
	other := netip.MustParseAddr("203.0.113.9")
	if _, err := login(t, b, Attempt{Name: "word", Password: "12345678", Address: other}); !errors.Is(err, ErrSlowed) {
		t.Errorf("the name from elsewhere: %v, want %v", err, ErrSlowed)
	}
	if _, err := login(t, b, Attempt{Name: "word", Password: "12345678", Address: home}); err != nil {
		t.Errorf("the name from where it is at home: %v", err)
	}
	clock = clock.Add(FailureForgiven)
	if _, err := login(t, b, Attempt{Name: "word", Password: "12345678", Address: other}); err != nil {
		t.Errorf("the name from elsewhere, later: %v", err)
	}
	if s := b.Stats(); s.Failed != FreeFailures || s.Slowed != 2 || s.OK != 4 {
		t.Errorf("Stats: %+v", s)
	}
}

// Guessing many passwords at once must not get more of them checked than guessing one after the other.
func TestPasswordsThatWaitAreSlowedByThoseBeforeThem(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, newMemory())
	start := time.Now()
	b.addresses = newLimiter(func() time.Time { return start }) // a slow machine forgives none meanwhile
	const guesses = argonFromOne
	var wg sync.WaitGroup
	var looked atomic.Int64
	from := netip.MustParseAddr("203.0.113.9")
	for i := range guesses {
		wg.Go(func() {
			a := Attempt{Name: fmt.Sprintf("name-%d", i), Password: "wrong password", Address: from}
			switch _, err := b.Login(t.Context(), &a); {
			case errors.Is(err, ErrCredentials):
				looked.Add(1)
			case !errors.Is(err, ErrSlowed):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	// The failure of the one that was looked at last is counted after its place is free.
	if most := int64(FreeFailures + 2*cap(b.passwords.working)); looked.Load() > most {
		t.Errorf("%d of %d guesses at once were looked at, want %d at most", looked.Load(), guesses, most)
	}
}

func TestSlowedAddressesAreBounded(t *testing.T) {
	t.Parallel()
	l := newLimiter(time.Now)
	for i := range MaxSlowed + 5 {
		a := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		l.fail(AddressKey(a))
	}
	if len(l.byKey) != MaxSlowed || l.recent.Len() != MaxSlowed {
		t.Errorf("%d and %d are remembered, want %d", len(l.byKey), l.recent.Len(), MaxSlowed)
	}
	if AddressKey(netip.MustParseAddr("2001:db8::1")) != AddressKey(netip.MustParseAddr("2001:db8::ffff:1")) {
		t.Error("two addresses of one IPv6 network are counted apart")
	}
}

func TestPrincipalsThatCannotBe(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, newMemory())
	long := strings.Repeat("x", MaxFilterBytes)
	for want, s := range map[string]Spec{
		"name must have letters":                          {Name: "a/b", Grants: []Grant{{Role: Viewer}}},
		"name must have 1 to 128":                         {Grants: []Grant{{Role: Viewer}}},
		"grants must be 1 to 16":                          {Name: "a"},
		"role must be":                                    {Name: "a", Grants: []Grant{{Role: "root"}}},
		"an admin has no filter":                          {Name: "a", Grants: []Grant{{Role: Admin, Filter: `id = "a"`}}},
		"the filters of all grants":                       {Name: "a", Grants: []Grant{{Role: Viewer, Filter: `id = "` + long + `"`}}},
		"not at reported.x":                               {Name: "a", Grants: []Grant{{Role: Viewer, Filter: "reported.x = 1"}}},
		"not at temperature":                              {Name: "a", Grants: []Grant{{Role: Viewer, Filter: "temperature > 1"}}},
		"may look at id, type":                            {Name: "a", Grants: []Grant{{Role: Viewer, Filter: `related any to "b"`}}},
		"expected":                                        {Name: "a", Grants: []Grant{{Role: Viewer, Filter: "id ="}}},
		"expires must be in":                              {Name: "a", Grants: []Grant{{Role: Viewer}}, Expires: time.Now()},
		"password must have 8 to":                         {Name: "a", Grants: []Grant{{Role: Viewer}}, Password: "1234567"},
		"only one of password, key, certificate and oidc": {Name: "a", Grants: []Grant{{Role: Viewer}}, Password: "12345678", Certificate: true},
		`the principal exists: "root"`:                    {Name: "root", Grants: []Grant{{Role: Viewer}}},
	} {
		if _, _, err := b.Create(t.Context(), &s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want an error with %q", s, err, want)
		}
	}
}

func TestOnlySomePasswordsAreCheckedAtOnce(t *testing.T) {
	t.Parallel()
	w := newPasswords()
	login := func(from string) error {
		_, err := w.check(t.Context(), nil, "12345678", from, func() error { return nil })
		return err
	}
	for range argonFromOne {
		w.enter("203.0.113.9")
	}
	if err := login("203.0.113.9"); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of an address: %v, want %v", err, ErrBusy)
	}
	if err := login("203.0.113.10"); err != nil {
		t.Errorf("one of another address: %v", err)
	}
	for i := range argonWaiting - argonFromOne {
		w.enter(fmt.Sprint(i))
	}
	if err := login("203.0.113.10"); !errors.Is(err, ErrBusy) {
		t.Errorf("one more of all: %v, want %v", err, ErrBusy)
	}
	w.leave("203.0.113.9")
	if err := login("203.0.113.9"); err != nil {
		t.Errorf("once another one is done: %v", err)
	}
	for i := range argonWaiting - argonFromOne {
		w.leave(fmt.Sprint(i))
	}
	if w.waiting != argonFromOne-1 || len(w.from) != 1 {
		t.Errorf("%d wait, of %d addresses", w.waiting, len(w.from))
	}
}

func TestALongNameIsRefusedAndNotRemembered(t *testing.T) {
	t.Parallel()
	b, _ := guarded(t, newMemory())
	for range 50 {
		_, err := login(t, b, Attempt{Name: strings.Repeat("x", 1<<20), Password: "x", Address: netip.MustParseAddr("192.0.2.8")})
		if err == nil {
			t.Fatal("it was let in")
		}
	}
	if n := len(b.names.byKey); n != 0 {
		t.Errorf("%d names are remembered", n)
	}
}

func TestAnAdminWithACertificateIsNotTheOneWhoStays(t *testing.T) {
	t.Parallel()
	b := openBook(t, newMemory())
	if _, _, err := b.Create(t.Context(), &Spec{Name: "eve", Certificate: true, Grants: []Grant{{Role: Admin}}}); !errors.Is(err, ErrInvalid) {
		t.Errorf("as the first principal: %v, want ErrInvalid", err)
	}
}

func TestAGrantWithANegationCoversNothingThatDoesNotExist(t *testing.T) {
	t.Parallel()
	p, err := newPrincipal("x", &record{Grants: []Grant{{Role: Operator, Filter: `not type is "Meter"`}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.CoversID(Write, "new") {
		t.Error("an entity that does not exist is covered by a grant about types")
	}
	p, err = newPrincipal("pump-1", &record{Grants: []Grant{{Role: Device, Filter: " "}}})
	if err != nil {
		t.Fatal(err)
	}
	if p.CoversID(Report, "pump-2") || !p.CoversID(Report, "pump-1") {
		t.Error("a device with a blank filter is not about its own entity")
	}
}
