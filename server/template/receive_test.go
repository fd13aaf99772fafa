package template

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/server/access"
	"github.com/greenroom-go/greenroom/server/layout"
)

// subscriber is a client that may receive the commands of some entities.
type subscriber struct {
	layout.Client
	may     []string
	filters []string
	sent    []string
}

func (c *subscriber) Self() string      { return "c" }
func (c *subscriber) Filters() []string { return c.filters }

func (c *subscriber) May(a access.Action, id string) error {
	if a == access.Receive && !slices.Contains(c.may, id) {
		return access.ErrForbidden
	}
	return nil
}

func (c *subscriber) Send(topic string, _ []byte, _ *layout.Receipt) error {
	if !slices.ContainsFunc(c.filters, func(f string) bool { return layout.Matches(f, topic) }) {
		return layout.ErrNotSubscribed
	}
	c.sent = append(c.sent, topic)
	return nil
}

// receivings is a runtime that keeps who receives.
type receivings struct {
	layout.Runtime
	open map[string]func(entity.Command)
	err  error
}

func (r *receivings) Receive(id string, deliver func(entity.Command)) (func(), error) {
	if r.err != nil {
		return nil, r.err
	}
	r.open[id] = deliver
	return func() { delete(r.open, id) }, nil
}

// receiving is a layout with templates.
func receiving(t *testing.T, templates ...string) (*Layout, *receivings) {
	t.Helper()
	b := openBook(t, &docs{})
	for i, text := range templates {
		if _, err := b.Put(t.Context(), fmt.Sprint(i), parse(t, text), ""); err != nil {
			t.Fatal(err)
		}
	}
	r := &receivings{open: map[string]func(entity.Command){}}
	l := NewLayout(b)
	l.Start(&layout.Host{Runtime: r, Logger: slog.New(slog.DiscardHandler), Running: context.WithoutCancel(t.Context())})
	return l, r
}

// subscribe subscribes, as the broker tells it.
func (c *subscriber) subscribe(l *Layout, filters ...string) {
	c.filters = append(c.filters, filters...)
	for _, f := range filters {
		l.Subscribed(c, f)
	}
}

// publish publishes about an entity.
func (c *subscriber) publish(l *Layout, topic string) {
	u, levels := l.book.set.Load().find(topic)
	l.published(c, u, levels, u.entity(levels))
}

func TestTheSubscriptionsOfThoseWhoMayNotReceiveTakeNoPlace(t *testing.T) {
	t.Parallel()
	l, r := receiving(t, `{"topic":"z/{id}","members":"*","commands":[{"topic":"z/{id}/set"}]}`)
	c := &subscriber{may: []string{"mine"}}
	for i := range 2 * maxMissed {
		c.subscribe(l, fmt.Sprintf("z/made-up-%d/#", i))
	}
	if len(r.open) != 0 || l.receivers.count != 0 || len(l.receivers.clients[c].missed) > maxMissed {
		t.Errorf("%d devices, %d places, %d misses", len(r.open), l.receivers.count, len(l.receivers.clients[c].missed))
	}
	c.subscribe(l, "z/mine/#", "z/mine/set")
	if r.open["mine"] == nil || l.receivers.count != 1 {
		t.Errorf("its own device: %v, %d places", r.open, l.receivers.count)
	}
	c.filters = []string{"z/mine/set"}
	l.Unsubscribed(c, "z/mine/#")
	if r.open["mine"] == nil || l.receivers.count != 1 {
		t.Errorf("with another subscription: %v, %d places", r.open, l.receivers.count)
	}
	c.filters = nil
	l.Unsubscribed(c, "z/mine/set")
	if len(r.open) != 0 || l.receivers.count != 0 {
		t.Errorf("without a subscription: %v, %d places", r.open, l.receivers.count)
	}
}

func TestABridgeReceivesForThoseItPublishesAbout(t *testing.T) {
	t.Parallel()
	l, r := receiving(t, `{"topic":"z/{id}","members":"*","commands":[{"topic":"z/{id}/set"}]}`)
	c := &subscriber{may: []string{"lamp"}}
	c.publish(l, "z/lamp")
	if len(r.open) != 0 || l.receivers.count != 0 {
		t.Errorf("without a subscription: %v", r.open)
	}
	c.subscribe(l, "z/+/set")
	c.publish(l, "z/lamp")
	c.publish(l, "z/other")
	if len(r.open) != 1 || r.open["lamp"] == nil || l.receivers.count != 1 {
		t.Errorf("with one: %v, %d places", r.open, l.receivers.count)
	}
	l.Left(c)
	if len(r.open) != 0 || l.receivers.count != 0 {
		t.Errorf("after it has left: %v, %d places", r.open, l.receivers.count)
	}
}

func TestWhoLooksAtEverythingIsNotTheDevice(t *testing.T) {
	t.Parallel()
	l, r := receiving(t, `{"topic":"boiler/state","entity":"boiler","members":"*","commands":[{"topic":"boiler/set"}]}`)
	c := &subscriber{may: []string{"boiler"}}
	c.subscribe(l, "#", "+/set", "boiler/+", "boiler/#")
	if len(r.open) != 0 {
		t.Errorf("an onlooker: %v", r.open)
	}
	c.subscribe(l, "boiler/set")
	if r.open["boiler"] == nil {
		t.Error("the device")
	}
}

