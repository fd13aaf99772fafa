package alarm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/greenroom-go/greenroom/entity"
)

// ledger gathers the items to be written in one commit; reads see them before the store. It is
// owned by the engine's goroutine.
type ledger struct {
	rt        *entity.Runtime
	deletions *deletions
	items     []entity.Item
	at        map[itemKey]int     // where in items
	times     map[string][]string // the keys of kind timeKind in items, by entity and rule
	bytes     int
	recent    recent
}

type itemKey struct{ kind, key string }

func newLedger(rt *entity.Runtime, g *deletions) *ledger {
	return &ledger{rt: rt, deletions: g, at: make(map[itemKey]int), times: make(map[string][]string), recent: newRecent(recentAlarmBytes)}
}

// set writes an item, or removes it with a nil body.
func (l *ledger) set(kind, key string, body []byte) {
	k := itemKey{kind, key}
	l.bytes += len(key) + len(body)
	if i, ok := l.at[k]; ok {
		l.items[i].Body = body
		return
	}
	if kind == timeKind {
		pair := key[:pairEnd(key)]
		l.times[pair] = append(l.times[pair], key)
	}
	l.at[k] = len(l.items)
	l.items = append(l.items, entity.Item{Kind: kind, Key: key, Body: body})
}

// put writes an item that is JSON.
func (l *ledger) put(kind, key string, x any) error {
	body, err := plainJSON(x)
	if err != nil {
		return fmt.Errorf("%s %q: %w", kind, key, err)
	}
	if n := len(body); n > entity.MaxItemBytes { // the store would refuse all of the commit
		return fmt.Errorf("%s %q: %w: must have at most %d bytes, not %d", kind, key, entity.ErrInvalid, entity.MaxItemBytes, n)
	}
	l.set(kind, key, body)
	return nil
}

// body returns an item, nil where there is none.
func (l *ledger) body(ctx context.Context, kind, key string) ([]byte, error) {
	if i, ok := l.at[itemKey{kind, key}]; ok {
		return l.items[i].Body, nil
	}
	return readItem(ctx, l.rt, kind, key)
}

// readItem reads an item of the store, nil where there is none.
func readItem(ctx context.Context, rt *entity.Runtime, kind, key string) ([]byte, error) {
	list, err := rt.Items(ctx, entity.ItemsQuery{Kind: kind, From: key, To: key + "\x00", Limit: 1})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0].Body, nil
}

// pairEnd returns where a key of kind timeKind says no more of entity and rule.
func pairEnd(key string) int {
	n := strings.IndexByte(key, 0) + 1
	return n + strings.IndexByte(key[n:], 0) + 1
}

// alarmTimes returns items of kind timeKind of an entity and a rule with from <= key < to, at most
// limit, in the order of their keys or from the last to the first. It leaves out those of an
// earlier entity with the same id.
func (l *ledger) alarmTimes(ctx context.Context, pair, from, to string, limit int, descending bool) ([]entity.Item, error) {
	var list []entity.Item
	id, most := pair[:strings.IndexByte(pair, 0)], limit
	if l.deletions.has(id) {
		most = max(limit, recordPage)
	}
	for q := (entity.ItemsQuery{Kind: timeKind, From: from, To: to, Limit: most, Descending: descending}); ; {
		page, err := l.rt.Items(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if _, ok := l.at[itemKey{timeKind, page[i].Key}]; !ok && !l.deletions.covers(id, string(page[i].Body)) {
				list = append(list, page[i])
			}
		}
		if len(page) < most || len(list) >= limit {
			break
		}
		if last := page[len(page)-1].Key; descending {
			q.To = last
		} else {
			q.From = last + "\x00"
		}
	}
	for _, key := range l.times[pair] {
		if it := l.items[l.at[itemKey{timeKind, key}]]; it.Body != nil && key >= from && key < to && !l.deletions.covers(id, string(it.Body)) {
			list = append(list, it)
		}
	}
	slices.SortFunc(list, func(a, b entity.Item) int {
		if descending {
			a, b = b, a
		}
		return strings.Compare(a.Key, b.Key)
	})
	return list[:min(limit, len(list))], nil
}

// alarm reads an alarm by its ID. An alarm that cannot be read is treated as missing.
func (l *ledger) alarm(ctx context.Context, id string) (*Alarm, error) {
	if a := l.recent.find(id); a != nil {
		return a, nil
	}
	for _, kind := range []string{openKind, closedKind} {
		body, err := l.body(ctx, kind, id)
		if err != nil {
			return nil, err
		}
		if body != nil {
			a, err := decodeAlarm(id, body)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
			}
			return a, nil
		}
	}
	return nil, fmt.Errorf("alarm %.32q: %w", id, ErrNotFound)
}

func decodeAlarm(id string, body []byte) (*Alarm, error) {
	var a Alarm
	if err := json.Unmarshal(body, &a); err != nil {
		return nil, fmt.Errorf("alarm %q as stored: %w", id, err)
	}
	return &a, nil
}

// keep writes an alarm.
func (l *ledger) keep(a *Alarm, was *prior) error {
	if was != nil && (was.raised != a.Raised || a.Cause == ByLate) {
		l.set(timeKind, timeKey(a.Entity, a.Rule, was.raised, a.ID), nil)
	}
	if a.Cause != ByLate && (was == nil || was.raised != a.Raised) {
		l.set(timeKind, timeKey(a.Entity, a.Rule, a.Raised, a.ID), []byte(a.ID))
	}
	if was == nil {
		l.set(entityKind, part(a.Entity)+a.ID, []byte{})
	}
	kind, other := openKind, closedKind
	if !a.Open() {
		kind, other = other, kind
	}
	if was != nil && was.open != a.Open() {
		l.set(other, a.ID, nil)
	}
	l.recent.forget(a.ID)
	err := l.put(kind, a.ID, a)
	for range 2 {
		if err == nil {
			break
		}
		a.shrink()
		err = l.put(kind, a.ID, a)
	}
	if err == nil && a.Open() {
		l.recent.add(a)
	}
	return err
}

// drop removes an alarm and all items that refer to it.
func (l *ledger) drop(a *Alarm) {
	l.recent.forget(a.ID)
	l.set(closedKind, a.ID, nil)
	l.set(openKind, a.ID, nil)
	l.set(entityKind, part(a.Entity)+a.ID, nil)
	l.set(timeKind, timeKey(a.Entity, a.Rule, a.Raised, a.ID), nil)
}

// commit makes all of it durable.
func (l *ledger) commit(ctx context.Context) error {
	if len(l.items) == 0 {
		return nil
	}
	if err := l.rt.PutItems(ctx, l.items); err != nil {
		return fmt.Errorf("keep the alarms: %w", err)
	}
	clear(l.items)
	clear(l.at)
	clear(l.times)
	l.items, l.bytes = l.items[:0], 0
	return nil
}
