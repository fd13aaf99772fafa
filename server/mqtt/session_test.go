package mqtt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	mochi "github.com/mochi-mqtt/server/v2"
)

// Who leaves many sessions behind pushes out its own.
func TestASessionIsGivenUpByWhoHasMost(t *testing.T) {
	t.Parallel()
	type away struct{ id, owner string }
	const limit = 20
	s := newSessions(&Broker{limits: Limits{Sessions: limit}})
	rng := rand.New(rand.NewPCG(1, 2))
	var model []away // the oldest first
	counts := func() map[string]int {
		n := map[string]int{}
		for _, a := range model {
			n[a.owner]++
		}
		return n
	}
	forget := func(id string) {
		model = slices.DeleteFunc(model, func(a away) bool { return a.id == id })
	}
	for range 5000 {
		id := fmt.Sprint("client-", rng.IntN(60))
		if rng.IntN(4) == 0 {
			s.resumed(id)
			forget(id)
			continue
		}
		owner := fmt.Sprint("owner-", min(rng.IntN(8), 4)) // half of them are of one
		gone := s.add(&mochi.Client{ID: id}, owner)
		forget(id)
		model = append(model, away{id, owner})
		for _, cl := range gone {
			n := counts()
			most := 0
			for _, k := range n {
				most = max(most, k)
			}
			i := slices.IndexFunc(model, func(a away) bool { return a.id == cl.ID })
			if i < 0 || n[model[i].owner] != most {
				t.Fatalf("%s was given up; the numbers are %v", cl.ID, n)
			}
			if slices.ContainsFunc(model[:i], func(a away) bool { return a.owner == model[i].owner }) {
				t.Fatalf("%s was given up, which is not the oldest of %s", cl.ID, model[i].owner)
			}
			forget(cl.ID)
		}
		if s.len() != len(model) || s.len() > limit {
			t.Fatalf("%d sessions, want %d, %d at most", s.len(), len(model), limit)
		}
	}
}
