package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// A client receives the commands of an entity if it subscribes to a topic to which a template sends
// them, and has the role Device for the entity. The subscription itself may name the entity. If it
// has wildcards instead, as that of a bridge to zigbee2mqtt/+/set, the client receives the commands
// of the entities that it publishes about.

// Limits of the entities whose commands clients receive.
const (
	// MaxDevices is the limit per client.
	MaxDevices = 10_000
	// MaxAllDevices is the limit for all clients together.
	MaxAllDevices = 200_000
)

// lookTimeout bounds how long an answer waits for an entity.
const lookTimeout = 5 * time.Second

// maxMissed bounds client.missed.
const maxMissed = 256

// receivers holds the clients that receive commands.
type receivers struct {
	mu      sync.Mutex
	clients map[layout.Client]*client // guarded by mu
	count   int                       // guarded by mu; the devices of all clients
}

// client is a connection. Its fields are guarded by receivers.mu.
type client struct {
	devices map[string]*device // by id of the entity
	// missed records with which version of the templates the client was found not to receive an
	// entity's commands, for at most maxMissed entities.
	missed map[missed]uint64
	full   bool // it was logged that there is no room for another device
}

// missed is an entity whose commands a client does not receive by a template.
type missed struct{ template, id string }

// device is an entity whose commands a client receives. Its fields are guarded by receivers.mu.
type device struct {
	id        string
	rules     map[string]rule // by name of the template
	receiving *layout.Receiving
	// sent holds the commands that were sent and expect an answer, at most entity.MaxOpenCommands.
	sent map[string]bool
}

// rule records that a device receives by a template: the bindings of the entity's placeholders, and
// the version of the templates for which that was established.
type rule struct {
	own     bindings
	version uint64
}

func (r *receivers) start() { r.clients = map[layout.Client]*client{} }

// Subscribed starts the delivery of commands of the entities that a subscription names.
func (l *Layout) Subscribed(c layout.Client, filter string) {
	l.receivers.retry(c)
	levels := filterLevels(filter)
	s := l.book.set.Load()
	for _, way := range s.routes {
		known, ok := way.route.coveredBy(levels)
		if !ok || !way.names(known, levels) {
			continue
		}
		t := way.template
		if id := t.entity.fill(known); entity.CheckID(id) == nil {
			l.speaks(c, s, t, known, id, func(bindings) bool { return true })
		}
	}
}

// names reports whether a filter that covers the route names the entity, by binding all
// placeholders of its id. If the id has none, the filter must spell out the topic: a client that
// subscribes to everything is not its device.
func (w *way) names(known bindings, filter []string) bool {
	names := w.template.entity.names()
	if len(names) == 0 {
		return w.route.topic.spelledBy(filter)
	}
	for _, name := range names {
		if _, ok := known[name]; !ok {
			return false
		}
	}
	return true
}

// retry forgets which commands a client does not receive, so that they are looked at again.
func (r *receivers) retry(c layout.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.clients[c]; known != nil {
		clear(known.missed)
	}
}

// published starts the delivery of an entity's commands to a client that has published about it, if
// the client subscribes to them and has the role Device.
func (l *Layout) published(c layout.Client, u *use, levels []string, id string) {
	t := u.template
	l.speaks(c, u.set, t, u.topic.bind(levels), id, func(own bindings) bool {
		return t.interest(splitFilters(c.Filters())).has(own)
	})
}

// speaks starts the delivery of an entity's commands by a template to a client, if it subscribes to
// them and may receive them. Others do not count against the limits, since anybody may subscribe to
// anything.
func (l *Layout) speaks(c layout.Client, s *set, t *compiled, b bindings, id string, subscribes func(own bindings) bool) {
	r := &l.receivers
	if !r.isNew(c, id, t.name, s.version) {
		return
	}
	own := t.own(b)
	if !subscribes(own) || c.May(access.Receive, id) != nil {
		r.miss(c, id, t.name, s.version).End()
		return
	}
	d, receiving, ok := r.begin(c, id, t.name, rule{own, s.version})
	if !ok {
		r.miss(c, id, t.name, s.version)
		if r.logsFull(c) {
			l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "a client has reached the limit of entities whose commands it receives",
				slog.String("entity", id), slog.String("client", c.Self()), slog.Int("limit", MaxDevices), slog.Int("limit_of_all", MaxAllDevices))
		}
		return
	}
	if receiving == nil {
		return
	}
	err := receiving.Begin(l.host, c, id, func(command *entity.Command, receipt *layout.Receipt) error { return l.send(c, d, command, receipt) })
	if err != nil { // it is tried again after the next subscription, not with each message
		r.miss(c, id, t.name, s.version).End()
		l.host.Logger.LogAttrs(l.host.Running, slog.LevelWarn, "cannot deliver commands to a device", slog.String("entity", id), slog.Any("error", err))
	}
}

