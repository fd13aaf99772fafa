package alarm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/internal/text"
)

const (
	// deliveryWindow is how many deliveries of a webhook are in memory, and
	// deliveriesAtOnce how many of them are under way.
	deliveryWindow   = 256
	deliveriesAtOnce = 4
	// deliveryTimeout is how long a webhook may take to answer. At most answerBytes of the answer
	// are read.
	deliveryTimeout = 15 * time.Second
	answerBytes     = 4 << 10
	// deliveryRetryMin and deliveryRetryMax bound the wait after an attempt.
	deliveryRetryMin = 5 * time.Second
	deliveryRetryMax = time.Hour
	// storePause is how long a webhook waits after the store has failed.
	storePause = 5 * time.Second
)

// sender manages the webhooks and sends to them. Its methods are safe for concurrent use.
type sender struct {
	rt     *entity.Runtime
	log    *slog.Logger
	encode func(*Event) ([]byte, error)
	count  *counters
	client *http.Client
	retry  func(attempts int) time.Duration // tests have their own
	ctx    context.Context                  //nolint:containedctx // of the service
	wg     *sync.WaitGroup

	mu      sync.Mutex
	targets map[string]*target // by name, guarded by mu
}

// target is one webhook. One goroutine is in charge of it, and has up to deliveriesAtOnce others
// send to it.
type target struct {
	s            *sender
	name         string
	x            atomic.Pointer[webhookJSON]
	queued, dead atomic.Int64
	wake         chan struct{} // there is more in the queue
	rescan       atomic.Bool   // also before what was read
	stop         context.CancelFunc
	ended        chan struct{} // closed when nothing is sent any more

	// settling is held while the outcome of an attempt is stored and counted, and while deliveries
	// are counted in the store.
	settling sync.Mutex
}

func newSender(s *Service) *sender {
	transport := &http.Transport{
		DialContext:         newDialer().DialContext,
		MaxIdleConnsPerHost: deliveriesAtOnce, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: deliveryTimeout,
		ResponseHeaderTimeout: deliveryTimeout, MaxResponseHeaderBytes: 64 << 10,
	}
	return &sender{
		rt: s.rt, log: s.cfg.Logger, encode: s.cfg.Encode, count: &s.count, ctx: s.ctx, wg: &s.wg, targets: make(map[string]*target),
		retry: s.cfg.retry,
		client: &http.Client{
			Transport: transport, Timeout: deliveryTimeout,
			// Following a redirect would send the delivery to an address that nobody has allowed.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

func (s *sender) find(name string) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.targets[name]
}

func (s *sender) len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.targets)
}

func (s *sender) list() []Webhook {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Webhook, 0, len(s.targets))
	for _, name := range slices.Sorted(maps.Keys(s.targets)) {
		list = append(list, s.targets[name].webhook())
	}
	return list
}

// put makes a webhook known, or changes it.
func (s *sender) put(name string, x webhookJSON) *target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.targets[name]; t != nil {
		t.x.Store(&x)
		return t
	}
	ctx, stop := context.WithCancel(s.ctx)
	t := &target{s: s, name: name, wake: make(chan struct{}, 1), stop: stop, ended: make(chan struct{})}
	t.x.Store(&x)
	s.targets[name] = t
	s.wg.Go(func() {
		defer close(t.ended)
		t.run(ctx)
	})
	return t
}

// remove forgets a webhook, and returns when nothing is sent to it any more.
func (s *sender) remove(name string) {
	s.mu.Lock()
	t := s.targets[name]
	delete(s.targets, name)
	s.mu.Unlock()
	if t != nil {
		t.stop()
		<-t.ended
	}
}

func (t *target) webhook() Webhook {
	x := t.x.Load()
	return Webhook{Name: t.name, URL: x.URL, ETag: ruleTag(x.Version), Updated: x.Updated, Queued: t.queued.Load(), Dead: t.dead.Load()}
}

func (t *target) secret() string { return t.x.Load().Secret }

// nudge says that there is more in the queue.
func (t *target) nudge() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// again says that the queue has something before the part that was read.
func (t *target) again() {
	t.rescan.Store(true)
	t.nudge()
}

// pending is a delivery in the window.
type pending struct {
	key  string
	d    Delivery
	busy bool
	due  time.Time
}

// outcome is the result of an attempt.
type outcome struct {
	p     *pending
	err   error         // nil if the webhook accepted it
	never bool          // it must not be retried
	wait  time.Duration // the least wait until the next attempt
}

// queue is the window of a target, owned by its goroutine: the deliveries in the order of their
// events. The deliveries of one alarm are sent one after the other.
type queue struct {
	t        *target
	list     []*pending
	last     string // the key up to which was read
	complete bool   // there is no more
	busy     int
	done     chan outcome
	// complained says that a dead letter was logged since the last accepted delivery.
	complained bool
}

// run sends what is in the queue until ctx ends.
func (t *target) run(ctx context.Context) {
	q := &queue{t: t, done: make(chan outcome, deliveriesAtOnce)}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		if t.rescan.Swap(false) {
			q.last, q.complete = "", false
		}
		nap := time.Hour
		if err := q.fill(ctx); err != nil {
			nap = storePause
		}
		nap = min(nap, q.start(ctx, time.Now()))
		timer.Reset(nap)
		select {
		case <-ctx.Done():
		case <-t.wake:
			q.complete = false
		case o := <-q.done:
			q.settle(ctx, &o)
		case <-timer.C:
		}
	}
	for ; q.busy > 0; q.busy-- { // they end with ctx
		<-q.done
	}
}

