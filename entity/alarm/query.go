package alarm

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/greenroom-go/greenroom/entity"
)

// Query asks for alarms, the most recently raised first. The zero Query asks for all.
type Query struct {
	// Open keeps only alarms that have not cleared, and Closed only those that have.
	Open, Closed bool
	// Entity and Rule keep only the alarms of that entity and rule; "" keeps all.
	Entity, Rule string
	// Severities keeps only alarms with one of these severities; empty keeps all.
	Severities []Severity
	// Acknowledged and Shelved keep alarms that are (true) or are not (false); nil keeps all.
	Acknowledged, Shelved *bool
	// Deleted keeps the alarms of deleted entities (true) or of others (false); nil keeps all.
	Deleted *bool
	// Before keeps alarms with a lower ID: it is the cursor from the previous page, "" for the
	// first page.
	Before string
	// Limit is how many alarms to return at most, up to MaxPage. Defaults to 50.
	Limit int
	// Keep, if it is not nil, is called after all other conditions.
	Keep func(*Alarm) bool
}

// keeps reports whether the query asks for an alarm.
func (q *Query) keeps(a *Alarm) bool {
	return (!q.Open || a.Open()) && (!q.Closed || !a.Open()) &&
		(q.Entity == "" || a.Entity == q.Entity) && (q.Rule == "" || a.Rule == q.Rule) &&
		(len(q.Severities) == 0 || slices.Contains(q.Severities, a.Severity)) &&
		(q.Acknowledged == nil || *q.Acknowledged == (a.Acknowledged != nil)) &&
		(q.Shelved == nil || *q.Shelved == (a.Shelved != nil)) &&
		(q.Deleted == nil || *q.Deleted == a.Deleted) &&
		(q.Keep == nil || q.Keep(a))
}

// Alarm returns an alarm, or ErrNotFound.
func (s *Service) Alarm(ctx context.Context, id string) (Alarm, error) {
	seen := s.deletions.seen()
	for range 2 { // it may clear between the two reads
		for _, kind := range []string{openKind, closedKind} {
			body, err := readItem(ctx, s.rt, kind, checkID(id))
			if err != nil {
				return Alarm{}, err
			}
			if body != nil {
				a, err := decodeAlarm(id, body)
				if err != nil {
					return Alarm{}, err
				}
				a.Deleted = a.Deleted || id <= seen[a.Entity]
				return *a, nil
			}
		}
	}
	return Alarm{}, fmt.Errorf("alarm %.32q: %w", id, ErrNotFound)
}

// checkID returns an ID that can be looked up; a text that is not an ID finds nothing.
func checkID(id string) string {
	if len(id) != idBytes {
		return "\x00"
	}
	return id
}

// Alarms returns a page of alarms without their history, and the cursor of the next page, "" after
// the last one. A page may have fewer than Limit alarms, even none, and not be the last: at most
// MaxExamined alarms are examined for it, and its size is at most about MaxPageBytes.
func (s *Service) Alarms(ctx context.Context, q Query) (list []Alarm, next string, err error) {
	if q.Limit == 0 {
		q.Limit = 50
	}
	if q.Limit < 1 || q.Limit > MaxPage {
		return nil, "", fmt.Errorf("limit: %w: must be from 1 to %d, not %d", entity.ErrInvalid, MaxPage, q.Limit)
	}
	if q.Before != "" && len(q.Before) != idBytes {
		return nil, "", fmt.Errorf("cursor: %w: must be what came with the page before, not %.32q", entity.ErrInvalid, q.Before)
	}
	p := pager{s: s, q: &q, before: q.Before}
	switch {
	case q.Entity != "":
		p.sources = []source{{kind: entityKind, prefix: part(q.Entity)}}
	case q.Open:
		p.sources = []source{{kind: openKind}}
	case q.Closed:
		p.sources = []source{{kind: closedKind}}
	default:
		p.sources = []source{{kind: openKind}, {kind: closedKind}}
	}
	seen := s.deletions.seen()
	for examined, bytes := 0, 0; ; examined++ {
		a, n, err := p.next(ctx)
		if err != nil {
			return nil, "", err
		}
		if a == nil {
			return list, "", nil
		}
		if len(list) == q.Limit || bytes > MaxPageBytes || examined == MaxExamined {
			return list, p.before, nil
		}
		if a.ID == p.before { // it has cleared between the one look and the other
			continue
		}
		p.before = a.ID
		a.Deleted = a.Deleted || a.ID <= seen[a.Entity]
		if q.keeps(a) {
			a.History = nil
			list = append(list, *a)
			bytes += n
		}
	}
}

// pager reads alarms with descending IDs from one or two sources.
type pager struct {
	s       *Service
	q       *Query
	before  string // the last one that was returned
	sources []source
}

// source is a kind of items whose keys end in IDs.
type source struct {
	kind, prefix string
	page         []entity.Item
	end          bool
}

// pagerItems is how many items are read at once.
const pagerItems = 200

// next returns the next alarm, nil at the end, and about how large it is.
func (p *pager) next(ctx context.Context) (*Alarm, int, error) {
	for {
		var best *source
		for i := range p.sources {
			x := &p.sources[i]
			if err := x.fill(ctx, p.s.rt, p.before); err != nil {
				return nil, 0, err
			}
			if len(x.page) > 0 && (best == nil || x.id() > best.id()) {
				best = x
			}
		}
		if best == nil {
			return nil, 0, nil
		}
		it, id := best.page[0], best.id()
		best.page = best.page[1:]
		if best.kind != entityKind {
			a, err := decodeAlarm(id, it.Body)
			if err != nil {
				p.pass(ctx, id, err)
				continue
			}
			return a, len(it.Body), nil
		}
		for _, kind := range []string{openKind, closedKind} {
			body, err := readItem(ctx, p.s.rt, kind, id)
			if err != nil {
				return nil, 0, err
			}
			if body != nil {
				a, err := decodeAlarm(id, body)
				if err != nil {
					p.pass(ctx, id, err)
					break
				}
				return a, len(body), nil
			}
		}
		p.before = id // it has been removed meanwhile
	}
}

// pass skips an alarm that cannot be read.
func (p *pager) pass(ctx context.Context, id string, err error) {
	p.before = id
	p.s.cfg.Logger.LogAttrs(ctx, slog.LevelError, "a stored alarm cannot be read and is passed over", slog.Any("error", err))
}

func (x *source) id() string { return x.page[0].Key[len(x.prefix):] }

// fill reads the next items.
func (x *source) fill(ctx context.Context, rt *entity.Runtime, before string) (err error) {
	if x.end || len(x.page) > 0 {
		return nil
	}
	q := entity.ItemsQuery{Kind: x.kind, From: x.prefix, Limit: pagerItems, Descending: true}
	switch {
	case before != "":
		q.To = x.prefix + before
	case x.prefix != "":
		q.To = after(x.prefix)
	}
	x.page, err = rt.Items(ctx, q)
	x.end = len(x.page) < pagerItems
	return err
}
