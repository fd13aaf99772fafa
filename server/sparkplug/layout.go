package sparkplug

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
	"github.com/greenroom-go/greenroom/server/refusal"
)

const (
	prefix = "spBv1.0/"
	// HostID is the server's id as a host application.
	HostID = "greenroom"
	// separator separates the parts of an entity's id. No part may contain it.
	separator = "|"

	bdSeqName   = "bdSeq"
	rebirthName = "Node Control/Rebirth"
)

// kind is the kind of a message.
type kind string

const (
	nbirth kind = "NBIRTH"
	ndeath kind = "NDEATH"
	ndata  kind = "NDATA"
	ncmd   kind = "NCMD"
	dbirth kind = "DBIRTH"
	ddeath kind = "DDEATH"
	ddata  kind = "DDATA"
	dcmd   kind = "DCMD"
	state  kind = "STATE"
)

// topic is a parsed topic of Sparkplug.
type topic struct {
	kind                kind
	group, edge, device string // for state, edge is the host
}

var errTopic = fmt.Errorf("%w: of Sparkplug there are %s{group}/NBIRTH, NDATA, NDEATH, NCMD/{edge}, DBIRTH, DDATA, DDEATH, DCMD/{edge}/{device} and %sSTATE/{host}", refusal.ErrTopic, prefix, prefix)

// parse reads a topic.
func parse(name string) (t topic, err error) {
	parts := strings.Split(strings.TrimPrefix(name, prefix), "/")
	if len(parts) == 2 && kind(parts[0]) == state && entity.CheckID(parts[1]) == nil {
		return topic{kind: state, edge: parts[1]}, nil
	}
	if len(parts) < 3 || len(parts) > 4 {
		return t, errTopic
	}
	t = topic{group: parts[0], kind: kind(parts[1]), edge: parts[2]}
	switch t.kind {
	case nbirth, ndeath, ndata, ncmd:
		if len(parts) != 3 {
			return t, errTopic
		}
	case dbirth, ddeath, ddata, dcmd:
		if len(parts) != 4 {
			return t, errTopic
		}
		t.device = parts[3]
	default:
		return t, errTopic
	}
	for _, part := range parts {
		if part == "" || strings.ContainsAny(part, separator+"+#") {
			return t, fmt.Errorf("%w: %q: a part of it must not be empty, nor have any of %s + #", refusal.ErrTopic, name, separator)
		}
	}
	return t, nil
}

// id returns the id of the entity of an edge node or device.
func (t *topic) id() string {
	if t.device == "" {
		return t.group + separator + t.edge
	}
	return t.group + separator + t.edge + separator + t.device
}

// of returns the id of a device of the edge node.
func (t *topic) of(device string) string {
	return (&topic{group: t.group, edge: t.edge, device: device}).id()
}

// Layout is the layout of Sparkplug B. The zero Layout is ready for Start.
type Layout struct {
	host  *layout.Host
	state []byte // the payload of the server's own state
	edges edges

	receivers *layout.Receivers
}

var _ layout.Stopper = (*Layout)(nil)

// Prefixes returns the prefix of the topics of Sparkplug B.
func (l *Layout) Prefixes() []string { return []string{prefix} }

// Start prepares the layout.
func (l *Layout) Start(h *layout.Host) {
	l.host, l.receivers = h, layout.NewReceivers(h, MaxEdges*(MaxDevices+1), MaxEdgesOfClient*(MaxDevices+1)) // edges counts them
	l.edges.start()
	l.state = fmt.Appendf(nil, `{"online":true,"timestamp":%d}`, time.Now().UnixMilli())
}

// About returns the edge node or device that a message is about. Those who may read it receive the
// message; the states of host applications are for everybody.
func (l *Layout) About(name string) (id string, to layout.Audience) {
	t, err := parse(name)
	switch {
	case err != nil:
		return "", layout.Readers
	case t.kind == state:
		return "", layout.Everybody
	default:
		return t.id(), layout.Readers
	}
}

