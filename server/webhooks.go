package server

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/greenroom-go/greenroom/entity/alarm"
)

// webhookAPI manages the targets for notifications about alarms. Only an admin may decide where the
// server sends requests, which may be an address of its own network.
type webhookAPI struct{ alarms *alarm.Service }

func (a *webhookAPI) operations() []operation {
	return []operation{
		op("GET", "/v1/webhooks", "listWebhooks", "List the webhooks that alarm rules can name.", a.list, needs(administers)),
		op("GET", "/v1/webhooks/{name}", "getWebhook", "Read one webhook.", a.get, needs(administers), fails(404)),
		op("PUT", "/v1/webhooks/{name}", "putWebhook", "Create or change a webhook. Only this response contains the secret that signs its deliveries, and only if the secret is new.", a.put,
			needs(administers), answers(200, 201), fails(409, 422, 428)),
		op("DELETE", "/v1/webhooks/{name}", "deleteWebhook", "Delete a webhook that no rule names, with its waiting deliveries.", a.remove, needs(administers), fails(404, 409)),
		op("GET", "/v1/webhooks/{name}/dead", "listDeadLetters", "List the deliveries that were given up, oldest first.", a.dead, needs(administers), fails(404)),
		op("POST", "/v1/webhooks/{name}/dead/{delivery}/retry", "retryDeadLetter", "Retry a delivery that was given up.", a.retry, needs(administers), fails(404)),
		op("DELETE", "/v1/webhooks/{name}/dead/{delivery}", "discardDeadLetter", "Forget a delivery that was given up.", a.discard, needs(administers), fails(404)),
	}
}

type webhookPath struct {
	Name string `path:"name" minLength:"1" maxLength:"128" example:"ops"`
}

// webhookJSON is a webhook.
type webhookJSON struct {
	Name string `json:"name" example:"ops"`
	URL  string `json:"url" example:"https://example.com/alarms"`
	// The version, for If-Match.
	ETag    string `json:"etag" example:"3k"`
	Updated int64  `json:"updated_ms" example:"1451649600512"`
	// Waiting deliveries, and those that were given up.
	Queued int64 `json:"queued"`
	Dead   int64 `json:"dead"`
	// Only in the response to the request that made it: it cannot be read again.
	Secret string `json:"secret,omitempty"`
}

func newWebhookJSON(w *alarm.Webhook) webhookJSON {
	return webhookJSON{Name: w.Name, URL: w.URL, ETag: w.ETag, Updated: w.Updated, Queued: w.Queued, Dead: w.Dead}
}

// webhookListJSON is all webhooks, by name.
type webhookListJSON struct {
	Webhooks []webhookJSON `json:"webhooks"`
}

func (a *webhookAPI) list(context.Context, *struct{}) (*answer[webhookListJSON], error) {
	list := webhookListJSON{Webhooks: []webhookJSON{}}
	for _, w := range a.alarms.Webhooks() {
		list.Webhooks = append(list.Webhooks, newWebhookJSON(&w))
	}
	return ok(list), nil
}

func (a *webhookAPI) get(_ context.Context, in *webhookPath) (*answer[webhookJSON], error) {
	w, err := a.alarms.Webhook(in.Name)
	if err != nil {
		return nil, err
	}
	return ok(newWebhookJSON(&w)).withETag(w.ETag), nil
}

// webhookBody is a webhook as it is written.
type webhookBody struct {
	URL string `json:"url" maxLength:"2048" example:"https://example.com/alarms"`
	// Make a new secret; the previous one is no longer used.
	Rotate bool `json:"rotate,omitempty"`
}

type putWebhookRequest struct {
	webhookPath
	precondition
	Body webhookBody
}

func (a *webhookAPI) put(ctx context.Context, in *putWebhookRequest) (*answer[webhookJSON], error) {
	w, secret, err := a.alarms.PutWebhook(ctx, in.Name, in.Body.URL, in.Body.Rotate, in.replacing())
	callerOf(ctx).about = originOf(in.Body.URL)
	j := newWebhookJSON(&w)
	j.Secret = secret
	return replaced(&in.precondition, j, w.ETag, err)
}

// originOf returns the part of a URL for the audit log, because the rest of it is often a secret.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return shorten(u.Scheme+"://"+u.Host, 256)
}

type deleteWebhookRequest struct {
	webhookPath
	precondition
}

func (a *webhookAPI) remove(ctx context.Context, in *deleteWebhookRequest) (*answer[nothing], error) {
	return in.removed(a.alarms.DeleteWebhook(ctx, in.Name, in.condition))
}

type deadDeliveriesRequest struct {
	webhookPath
	cursorParam
	// The maximum number of deliveries to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"100"`
}

// deadDeliveriesJSON is a page of deliveries that were given up.
type deadDeliveriesJSON struct {
	Deliveries []deadDeliveryJSON `json:"deliveries"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

// deadDeliveryJSON is a delivery that was given up.
type deadDeliveryJSON struct {
	// Identifies it among those of its webhook.
	Delivery int64 `json:"delivery" example:"1"`
	// The header webhook-id, by which the target recognizes a repetition.
	ID       string `json:"id" example:"msg_K5R7OLGBPJ2JQKVHXZ5GU5V7VA"`
	Attempts int    `json:"attempts" example:"12"`
	// Why the last attempt has failed.
	Error string `json:"error" example:"the answer was 500 Internal Server Error"`
	// What has happened to the alarm.
	Kind  string    `json:"kind" example:"raised"`
	At    int64     `json:"at_ms" example:"1451649660530"`
	Alarm alarmJSON `json:"alarm"`
}

func (a *webhookAPI) dead(ctx context.Context, in *deadDeliveriesRequest) (*answer[deadDeliveriesJSON], error) {
	cursor, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	var after uint64
	if cursor != "" {
		if after, err = strconv.ParseUint(cursor, 10, 64); err != nil {
			return nil, problemf(http.StatusBadRequest, "cursor must be the next of an answer, not %q", shorten(in.Cursor, 64))
		}
	}
	list, more, err := a.alarms.DeadLetters(ctx, in.Name, after, in.Limit)
	if err != nil {
		return nil, err
	}
	page := deadDeliveriesJSON{Deliveries: []deadDeliveryJSON{}}
	for i := range list {
		d := &list[i]
		page.Deliveries = append(page.Deliveries, deadDeliveryJSON{
			Delivery: int64(d.Seq), ID: d.ID, Attempts: d.Attempts, Error: d.Error, //nolint:gosec // counted from 1
			Kind: string(d.Event.Kind), At: d.Event.At, Alarm: newAlarmJSON(&d.Event.Alarm),
		})
	}
	if more {
		page.Next = pageCursor(strconv.FormatUint(list[len(list)-1].Seq, 10))
	}
	return ok(page), nil
}

type deadLetterPath struct {
	webhookPath
	// The number of the delivery.
	Delivery int `path:"delivery" minimum:"1" maximum:"9007199254740991" example:"1"`
}

func (a *webhookAPI) retry(ctx context.Context, in *deadLetterPath) (*answer[nothing], error) {
	if err := a.alarms.RetryDead(ctx, in.Name, uint64(in.Delivery)); err != nil { //nolint:gosec // at least 1
		return nil, err
	}
	return noContent(), nil
}

func (a *webhookAPI) discard(ctx context.Context, in *deadLetterPath) (*answer[nothing], error) {
	if err := a.alarms.DiscardDead(ctx, in.Name, uint64(in.Delivery)); err != nil { //nolint:gosec // at least 1
		return nil, err
	}
	return noContent(), nil
}
