package retention

import (
	"cmp"
	"context"
	"errors"
	"fmt"
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
	if !all && len(late.edited) == 0 {
		return nil
	}
	docs, err := r.rt.Docs(ctx, kindSeries)
	if err != nil {
		return err
	}
	var failed error
	for i := range docs {
		k, err := decodeSeries(docs[i].Body)
		if err != nil {
			failed = cmp.Or(failed, fmt.Errorf("series %s: %w", docs[i].ID, err))
			continue
		}
		if _, edited := late.edited[k.Entity]; !all && !edited {
			continue
		}
		if err := r.sweepSeries(ctx, k, policy, bases); err != nil {
			return fmt.Errorf("sweep %q key %q: %w", k.Entity, k.Key, err)
		}
	}
	if failed == nil {
		r.swept = &policy
	}
	return failed
}

// sweepSeries is sweep for one series.
func (r *Retainer) sweepSeries(ctx context.Context, k *Series, policy series.Policy, bases *ancestry) error {
	var created int64
	var typ string
	err := r.rt.View(ctx, k.Entity, func(v entity.View) error {
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
	for _, tier := range slices.Clone(k.Kept.Tiers) {
		if slices.ContainsFunc(rule.Tiers, func(t series.Tier) bool { return t.Step == tier.Step }) {
			continue
		}
		// The row in which the values begin has also counted some that are gone.
		if to := k.Kept.Raw + (int64(tier.Step)-k.Kept.Raw%int64(tier.Step))%int64(tier.Step); to < tier.To {
			delete(r.cache, k.name())
			if err := r.store.cut(ctx, k, tier.Step, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// cut removes the rows of a step that begin at a time, which is an edge of them, or later.
func (r rollups) cut(ctx context.Context, k *Series, step series.Span, to int64) error {
	i := slices.IndexFunc(k.Kept.Tiers, func(t series.KeptTier) bool { return t.Step == step })
	runs, first := k.chunks[step], chunkOf(to, step)
	k.Kept.Tiers = slices.Clone(k.Kept.Tiers)
	if k.Kept.Tiers[i].To = to; k.Kept.Tiers[i].From >= to {
		k.Kept.Tiers, first = slices.Delete(k.Kept.Tiers, i, i+1), 0
	}
	if err := r.save(ctx, k); err != nil { // before that, they are read
		return err
	}
	for n := range runs.between(first, chunkOf(entity.MaxTS, step)) {
		rest := series.Range{From: to, To: entity.MaxTS + 1}
		if first == 0 {
			rest.From = entity.MinTS
		}
		if err := r.merge(ctx, k, step, n, rest, nil); err != nil {
			return err
		}
	}
	if first == 0 {
		delete(k.chunks, step)
	} else {
		k.chunks[step] = runs.until(first + 1)
	}
	return r.save(ctx, k)
}