func TestACommandToAnotherTopicDoesNotHoldUpTheOthers(t *testing.T) {
	t.Parallel()
	l, r := receiving(t, `{"topic":"tele/{id}","members":"*","commands":[{"topic":"cmnd/{id}/{command}"}]}`)
	c := &subscriber{may: []string{"plug"}}
	c.subscribe(l, "cmnd/plug/POWER")
	c.publish(l, "tele/plug")
	d := l.receivers.clients[c].devices["plug"]
	if d == nil || r.open["plug"] == nil {
		t.Fatal("who subscribes to the topic of one command gets none")
	}
	var failed error
	receipt := &layout.Receipt{Settled: func(err error) { failed = err }}
	if err := l.send(c, d, &entity.Command{Entity: "plug", Name: "Dimmer"}, receipt); err != nil || !errors.Is(failed, layout.ErrNotSubscribed) {
		t.Errorf("a command to another topic: %v, settled with %v", err, failed)
	}
	if err := l.send(c, d, &entity.Command{Entity: "plug", Name: "POWER"}, receipt); err != nil || !slices.Equal(c.sent, []string{"cmnd/plug/POWER"}) {
		t.Errorf("the next: %v, sent %v", err, c.sent)
	}
	c.filters = nil
	if err := l.send(c, d, &entity.Command{Entity: "plug", Name: "POWER"}, receipt); !errors.Is(err, layout.ErrNotSubscribed) {
		t.Errorf("without a subscription: %v", err)
	}
}

// What the placeholders of a template stood for means nothing to the one in its place.
func TestAfterATemplateIsReplacedCommandsGoToNoOtherDevice(t *testing.T) {
	t.Parallel()
	l, _ := receiving(t, `{"topic":"{house}/{id}","members":"*","commands":[{"topic":"{id}/set"}]}`)
	c := &subscriber{may: []string{"a", "home-a"}}
	c.subscribe(l, "#")
	c.publish(l, "home/a")
	d := l.receivers.clients[c].devices["a"]
	if d == nil {
		t.Fatal("it gets no commands")
	}
	if _, err := l.book.Put(t.Context(), "0", parse(t, `{"topic":"{house}/{id}","entity":"{house}-{id}","members":"*","commands":[{"topic":"{house}/{id}/set"}]}`), entity.IfAny); err != nil {
		t.Fatal(err)
	}
	if err := l.send(c, d, &entity.Command{Entity: "a", Name: "x"}, &layout.Receipt{Settled: func(error) {}}); !errors.Is(err, errNoTemplate) || len(c.sent) != 0 {
		t.Errorf("sent %v, %v", c.sent, err)
	}
	if l.receivers.count != 0 {
		t.Errorf("%d places are taken", l.receivers.count)
	}
	c.publish(l, "home/a")
	if l.receivers.clients[c].devices["home-a"] == nil {
		t.Error("the new one's device gets none")
	}
}

func TestAReceiverThatIsRefusedIsNotTriedWithEachMessage(t *testing.T) {
	t.Parallel()
	l, r := receiving(t, `{"topic":"z/{id}","members":"*","commands":[{"topic":"z/{id}/set"}]}`)
	c := &subscriber{may: []string{"lamp"}, filters: []string{"z/#"}}
	r.err = errors.New("too many receivers")
	c.publish(l, "z/lamp")
	r.err = nil
	c.publish(l, "z/lamp")
	if len(r.open) != 0 || l.receivers.count != 0 {
		t.Errorf("tried again: %v, %d places", r.open, l.receivers.count)
	}
	c.subscribe(l, "z/+/set")
	c.publish(l, "z/lamp")
	if r.open["lamp"] == nil {
		t.Error("not tried after a subscription")
	}
}

// A text has one name only.
func TestAnAnswerThatIsATextIsNotEveryMember(t *testing.T) {
	t.Parallel()
	c, err := parse(t, `{"topic":"q/{id}","members":"*","commands":[{"topic":"z/{id}","answer":{"topic":"y/{id}","error":"error.message"}},
		{"name":"v","topic":"w/{id}","answer":{"topic":"x/{id}","result":"value"}}]}`).compile("x")
	if err != nil {
		t.Fatal(err)
	}
	d, err := parseAnswer([]byte("OK"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"any", "v"} {
		said := saying{answer: c.routeOf(name).answer, document: d}
		is, err := said.settle(&entity.Command{Name: name})
		if err != nil || is == nil || is.failed || is.result.Text() != "OK" {
			t.Errorf("%s: %+v, %v", name, is, err)
		}
	}
}

// strict is a runtime that keeps no results.
type strict struct {
	layout.Runtime
	reason string
}

func (s *strict) Done(context.Context, string, string, value.Value) error {
	return fmt.Errorf("result: %w", entity.ErrInvalid)
}

func (s *strict) Fail(_ context.Context, _, _, reason string) error {
	s.reason = reason
	return nil
}

func TestAResultThatCannotBeKeptFailsTheCommand(t *testing.T) {
	t.Parallel()
	l, _ := receiving(t)
	r := &strict{}
	l.host.Runtime = r
	if err := l.end("plug", "1", &ending{}); err != nil || !strings.Contains(r.reason, "the result cannot be kept: result") {
		t.Errorf("%v, failed with %q", err, r.reason)
	}
}
