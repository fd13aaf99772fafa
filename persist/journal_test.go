package persist_test

import (
	"testing"

	"github.com/greenroom-go/greenroom/persist"
)

func TestPartOfAnIdNeverChanges(t *testing.T) {
	for id, want := range map[string]int{"": 18, "a": 13, "/cart-42": 23, "cart/user-42": 44, "ä": 23} {
		if got := persist.PartOf(id); got != want {
			t.Errorf("PartOf(%q) is %d, was %d: journals that are written already have it there", id, got, want)
		}
	}
}

func TestPartsAreEvenlyUsed(t *testing.T) {
	var used [persist.Parts]int
	for i := range 64_000 {
		used[persist.PartOf("/cart-"+string(rune('a'+i%26))+string(rune(0x4e00+i)))]++
	}
	for part, n := range used {
		if n < 800 || n > 1200 {
			t.Errorf("part %d has %d of 64 000 ids", part, n)
		}
	}
}

func TestASealIsOfAPlace(t *testing.T) {
	p := persist.Payload{Type: "added", Data: []byte("ab")}
	p.Seal("a", 1)
	if !p.Intact("a", 1) || p.Intact("a", 2) || p.Intact("b", 1) {
		t.Error("a payload is intact in its own place, and in no other")
	}
	for _, q := range []persist.Payload{{Type: "adde", Data: []byte("dab"), Sum: p.Sum}, {Type: "added", Data: []byte("aB"), Sum: p.Sum}, {Type: "added", Sum: p.Sum}} {
		if q.Intact("a", 1) {
			t.Errorf("%+v has the seal of another", q)
		}
	}
}
