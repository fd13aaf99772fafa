package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
)

// commandAPI sends commands to devices and shows their state. Devices that use HTTP receive and
// answer them here.
type commandAPI struct {
	runtime *entity.Runtime
	serving context.Context //nolint:containedctx // the server's own life: who waits is answered at its end
}

func (a *commandAPI) operations() []operation {
	return []operation{
		op("POST", "/v1/entities/{id}/commands", "postCommand", "Send a command to the device of an entity. Responds once it is durable.", a.post, needs(writesEntity), awaits,
			answers(200, 202), fails(404, 409, 422, 429)),
		op("GET", "/v1/entities/{id}/commands", "listCommands", "List the commands of an entity, newest first.", a.list, needs(seesEntity), fails(404)),
		op("GET", "/v1/entities/{id}/commands/{command}", "getCommand", "Read one command, or wait for its end.", a.get, needs(seesEntity), awaits, fails(404)),
		op("DELETE", "/v1/entities/{id}/commands/{command}", "cancelCommand", "Cancel a command. A device that has it may still carry it out.", a.cancel, needs(writesEntity), fails(404, 409)),
		op("GET", "/v1/entities/{id}/next-command", "nextCommand", "As the device of the entity, wait for its next command. It is returned again until the device answers.", a.next, needs(receivesEntity), awaits,
			answers(200, 204)),
		op("POST", "/v1/entities/{id}/answers", "postAnswer", "As the device of the entity, report the progress or outcome of a command.", a.answer, needs(reportsEntity),
			accepts(entity.MaxPayloadBytes, content{mediaJSON, commandAnswerBody{}}), fails(404, 422)),
	}
}

// maxWait bounds how long a request waits for a command or its end.
const maxWait = 25 * time.Second

type commandPath struct {
	entityPath
	// The id of the command.
	Command string `path:"command" minLength:"1" maxLength:"64" example:"0mb3k9x2a01"`
}

type waitParam struct {
	// How long to wait, at most 25s.
	Wait string `query:"wait" example:"10s"`
	wait time.Duration
}

func (p *waitParam) check() (err error) {
	if p.Wait == "" {
		return nil
	}
	if p.wait, err = parseDuration(p.Wait); err != nil || p.wait > maxWait {
		return problemf(http.StatusBadRequest, "wait must be a duration of at most %v, such as 10s, not %q", maxWait, shorten(p.Wait, 32))
	}
	return nil
}

// commandBody is a command as it is sent.
type commandBody struct {
	// The name of a command that the entity's type declares, or any name if the type is not strict.
	Name string `json:"name" minLength:"1" maxLength:"256" example:"restart"`
	// What to send to the device with the name: any JSON.
	Request json.RawMessage `json:"request,omitempty" example:"{\"delay\":5}"`
	// Until when it may be delivered, in milliseconds since the epoch or RFC 3339; by default 7
	// days from now.
	Expires instant `json:"expires,omitempty"`
	// How long the device may take from delivery to its answer; by default 1m.
	Timeout string `json:"timeout,omitempty" example:"30s"`
	// Send it while others are under way. By default the commands of an entity are sent one at a
	// time, in order.
	Parallel bool `json:"parallel,omitempty"`
}

// commandJSON is a command and its state. Times are in milliseconds since the epoch.
type commandJSON struct {
	ID     string `json:"id" example:"0mb3k9x2a01"`
	Entity string `json:"entity" example:"room-1"`
	Name   string `json:"name" example:"restart"`
	// Absent for none.
	Request value.Value `json:"request,omitzero"`
	State   string      `json:"state" enum:"queued,sent,delivered,done,failed,timed_out,expired,canceled" example:"done"`
	// Who sent it; absent if nobody has to log in.
	By       string `json:"by,omitempty" example:"alice"`
	Key      string `json:"key,omitempty"`
	Parallel bool   `json:"parallel,omitempty"`
	Created  int64  `json:"created_ms" example:"1451649600512"`
	// Until when it may be delivered.
	Expires int64 `json:"expires_ms" example:"1452254400512"`
	// How long the device may take from the delivery to its answer, in milliseconds.
	Timeout int64 `json:"timeout_ms" example:"30000"`
	// When it was last sent, and how often.
	Sent     int64 `json:"sent_ms,omitempty" example:"1451649600520"`
	Attempts int   `json:"attempts" example:"1"`
	// When the device has acknowledged it.
	Delivered int64 `json:"delivered_ms,omitempty" example:"1451649600620"`
	Ended     int64 `json:"ended_ms,omitempty" example:"1451649602512"`
	// The last progress that the device has reported; absent if none.
	Progress value.Value `json:"progress,omitzero"`
	// The answer of the device; absent for none.
	Result value.Value `json:"result,omitzero"`
	// Why it has failed.
	Error string `json:"error,omitempty"`
}