// own returns the bindings of the placeholders in the entity's id.
func (c *compiled) own(b bindings) bindings {
	own := bindings{}
	for _, name := range c.entity.names() {
		own[name] = strings.Clone(b[name]) // b aliases a packet
	}
	return own
}

// is reports whether the bindings yield the id in this template.
func (c *compiled) is(own bindings, id string) bool {
	for _, name := range c.entity.names() {
		if _, ok := own[name]; !ok {
			return false // the template was replaced
		}
	}
	return c.entity.fill(own) == id
}

// isNew reports whether it still has to be determined whether a client receives the commands of an
// entity by a template.
func (r *receivers) isNew(c layout.Client, id, template string, version uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.clients[c]
	if known == nil {
		return true
	}
	if v, ok := known.missed[missed{template, id}]; ok && v == version {
		return false
	}
	d := known.devices[id]
	if d == nil || d.receiving.Ended() {
		return true
	}
	by, ok := d.rules[template]
	return !ok || by.version != version
}

// of returns the record of a client, which it creates if needed. The caller holds mu.
func (r *receivers) of(c layout.Client) *client {
	known := r.clients[c]
	if known == nil {
		known = &client{devices: map[string]*device{}, missed: map[missed]uint64{}}
		r.clients[c] = known
	}
	return known
}

// miss records that a client does not receive the commands of an entity by a template. It returns
// the Receiving that the caller must end, or nil.
func (r *receivers) miss(c layout.Client, id, template string, version uint64) *layout.Receiving {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(c)
	if len(known.missed) >= maxMissed {
		clear(known.missed)
	}
	known.missed[missed{strings.Clone(template), strings.Clone(id)}] = version
	return r.drop(known, known.devices[id], template)
}

// drop removes a template from a device, and the device if that was its last. It returns the
// Receiving that the caller must end, or nil. The caller holds mu.
func (r *receivers) drop(known *client, d *device, template string) *layout.Receiving {
	if d == nil {
		return nil
	}
	delete(d.rules, template)
	if len(d.rules) > 0 {
		return nil
	}
	if known.devices[d.id] == d {
		delete(known.devices, d.id)
		r.count--
	}
	return d.receiving
}

// logsFull reports whether to log that a client has no room for another device. It does so once for
// each client.
func (r *receivers) logsFull(c layout.Client) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(c)
	was := known.full
	known.full = true
	return !was
}

// begin records the template by which a device receives. It returns the Receiving that the caller
// must begin, or nil if it has begun. It reports false if there is no room.
func (r *receivers) begin(c layout.Client, id, template string, by rule) (d *device, receiving *layout.Receiving, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.of(c)
	d = known.devices[id]
	if d == nil {
		if len(known.devices) >= MaxDevices || r.count >= MaxAllDevices {
			return nil, nil, false
		}
		d = &device{id: strings.Clone(id), rules: map[string]rule{}, receiving: &layout.Receiving{}}
		known.devices[d.id] = d
		r.count++
		receiving = d.receiving
	} else if d.receiving.Ended() {
		d.receiving = &layout.Receiving{}
		receiving = d.receiving
	}
	d.rules[template] = by
	return d, receiving, true
}

// send records that a command was sent.
func (r *receivers) send(d *device, command string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.sent == nil || len(d.sent) >= entity.MaxOpenCommands {
		d.sent = map[string]bool{}
	}
	d.sent[command] = true
}

// wasSent reports whether a command of an entity is known to have been sent to a client.
func (r *receivers) wasSent(c layout.Client, id, command string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.clients[c]
	return known != nil && known.devices[id] != nil && known.devices[id].sent[command]
}

// held is a device and one of its rules.
type held struct {
	device   *device
	template string
	own      bindings
}

// heldBy returns the rules of the devices of a client.
func (r *receivers) heldBy(c layout.Client) (list []held) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.clients[c]; known != nil {
		for _, d := range known.devices {
			list = d.held(list)
		}
	}
	return list
}

// held appends the rules of a device. The caller holds receivers.mu.
func (d *device) held(list []held) []held {
	for template, by := range d.rules {
		list = append(list, held{d, template, by.own})
	}
	return list
}

