package intake

import (
	"math/rand/v2"
	"testing"
)

func (s *Stay) in() bool {
	select {
	case <-s.Granted():
		return true
	default:
		return false
	}
}

func TestASenderHasAsMuchAsItLeaves(t *testing.T) {
	r := New(64)
	var stays []*Stay
	count := func(name string, want int) {
		t.Helper()
		n := 0
		for range 100 {
			s := r.Enter(name, 1)
			if stays = append(stays, s); s.in() {
				n++
			}
		}
		if n != want {
			t.Errorf("%s has %d, want %d", name, n, want)
		}
	}
	count("a", 32)
	count("b", 16)
	count("c", 8)
	count("d", 4)
	if r.Used() != 60 {
		t.Errorf("%d are used", r.Used())
	}
	for _, s := range stays {
		s.Leave()
		s.Leave()
	}
	if r.Used() != 0 || len(r.senders) != 0 || r.turns.Len() != 0 {
		t.Errorf("%d are used, by %d, and %d wait", r.Used(), len(r.senders), r.turns.Len())
	}
	if s := r.Enter("a", 1000); !s.in() || r.Used() != 32 {
		t.Errorf("a large one: %v, %d are used", s.in(), r.Used())
	}
}

func TestWhoWaitsIsLetInInTurn(t *testing.T) {
	r := New(8)
	first := r.Enter("a", 4)
	var a, b []*Stay
	for range 3 {
		a = append(a, r.Enter("a", 4))
		b = append(b, r.Enter("b", 4))
	}
	if !first.in() || a[0].in() || b[0].in() {
		t.Fatal("more is in than there is room for")
	}
	a[0].Leave() // while it waits
	first.Leave()
	for _, next := range []*Stay{b[0], a[1], b[1], a[2], b[2]} {
		if !next.in() {
			t.Fatal("it is another's turn")
		}
		next.Leave()
	}
	if r.Used() != 0 || len(r.senders) != 0 {
		t.Errorf("%d are used, by %d", r.Used(), len(r.senders))
	}
}

func TestARoomComesToRest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		r := New(100)
		var stays []*Stay
		for range 200 {
			if len(stays) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(stays))
				stays[i].Leave()
				stays = append(stays[:i], stays[i+1:]...)
			} else {
				stays = append(stays, r.Enter(string(rune('a'+rng.IntN(4))), 1+rng.Int64N(60)))
			}
			var used int64
			waits := 0
			for _, s := range stays {
				if s.in() {
					used += s.bytes
				} else {
					waits++
				}
			}
			if used != r.Used() || used > 100 || used == 0 && waits > 0 {
				t.Fatalf("%d are used, %d say so, %d wait", used, r.Used(), waits)
			}
		}
		for _, s := range stays {
			s.Leave()
		}
		if r.Used() != 0 || len(r.senders) != 0 || r.turns.Len() != 0 {
			t.Fatalf("%d are used, by %d, and %d wait", r.Used(), len(r.senders), r.turns.Len())
		}
	}
}

func TestThoseWhoNeedLessPassTheFirstOne(t *testing.T) {
	r := New(64)
	check := func(name string, s *Stay, want bool) {
		t.Helper()
		if s.in() != want {
			t.Fatalf("%s is in: %v, with %d in use", name, s.in(), r.Used())
		}
	}
	a, b := r.Enter("a", 16), r.Enter("b", 16)
	first := r.Enter("c", 20)
	check("the first one", first, false)
	same := r.Enter("d", 20)
	check("one that needs as much", same, false)
	e := r.Enter("e", 8)
	check("one that needs less", e, true)
	check("another one", r.Enter("f", 12), true)
	g := r.Enter("g", 5) // those that have passed would leave less than twice 20
	check("one too many", g, false)
	e.Leave()
	check("one too many, after another", g, true)
	a.Leave()
	b.Leave()
	check("the first one, after those that were there before", first, true)
	check("one that needs as much", same, false)
	first.Leave()
	check("one that needs as much, after the first one", same, true)
}

// In a room that is nearly full of large messages, the first one of another sender held back
// all others.
func TestALargeOneThatWaitsDoesNotHoldBackSmallOnes(t *testing.T) {
	r := New(64 << 20)
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"} {
		for r.Enter(name, 128<<10).in() {
		}
	}
	if s := r.Enter("small", 5000); !s.in() {
		t.Errorf("a small one waits; %d of %d bytes are used", r.Used(), r.size)
	}
}
