package alarm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	// sweepEntities is how many entities a step of a sweep looks at.
	sweepEntities = 500
	// sweepPairs is how many of them and of rules it finds, about, and sweepSaves how many steps
	// there are for each that is saved.
	sweepPairs = 5000
	sweepSaves = 16
	// sweepTypes is up to how many types it asks for; beyond it looks at all entities.
	sweepTypes = 1000
	// sweepLate is how many replays may wait before sweeps do.
	sweepLate = 1000
	// fireEntities is how many entities that are not known are read for what is due, before the
	// changes that have come meanwhile.
	fireEntities = 256
	// purgeAlarms is how many alarms are looked at at once for whether they are kept long
	// enough.
	purgeAlarms = 500
)

// ruleJSON is a rule as it is stored.
type ruleJSON struct {
	Type      string   `json:"type,omitempty"`
	Entity    string   `json:"entity,omitempty"`
	Where     string   `json:"where,omitempty"`
	Raise     string   `json:"raise"`
	Clear     string   `json:"clear,omitempty"`
	For       int64    `json:"for,omitempty"`
	ClearFor  int64    `json:"clear_for,omitempty"`
	Severity  Severity `json:"severity"`
	Message   string   `json:"message,omitempty"`
	Webhooks  []string `json:"webhooks,omitempty"`
	Version   int64    `json:"version"`
	Updated   int64    `json:"updated"`
	Effective int64    `json:"effective"`
	// Sweep says that entities after Swept are still to be looked at.
	Sweep bool   `json:"sweep,omitempty"`
	Swept string `json:"swept,omitempty"`
	// Missed says that readings since Since may have been missed.
	Missed bool  `json:"missed,omitempty"`
	Since  int64 `json:"since,omitempty"`
	// Retyped says that Sweep is about entities of all types: what extends what has changed.
	Retyped bool `json:"retyped,omitempty"`
	// Deleted says that the rule is deleted and that alarms of it are still to be cleared.
	Deleted bool `json:"deleted,omitempty"`
}

func (r *rule) json() ruleJSON {
	return ruleJSON{
		Type: r.Type, Entity: r.Entity, Where: r.Where, Raise: r.Raise, Clear: r.Clear, For: r.raiseFor, ClearFor: r.clearFor,
		Severity: r.Severity, Message: r.Message, Webhooks: r.Webhooks,
		Version: r.Version, Updated: r.Updated, Effective: r.Effective, Sweep: r.Pending, Swept: r.swept, Missed: r.missed, Since: r.since, Retyped: r.retyped,
	}
}

func (x *ruleJSON) installed(name string) Installed {
	return Installed{
		Rule: Rule{
			Name: name, Type: x.Type, Entity: x.Entity, Where: x.Where, Raise: x.Raise, Clear: x.Clear,
			For: time.Duration(x.For) * time.Millisecond, ClearFor: time.Duration(x.ClearFor) * time.Millisecond,
			Severity: x.Severity, Message: x.Message, Webhooks: x.Webhooks,
		},
		Version: x.Version, Updated: x.Updated, Effective: x.Effective, Pending: x.Sweep, ETag: ruleTag(x.Version),
	}
}

func ruleTag(version int64) string { return strconv.FormatInt(version, 36) }

func byName(in Installed, name string) int { return strings.Compare(in.Name, name) }

// begin loads what is durable and starts to follow.
func (s *Service) begin(ctx context.Context) (*follower, error) {
	e := newEngine(s.rt, &s.cfg, &s.count, s.graves)
	e.hub, e.installed, e.sender = s.hub, &s.rules, s.sender
	e.opened = e.now()
	f := &follower{s: s, e: e, written: time.Now()}
	if err := e.load(ctx); err != nil {
		return nil, err
	}
	e.publishRules()
	ending := make(map[string]bool)
	for _, st := range e.ending {
		ending[st.rule.Name] = true
	}
	for name, r := range e.rules {
		r.ready = !ending[name]
		r.waits = !r.ready
	}
	e.reindex()
	return f, nil
}

