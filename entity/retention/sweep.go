package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/series"
)

// sweep looks at what is kept of the entities that were edited, and at all there is in the first
// round and when the rules or the record of the edits are others: it removes the rows of deleted
// entities, and those of tiers that the rules do not have, as far as there are the values. Nobody
// would make these again for a late value, which then would be in no aggregate.
func (r *Retainer) sweep(ctx context.Context, policy series.Policy, bases *ancestry, late *lateNotes) error {
	all := late.unsure || r.swept == nil || !reflect.DeepEqual(*r.swept, policy)
	if !all && !slices.Contains(slices.Collect(maps.Values(late.edited)), true) {
		return r.sweepTyped(ctx, policy, bases, late)
	}
	var failed error
	err := r.rt.EachDoc(ctx, kindSeries, func(d *entity.Doc) error {
		k, err := decodeSeries(d.Body)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("series %s: %w", d.ID, err))
			return nil
		}
		if _, edited := late.edited[k.Entity]; !all && !edited {
			return nil
		}
		return r.sweepSeries(ctx, k, policy, bases)
	})
	if err != nil {
		return err
	}
	if failed == nil {
		r.swept = &policy
	}
	return failed
}

// sweepTyped is sweep where entities have got other types, and none was deleted: the keys that they
// have lead to what is kept of them.
func (r *Retainer) sweepTyped(ctx context.Context, policy series.Policy, bases *ancestry, late *lateNotes) error {
	var failed error
	for id := range late.edited {
		var keys []string
		err := r.rt.View(ctx, id, func(v entity.View) error {
			for l := range v.EachLatest() {
				keys = append(keys, l.Key)
			}
			return nil
		})
		if err := ignoreMissing(err); err != nil { // without it, its deletion is yet to be read
			return err
		}
		for _, key := range keys {
			k, err := r.store.load(ctx, id, key)
			if err != nil {
				failed = cmp.Or(failed, err)
				continue
			}
			if k.Created == 0 {
				continue
			}
			if err := r.sweepSeries(ctx, k, policy, bases); err != nil {
				return err
			}
		}
	}
	return failed
}

// sweepSeries is sweep for one series.
func (r *Retainer) sweepSeries(ctx context.Context, k *Series, policy series.Policy, bases *ancestry) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("sweep %q key %q: %w", k.Entity, k.Key, err)
		}
	}()
	var created int64
	var typ string
	err = r.rt.View(ctx, k.Entity, func(v entity.View) error {
		created, typ = v.Created(), v.Type()
		return nil
	})
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	if created != k.Created {
		delete(r.cache, k.name())
		return r.store.forget(ctx, k)
	}
	rule := policy.For(bases.of(typ), k.Key)
	for _, tier := range k.tiers() {
		if slices.ContainsFunc(rule.Tiers, func(t series.Tier) bool { return t.Step == tier.Step }) {
			continue
		}
		// The row in which the values begin has also counted some that are gone.
		values := k.Kept.Raw + (int64(tier.Step)-k.Kept.Raw%int64(tier.Step))%int64(tier.Step)
		rest := tier
		if rest.To = min(tier.To, values); rest.From >= rest.To {
			rest.Range = series.Range{}
		}
		if rest == tier && k.chunks[tier.Step].next(chunksTo(rest.To, rest.Step)) == math.MaxInt64 {
			continue
		}
		delete(r.cache, k.name())
		if err := r.store.cut(ctx, k, rest); err != nil {
			return err
		}
	}
	return nil
}

// tiers returns the tiers that are kept, and empty ones for the steps that have only chunks, which
// a round has left that did not end.
func (k *Series) tiers() []series.KeptTier {
	list := slices.Clone(k.Kept.Tiers)
	for step := range k.chunks {
		if !slices.ContainsFunc(list, func(t series.KeptTier) bool { return t.Step == step }) {
			list = append(list, series.KeptTier{Step: step})
		}
	}
	return list
}

// cut makes a tier end at rest.To, which is an edge of its rows: it removes those that begin then or
// later. If that is 0, nothing is left of the tier.
func (r rollups) cut(ctx context.Context, k *Series, rest series.KeptTier) error {
	same := func(t series.KeptTier) bool { return t.Step == rest.Step }
	k.Kept.Tiers = slices.Clone(k.Kept.Tiers)
	if rest.To == 0 {
		k.Kept.Tiers = slices.DeleteFunc(k.Kept.Tiers, same)
	} else {
		k.Kept.Tiers[slices.IndexFunc(k.Kept.Tiers, same)] = rest
	}
	if err := r.save(ctx, k); err != nil { // before that, they are read
		return err
	}
	runs, later := k.chunks[rest.Step], series.Range{From: rest.To, To: entity.MaxTS + 1}
	for n := range runs.between(chunkOf(later.From, rest.Step), chunkOf(later.To, rest.Step)) {
		if err := r.merge(ctx, k, rest.Step, n, later, nil); err != nil {
			return err
		}
	}
	if runs = runs.until(chunksTo(rest.To, rest.Step)); len(runs) == 0 {
		delete(k.chunks, rest.Step)
	} else {
		k.chunks[rest.Step] = runs
	}
	return r.save(ctx, k)
}
