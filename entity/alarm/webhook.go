package alarm

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

// Webhook is a URL that is notified of alarms by POST. Rules name the webhooks that are notified of
// their alarms.
type Webhook struct {
	Name, URL string
	// ETag is the version for conditions of writes, and Updated when the webhook was last changed.
	ETag    string
	Updated int64
	// Queued is how many deliveries wait, and Dead how many were given up.
	Queued, Dead int64
}

// Delivery is an event on its way to a webhook.
type Delivery struct {
	// ID identifies the delivery, and is the same for each attempt: it is the header webhook-id.
	// Seq is the number of the event, which identifies the delivery among those of its webhook.
	ID  string `json:"id"`
	Seq uint64 `json:"seq"`
	// Event is the event as it happened.
	Event Event `json:"event"`
	// Attempts is how often the delivery was tried, Next when it is tried again, and Error why the
	// last attempt failed.
	Attempts int    `json:"attempts"`
	Next     int64  `json:"next,omitempty"`
	Error    string `json:"error,omitempty"`
}

// webhookJSON is a webhook as it is stored.
type webhookJSON struct {
	URL     string `json:"url"`
	Secret  string `json:"secret"`
	Version int64  `json:"version"`
	Updated int64  `json:"updated"`
	// Created is its first version, 0 if an earlier release of the program made it.
	Created int64 `json:"created,omitempty"`
}

// secretPrefix begins a secret, by the convention of Standard Webhooks; the rest is base64.
const (
	secretPrefix = "whsec_"
	secretBytes  = 32
)

// checkURL returns an error if a webhook cannot have this URL.
func checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case len(text) > MaxURLBytes:
		return fmt.Errorf("url: %w: must have at most %d bytes, not %d", entity.ErrInvalid, MaxURLBytes, len(text))
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return fmt.Errorf("url: %w: must be like https://example.com/alarms, not %.64q", entity.ErrInvalid, text)
	case u.User != nil:
		return fmt.Errorf("url: %w: must not have a user or a password, which everybody who reads the webhook would see", entity.ErrInvalid)
	}
	return nil
}

// PutWebhook creates or changes a webhook and returns it. The secret that signs its deliveries is
// returned only if it is new: for a new webhook, and with rotate. It cannot be retrieved later.
// condition is as for PutRule.
func (s *Service) PutWebhook(ctx context.Context, name, target string, rotate bool, condition string) (w Webhook, secret string, err error) {
	if err := CheckName("name", name); err != nil {
		return w, "", err
	}
	if err := checkURL(target); err != nil {
		return w, "", err
	}
	err = s.do(ctx, func(ctx context.Context, e *engine) error {
		old, tag := e.sender.find(name), ""
		if old != nil {
			tag = old.webhook().ETag
		}
		if err := entity.CheckCondition(condition, tag); err != nil {
			return fmt.Errorf("webhook %q: %w", name, err)
		}
		if old == nil && e.sender.len() >= MaxWebhooks {
			return fmt.Errorf("webhook %q: %w: at most %d are allowed", name, ErrLimit, MaxWebhooks)
		}
		if old == nil { // a former version left those of one that was deleted
			if err := e.removeDeliveries(ctx, name); err != nil {
				return err
			}
		}
		x := webhookJSON{URL: target, Updated: e.now()}
		if old != nil {
			x.Secret, x.Created = old.secret(), old.x.Load().Created
		}
		if old == nil || rotate {
			key := make([]byte, secretBytes)
			_, _ = rand.Read(key) // never fails
			x.Secret = secretPrefix + base64.StdEncoding.EncodeToString(key)
			secret = x.Secret
		}
		e.place.Version = max(e.place.Version+1, x.Updated)
		if x.Version = e.place.Version; old == nil {
			x.Created = x.Version
		}
		e.then = append(e.then, func() { e.sender.put(name, x) })
		w = Webhook{Name: name, URL: x.URL, ETag: ruleTag(x.Version), Updated: x.Updated}
		return e.ledger.put(webhookKind, name, &x)
	})
	return w, secret, err
}

// DeleteWebhook deletes a webhook and its deliveries, including those that wait. It returns
// ErrNotFound, ErrInUse while rules name it, or [entity.ErrConflict] if condition does not hold.
func (s *Service) DeleteWebhook(ctx context.Context, name, condition string) error {
	return s.do(ctx, func(ctx context.Context, e *engine) error {
		t := e.sender.find(name)
		if t == nil {
			return fmt.Errorf("webhook %.64q: %w", name, ErrNotFound)
		}
		if err := entity.CheckCondition(condition, t.webhook().ETag); err != nil {
			return fmt.Errorf("webhook %q: %w", name, err)
		}
		for _, r := range e.rules {
			if !r.removed && slices.Contains(r.Webhooks, name) {
				return fmt.Errorf("webhook %q: %w: by rule %q", name, ErrInUse, r.Name)
			}
		}
		// If anything below fails, the engine restarts with the stored webhook.
		e.ledger.set(webhookKind, name, nil)
		e.sender.remove(name)
		return e.removeDeliveries(ctx, name)
	})
}

// removeDeliveries removes the deliveries of a webhook.
func (e *engine) removeDeliveries(ctx context.Context, name string) error {
	for _, kind := range []string{deliveryKind, deadKind} {
		if err := removeAll(ctx, e.rt, kind, part(name)); err != nil {
			return err
		}
		for i := range e.ledger.items { // those of this commit
			if it := &e.ledger.items[i]; it.Kind == kind && strings.HasPrefix(it.Key, part(name)) {
				it.Body = nil
			}
		}
	}
	return nil
}

