package share

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestTheOldestOfWhoHasMostIsGivenUp(t *testing.T) {
	t.Parallel()
	type thing struct {
		owner string
		item  *Item[int]
	}
	var p Pool[int]
	var model []thing // the oldest first
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 5000 {
		switch rng.IntN(3) {
		case 0:
			if len(model) > 0 {
				i := rng.IntN(len(model))
				p.Remove(model[i].item)
				model = slices.Delete(model, i, i+1)
			}
		default:
			owner := fmt.Sprint(min(rng.IntN(8), 4)) // half of them are of one
			model = append(model, thing{owner, p.Add(owner, n)})
		}
		has, most := map[string]int{}, 0
		for _, x := range model {
			has[x.owner]++
			most = max(most, has[x.owner])
		}
		it := p.Surplus()
		if len(model) == 0 {
			if it != nil {
				t.Fatalf("an empty pool gives up %v", it.Value)
			}
			continue
		}
		i := slices.IndexFunc(model, func(x thing) bool { return x.item == it })
		if i < 0 || has[model[i].owner] != most || slices.ContainsFunc(model[:i], func(x thing) bool { return most == 1 || x.owner == model[i].owner }) {
			t.Fatalf("%v is given up, at %d of %v", it.Value, i, has)
		}
		for p.Len() > 20 {
			it := p.Surplus()
			p.Remove(it)
			model = slices.DeleteFunc(model, func(x thing) bool { return x.item == it })
		}
		if p.Len() != len(model) {
			t.Fatalf("%d things, want %d", p.Len(), len(model))
		}
	}
}
