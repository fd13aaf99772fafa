package alarm

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
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
	// Sweep says that entities after Swept have still to be examined.
	Sweep bool   `json:"sweep,omitempty"`
	Swept string `json:"swept,omitempty"`
	// Missed says that readings since Since may have been missed.
	Missed bool  `json:"missed,omitempty"`
	Since  int64 `json:"since,omitempty"`
	// Retyped says that Sweep covers entities of all types, because the extensions of types have
	// changed.
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
	e := newEngine(s.rt, &s.cfg, &s.count, s.deletions)
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
	if err := e.loadDeletions(ctx); err != nil {
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

// lookForAlarms sets whether there are alarms. REQUIRES: the ledger has no alarm that is not in the
// store.
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

// loadStates reads the states, and ends those of rules that have changed or no longer exist. A
// changed rule then counts as two rules, as when it changes while the engine runs, so that a state
// that ends is not taken for one of the rule in force.
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