func newCommandJSON(c *entity.Command) commandJSON {
	return commandJSON{
		ID: c.ID, Entity: c.Entity, Name: c.Name, Request: c.Request, State: c.State.String(), By: c.By, Key: c.Key, Parallel: c.Parallel,
		Created: c.Created, Expires: c.Expires, Timeout: c.Timeout, Sent: c.Sent, Attempts: c.Attempts, Delivered: c.Delivered, Ended: c.Ended,
		Progress: c.Progress, Result: c.Result, Error: c.Error,
	}
}

// command converts the body for the runtime.
func (b *commandBody) command(by string) (n entity.NewCommand, err error) {
	n = entity.NewCommand{Name: b.Name, Parallel: b.Parallel, By: by}
	if n.Request, err = entity.ParseValue(b.Request); err != nil {
		return n, err
	}
	if n.Expires, err = b.Expires.ms("expires", 0); err != nil {
		return n, err
	}
	if b.Timeout != "" {
		if n.Timeout, err = parseDuration(b.Timeout); err != nil {
			return n, problemf(http.StatusBadRequest, "timeout: %v", err)
		}
	}
	return n, nil
}

type postCommandRequest struct {
	entityPath
	waitParam
	// Identifies the command: one of the same principal with the same key, name and request is sent
	// once, as long as the command is kept.
	IdempotencyKey *string `header:"Idempotency-Key" minLength:"1" maxLength:"256"`
	Body           commandBody
}

// post sends a command. If the caller waits, the response shows the command at its end, or its
// present state when the time is up. If the caller may no longer see that, the response is as
// without a wait.
func (a *commandAPI) post(ctx context.Context, in *postCommandRequest) (*answer[commandJSON], error) {
	caller := callerOf(ctx)
	n, err := in.Body.command(caller.who.Name())
	if err != nil {
		return nil, err
	}
	if in.IdempotencyKey != nil {
		if n.Key = *in.IdempotencyKey; n.Key == "" {
			return nil, problemf(http.StatusBadRequest, "Idempotency-Key must not be empty")
		}
	}
	c, err := a.runtime.Command(ctx, in.ID, n)
	if err != nil {
		return nil, err
	}
	caller.about = "command " + c.ID + " " + c.Name
	caller.changed() // before the wait
	switch end, err := a.await(ctx, &c, in.wait); {
	case err == nil:
		c = end
	case caller.still() == nil:
		return nil, err
	}
	reply := ok(newCommandJSON(&c))
	reply.location = "/v1/entities/" + url.PathEscape(in.ID) + "/commands/" + c.ID
	if !c.State.Ended() {
		reply.status = http.StatusAccepted
	}
	return reply, nil
}

// await returns a command when it has ended, or its present state when the time is up. It fails if
// the caller may no longer see it.
func (a *commandAPI) await(ctx context.Context, c *entity.Command, wait time.Duration) (entity.Command, error) {
	if wait == 0 || c.State.Ended() {
		return *c, nil
	}
	ctx, cancel := a.waits(ctx, wait)
	defer cancel()
	end, err := a.runtime.WaitCommand(ctx, c.Entity, c.ID)
	if err := callerOf(ctx).still(); err != nil {
		return entity.Command{}, err
	}
	if ctx.Err() != nil {
		if end.ID == "" {
			end = *c
		}
		return end, nil
	}
	return end, err
}

// waits returns a context that ends after wait, with the server, or when the caller's credentials
// are revoked.
func (a *commandAPI) waits(ctx context.Context, wait time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	stop := context.AfterFunc(a.serving, cancel)
	away := context.AfterFunc(callerOf(ctx).revoked, cancel)
	return ctx, func() { stop(); away(); cancel() }
}

type getCommandRequest struct {
	commandPath
	waitParam
}

func (a *commandAPI) get(ctx context.Context, in *getCommandRequest) (*answer[commandJSON], error) {
	c, err := a.runtime.FindCommand(ctx, in.ID, in.Command)
	if err == nil {
		c, err = a.await(ctx, &c, in.wait)
	}
	if err != nil {
		return nil, err
	}
	return ok(newCommandJSON(&c)), nil
}

// commandPageJSON is a page of commands.
type commandPageJSON struct {
	Commands []commandJSON `json:"commands"`
	// The cursor of the next page; absent at the end.
	Next string `json:"next,omitempty"`
}

type listCommandsRequest struct {
	entityPath
	cursorParam
	// Only commands that have not ended (open), or that are in this state.
	State string `query:"state" enum:"open,queued,sent,delivered,done,failed,timed_out,expired,canceled"`
	// The maximum number of commands to return.
	Limit int `query:"limit" minimum:"1" maximum:"1000" default:"50"`
}

