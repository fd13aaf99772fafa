package access

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// noStore is a Store that keeps nothing.
type noStore struct{}

func (noStore) Docs(context.Context, string) ([]entity.Doc, error) { return nil, nil }

func (noStore) Doc(context.Context, string, string) (entity.Doc, error) {
	return entity.Doc{}, entity.ErrNotFound
}

func (noStore) PutDoc(_ context.Context, _, id string, body []byte, _ string) (entity.Doc, error) {
	return entity.Doc{ID: id, Body: body}, nil
}

func (noStore) DeleteDoc(context.Context, string, string, string) error { return nil }

func TestAnAllowanceIsARateAndAQuarterOfASecondAtOnce(t *testing.T) {
	t.Parallel()
	var a allowance
	now := time.Hour
	for i, step := range []struct {
		after    time.Duration
		bytes    int64
		patience time.Duration
		wait     time.Duration
		ok       bool
	}{
		{0, 250, 0, 0, true}, // as much as is saved
		{0, 500, 0, 0, true}, // nothing is owed yet
		{0, 100, math.MaxInt64, 500 * time.Millisecond, true}, // in the order of the calls
		{0, 1, 599 * time.Millisecond, 600 * time.Millisecond, false},
		{0, 1000, 600 * time.Millisecond, 600 * time.Millisecond, true}, // what was refused was not charged
		{time.Second, 0, 0, 600 * time.Millisecond, false},
		{600 * time.Millisecond, 1000, 0, 0, true},
		{time.Hour, 250, 0, 0, true}, // no more is saved
		{0, 1, 0, 0, true},           // no matter for how long
		{0, 0, 0, time.Millisecond, false},
	} {
		now += step.after
		if wait, ok := a.charge(now, step.bytes, 1000, step.patience); wait != step.wait || ok != step.ok {
			t.Errorf("charge %d: %v %v, want %v %v", i, wait, ok, step.wait, step.ok)
		}
	}
	if got := time.Duration(a.waited.Load()); got != 1100*time.Millisecond {
		t.Errorf("waited %v", got)
	}
}

func TestRatesAreThoseOfTheRoleOrOfThePrincipal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), noStore{}, Config{Rates: Rates{Device: 1000, Gateway: 10_000}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		if wait, err := b.Charge(b.anyone, math.MaxInt64, 0); wait != 0 || err != nil {
			t.Errorf("where nobody has to log in: %v, %v", wait, err)
		}
		for _, tt := range []struct {
			spec Spec
			rate int64 // 0: any
		}{
			{Spec{Name: "admin", Grants: []Grant{{Role: Admin}}}, 0},
			{Spec{Name: "pump-1", Grants: []Grant{{Role: Device}}}, 1000},
			{Spec{Name: "gateway", Grants: []Grant{{Role: Device}, {Role: Device, Filter: `id like "hall-%"`}}}, 10_000},
			{Spec{Name: "service", Grants: []Grant{{Role: Operator}}}, 10_000},
			{Spec{Name: "large", Grants: []Grant{{Role: Device}}, Rate: 50_000}, 50_000},
			{Spec{Name: "busy", Grants: []Grant{{Role: Admin}}, Rate: 2000}, 2000},
		} {
			if _, _, err := b.Create(t.Context(), &tt.spec); err != nil {
				t.Fatal(err)
			}
			p := b.find(tt.spec.Name)
			for range 2 { // the first second is not owed before the second one is asked for
				if wait, err := b.Charge(p, tt.rate, 0); wait != 0 || err != nil {
					t.Errorf("%s, at once: %v %v", tt.spec.Name, wait, err)
				}
				time.Sleep(time.Second)
			}
			_, _ = b.Charge(p, 3*tt.rate, math.MaxInt64)
			wait, err := b.Charge(p, tt.rate, math.MaxInt64)
			if want := 3*time.Second - burst; tt.rate > 0 && wait != want || tt.rate == 0 && wait != 0 || err != nil {
				t.Errorf("%s: %v %v, want %v", tt.spec.Name, wait, err, want)
			}
			if _, err := b.Charge(p, 1, time.Second); errors.Is(err, ErrRate) != (tt.rate > 0) {
				t.Errorf("%s, with little patience: %v", tt.spec.Name, err)
			}
			info, err := b.Info(tt.spec.Name)
			if err != nil || info.Rate != tt.spec.Rate || info.Waited != wait || info.Held.IsZero() != (wait == 0) {
				t.Errorf("%s: %+v %v", tt.spec.Name, info, err)
			}
		}
		if s := b.Stats(); s.Held != 5 || s.Waits != 5 || s.Waited != 5*(3*time.Second-burst) {
			t.Errorf("stats %+v", s)
		}
		time.Sleep(HeldFor + 4*time.Second)
		if s := b.Stats(); s.Held != 0 {
			t.Errorf("%d are held, long after", s.Held)
		}
	})
}

func TestAllowancesOverflowForNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ bytes, rate int64 }{{math.MaxInt64, 1}, {math.MaxInt64, 1 << 20}, {math.MinInt64, 1000}, {-1, 1000}} {
		var a allowance
		now := time.Hour
		a.charge(now, 1000, 1000, 0)
		for range 3 {
			a.charge(now, tt.bytes, tt.rate, math.MaxInt64)
			a.owe(now, tt.bytes, tt.rate)
		}
		if wait, _ := a.charge(now, 0, 1000, 0); wait < time.Second-burst {
			t.Errorf("after %d bytes at %d a second: %v, which is less than was owed before", tt.bytes, tt.rate, wait)
		}
	}
}

func TestDevicesWithoutCredentialsShareTheRateOfOneAtEachAddress(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), noStore{}, Config{Required: true, Rates: Rates{Device: 1000}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		b.keys["key"] = &provisionKey{}
		from := func(address string) *Principal {
			p, ok := b.Provisioner(netip.MustParseAddr(address))
			if !ok {
				t.Fatal("there is a provision key")
			}
			return p
		}
		_, _ = b.Charge(from("2001:db8::1"), 1000, 0)
		for address, want := range map[string]time.Duration{"2001:db8::2": time.Second - burst, "2001:db8:0:1::1": 0, "192.0.2.1": 0} {
			if wait, err := b.Charge(from(address), 1, math.MaxInt64); wait != want || err != nil {
				t.Errorf("%s: %v %v, want %v", address, wait, err, want)
			}
		}
		for i := range maxNewcomers + 10 { // those that owe nothing make room
			_ = b.newcomers.at(fmt.Sprint("a", i), time.Since(b.began))
		}
		if n := len(b.newcomers.of); n > maxNewcomers {
			t.Errorf("%d allowances are kept", n)
		}
		if wait, _ := b.Charge(from("2001:db8::3"), 0, math.MaxInt64); wait != time.Second-burst+time.Millisecond {
			t.Errorf("the debt of an address has become %v", wait)
		}
	})
}

func TestWhoIsRefusedIsHeldAndTheClockDoesNotMatter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), noStore{}, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		if _, _, err := b.Create(t.Context(), &Spec{Name: "admin", Grants: []Grant{{Role: Admin}}, Rate: 1000}); err != nil {
			t.Fatal(err)
		}
		p := b.find("admin")
		b.Owe(p, 10_000)
		if _, err := b.Charge(p, 1, time.Second); !errors.Is(err, ErrRate) {
			t.Error(err)
		}
		info, err := b.Info("admin")
		if until := time.Until(info.Held); err != nil || until != 10*time.Second-burst || b.Stats().Held != 1 {
			t.Errorf("held for %v, %v; %+v", until, err, b.Stats())
		}
	})
}
