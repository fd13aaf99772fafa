package journaltest

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/greenroom-go/greenroom/persist"
)

// beside opens the journal once more, as another process would.
func (k *kit) beside() *kit {
	k.Helper()
	other := &kit{T: k.T, store: k.store, dir: k.dir, time: k.time}
	other.open()
	k.Cleanup(func() {
		if err := other.j.Close(); err != nil {
			k.Errorf("close: %v", err)
		}
	})
	return other
}

// try commits appends, and says whether each was refused because of its number.
func (k *kit) try(appends ...persist.Append) (refused []bool, err error) {
	b := k.batch(appends...)
	if err := k.j.Commit(k.ctx(), b); err != nil {
		return nil, err
	}
	for i := range b.Appends {
		if err := b.Appends[i].Err; err != nil && !errors.Is(err, persist.ErrConflict) {
			return nil, err
		}
		refused = append(refused, b.Appends[i].Err != nil)
	}
	return refused, nil
}

// oneExtends has two writers extend the same ids: each number is given once, to the one
// that was told so.
func oneExtends(k *kit) {
	const rounds = 30
	var ids []string
	for i := range 10 {
		ids = append(ids, fmt.Sprint("id-", i))
	}
	var mine [2]map[string]map[uint64]bool // the numbers of each writer, by id
	var writers sync.WaitGroup
	for i, w := range []*kit{k, k.beside()} {
		mine[i] = make(map[string]map[uint64]bool)
		next := make(map[string]uint64) // as far as the writer knows
		writers.Go(func() {
			for round := range rounds {
				var appends []persist.Append
				for n := range ids {
					id := ids[(n+round*(i+1))%len(ids)]
					appends = append(appends, persist.Append{ID: id, After: next[id], Events: payloads(fmt.Sprint("of ", i))})
				}
				refused, err := w.try(appends...)
				if err != nil {
					k.Errorf("commit of %d: %v", i, err)
					return
				}
				for n, a := range appends {
					if mine[i][a.ID] == nil {
						mine[i][a.ID] = make(map[uint64]bool)
					}
					if next[a.ID]++; !refused[n] {
						mine[i][a.ID][next[a.ID]] = true
						continue
					}
					list, err := w.j.Load(k.ctx(), []string{a.ID})
					if err != nil {
						k.Errorf("load: %v", err)
						return
					}
					next[a.ID] = list[0].Last
				}
			}
		})
	}
	writers.Wait()
	for _, id := range ids {
		events := k.events(id, 0)
		if len(events) != len(mine[0][id])+len(mine[1][id]) {
			k.Errorf("%s has %d events; the writers were told of %d and %d", id, len(events), len(mine[0][id]), len(mine[1][id]))
		}
		for n, r := range events {
			number := uint64(n + 1)
			by := 0
			if mine[1][id][number] {
				by = 1
			}
			if r.Number != number || !mine[by][id][number] || mine[1-by][id][number] || string(r.Data) != fmt.Sprint("of ", by) {
				k.Errorf("%s/%d is %q, at %d; the writers were told %v and %v", id, r.Number, r.Data, number, mine[0][id][number], mine[1][id][number])
			}
		}
	}
}

// feedOfSeveral follows the feed while several writers commit to the partition: the one
// that commits first is not always the one that began first, and yet nothing is missed.
func feedOfSeveral(k *kit) {
	const writers, rounds = 3, 20
	part, ids := inOnePart("s", 2*writers)
	ended := make(chan struct{})
	var followed []persist.Record
	var follower, all sync.WaitGroup
	follower.Go(func() {
		for after, last := uint64(0), false; ; {
			select {
			case <-ended:
				last = true
			default:
			}
			page, err := k.j.Feed(k.ctx(), part, after, 5)
			if err != nil {
				k.Errorf("feed: %v", err)
				return
			}
			if last && len(page) == 0 {
				return
			}
			for _, r := range page {
				if r.Position <= after {
					k.Errorf("position %d comes after %d", r.Position, after)
					return
				}
				after = r.Position
			}
			followed = append(followed, page...)
		}
	})
	for i := range writers {
		w := k.beside()
		all.Go(func() {
			for n := range uint64(rounds) {
				appends := []persist.Append{{ID: ids[2*i], After: n, Events: payloads("x")}, {ID: ids[2*i+1], After: n, Events: payloads("y")}}
				for m := range 100 * (n % 2) { // some commits take longer
					appends = append(appends, persist.Append{ID: fmt.Sprint("other-", i, "-", n, "-", m), Events: payloads("z")})
				}
				if refused, err := w.try(appends...); err != nil || slices.Contains(refused, true) {
					k.Errorf("commit: %v, %v", refused, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(ended)
	follower.Wait()
	k.equal("the feed at the end", texts(k.feed(part)), texts(followed))
	seen := map[string]uint64{}
	for _, r := range followed {
		if seen[r.ID]++; r.Number != seen[r.ID] {
			k.Fatalf("%s: number %d where %d is next", r.ID, r.Number, seen[r.ID])
		}
	}
	for _, id := range ids {
		k.equal(id, seen[id], uint64(rounds))
	}
}

func claimIsHeeded(k *kit) {
	other := k.beside()
	at := func(id string, epoch, after uint64) persist.Append {
		return persist.Append{ID: id, Shard: "s", Epoch: epoch, After: after, Events: payloads("x")}
	}
	k.commit(at("a", 1, 0)) // of a shard that was never claimed
	if err := other.j.Claim(k.ctx(), "s", 2); err != nil {
		k.Fatal(err)
	}
	b := k.batch(at("a", 1, 1), persist.Append{ID: "b", Events: payloads("x")})
	if err := k.j.Commit(k.ctx(), b); err != nil || !errors.Is(b.Appends[0].Err, persist.ErrFenced) || errors.Is(b.Appends[0].Err, persist.ErrConflict) || b.Appends[1].Err != nil {
		k.Errorf("with the epoch before: %v, %v, %v", err, b.Appends[0].Err, b.Appends[1].Err)
	}
	other.commit(at("a", 2, 1))
	if err := k.j.Claim(k.ctx(), "s", 1); !errors.Is(err, persist.ErrFenced) {
		k.Errorf("claim the epoch before: %v", err)
	}
	k.equal("a", texts(k.events("a", 0)), []string{"a/1 x", "a/2 x"})
}

func othersAreFound(k *kit) {
	other := k.beside()
	k.equal("loaded", other.load("a"), persist.Loaded{ID: "a"})
	other.commit(persist.Append{ID: "b", Events: payloads("b1")})
	k.commit(persist.Append{ID: "a", Events: []persist.Payload{{Type: "a.new.type", Data: []byte("a1")}}, Snapshot: new(payload("s"))})
	if l := other.load("a"); l.Last != 1 || l.Snapshot == nil {
		k.Errorf("loaded: %s", describe(&l))
	}
	other.commit(persist.Append{ID: "a", After: 1, Events: payloads("a2")})
	k.commit(persist.Append{ID: "b", After: 1, Events: payloads("b2")}, persist.Append{ID: "a", After: 2, Events: payloads("a3")})
	k.equal("events", texts(other.events("a", 0)), []string{"a/1 a1", "a/2 a2", "a/3 a3"})
	k.equal("events", texts(other.events("b", 0)), []string{"b/1 b1", "b/2 b2"})
}