// Unsubscribed ends the delivery of commands that no subscription matches any more.
func (l *Layout) Unsubscribed(c layout.Client, _ string) {
	list := l.receivers.heldBy(c)
	if len(list) == 0 {
		return
	}
	gone := l.unwanted(c, list)
	r := &l.receivers
	r.mu.Lock()
	var ends []*layout.Receiving
	if known := r.clients[c]; known != nil {
		for _, h := range gone {
			ends = append(ends, r.drop(known, h.device, h.template))
		}
	}
	r.mu.Unlock()
	endAll(ends)
}

// unwanted returns those of the rules by which a client no longer receives anything.
func (l *Layout) unwanted(c layout.Client, list []held) (gone []held) {
	s := l.book.set.Load()
	filters := splitFilters(c.Filters())
	interests := map[string]*interest{}
	for _, h := range list {
		t := s.byName[h.template]
		if t == nil {
			gone = append(gone, h)
			continue
		}
		i := interests[t.name]
		if i == nil {
			i = t.interest(filters)
			interests[t.name] = i
		}
		if !t.is(h.own, h.device.id) || !i.has(h.own) {
			gone = append(gone, h)
		}
	}
	return gone
}

// Left forgets a client.
func (l *Layout) Left(c layout.Client) {
	var ends []*layout.Receiving
	r := &l.receivers
	r.mu.Lock()
	if known := r.clients[c]; known != nil {
		for _, d := range known.devices {
			ends = append(ends, d.receiving)
		}
		r.count -= len(known.devices)
		delete(r.clients, c)
	}
	r.mu.Unlock()
	endAll(ends)
}

func endAll(list []*layout.Receiving) {
	for _, r := range list {
		r.End()
	}
}

// routeOf returns the route for a command of a device, and the bindings of the entity. If several
// templates apply, a route with the command's name takes precedence, and then the first template by
// name. It reports false if none of the templates exists any more, or none yields the entity.
func (l *Layout) routeOf(c layout.Client, d *device, command *entity.Command) (found *route, own bindings, ok bool) {
	s := l.book.set.Load()
	r := &l.receivers
	r.mu.Lock()
	defer r.mu.Unlock()
	from := ""
	for name, by := range d.rules {
		t := s.byName[name]
		if t == nil || !t.is(by.own, command.Entity) {
			if known := r.clients[c]; known != nil {
				r.drop(known, d, name) // send returns an error, which ends the Receiving
			}
			continue
		}
		ok = true
		way := t.routeOf(command.Name)
		switch {
		case way == nil:
		case found == nil, found.name == "" && way.name != "", (found.name == "") == (way.name == "") && name < from:
			found, own, from = way, by.own, name
		}
	}
	return found, own, ok
}

// errNoTemplate ends the delivery of commands to a device.
var errNoTemplate = errors.New("no template of the device is in force")

// send sends a command to a device. When the device acknowledges the message, the command is
// delivered; if the template has no answer, it is done.
func (l *Layout) send(c layout.Client, d *device, command *entity.Command, receipt *layout.Receipt) error {
	id, name := command.Entity, command.ID
	way, own, ok := l.routeOf(c, d, command)
	if !ok { // the command goes to another client, or waits for the next
		return errNoTemplate
	}
	if way == nil {
		receipt.Settled(fmt.Errorf("no template of the device has a command %.64q", command.Name))
		return nil
	}
	m, err := way.render(command, layout.NumberOf(command), own)
	if err != nil {
		receipt.Settled(err)
		return nil
	}
	if way.answer != nil {
		l.receivers.send(d, name)
	}
	err = c.Send(m.Topic, m.Payload, receipt.With(func(err error) {
		if err == nil && way.answer == nil {
			go l.host.Finish(id, name)
			return
		}
		receipt.Settled(err)
	}))
	if errors.Is(err, layout.ErrNotSubscribed) && l.getsOthers(c, d) {
		receipt.Settled(fmt.Errorf("%w %.128q", err, m.Topic)) // the next command can be sent
		return nil
	}
	return err
}

// getsOthers reports whether a client still subscribes to a topic for the commands of a device.
func (l *Layout) getsOthers(c layout.Client, d *device) bool {
	l.receivers.mu.Lock()
	list := d.held(nil)
	l.receivers.mu.Unlock()
	return len(l.unwanted(c, list)) < len(list)
}