// Receive handles a message of an edge node, or of another host application.
func (l *Layout) Receive(c layout.Client, m *layout.Message, done func(error)) error {
	t, err := parse(m.Topic)
	if err != nil {
		return err
	}
	switch t.kind {
	case state:
		return l.receiveState(c, &t, m, done)
	case ncmd, dcmd:
		return l.receiveCommand(c, &t, m, done)
	default:
	}
	if err := entity.CheckID(t.id()); err != nil {
		return err
	}
	if err := c.May(access.Report, t.id()); err != nil {
		return err
	}
	p, err := decode(m.Payload)
	if err != nil {
		return err
	}
	self := topic{group: t.group, edge: t.edge}
	known, err := l.edges.note(sender{c, c.Who().Name(), c.May(access.Report, self.id()) == nil}, &t, &p)
	if err != nil {
		return err
	}
	if known.rebirth {
		l.askForBirth(&t)
	}
	if known.stale {
		done(nil)
		return nil
	}
	for _, device := range known.gone {
		l.receivers.Leave(nil, t.of(device))
	}
	switch {
	case (t.kind == nbirth || t.kind == dbirth) && known.known: // a device of no living edge node is not born
		if err := l.birth(c, &t); err != nil {
			return err
		}
	case t.kind == ndeath || t.kind == ddeath:
		l.receivers.Leave(nil, t.id())
	default:
	}
	if err := l.tellOnline(c, &t, known.gone); err != nil {
		return err
	}
	if err := l.reported(&t, &p); err != nil {
		return err
	}
	if t.kind != ndeath && t.kind != ddeath {
		m.Spoke(t.id())
	}
	return l.ingest(c, t.id(), m, &p, done)
}

// receiveState handles the state of another host application.
func (l *Layout) receiveState(c layout.Client, t *topic, m *layout.Message, done func(error)) error {
	if t.edge == HostID || !c.Who().MayAll(access.Write) {
		return fmt.Errorf("%w: the host application %q is not this client", access.ErrForbidden, t.edge)
	}
	if !json.Valid(m.Payload) {
		return fmt.Errorf(`%w: the state of a host application must be JSON: {"online":true,"timestamp":1451649600512}`, entity.ErrInvalid)
	}
	done(nil)
	return nil
}

// receiveCommand handles a command of another host application, which the broker forwards to the
// edge node.
func (l *Layout) receiveCommand(c layout.Client, t *topic, m *layout.Message, done func(error)) error {
	if err := c.May(access.Write, t.id()); err != nil {
		return err
	}
	if _, err := decode(m.Payload); err != nil {
		return err
	}
	c.Record("sendSparkplugCommand", m.Topic)
	done(nil)
	return nil
}

// askForBirth asks an edge node for its birth certificates.
func (l *Layout) askForBirth(t *topic) {
	now := uint64(time.Now().UnixMilli()) //nolint:gosec // it is after 1970
	l.host.Publish(prefix+t.group+"/"+string(ncmd)+"/"+t.edge, appendPayload(nil, now, &metric{
		name: rebirthName, timestamp: now, hasTime: true, datatype: typeBool, kind: fieldBool, bits: 1,
	}), 0)
}

// tellOnline sets sparkplug.online after a birth or death, and also for the devices in gone. It
// tries all, and returns the first error.
func (l *Layout) tellOnline(c layout.Client, t *topic, gone []string) (err error) {
	for _, device := range gone {
		err = cmp.Or(err, l.setOnline(l.host.Running, c, t.of(device), false))
	}
	switch t.kind {
	case nbirth, dbirth:
		err = cmp.Or(err, l.setOnline(l.host.Running, c, t.id(), true))
	case ndeath, ddeath:
		err = cmp.Or(err, l.setOnline(l.host.Running, c, t.id(), false))
	default:
	}
	return err
}

func (l *Layout) setOnline(ctx context.Context, c layout.Client, id string, online bool) error {
	if err := c.May(access.Report, id); err != nil {
		return err
	}
	_, err := l.host.Runtime.Edit(ctx, id, entity.Edits{Patches: []entity.Patch{
		{Section: entity.Reported, Body: fmt.Appendf(nil, `{"sparkplug":{"online":%v}}`, online)},
	}})
	return err
}

// leftTimeout bounds how long Left waits for the edge nodes of a connection to be offline.
const leftTimeout = 5 * time.Second