// removeAll removes the items whose keys begin with a prefix.
func removeAll(ctx context.Context, rt *entity.Runtime, kind, prefix string) error {
	for {
		list, err := rt.Items(ctx, entity.ItemsQuery{Kind: kind, From: prefix, To: after(prefix), Limit: 1000})
		if err != nil || len(list) == 0 {
			return err
		}
		for i := range list {
			list[i].Body = nil
		}
		if err := rt.PutItems(ctx, list); err != nil {
			return err
		}
	}
}

// Webhooks returns all webhooks, by name.
func (s *Service) Webhooks() []Webhook { return s.sender.list() }

// Webhook returns a webhook, or ErrNotFound.
func (s *Service) Webhook(name string) (Webhook, error) {
	t := s.sender.find(name)
	if t == nil {
		return Webhook{}, fmt.Errorf("webhook %.64q: %w", name, ErrNotFound)
	}
	return t.webhook(), nil
}

// DeadLetters returns deliveries of a webhook that were given up, beginning after the event last,
// and whether there are more.
func (s *Service) DeadLetters(ctx context.Context, name string, last uint64, limit int) (list []Delivery, more bool, err error) {
	if _, err := s.Webhook(name); err != nil {
		return nil, false, err
	}
	if limit < 1 || limit > MaxPage {
		return nil, false, fmt.Errorf("limit: %w: must be from 1 to %d, not %d", entity.ErrInvalid, MaxPage, limit)
	}
	items, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: deadKind, From: part(name) + eventKey(last+1), To: after(part(name)), Limit: limit + 1})
	if err != nil {
		return nil, false, err
	}
	for i := range items[:min(limit, len(items))] {
		d, err := decodeDelivery(&items[i])
		if err != nil {
			return nil, false, err
		}
		list = append(list, d)
	}
	return list, len(items) > limit, nil
}

func decodeDelivery(it *entity.Item) (d Delivery, err error) {
	if err = json.Unmarshal(it.Body, &d); err != nil {
		err = fmt.Errorf("delivery %q as stored: %w", strings.ReplaceAll(it.Key, "\x00", " "), err)
	}
	return d, err
}

// RetryDead retries a delivery that was given up, as if it were new. It returns ErrNotFound if
// there is none.
func (s *Service) RetryDead(ctx context.Context, name string, seq uint64) error {
	return s.moveDead(ctx, name, seq, true)
}

// DiscardDead deletes a delivery that was given up. It returns ErrNotFound if there is none.
func (s *Service) DiscardDead(ctx context.Context, name string, seq uint64) error {
	return s.moveDead(ctx, name, seq, false)
}

func (s *Service) moveDead(ctx context.Context, name string, seq uint64, again bool) error {
	return s.do(ctx, func(ctx context.Context, e *engine) error {
		t, key := e.sender.find(name), part(name)+eventKey(seq)
		if t == nil {
			return fmt.Errorf("webhook %.64q: %w", name, ErrNotFound)
		}
		body, err := e.ledger.body(ctx, deadKind, key)
		if err != nil {
			return err
		}
		if body == nil {
			return fmt.Errorf("webhook %q: delivery %d: %w", name, seq, ErrNotFound)
		}
		e.ledger.set(deadKind, key, nil)
		if !again {
			e.then = append(e.then, func() { t.dead.Add(-1) })
			return nil
		}
		d, err := decodeDelivery(&entity.Item{Key: key, Body: body})
		if err != nil {
			return err
		}
		d.Attempts, d.Next, d.Error = 0, 0, ""
		e.then = append(e.then, func() {
			t.dead.Add(-1)
			t.queued.Add(1)
			t.again()
		})
		return e.ledger.put(deliveryKind, key, &d)
	})
}

// deliver puts an event into the queues of webhooks, in the commit that it is part of. A webhook
// newer than the rule that raised the alarm is skipped: it only has the name of the one that the
// rule meant.
func (e *engine) deliver(ev *Event, names []string) error {
	var id string
	for _, name := range names {
		t := e.sender.find(name)
		if t == nil || t.x.Load().Created > ev.Alarm.Version {
			continue
		}
		if id == "" {
			id = "msg_" + rand.Text()
		}
		d := Delivery{ID: id, Seq: ev.Seq, Event: *ev}
		kind, count := deliveryKind, &t.queued
		if t.queued.Load() >= MaxQueued {
			if t.dead.Load() >= MaxDead {
				e.count.lost.Add(1)
				continue
			}
			kind, count = deadKind, &t.dead
			d.Error = "too many deliveries wait for the webhook"
			e.count.dead.Add(1)
		}
		count.Add(1)
		e.then = append(e.then, t.nudge)
		if err := e.ledger.put(kind, part(name)+eventKey(ev.Seq), &d); err != nil {
			return err
		}
	}
	return nil
}

// retryAfter returns how long to wait after a number of attempts: it doubles, and is up to a fifth
// shorter or longer so that deliveries that failed together are not retried together. x is random,
// from 0 to 1.
func retryAfter(attempts int, x float64) time.Duration {
	d := min(deliveryRetryMax, deliveryRetryMin<<min(attempts-1, 20))
	return time.Duration(float64(d) * (0.8 + 0.4*x))
}
