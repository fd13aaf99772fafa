package access

import (
	"context"
	"errors"
	"math"
	"runtime"
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
		time.Sleep(HeldFor + 3*time.Second)
		if s := b.Stats(); s.Held != 0 {
			t.Errorf("%d are held, long after", s.Held)
		}
	})
}

func TestDevicesWithoutCredentialsShareTheRateOfOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, err := Open(t.Context(), noStore{}, Config{Required: true})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close(context.Background())
		one, other := &Principal{name: provisionerName}, &Principal{name: provisionerName}
		rate := int64(runtime.GOMAXPROCS(0)) << 19
		_, _ = b.Charge(one, rate, 0)
		if wait, err := b.Charge(other, 1, math.MaxInt64); wait != time.Second-burst || err != nil {
			t.Errorf("%v %v", wait, err)
		}
	})
}