// load reads the rules, the states and the alarms that are open.
func (e *engine) load(ctx context.Context) error {
	var err error
	if e.place, err = readPlace(ctx, e.rt); err != nil {
		return err
	}
	err = e.each(ctx, ruleKind, func(it *entity.Item) error {
		var x ruleJSON
		err := json.Unmarshal(it.Body, &x)
		if err == nil {
			var r *rule
			if r, err = compile(x.installed(it.Key), e.slots.of); err == nil {
				r.swept, r.removed, r.missed, r.since, r.retyped = x.Swept, x.Deleted, x.Missed, x.Since, x.Retyped
				if r.live { // what it waits for is not stored
					r.Pending, r.swept = true, ""
				}
				e.rules[it.Key] = r
			}
		}
		if err != nil {
			in := x.installed(it.Key)
			e.rules[it.Key] = &rule{Installed: in, removed: true, broken: true} // its states end
			e.log.LogAttrs(ctx, slog.LevelError, "stored rule of alarms cannot be read and stays out of force", slog.String("rule", it.Key), slog.Any("error", err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.loadStates(ctx); err != nil {
		return err
	}
	if err := e.loadGraves(ctx); err != nil {
		return err
	}
	if err := e.loadLater(ctx); err != nil {
		return err
	}
	for i := range e.count.open {
		e.count.open[i].Store(0)
	}
	e.count.unacked.Store(0)
	err = e.each(ctx, openKind, func(it *entity.Item) error {
		a, err := decodeAlarm(it.Key, it.Body)
		if err != nil {
			e.unreadable(ctx, err)
			return nil
		}
		e.tally(a, 1, a.Acknowledged == nil)
		return nil
	})
	if err != nil {
		return err
	}
	e.hub.reset(e.place.Event)
	if err := e.lookForAlarms(ctx); err != nil {
		return err
	}
	return e.loadWebhooks(ctx)
}

// lookForAlarms sets whether there are alarms.
// REQUIRES: none is in the ledger that is not in the store.
func (e *engine) lookForAlarms(ctx context.Context) error {
	list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: entityKind, From: "\x00", Limit: 1})
	if err == nil {
		e.kept = len(list) > 0
	}
	return err
}

// readPlace reads where the engine stands.
func readPlace(ctx context.Context, rt *entity.Runtime) (place, error) {
	at := place{First: 1}
	body, err := readItem(ctx, rt, placeKind, placeKey)
	if err == nil && body != nil {
		err = json.Unmarshal(body, &at)
	}
	if err != nil {
		return at, fmt.Errorf("the place of the alarms: %w", err)
	}
	return at, nil
}

// loadWebhooks reads the webhooks and counts their deliveries.
func (e *engine) loadWebhooks(ctx context.Context) error {
	return e.each(ctx, webhookKind, func(it *entity.Item) error {
		var x webhookJSON
		if err := json.Unmarshal(it.Body, &x); err != nil {
			e.log.LogAttrs(ctx, slog.LevelError, "a stored webhook cannot be read and is told of nothing", slog.String("webhook", it.Key), slog.Any("error", err))
			return nil
		}
		t := e.sender.find(it.Key)
		if t == nil {
			t = e.sender.put(it.Key, x)
		}
		if err := t.recount(ctx); err != nil {
			return err
		}
		t.again()
		return nil
	})
}

// recount counts the deliveries that the store has.
func (t *target) recount(ctx context.Context) error {
	t.settling.Lock()
	defer t.settling.Unlock()
	for _, c := range []struct {
		kind  string
		count *atomic.Int64
	}{{deliveryKind, &t.queued}, {deadKind, &t.dead}} {
		n, err := countItems(ctx, t.s.rt, c.kind, part(t.name))
		if err != nil {
			return err
		}
		c.count.Store(n)
	}
	return nil
}

// countItems counts the items whose keys begin with a prefix.
func countItems(ctx context.Context, rt *entity.Runtime, kind, prefix string) (n int64, err error) {
	for from := prefix; ; {
		list, err := rt.Items(ctx, entity.ItemsQuery{Kind: kind, From: from, To: after(prefix), Limit: 1000})
		if err != nil {
			return n, err
		}
		n += int64(len(list))
		if len(list) < 1000 {
			return n, nil
		}
		from = list[len(list)-1].Key + "\x00"
	}
}

// each calls f with all items of a kind.
func (e *engine) each(ctx context.Context, kind string, f func(*entity.Item) error) error {
	for from := "\x00"; ; {
		list, err := e.rt.Items(ctx, entity.ItemsQuery{Kind: kind, From: from, Limit: 1000})
		if err != nil {
			return err
		}
		for i := range list {
			if err := f(&list[i]); err != nil {
				return err
			}
		}
		if len(list) < 1000 {
			return nil
		}
		from = list[len(list)-1].Key + "\x00"
	}
}

// loadStates reads the states. Those of rules that have changed or are gone end. A rule that has
// changed is two rules then, as when it changes while the engine runs: a state that ends is not
// taken for one of the rule in force.
func (e *engine) loadStates(ctx context.Context) error {
	type conditions struct {
		name      string
		effective int64
	}
	former := make(map[conditions]*rule)
	return e.each(ctx, stateKind, func(it *entity.Item) error {
		id, name, _ := strings.Cut(strings.TrimSuffix(it.Key, "\x00"), "\x00")
		var x stateJSON
		if err := json.Unmarshal(it.Body, &x); err != nil {
			e.log.LogAttrs(ctx, slog.LevelError, "a stored state of a rule cannot be read and is as in the beginning", slog.String("rule", name), slog.String("entity", id), slog.Any("error", err))
			return nil
		}
		r := e.rules[name]
		if r == nil { // it cannot be read: its alarms stay
			return nil
		}
		if x.Effective != r.Effective {
			was := conditions{name, x.Effective}
			if former[was] == nil {
				old := *r
				old.Effective, old.removed = x.Effective, true
				former[was] = &old
			}
			r = former[was]
		}
		s := e.cache.find(id)
		if s == nil {
			s = &subject{frame: frame{id: id, isA: e.isA}}
			e.cache.held[id] = s
		}
		st := newState(r, s)
		st.machine = machine{raised: x.Raised, at: x.At, pending: x.Pending, since: x.Since}
		st.alarm, st.shelf, st.late, st.kept = x.Alarm, x.Shelf, x.Late, true
		e.active++
		s.add(st)
		if !r.live {
			s.turned = max(s.turned, st.at, st.since)
		}
		if r.removed {
			st.ending = true
			e.ending = append(e.ending, st)
			return nil
		}
		if st.late != nil {
			e.enqueue(st)
		}
		if r.live && st.pending { // nobody knows whether its condition has held since
			st.pending, st.since = false, 0
			e.touch(st)
		}
		e.timers.Set(&st.timer, st.plan())
		return nil
	})
}

// publishRules makes the rules known to readers.
func (e *engine) publishRules() {
	list := make([]Installed, 0, len(e.rules))
	for _, name := range slices.Sorted(maps.Keys(e.rules)) {
		if r := e.rules[name]; !r.removed {
			list = append(list, r.Installed)
		}
	}
	e.installed.Store(&list)
	e.count.rules.Store(int64(len(list)))
}

// putRule puts a rule in force.
func (e *engine) putRule(ctx context.Context, in Rule, condition string) (Installed, error) {
	old, tag := e.rules[in.Name], ""
	if old != nil && !old.removed {
		tag = old.ETag
	}
	if err := entity.CheckCondition(condition, tag); err != nil {
		return Installed{}, fmt.Errorf("rule %q: %w", in.Name, err)
	}
	if old == nil && len(e.rules) >= MaxRules {
		return Installed{}, fmt.Errorf("rule %q: %w: at most %d rules are allowed", in.Name, ErrLimit, MaxRules)
	}
	now := e.now()
	e.place.Version = max(e.place.Version+1, now)
	installed := Installed{Rule: in, Version: e.place.Version, Updated: now, Effective: now, ETag: ruleTag(e.place.Version), Pending: true}
	same := old != nil && !old.removed && old.sameConditions(&in)
	if same {
		installed.Effective, installed.Pending = old.Effective, old.Pending
	} else if old != nil {
		installed.Effective = max(now, old.Effective+1)
	}
	r, err := compile(installed, e.slots.of)
	if err != nil {
		return Installed{}, err
	}
	if same {
		r.swept, r.missed, r.since, r.retyped, r.ready, r.waits, r.bit, r.awaits, r.refused = old.swept, old.missed, old.since, old.retyped, old.ready, old.waits, old.bit, old.awaits, old.refused
		*old = *r // the states know it by its address
		r = old
	} else {
		e.endRule(old)
		e.rules[in.Name] = r
	}
	x := r.json()
	if err := e.ledger.put(ruleKind, r.Name, &x); err != nil {
		return Installed{}, err
	}
	e.publishRules()
	if err := e.retype(); err != nil {
		return Installed{}, err
	}
	err = e.endSome(ctx)
	r.waits = !r.ready
	return installed, err
}

// deleteRule takes a rule out of force.
func (e *engine) deleteRule(ctx context.Context, name, condition string) error {
	r := e.rules[name]
	if r == nil || r.removed {
		return fmt.Errorf("rule %.64q: %w", name, ErrNotFound)
	}
	if err := entity.CheckCondition(condition, r.ETag); err != nil {
		return fmt.Errorf("rule %q: %w", name, err)
	}
	e.endRule(r)
	r.removed = true
	x := r.json()
	x.Deleted = true
	if err := e.ledger.put(ruleKind, name, &x); err != nil {
		return err
	}
	e.publishRules()
	return e.endSome(ctx)
}

// endRule says that the states of a rule are to end.
func (e *engine) endRule(r *rule) {
	if r == nil {
		return
	}
	r.removed = true
	e.forgetAwaits(r)
	e.reindex()
	for _, s := range e.cache.held {
		if st := s.state(r); st != nil && !st.ending {
			st.late, st.run, st.next = nil, nil, nil
			e.timers.Set(&st.timer, 0)
			st.ending = true
			e.ending = append(e.ending, st)
		}
	}
}

// endSome ends some of the states whose rule is not in force any more. After a crash the
// rest is found by what they say of their rule.
//
// A rule that takes the place of another one of its name is not ready before that: their
// states have one name.
func (e *engine) endSome(ctx context.Context) error {
	n := min(len(e.ending), e.steps.items/5)
	for _, st := range e.ending[:n] {
		if err := e.drop(ctx, st, Transition{TS: e.now()}, ByRule); err != nil {
			return err
		}
	}
	if e.ending = e.ending[n:]; len(e.ending) > 0 {
		return nil
	}
	e.ending = nil
	for name, r := range e.rules {
		switch {
		case r.broken:
		case r.removed:
			delete(e.rules, name)
			e.ledger.set(ruleKind, name, nil)
		case r.waits:
			if err := e.lookAgainFor(r, r.Effective); err != nil {
				return err
			}
		}
		r.ready, r.waits = true, false
	}
	e.reindex()
	return nil
}

// sweep looks at some of the entities for the rules that are new, once for all of them.
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

// sweepQuery returns which entities come next, and leaves those of the rules that they are
// for: first the one entity of a rule, then entities of the types that rules are for, and
// all where a rule is for all.
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

// sweepSome looks at entities, and returns for which of them rules are met, and for which not
// in force any more. last is the last one that was looked at, "" when it was the last of all.
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

// hasState reports whether a rule is not as in the beginning for an entity.
func (e *engine) hasState(id string, r *rule) bool {
	s := e.cache.held[id]
	return s != nil && s.state(r) != nil
}

// lookAt evaluates a rule for an entity as it is.
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

// clock is the time by the clock that conditions are pending up to: all that was
// committed by then is applied.
func (e *engine) clock() int64 { return min(e.known, e.now()) }

// wind has the clock of the engine go on, where something waits for that: at once where
// nothing waits to be applied, and otherwise once that is.
func (e *engine) wind(ctx context.Context) error {
	now := e.now()
	next := e.timers.Next()
	wanted := next <= now && next > e.known
	for _, st := range e.running {
		wanted = wanted || st.run.waits()
	}
	if !wanted || e.gate.head != "" {
		return nil
	}
	head, err := e.head(ctx)
	if err != nil {
		return err
	}
	if e.place.Cursor == "" || e.place.Cursor == head {
		e.known = now
	} else {
		e.gate = gate{head, now}
	}
	return nil
}

// head returns the cursor of the last change that is committed.
func (e *engine) head(ctx context.Context) (string, error) {
	sub, err := e.rt.Changes(ctx, entity.ChangesQuery{Edits: true})
	if err != nil {
		return "", err
	}
	defer sub.Close()
	return sub.Cursor(), nil
}

// fire does what is due by the clock.
func (e *engine) fire(ctx context.Context) error {
	now := e.clock()
	read := 0
	for n := 0; n < applyAtOnce && read < e.steps.fire && e.timers.Next() <= now && len(e.ledger.items) < e.steps.items; n++ {
		w := &e.timers.First().Value
		if x := w.later; x != nil {
			if err := e.takeUp(ctx, x); err != nil {
				return err
			}
			continue
		}
		if x := w.await; x != nil {
			is, err := e.due(ctx, x)
			if err != nil {
				return err
			}
			if is {
				read++
			}
			continue
		}
		st := w.state
		if st.shelf != nil && st.shelf.Until <= now {
			if err := e.unshelve(ctx, st); err != nil {
				return err
			}
		}
		if st.pending && st.late == nil && st.since+st.wait(st.rule) <= now {
			s, _, err := e.know(ctx, st.s.id)
			if err != nil {
				return err
			}
			if s == nil || !s.concerns(st.rule) {
				if err := e.drop(ctx, st, Transition{TS: now}, ByScope); err != nil {
					return err
				}
				continue
			}
			if err := e.advance(ctx, st, now); err != nil {
				return err
			}
		}
		e.touch(st)
	}
	return nil
}

// unshelve ends a shelf whose time is over.
func (e *engine) unshelve(ctx context.Context, st *state) error {
	st.shelf = nil
	if st.alarm == "" {
		return nil
	}
	a, err := e.ledger.alarm(ctx, st.alarm)
	if errors.Is(err, ErrNotFound) {
		e.unreadable(ctx, err)
		return nil
	}
	if err != nil {
		return err
	}
	was := a.prior()
	a.Shelved = nil
	return e.write(a, was, Transition{Kind: Unshelved})
}

// commit makes durable what was decided, with the place up to which changes are done with,
// and tells of it.
func (e *engine) commit(ctx context.Context) error {
	if err := e.flushStates(); err != nil {
		return err
	}
	if len(e.ledger.items) > 0 || e.moved {
		e.trimEvents()
		if err := e.ledger.put(placeKind, placeKey, &e.place); err != nil {
			return err
		}
		if err := e.ledger.commit(ctx); err != nil {
			return err
		}
		e.moved = false
		e.count.commits.Add(1)
	}
	for _, f := range e.then {
		f()
	}
	e.then = nil
	e.hub.publish(e.events)
	e.events = nil
	if e.idle() {
		e.release(nil)
	}
	return nil
}

// trimEvents removes the oldest events.
func (e *engine) trimEvents() {
	for n := 0; e.place.Event >= e.place.First+MaxEvents && n < e.steps.items; n++ {
		e.ledger.set(eventKind, eventKey(e.place.First), nil)
		e.place.First++
	}
}

// reached notes a change that is done with.
func (e *engine) reached(cursor string, committed int64) {
	e.place.Cursor, e.place.At, e.moved = cursor, min(committed, e.began), true
	if e.gate.head == cursor {
		e.known, e.gate = e.gate.at, gate{}
	}
	for len(e.leads) > 0 && (e.leads[0].over || e.leads[0].head == cursor) {
		e.leads[0].over = true
		e.leads = e.leads[1:]
	}
	if len(e.waiting) == 0 {
		return
	}
	if list := e.waiting[cursor]; list != nil {
		e.waited = append(e.waited, list...)
		delete(e.waiting, cursor)
	}
}

// wait returns a channel that gets nil when all that is committed now, and all that is to
// be done now, is done with and durable.
func (e *engine) wait(ctx context.Context) (chan error, error) {
	if err := e.retype(); err != nil {
		return nil, err
	}
	head, err := e.head(ctx)
	if err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	if e.place.Cursor == "" || e.place.Cursor == head {
		e.waited = append(e.waited, done)
	} else {
		e.waiting[head] = append(e.waiting[head], done)
	}
	return done, nil
}

// busy reports whether there is more to do than what comes.
func (e *engine) busy() bool {
	if e.working() || len(e.late)+len(e.running)+len(e.waited) > 0 || !e.graves.none() || e.timers.Next() <= e.now() {
		return true
	}
	for _, r := range e.rules {
		if r.Pending && !r.removed {
			return true
		}
	}
	return false
}

// working reports whether some of that can be done at once, and does not have to wait for
// what comes first.
func (e *engine) working() bool {
	if len(e.ending)+len(e.dropped) > 0 || len(e.late) > 0 && len(e.running) < replaysAtOnce || len(e.ledger.items) == 0 && !e.graves.none() {
		return true
	}
	for _, st := range e.running {
		if !st.run.waits() || e.gate.head == "" {
			return true
		}
	}
	if next := e.timers.Next(); next <= e.clock() || next <= e.now() && e.gate.head == "" {
		return true
	}
	for _, r := range e.rules {
		if r.Pending && !r.removed && len(e.late) < sweepLate {
			return true
		}
	}
	return len(e.waited) > 0 && e.gate.head == ""
}

// idle reports whether everything is done but what comes and what is not yet due.
func (e *engine) idle() bool {
	waited := e.waited
	e.waited = nil
	busy := e.busy()
	e.waited = waited
	return !busy
}

// awaited reports whether somebody waits for a commit and it is time for it.
func (e *engine) awaited() bool { return len(e.waited) > 0 && e.idle() }

// release tells those who wait.
func (e *engine) release(err error) {
	for _, done := range e.waited {
		done <- err
	}
	e.waited = nil
	if err == nil {
		return
	}
	for _, list := range e.waiting {
		for _, done := range list {
			done <- err
		}
	}
	clear(e.waiting)
}

// switchFeed follows the changes while there are rules, or alarms, whose entities may be
// deleted; and does not otherwise.
func (f *follower) switchFeed(ctx context.Context) error {
	e := f.e
	wanted := len(e.rules) > 0 || e.kept
	switch {
	case wanted && f.feed == nil:
		q := entity.ChangesQuery{Cursor: e.place.Cursor, Edits: true, Commands: true, Presence: true, Buffer: feedBuffer} // each: a place may be that of any
		changes, err := f.s.rt.Follow(ctx, q)
		missed := errors.Is(err, entity.ErrCursorExpired) || errors.Is(err, entity.ErrCursorInvalid)
		if missed {
			f.s.count.missed.Add(1)
			f.s.cfg.Logger.LogAttrs(ctx, slog.LevelWarn, "alarms have missed changes that are not kept any more; all entities are looked at again", slog.String("cursor", q.Cursor))
			if err := e.lookAgain(); err != nil {
				return err
			}
			q.Cursor = ""
			changes, err = f.s.rt.Follow(ctx, q)
		}
		if err == nil && missed { // what is deleted from here on is followed
			if err = f.endMissing(ctx); err != nil {
				changes.Close()
			}
		}
		if err != nil {
			return err
		}
		if q.Cursor == "" {
			e.place.At = e.now()
		}
		e.place.Cursor, e.moved, e.gate = changes.Cursor(), true, gate{}
		e.endLeads()
		f.feed = startFeed(f.s.ctx, &f.s.wg, changes, &f.s.count.lagged)
		return f.commit(ctx)
	case !wanted && (f.feed != nil || e.place.Cursor != ""):
		if f.feed != nil {
			f.feed.stop()
			f.feed = nil
		}
		e.place.Cursor, e.moved, e.gate = "", true, gate{}
		e.endLeads()
		e.release(errAnew)
		return f.commit(ctx)
	}
	return nil
}

// lookAgain looks at all entities: changes were missed. That is in the commit that has the
// new cursor.
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

// lookAgainFor says that readings since a time may have been missed for a rule.
func (e *engine) lookAgainFor(r *rule, since int64) error {
	if r.missed {
		since = min(since, r.since)
	}
	r.Pending, r.swept, r.missed, r.since = true, "", true, since
	x := r.json()
	return e.ledger.put(ruleKind, r.Name, &x)
}

// oldest is from when on late readings are gone through, with some time for that to begin.
func (e *engine) oldest() int64 { return e.now() - max(0, e.lateness-time.Hour.Milliseconds()) }

// endMissing ends what there is of entities whose deletion was missed: of those that are not
// there, and of those that came to be after the place.
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

// endThoseMissing does so for some entities. What it commits is with the place before the changes
// that were missed.
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

// purgeSome removes some of the alarms that have been kept for long enough.
func (f *follower) purgeSome(ctx context.Context) error {
	if e := f.e; e.kept && len(e.rules) == 0 && len(e.ledger.items) == 0 { // no more are made
		if err := e.lookForAlarms(ctx); err != nil {
			return err
		}
	}
	list, err := f.s.rt.Items(ctx, entity.ItemsQuery{Kind: closedKind, From: f.purge, Limit: purgeAlarms})
	if err != nil {
		return err
	}
	before := f.e.now() - f.s.cfg.Retention.Milliseconds()
	for i := range list {
		a, err := decodeAlarm(list[i].Key, list[i].Body)
		if err != nil {
			continue // it stays as it is
		}
		if a.Ended < before {
			f.e.ledger.drop(a)
		}
	}
	if f.purge = ""; len(list) == purgeAlarms {
		f.purge = list[len(list)-1].Key + "\x00"
	}
	return nil
}