// answer handles a device's answer to a command. An answer that matches no open command changes
// nothing.
func (l *Layout) answer(c layout.Client, u *use, levels []string, m *layout.Message, done func(error)) error {
	id := u.entity(levels)
	if err := entity.CheckID(id); err != nil {
		return err
	}
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	if m.Clears { // an empty retained message is no answer
		done(nil)
		return nil
	}
	d, err := parseAnswer(m.Payload)
	if err != nil {
		return fmt.Errorf("template %q: %w", u.template.name, err)
	}
	ctx, cancel := context.WithTimeout(l.host.Running, lookTimeout)
	defer cancel()
	open, err := l.host.Runtime.OpenCommands(ctx, id)
	if err != nil && !errors.Is(err, entity.ErrNotFound) {
		return err
	}
	shape := u.topic.shape()
	said := map[*answer]*saying{}
	for i := range open {
		way := u.template.routeOf(open[i].Name)
		if way == nil || way.answer == nil || way.answer.shape != shape {
			continue
		}
		if open[i].Sent == 0 && !l.receivers.wasSent(c, id, open[i].ID) { // the commit that it was sent may be pending
			continue
		}
		if said[way.answer] == nil {
			said[way.answer] = &saying{answer: way.answer, document: d}
		}
		is, err := said[way.answer].settle(&open[i])
		if err != nil {
			return fmt.Errorf("template %q: %w", u.template.name, err)
		}
		if is == nil {
			continue
		}
		if err = l.end(id, open[i].ID, is); err == nil {
			m.Spoke(id)
		}
		done(err)
		return nil
	}
	done(nil)
	return nil
}

// end ends a command as an answer says. If the result cannot be stored, the command fails, because
// no other answer will come.
func (l *Layout) end(id, command string, is *ending) error {
	reason := plain(is.result)
	if !is.failed {
		err := l.host.Runtime.Done(l.host.Running, id, command, is.result)
		if errors.Is(err, entity.ErrNotFound) { // it has ended meanwhile
			return nil
		}
		if !errors.Is(err, entity.ErrInvalid) {
			return err
		}
		reason = fmt.Sprintf("the device has answered, and the result cannot be kept: %v", err)
	}
	err := l.host.Runtime.Fail(l.host.Running, id, command, reason)
	if errors.Is(err, entity.ErrNotFound) {
		return nil
	}
	return err
}

// parseAnswer parses an answer: JSON, or text.
func parseAnswer(payload []byte) (*document, error) {
	whole := &compiled{plain: true}
	d, err := whole.parse(payload)
	if err != nil {
		return nil, err
	}
	if first := strings.TrimSpace(string(payload))[:1]; first == "{" || first == "[" {
		return parseJSON(payload)
	}
	return d, nil
}

// ending is the outcome of a command.
type ending struct {
	failed bool
	result value.Value
}

// saying evaluates an answer's expressions on a payload. Each is evaluated once, for however many
// commands.
type saying struct {
	answer   *answer
	document *document
	number   *string // nil until evaluated
	ends     *ending // for any command; nil until evaluated
}

// settle returns the outcome of a command, or nil if the answer is to another.
func (s *saying) settle(command *entity.Command) (*ending, error) {
	a := s.answer
	if a.number != nil {
		if s.number == nil {
			n, err := a.number.of(s.document)
			if err != nil {
				return nil, failed("answer.number", err)
			}
			text := plain(n)
			s.number = &text
		}
		if *s.number != strconv.FormatInt(layout.NumberOf(command), 10) {
			return nil, nil //nolint:nilnil // it is no error
		}
	}
	if s.ends == nil {
		var err error
		if s.ends, err = a.ending(s.document); err != nil {
			return nil, err
		}
	}
	if a.named && !s.ends.failed {
		return a.settleNamed(s.document, command), nil
	}
	return s.ends, nil
}

// ending returns the outcome in a payload, except for the result of an answer with Named.
func (a *answer) ending(d *document) (*ending, error) {
	if a.error != nil {
		reason, err := a.error.of(d)
		if err != nil {
			return nil, failed("answer.error", err)
		}
		if !reason.IsZero() {
			return &ending{failed: true, result: reason}, nil
		}
	}
	switch {
	case a.named:
		return &ending{}, nil
	case a.result != nil:
		result, err := a.result.of(d)
		if err != nil {
			return nil, failed("answer.result", err)
		}
		return &ending{result: result}, nil
	case d.json != "":
		return &ending{result: value.JSON(d.json)}, nil
	default:
		return &ending{result: d.text}, nil
	}
}

// settleNamed returns the outcome in the member with the name of the command, or nil.
func (a *answer) settleNamed(d *document, command *entity.Command) *ending {
	for name, text := range value.Members(d.json) {
		if strings.EqualFold(name, command.Name) {
			result, _ := value.FromJSON(text)
			return &ending{result: result}
		}
	}
	return nil
}