// Stopping sets all edge nodes and devices offline, with many edits at a time, since each waits for
// its commit.
func (l *Layout) Stopping(ctx context.Context) {
	var wg errgroup.Group
	wg.SetLimit(stoppingAtOnce)
	for _, x := range l.edges.endAll() {
		wg.Go(func() error { return l.setOnline(ctx, x.client, x.topic.id(), false) })
	}
	if err := wg.Wait(); err != nil {
		l.host.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot mark all edge nodes as offline", slog.Any("error", err))
	}
}

// stoppingAtOnce is how many edits of Stopping are made at a time.
const stoppingAtOnce = 256

// Left sets offline what a client had online: an edge node without a will must not stay online.
func (l *Layout) Left(c layout.Client) {
	l.receivers.Left(c)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.host.Running), leftTimeout)
	defer cancel()
	for _, t := range l.edges.left(c) {
		if err := l.setOnline(ctx, c, t.id(), false); err != nil {
			l.host.Logger.LogAttrs(ctx, slog.LevelWarn, "cannot mark a disconnected edge node as offline", slog.String("entity", t.id()), slog.Any("error", err))
		}
	}
}

// ingest commits the metrics that are readings; those with the same time become one reading.
func (l *Layout) ingest(c layout.Client, id string, m *layout.Message, p *payload, done func(error)) error {
	readings, refused := p.readings(time.Now().UnixMilli())
	if refused != nil {
		m.Refused(refused)
	}
	if len(readings) == 0 {
		done(nil)
		return nil
	}
	text := appendReadings(nil, readings)
	return layout.By(l.host.Runtime, c.Who().Name()).IngestOnce(l.host.Running, id, entity.Once{}, readings, len(m.Payload), func(err error) {
		if err == nil {
			m.Committed(id, text)
		}
		done(err)
	})
}

// readings returns the metrics that have a name and a value. The error describes the first one that
// cannot be kept, and counts the others: a message may contain thousands.
func (p *payload) readings(now int64) (list []entity.Reading, refused error) {
	others := 0
	refuse := func(err error) {
		if refused == nil {
			refused = err
		} else {
			others++
		}
	}
	for i := range p.metrics {
		m := &p.metrics[i]
		if m.name == bdSeqName || strings.HasPrefix(m.name, "Node Control/") || strings.HasPrefix(m.name, "Device Control/") {
			continue
		}
		if m.name == "" {
			refuse(fmt.Errorf("%w: alias %d is of no birth certificate that the server knows", entity.ErrInvalid, m.alias))
			continue
		}
		v, ok, err := m.value()
		if err != nil {
			refuse(err)
		}
		if !ok {
			continue
		}
		ts := now
		switch {
		case m.hasTime:
			ts = int64(m.timestamp) //nolint:gosec // what is too large is refused by the runtime
		case p.timestamp != 0:
			ts = int64(p.timestamp) //nolint:gosec // as above
		}
		sample := entity.Sample{Key: m.name, Value: v}
		if n := len(list); n > 0 && list[n-1].TS == ts && len(list[n-1].Values) < entity.MaxReadingKeys {
			list[n-1].Values = append(list[n-1].Values, sample)
			continue
		}
		list = append(list, entity.Reading{TS: ts, Values: []entity.Sample{sample}})
	}
	if others > 0 {
		refused = fmt.Errorf("%w, and %d other metrics", refused, others)
	}
	return list, refused
}

// appendReadings appends readings in the form of entity.ParseReadings.
func appendReadings(dst []byte, readings []entity.Reading) []byte {
	dst = append(dst, '[')
	for i := range readings {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = readings[i].AppendJSON(dst)
	}
	return append(dst, ']')
}

// stateTopic is the topic of the server's own state.
const stateTopic = prefix + string(state) + "/" + HostID

// Subscribed sends a client the server's state, as if it were retained, because edge nodes wait for
// it. Clients that subscribe to everything are not sent it.
func (l *Layout) Subscribed(c layout.Client, filter string) {
	if layout.Matches(filter, stateTopic) {
		_ = c.Send(stateTopic, l.state, nil) // the client does subscribe
	}
}

// Unsubscribed does nothing.
func (l *Layout) Unsubscribed(layout.Client, string) {}

// Edited does nothing.
func (l *Layout) Edited(context.Context, *entity.Change) {}