func (a *commandAPI) list(ctx context.Context, in *listCommandsRequest) (*answer[commandPageJSON], error) {
	before, err := pageAfter(in.Cursor)
	if err != nil {
		return nil, err
	}
	q := entity.CommandsQuery{Before: before, Limit: in.Limit}
	switch in.State {
	case "":
	case "open":
		q.States = []entity.CommandState{entity.CommandQueued, entity.CommandSent, entity.CommandDelivered}
	default:
		state, err := entity.ParseCommandState(in.State)
		if err != nil {
			return nil, err
		}
		q.States = []entity.CommandState{state}
	}
	list, err := a.runtime.Commands(ctx, in.ID, q)
	if err != nil {
		return nil, err
	}
	page := commandPageJSON{Commands: make([]commandJSON, len(list))}
	for i := range list {
		page.Commands[i] = newCommandJSON(&list[i])
	}
	if len(list) == in.Limit {
		page.Next = pageCursor(list[len(list)-1].ID)
	}
	return ok(page), nil
}

func (a *commandAPI) cancel(ctx context.Context, in *commandPath) (*answer[commandJSON], error) {
	c, err := a.runtime.Cancel(ctx, in.ID, in.Command)
	if err != nil {
		return nil, err
	}
	callerOf(ctx).about = c.Name
	return ok(newCommandJSON(&c)), nil
}

// commandMessageJSON is a command as its device receives it.
type commandMessageJSON struct {
	ID   string `json:"id" example:"0mb3k9x2a01"`
	Name string `json:"name" example:"restart"`
	// Absent for none.
	Request value.Value `json:"request,omitzero"`
	Expires int64       `json:"expires_ms" example:"1452254400512"`
	Timeout int64       `json:"timeout_ms" example:"30000"`
}

type nextCommandRequest struct {
	entityPath
	waitParam
}

// next receives one command while the request waits. Unless it is answered, the command goes to the
// next receiver.
func (a *commandAPI) next(ctx context.Context, in *nextCommandRequest) (*answer[commandMessageJSON], error) {
	c, err := a.take(ctx, in.ID, in.wait)
	if err != nil || c == nil {
		return &answer[commandMessageJSON]{status: http.StatusNoContent}, err
	}
	return encoded[commandMessageJSON](c.AppendMessage(nil)), nil
}

// take returns the next command of an entity, or nil if there is none in time. It fails if the
// caller may no longer receive it.
func (a *commandAPI) take(ctx context.Context, id string, wait time.Duration) (*entity.Command, error) {
	open, err := a.runtime.OpenCommands(ctx, id)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return nil, err
	}
	if len(open) == 0 && wait == 0 {
		return nil, nil //nolint:nilnil // documented
	}
	got := make(chan entity.Command, 1)
	stop, err := a.runtime.ReceiveUpTo(id, 1, func(c entity.Command) {
		select {
		case got <- c:
		default: // the first one was canceled meanwhile; this one goes to the next receiver
		}
	})
	if err != nil {
		return nil, err
	}
	defer stop()
	ctx, cancel := a.waits(ctx, max(wait, leastWait))
	defer cancel()
	var c *entity.Command
	select {
	case first := <-got:
		c = &first
	case <-ctx.Done():
	}
	if err := callerOf(ctx).still(); err != nil {
		return nil, err
	}
	return c, nil
}

// leastWait is how long a request without a wait waits for the entity to deliver a command.
const leastWait = 250 * time.Millisecond

// commandAnswerBody is what a device reports about a command: delivered, progress, result or error.
type commandAnswerBody struct {
	ID string `json:"id" example:"0mb3k9x2a01"`
	// It has the command.
	Delivered bool `json:"delivered,omitempty"`
	// How far it has come: any JSON but null.
	Progress json.RawMessage `json:"progress,omitempty"`
	// It is done: any JSON that agrees with the type of the entity.
	Result json.RawMessage `json:"result,omitempty" example:"{\"restarted\":true}"`
	// It has failed, and why.
	Error string `json:"error,omitempty"`
}

type postAnswerRequest struct {
	entityPath
	Body payload
}

// answer accepts the same payloads as MQTT.
func (a *commandAPI) answer(ctx context.Context, in *postAnswerRequest) (*answer[nothing], error) {
	said, err := entity.ParseCommandAnswer(in.Body.text)
	if err != nil {
		return nil, err
	}
	if err := a.runtime.Answer(ctx, in.ID, said); err != nil {
		return nil, err
	}
	return noContent(), nil
}