// fill reads deliveries into the window.
func (q *queue) fill(ctx context.Context) error {
	for !q.complete && len(q.list) < deliveryWindow {
		prefix := part(q.t.name)
		from := prefix
		if q.last != "" {
			from = q.last + "\x00"
		}
		items, err := q.t.s.rt.Items(ctx, entity.ItemsQuery{Kind: deliveryKind, From: from, To: after(prefix), Limit: deliveryWindow})
		if err != nil {
			return err
		}
		q.complete = len(items) < deliveryWindow
		for i := range items {
			q.last = items[i].Key
			if slices.ContainsFunc(q.list, func(p *pending) bool { return p.key == q.last }) {
				continue
			}
			d, err := decodeDelivery(&items[i])
			if err != nil {
				q.t.s.log.Error("a delivery to a webhook cannot be read", slog.String("webhook", q.t.name), slog.Any("error", err))
				continue
			}
			q.list = append(q.list, &pending{key: q.last, d: d, due: time.UnixMilli(d.Next)})
		}
	}
	slices.SortFunc(q.list, func(a, b *pending) int { return cmp.Compare(a.key, b.key) })
	return nil
}

// start begins attempts, and returns when there is one to begin next.
func (q *queue) start(ctx context.Context, now time.Time) time.Duration {
	nap := time.Hour
	alarms := make(map[string]bool, len(q.list))
	for _, p := range q.list {
		id := p.d.Event.Alarm.ID
		first := !alarms[id]
		alarms[id] = true
		switch {
		case !first || p.busy:
		case p.due.After(now):
			nap = min(nap, p.due.Sub(now))
		case q.busy < deliveriesAtOnce:
			p.busy = true
			q.busy++
			d, x := p.d, q.t.x.Load()
			q.t.s.wg.Go(func() {
				o := q.t.s.attempt(ctx, x, &d)
				o.p = p
				q.done <- o
			})
		}
	}
	return max(nap, time.Millisecond)
}

// attempt sends a delivery once.
func (s *sender) attempt(ctx context.Context, x *webhookJSON, d *Delivery) (o outcome) {
	body, err := s.encode(&d.Event)
	if err != nil {
		return outcome{err: err, never: true}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, x.URL, bytes.NewReader(body))
	if err != nil {
		return outcome{err: err, never: true}
	}
	stamp := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "greenroom")
	req.Header.Set("Webhook-Id", d.ID)
	req.Header.Set("Webhook-Timestamp", stamp)
	req.Header.Set("Webhook-Signature", sign(x.Secret, d.ID, stamp, body))
	resp, err := s.client.Do(req)
	if err != nil {
		if about, ok := errors.AsType[*url.Error](err); ok { // which has the whole URL, with whatever is secret in it
			err = about.Err
		}
		return outcome{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	said, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes)) // for the error alone
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return outcome{}
	}
	o.err = fmt.Errorf("the answer was %s %s", resp.Status, strings.ToValidUTF8(text.Shorten(string(said), 200), "?"))
	o.never = resp.StatusCode == http.StatusGone
	if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
		o.wait = min(time.Duration(min(n, 1<<20))*time.Second, deliveryRetryMax)
	}
	return o
}

// sign returns the header of Standard Webhooks: the base64 of the HMAC-SHA256 of ID, time
// and body.
func sign(secret, id, stamp string, body []byte) string {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
	if err != nil { // it was made by PutWebhook
		key = []byte(secret)
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte(id + "." + stamp + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// settle stores the outcome of an attempt.
func (q *queue) settle(ctx context.Context, o *outcome) {
	q.busy--
	p, s := o.p, q.t.s
	p.busy = false
	if errors.Is(ctx.Err(), context.Canceled) && o.err != nil {
		return // it was canceled, and does not count as an attempt
	}
	items := []entity.Item{{Kind: deliveryKind, Key: p.key}}
	given := false
	if o.err != nil {
		p.d.Attempts++
		p.d.Error = text.Shorten(o.err.Error(), 500)
		wait := max(s.retry(p.d.Attempts), o.wait)
		p.due = time.Now().Add(wait)
		p.d.Next = p.due.UnixMilli()
		given = o.never || p.d.Attempts >= MaxAttempts
		body, err := plainJSON(&p.d)
		if err != nil {
			given, body = true, []byte("{}")
		}
		if given {
			items = append(items, entity.Item{Kind: deadKind, Key: p.key, Body: body})
		} else {
			items[0].Body = body
		}
	}
	q.t.settling.Lock()
	defer q.t.settling.Unlock()
	lost := false
	if given && q.t.dead.Load() >= MaxDead {
		oldest, err := s.rt.Items(ctx, entity.ItemsQuery{Kind: deadKind, From: part(q.t.name), To: after(part(q.t.name)), Limit: 1})
		if lost = err == nil && len(oldest) > 0; lost {
			items = append(items, entity.Item{Kind: deadKind, Key: oldest[0].Key})
		}
	}
	if err := s.rt.PutItems(ctx, items); err != nil { // it is sent again
		p.due = time.Now().Add(storePause)
		return
	}
	if lost {
		q.t.dead.Add(-1)
		s.count.lost.Add(1)
	}
	switch {
	case o.err == nil:
		s.count.delivered.Add(1)
		q.complained = false
	case given:
		s.count.dead.Add(1)
		q.t.dead.Add(1)
		if !q.complained { // once, until it takes one again
			q.complained = true
			s.log.Warn("a webhook has not taken an alarm, which is among its dead letters now", slog.String("webhook", q.t.name), slog.String("error", p.d.Error))
		}
	default:
		s.count.failed.Add(1)
		return
	}
	q.t.queued.Add(-1)
	q.list = slices.DeleteFunc(q.list, func(x *pending) bool { return x == p })
}

// defaultRetry is retryAfter by chance.
func defaultRetry(attempts int) time.Duration { return retryAfter(attempts, rand.Float64()) } //nolint:gosec // no secret
