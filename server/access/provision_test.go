package access

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

func TestProvisionKeysAreKeptAndBounded(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open func() *entity.Runtime) {
		b := openBook(t, open())
		from := netip.MustParseAddr("192.0.2.1")
		spec := ProvisionSpec{Name: "sensors", Strategy: CreateNew, Prefix: "sensor-", Type: "Sensor", Max: 2, By: "admin"}
		if _, _, err := b.CreateProvisionKey(t.Context(), &spec); !errors.Is(err, ErrInvalid) {
			t.Errorf("where nobody has to log in: %v", err)
		}
		if _, ok := b.Provisioner(from); ok {
			t.Error("somebody without credentials is let in")
		}
		if _, _, err := b.Create(t.Context(), &Spec{Name: "admin", Grants: []Grant{{Role: Admin}}}); err != nil {
			t.Fatal(err)
		}
		secret, key, err := b.CreateProvisionKey(t.Context(), &spec)
		if err != nil || key.ProvisionSpec != spec || key.Devices != 0 {
			t.Fatalf("made: %+v, %v", key, err)
		}
		if _, _, err := b.CreateProvisionKey(t.Context(), &spec); !errors.Is(err, ErrExists) {
			t.Errorf("made again: %v", err)
		}
		for name, wrong := range map[string]func(*ProvisionSpec){
			"name": func(s *ProvisionSpec) { s.Name = "a b" }, "no prefix": func(s *ProvisionSpec) { s.Prefix = "" }, "prefix": func(s *ProvisionSpec) { s.Prefix = "a/" },
			"strategy": func(s *ProvisionSpec) { s.Strategy = "all" }, "type": func(s *ProvisionSpec) { s.Strategy = CheckPreProvisioned },
			"max": func(s *ProvisionSpec) { s.Max = -1 }, "expires": func(s *ProvisionSpec) { s.Expires = time.Now() },
		} {
			bad := spec
			bad.Name = "other"
			wrong(&bad)
			if _, _, err := b.CreateProvisionKey(t.Context(), &bad); !errors.Is(err, ErrInvalid) {
				t.Errorf("a wrong %s: %v", name, err)
			}
		}
		if _, err := b.FindProvisionKey("sensors", secret, from); err != nil {
			t.Errorf("the right secret: %v", err)
		}
		for i := range 2 {
			token, err := b.Provision(t.Context(), "sensors", fmt.Sprint("sensor-", i), "")
			if err != nil {
				t.Fatal(err)
			}
			p, err := b.Login(t.Context(), &Attempt{Token: token, Address: from})
			if err != nil || p.Name() != fmt.Sprint("sensor-", i) || !p.CoversID(Report, p.Name()) || p.MaySome(Write) || p.CoversID(Report, "sensor-9") {
				t.Errorf("with the token: %v", err)
			}
		}
		if _, err := b.Provision(t.Context(), "sensors", "sensor-2", ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("one too many: %v", err)
		}
		if err := b.Revoke(t.Context(), "sensor-0"); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Provision(t.Context(), "sensors", "other", ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("another prefix: %v", err)
		}
		if _, err := b.Provision(t.Context(), "sensors", "sensor-1", ""); !errors.Is(err, ErrExists) {
			t.Errorf("one that is there: %v", err)
		}

		if err := b.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := openBook(t, open())
		if list := again.ProvisionKeys(); len(list) != 1 || list[0].ProvisionSpec != spec || list[0].Devices != 1 {
			t.Errorf("kept: %+v", list)
		}
		if _, err := again.FindProvisionKey("sensors", secret, from); err != nil {
			t.Errorf("the right secret after a restart: %v", err)
		}
		if _, err := again.Provision(t.Context(), "sensors", "sensor-3", "12345678"); err != nil {
			t.Errorf("in the place of the revoked one: %v", err)
		}
		if _, err := again.Login(t.Context(), &Attempt{Name: "sensor-3", Password: "12345678"}); err != nil {
			t.Errorf("with the password: %v", err)
		}
		if err := again.RevokeProvisionKey(t.Context(), "sensors"); err != nil {
			t.Error(err)
		}
		if err := again.RevokeProvisionKey(t.Context(), "sensors"); !errors.Is(err, ErrNotFound) {
			t.Errorf("revoked again: %v", err)
		}
		if _, err := again.FindProvisionKey("sensors", secret, from); !errors.Is(err, ErrCredentials) {
			t.Errorf("after it was revoked: %v", err)
		}
		if _, err := again.Provision(t.Context(), "sensors", "sensor-4", ""); !errors.Is(err, ErrInvalid) {
			t.Errorf("after it was revoked: %v", err)
		}
		if _, ok := again.Provisioner(from); ok {
			t.Error("somebody without credentials is let in")
		}
	})
}

func TestWrongProvisionSecretsAreSlowedAndRightOnesAreNot(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open func() *entity.Runtime) {
		b := openBook(t, open())
		if _, _, err := b.Create(t.Context(), &Spec{Name: "admin", Grants: []Grant{{Role: Admin}}}); err != nil {
			t.Fatal(err)
		}
		secret, _, err := b.CreateProvisionKey(t.Context(), &ProvisionSpec{Name: "k", Strategy: CreateNew, Prefix: "d-"})
		if err != nil {
			t.Fatal(err)
		}
		from := netip.MustParseAddr("192.0.2.1")
		for range FreeFailures {
			if _, err := b.FindProvisionKey("k", secret+"x", from); !errors.Is(err, ErrCredentials) {
				t.Errorf("a wrong secret: %v", err)
			}
		}
		if _, err := b.FindProvisionKey("none", secret, from); !errors.Is(err, ErrSlowed) {
			t.Errorf("one too many: %v", err)
		}
		if _, err := b.FindProvisionKey("k", "x", netip.MustParseAddr("192.0.2.2")); !errors.Is(err, ErrCredentials) {
			t.Errorf("from elsewhere: %v", err)
		}
		if _, err := b.FindProvisionKey("k", secret, from); err != nil {
			t.Errorf("the right one: %v", err)
		}
	})
}
