package alarm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// lookAgain schedules all entities to be examined because changes were missed, in the commit that
// has the new cursor.
func (e *engine) lookAgain() error {
	for _, r := range e.rules {
		if r.removed {
			continue
		}
		if err := e.lookAgainFor(r, e.place.At); err != nil {
			return err
		}
	}
	for _, s := range e.cache.held {
		for _, st := range s.states {
			if !st.ending && !st.rule.live { // those look at what is now
				e.lateReading(s, st.rule, max(st.rule.Effective, st.at, e.oldest()), st.rule.keys)
			}
		}
	}
	return nil
}

// lookAgainFor records that readings since a time may have been missed for a rule.
func (e *engine) lookAgainFor(r *rule, since int64) error {
	if r.missed {
		since = min(since, r.since)
	}
	r.Pending, r.swept, r.missed, r.since = true, "", true, since
	x := r.json()
	return e.ledger.put(ruleKind, r.Name, &x)
}

// oldest returns the time from which on late readings are replayed, allowing some time for that to
// begin.
func (e *engine) oldest() int64 { return e.now() - max(0, e.lateness-time.Hour.Milliseconds()) }

// endMissing ends the alarms and states of entities whose deletion was missed: those that do not
// exist, and those created after the place.
func (f *follower) endMissing(ctx context.Context) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(f.e.cache.held)), sweepEntities) {
		if err := f.endThoseMissing(ctx, ids); err != nil {
			return err
		}
	}
	for from := "\x00"; ; {
		list, err := f.s.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: from, Limit: sweepEntities})
		if err != nil || len(list) == 0 {
			return err
		}
		ids := make([]string, len(list))
		for i := range list {
			ids[i], _, _ = strings.Cut(list[i].Key, "\x00")
		}
		ids = slices.Compact(ids)
		if err := f.endThoseMissing(ctx, ids); err != nil {
			return err
		}
		from = after(part(ids[len(ids)-1]))
	}
}

// endThoseMissing does so for some entities. It commits with the place before the missed changes.
func (f *follower) endThoseMissing(ctx context.Context, ids []string) error {
	e := f.e
	there := make(map[string]bool, len(ids))
	err := e.rt.Scan(ctx, entity.ListQuery{IDs: ids}, func(v entity.View) bool {
		there[v.ID()] = e.place.At == 0 || v.Created() <= e.place.At
		return true
	})
	if err != nil {
		return fmt.Errorf("look for entities with alarms that were deleted: %w", err)
	}
	for _, id := range ids {
		if there[id] {
			continue
		}
		if err := e.ended(ctx, id, e.now()); err != nil {
			return err
		}
		if len(e.ledger.items)+len(e.dirty) > e.steps.items {
			if err := f.commit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}
