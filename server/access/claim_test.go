package access

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAnOfferEndsByItself(t *testing.T) {
	t.Parallel()
	c := NewClaims(openBook(t, newMemory()))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return now }
	for _, offer := range []struct {
		id string
		d  time.Duration
	}{{"short", time.Second}, {"day", 0}, {"again", time.Second}, {"again", time.Hour}} {
		if err := c.Offer("", offer.id, "s", offer.d); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Minute)
	first, more := c.Offers("", 1)
	if len(first) != 1 || first[0].Entity != "again" || !more {
		t.Errorf("the first offer is %v, more: %v", first, more)
	}
	if rest, more := c.Offers("again", 10); len(rest) != 1 || rest[0].Entity != "day" || !rest[0].Until.Equal(now.Add(DefaultClaim-time.Minute)) || more {
		t.Errorf("those after it are %v, more: %v", rest, more)
	}
	for id, want := range map[string]error{"short": ErrCredentials, "day": nil, "again": nil, "none": ErrCredentials} {
		if err := c.Take(id, "s", "ann", somewhere); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	for name, err := range map[string]error{
		"no secret": c.Offer("", "x", "", 0), "a long secret": c.Offer("", "x", strings.Repeat("x", 2000), 0), "before now": c.Offer("", "x", "s", -1), "too long": c.Offer("", "x", "s", MaxClaim+1),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTheNumberOfOffersIsBounded(t *testing.T) {
	t.Parallel()
	c := NewClaims(openBook(t, newMemory()))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return now }
	for i := range MaxClaims {
		if err := c.Offer("", fmt.Sprint(i), "s", time.Minute); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Offer("", "more", "s", 0); !errors.Is(err, ErrInvalid) {
		t.Errorf("one more: %v", err)
	}
	if err := c.Offer("", "7", "s", time.Hour); err != nil {
		t.Errorf("one of them again: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := c.Offer("", "more", "s", 0); err != nil {
		t.Errorf("when others have ended: %v", err)
	}
}

func TestAPrincipalLeavesOffersForOthers(t *testing.T) {
	t.Parallel()
	c := NewClaims(openBook(t, newMemory()))
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c.now = func() time.Time { return now }
	fill := func(by string) (n int) {
		for c.Offer(by, fmt.Sprint(by, n), "s", time.Minute) == nil {
			n++
		}
		return n
	}
	if n := fill("gateway"); n != MaxClaims/2 {
		t.Errorf("a gateway has %d offers, want %d", n, MaxClaims/2)
	}
	if n := fill("second"); n != MaxClaims/4 {
		t.Errorf("a second one has %d offers, want %d", n, MaxClaims/4)
	}
	if err := c.Offer("device", "device", "s", 0); err != nil {
		t.Errorf("a third one: %v", err)
	}
	if err := c.Offer("gateway", "gateway7", "s", 0); err != nil {
		t.Errorf("one of its own again: %v", err)
	}
	if err := c.Take("gateway8", "s", "ann", somewhere); err != nil {
		t.Fatal(err)
	}
	if err := c.Offer("second", "gateway7", "s", time.Minute); err != nil {
		t.Errorf("what another one offers: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if n := fill("gateway"); n != MaxClaims/2 {
		t.Errorf("%d offers when the others have ended, want %d", n, MaxClaims/2)
	}
	if len(c.offers) != c.ends.Len() || len(c.made) != 2 || c.made["gateway"] != MaxClaims/2 || c.made["device"] != 1 {
		t.Errorf("%d offers, %d of which end, made: %v", len(c.offers), c.ends.Len(), c.made)
	}
}

func TestGuessesOfOthersDoNotKeepSomebodyFromAnEntity(t *testing.T) {
	t.Parallel()
	b := openBook(t, newMemory())
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.names.now, b.addresses.now = func() time.Time { return now }, func() time.Time { return now }
	c := NewClaims(b)
	if err := c.Offer("", "pump", "label", 0); err != nil {
		t.Fatal(err)
	}
	for range 3 * FreeFailures {
		if err := c.Take("pump", "guess", "mallory", somewhere); !errors.Is(err, ErrCredentials) && !errors.Is(err, ErrSlowed) {
			t.Fatal(err)
		}
	}
	if err := c.Take("pump", "label", "mallory", somewhere); !errors.Is(err, ErrSlowed) {
		t.Errorf("who has guessed: %v", err)
	}
	if err := c.Take("pump", "table", "ann", somewhere); !errors.Is(err, ErrCredentials) {
		t.Errorf("a slip of another, at the same address: %v", err)
	}
	slowed, ok := errors.AsType[*SlowedError](c.Take("pump", "label", "ann", somewhere))
	if !ok || slowed.Wait > FailureForgiven {
		t.Errorf("after the slip: %v", slowed)
	}
	now = now.Add(FailureForgiven)
	for range FreeFailures { // it goes on
		_ = c.Take("pump", "guess", "mallory", somewhere)
	}
	if err := c.Take("pump", "label", "ann", somewhere); err != nil {
		t.Errorf("when that is forgiven: %v", err)
	}
}
