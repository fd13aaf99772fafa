package alarm

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// sweepEntities is how many entities a step of a sweep examines.
	sweepEntities = 500
	// sweepPairs is about how many pairs of an entity and a rule a step finds, and sweepSaves the
	// number of steps between two that are saved.
	sweepPairs = 5000
	sweepSaves = 16
	// sweepTypes is the most types that a step asks for; with more, it looks at all entities.
	sweepTypes = 1000
	// sweepLate is the most replays that may wait; with more, sweeps wait.
	sweepLate = 1000
)

// sweep examines some of the entities for the new rules, once for all of these.
func (e *engine) sweep(ctx context.Context) error {
	if len(e.ending) > 0 {
		return e.endSome(ctx)
	}
	if len(e.late) >= sweepLate {
		return nil
	}
	var rules []*rule
	for _, r := range e.rules {
		if r.Pending && !r.removed {
			rules = append(rules, r)
		}
	}
	if len(rules) == 0 {
		return nil
	}
	slices.SortFunc(rules, func(a, b *rule) int { return strings.Compare(a.Name, b.Name) })
	q := e.sweepQuery(&rules)
	met, out, last, err := e.sweepSome(ctx, q, rules)
	if err != nil {
		return fmt.Errorf("look at the entities for rules of alarms: %w", err)
	}
	for _, x := range out {
		if err := e.drop(ctx, e.cache.held[x.id].state(x.rule), Transition{TS: e.now()}, ByScope); err != nil {
			return err
		}
	}
	for _, x := range met {
		if err := e.lookAt(ctx, x.id, x.rule); err != nil {
			return err
		}
	}
	e.sweeps++
	for _, r := range rules {
		if r.swept = max(r.swept, last); last == "" {
			r.Pending, r.swept, r.missed, r.since, r.retyped = false, "", false, 0, false
		} else if e.sweeps%sweepSaves != 0 { // after a crash some are looked at again
			continue
		}
		x := r.json()
		if err := e.ledger.put(ruleKind, r.Name, &x); err != nil {
			return err
		}
	}
	if last == "" {
		e.publishRules()
	}
	return nil
}

// sweepQuery returns the query for the next entities, and narrows rules to those that they are for:
// first the single entity of a rule, then entities of the types of rules, and all entities if a
// rule is for all.
func (e *engine) sweepQuery(rules *[]*rule) entity.ListQuery {
	q := entity.ListQuery{Limit: sweepEntities}
	if i := slices.IndexFunc(*rules, func(r *rule) bool { return r.Entity != "" }); i >= 0 {
		r := (*rules)[i]
		q.IDs, *rules = []string{r.Entity}, []*rule{r}
		return q
	}
	q.After = (*rules)[0].swept
	types, all := make(map[string]bool), e.families == nil
	for _, r := range *rules {
		q.After = min(q.After, r.swept)
		all = all || r.Type == "" || r.retyped
	}
	for _, r := range *rules {
		if all {
			break
		}
		for typ := range strings.SplitSeq(e.families[r.Type]+r.Type, "\x00") {
			types[typ] = true
		}
	}
	if !all && len(types) <= sweepTypes {
		q.Types = slices.Sorted(maps.Keys(types))
	}
	return q
}

// pair is a rule and an entity.
type pair struct {
	rule *rule
	id   string
}

// sweepSome examines entities, and returns those for which rules are met, and those to which rules
// no longer apply. last is the last one examined, "" if it was the last of all.
func (e *engine) sweepSome(ctx context.Context, q entity.ListQuery, rules []*rule) (met, out []pair, last string, err error) {
	n, horizon, now := 0, e.horizon(), e.now()
	err = e.rt.Scan(ctx, q, func(v entity.View) bool {
		f := frame{id: v.ID(), isA: e.isA}
		f.load(v, e.slots)
		for _, r := range rules {
			switch {
			case f.id <= r.swept:
			case !e.concerned(&f, r):
				if x := r.awaits[f.id]; x != nil {
					e.forget(x)
				}
				if e.hasState(f.id, r) {
					out = append(out, pair{r, f.id})
				}
			case r.live:
				f.env.Now = now
				if e.hasState(f.id, r) || f.ahead(r, horizon) || r.raise.Match(&f, &f.env) {
					met = append(met, pair{r, f.id})
				} else {
					e.await(r, f.id, r.next(&f))
				}
			case r.missed || f.ahead(r, horizon) || r.retyped && r.judges && e.hasState(f.id, r) || r.raise.Match(&f, &f.env):
				met = append(met, pair{r, f.id})
			}
		}
		last = f.id
		n++
		return n < sweepEntities && len(met)+len(out) < sweepPairs
	})
	if n < sweepEntities && len(met)+len(out) < sweepPairs {
		last = ""
	}
	return met, out, last, err
}

// hasState reports whether a rule has a state for an entity.
func (e *engine) hasState(id string, r *rule) bool {
	s := e.cache.held[id]
	return s != nil && s.state(r) != nil
}

// lookAt evaluates a rule for an entity in its present state.
func (e *engine) lookAt(ctx context.Context, id string, r *rule) error {
	s, _, err := e.know(ctx, id)
	if err != nil || s == nil || !s.concerns(r) {
		return err
	}
	if r.live {
		return e.judgeLive(ctx, s, r, e.now())
	}
	if r.retyped && r.judges && !r.missed {
		return e.judge(ctx, s, r, e.now())
	}
	ts, ok := s.frame.newest(r)
	if !ok {
		ts = e.now()
	}
	if st := s.state(r); st != nil && !r.missed && (ts <= st.at || st.pending && ts <= st.since) {
		return nil // it is known
	}
	if r.missed && ok {
		e.lateReading(s, r, max(r.Effective, min(ts, max(r.since, e.oldest()))), r.keys)
	}
	return e.observe(ctx, s, r, ts, false)
}
