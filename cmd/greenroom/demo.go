package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/greenroom-go/greenroom/entity"
)

const (
	demoEvery = time.Second
	// A fresh start should show full charts.
	demoHistory      = time.Hour
	demoHistoryEvery = 5 * time.Second
	// demoArray is how many readings of the history are published in one message.
	demoArray = 120
)

// serveDemo publishes the demo until ctx ends: first the history that is missing, and then a
// reading each second.
func serveDemo(ctx context.Context, mqttAddr, httpAddr string) error {
	p, err := dial(ctx, mqttAddr)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer p.close()
	now := time.Now()
	b := newBuilding(now.Add(-demoHistory))
	known, err := newest(ctx, httpAddr, b.rooms[0].name)
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	if err := backfill(ctx, p, b, known, now); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	return runDemo(ctx, p, b, func(*message) {})
}

// replayDemo publishes the demo for a while, and prints a report.
func replayDemo(ctx context.Context, mqttAddr string, duration time.Duration, stdout io.Writer) error {
	p, err := dial(ctx, mqttAddr)
	if err != nil {
		return err
	}
	defer p.close()
	limited, cancel := context.WithTimeout(ctx, duration)
	defer cancel()
	messages, readings, values := 0, 0, 0
	err = runDemo(limited, p, newBuilding(time.Now()), func(m *message) {
		messages, readings, values = messages+1, readings+m.readings, values+m.values
	})
	fmt.Fprintf(stdout, "%d messages acknowledged (%d readings, %d values)\n", messages, readings, values)
	if limited.Err() != nil && ctx.Err() == nil {
		return nil // its time was up
	}
	return err
}

// newest returns the time of an entity's newest reading, or 0 if it has none. A demo on a directory
// that contains readings continues from there.
func newest(ctx context.Context, httpAddr, id string) (int64, error) {
	c, err := newClient(httpAddr)
	if err != nil {
		return 0, err
	}
	defer c.close()
	var e struct {
		Updated int64 `json:"updated_ms"`
	}
	err = c.get(ctx, entityPath(id), &e)
	if isMissing(err) {
		return 0, nil
	}
	return e.Updated, err
}

// backfill publishes the readings of the building from its beginning until now that are newer than
// known.
func backfill(ctx context.Context, p *publisher, b *building, known int64, now time.Time) error {
	pending := map[string][]entity.Reading{}
	flush := func(id string) error {
		if len(pending[id]) == 0 {
			return nil
		}
		m := newMessage(id, pending[id]...)
		delete(pending, id)
		return p.publish(ctx, m)
	}
	for t := b.at.Add(demoHistoryEvery); t.Before(now); t = t.Add(demoHistoryEvery) {
		b.advance(t)
		if t.UnixMilli() <= known {
			continue
		}
		for _, r := range b.readings() {
			pending[r.id] = append(pending[r.id], r.reading)
			if len(pending[r.id]) == demoArray {
				if err := flush(r.id); err != nil {
					return err
				}
			}
		}
	}
	for _, r := range b.readings() {
		if err := flush(r.id); err != nil {
			return err
		}
	}
	return nil
}

// runDemo publishes the readings of the building each second until ctx ends. It calls done for each
// acknowledged message.
func runDemo(ctx context.Context, p *publisher, b *building, done func(*message)) error {
	ticker := time.NewTicker(demoEvery)
	defer ticker.Stop()
	for {
		select {
		case t := <-ticker.C:
			b.advance(t)
			for _, r := range b.readings() {
				m := newMessage(r.id, r.reading)
				if err := p.publish(ctx, m); err != nil {
					return err
				}
				done(m)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// building simulates what the demo measures. Its days last ten minutes, so that a minute of
// watching shows something: people arrive, the lamps are switched on, the air gets worse, someone
// opens the door.
type building struct {
	at    time.Time
	rooms []*room
}

// dayLength is the length of a day in the building.
const dayLength = 10 * time.Minute

func newBuilding(at time.Time) *building {
	seed := rand.Uint64()
	return &building{at: at, rooms: []*room{
		newRoom("office", 6, rand.New(rand.NewPCG(seed, 1))),
		newRoom("meeting-room", 10, rand.New(rand.NewPCG(seed, 2))),
	}}
}

// advance advances the simulation to t.
func (b *building) advance(t time.Time) {
	const step = time.Second
	for b.at.Before(t) {
		b.at = b.at.Add(min(step, t.Sub(b.at)))
		hour := float64(b.at.UnixMilli()%dayLength.Milliseconds()) / float64(dayLength.Milliseconds()) * 24
		for _, r := range b.rooms {
			r.advance(hour, float64(24*time.Hour/dayLength)*step.Minutes())
		}
	}
}

// entityReading is a reading of an entity.
type entityReading struct {
	id      string
	reading entity.Reading
}

// readings returns the current readings of all sensors.
func (b *building) readings() []entityReading {
	var out []entityReading
	for _, r := range b.rooms {
		out = r.appendReadings(out, b.at.UnixMilli())
	}
	return out
}
