package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/entity"
	"github.com/greenroom-go/greenroom/entity/value"
	"github.com/greenroom-go/greenroom/internal/pause"
	"github.com/greenroom-go/greenroom/server"
)

// maxShuffled bounds the rows that --shuffle keeps in memory.
const maxShuffled = 5_000_000

// shownErrors is how many bad rows are reported in full.
const shownErrors = 20

const maxConnections = 1000

type replayOptions struct {
	file, mqtt, speed, entity, timeColumn, zone string
	perColumn, demo                             bool
	shuffle                                     int64
	shuffled                                    bool
	connections                                 int
	duration                                    time.Duration
}

func newReplay() *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:   "replay",
		Short: "Publish readings over MQTT, from a CSV file or generated.",
		Long: `Publish readings from a CSV file with QoS 1 and wait until all are acknowledged.

The first row names the columns. The column named date, time, timestamp or ts
has the time: 2015-02-04 17:51:00, RFC 3339, or seconds or milliseconds since
the epoch. The other columns become keys in snake case: HumidityRatio becomes
humidity_ratio, and CO2 becomes co2. A column has numbers, true and false, or
text, whichever most of its cells are; an empty cell means no measurement.
Invalid rows are reported with their line numbers and skipped, and the command
then fails at the end.

All keys go to one entity, named after the file or by --entity; with
--entity-per-column each key goes to its own entity, named entity-key.

Readings keep their times, so replaying a file twice, in any order and over any
number of connections, leads to the same state.`,
		Example: `  greenroom replay --file occupancy-training.csv --entity office
  greenroom replay --file occupancy-training.csv --entity-per-column --speed 3600
  greenroom replay --demo --duration 30s`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.shuffled = cmd.Flags().Changed("shuffle")
			if err := o.check(cmd); err != nil {
				return err
			}
			return replay(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "file", "", "CSV file to publish; - means standard input")
	f.StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker")
	f.StringVar(&o.speed, "speed", "max", "speed relative to the times of the readings, or max")
	f.StringVar(&o.entity, "entity", "", "id of the entity (default the name of the file)")
	f.BoolVar(&o.perColumn, "entity-per-column", false, "publish each column as its own entity")
	f.Int64Var(&o.shuffle, "shuffle", 0, "publish in a random order, determined by this seed")
	f.IntVar(&o.connections, "connections", 1, "MQTT connections to spread the readings over")
	f.StringVar(&o.timeColumn, "time-column", "", "column with the time (default the first one named date, time, timestamp or ts)")
	f.StringVar(&o.zone, "zone", "UTC", "time zone for times that have none, such as Europe/Brussels")
	f.BoolVar(&o.demo, "demo", false, "publish generated readings of two rooms")
	f.DurationVar(&o.duration, "duration", time.Minute, "how long --demo lasts")
	return cmd
}

func (o *replayOptions) check(cmd *cobra.Command) error {
	switch {
	case o.demo == (o.file != ""):
		return usagef("one of --file and --demo must be given")
	case o.demo:
		for _, name := range []string{"speed", "entity", "entity-per-column", "shuffle", "connections", "time-column", "zone"} {
			if cmd.Flags().Changed(name) {
				return usagef("--%s cannot be combined with --demo", name)
			}
		}
		if o.duration <= 0 {
			return usagef("--duration must be longer than 0, not %v", o.duration)
		}
	case cmd.Flags().Changed("duration"):
		return usagef("--duration needs --demo")
	case o.connections < 1 || o.connections > maxConnections:
		return usagef("--connections must be an integer from 1 to %d, not %d", maxConnections, o.connections)
	}
	return nil
}

func (o *replayOptions) rate() (float64, error) {
	if o.speed == "max" {
		return 0, nil
	}
	rate, err := strconv.ParseFloat(o.speed, 64)
	if err != nil || rate <= 0 || math.IsInf(rate, 0) {
		return 0, usagef("--speed must be max or a positive number such as 60, not %s", o.speed)
	}
	return rate, nil
}

func replay(ctx context.Context, o replayOptions, stdout, stderr io.Writer) error {
	if o.demo {
		return replayDemo(ctx, o.mqtt, o.duration, stdout)
	}
	rate, err := o.rate()
	if err != nil {
		return err
	}
	zone, err := time.LoadLocation(o.zone)
	if err != nil {
		return usagef("--zone %s: %w", o.zone, err)
	}
	id := o.entity
	if id == "" {
		id = strings.TrimSuffix(filepath.Base(o.file), filepath.Ext(o.file))
	}
	if err := entity.CheckID(id); err != nil {
		return usagef("--entity: %w", err)
	}
	file := io.NopCloser(os.Stdin)
	if o.file != "-" {
		if file, err = os.Open(o.file); err != nil {
			return err
		}
	}
	defer file.Close()
	t, err := openTable(file, o.timeColumn, zone)
	if err != nil {
		return fmt.Errorf("%s: %w", o.file, err)
	}
	bad := &badRows{out: stderr, file: o.file}
	rows := t.rows(bad)
	if o.shuffled {
		if rows, err = shuffled(rows, o.shuffle); err != nil {
			return fmt.Errorf("%s: %w", o.file, err)
		}
	}
	send, err := newSender(ctx, o.mqtt, o.connections, stderr)
	if err != nil {
		return err
	}
	err = publishRows(send, rows, func(r *row) []*message { return rowMessages(id, o.perColumn, r) }, rate)
	err = errors.Join(err, send.finish())
	fmt.Fprintln(stdout, send.report())
	if err == nil && bad.n > 0 {
		err = fmt.Errorf("%d rows of %s were not published; the reasons are above", bad.n, o.file)
	}
	return err
}

// publishRows sends all rows, each at its time.
func publishRows(send *sender, rows iter.Seq2[row, error], messages func(*row) []*message, rate float64) error {
	pace := pacer{rate: rate}
	for r, err := range rows {
		if err == nil {
			err = pace.wait(send.ctx, r.ts)
		}
		if err != nil {
			return err
		}
		for _, m := range messages(&r) {
			if err := send.send(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// pacer keeps the pace of the recording.
type pacer struct {
	rate  float64 // 0: as fast as possible
	first int64   // the time of the first reading
	began time.Time
}

func (p *pacer) wait(ctx context.Context, ts int64) error {
	if p.rate == 0 {
		return nil
	}
	if p.began.IsZero() {
		p.first, p.began = ts, time.Now()
	}
	due := time.Duration(float64(ts-p.first) / p.rate * float64(time.Millisecond))
	return pause.For(ctx, time.Until(p.began.Add(due)))
}

// badRows reports rows that cannot be parsed.
type badRows struct {
	out  io.Writer
	file string
	n    int
}

func (b *badRows) add(err error) {
	if b.n++; b.n <= shownErrors {
		fmt.Fprintf(b.out, "%s: %v\n", b.file, err)
	}
	if b.n == shownErrors {
		fmt.Fprintf(b.out, "%s: more such rows are only counted\n", b.file)
	}
}

// rows iterates over the rows, and reports bad ones. It stops at an error.
func (t *table) rows(bad *badRows) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for {
			r, err := t.next()
			var badRow *rowError
			switch {
			case errors.Is(err, io.EOF):
				return
			case errors.As(err, &badRow):
				bad.add(err)
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// shuffled reads all rows, and returns them in an order determined by the seed.
func shuffled(rows iter.Seq2[row, error], seed int64) (iter.Seq2[row, error], error) {
	var all []row
	for r, err := range rows {
		if err != nil {
			return nil, err
		}
		if all = append(all, r); len(all) > maxShuffled {
			return nil, fmt.Errorf("more than %d rows, which is too many for --shuffle to keep in memory", maxShuffled)
		}
	}
	rng := rand.New(rand.NewPCG(uint64(seed), 0))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return func(yield func(row, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}, nil
}

// rowMessages returns the messages of a row: one, or one for each column.
func rowMessages(id string, perColumn bool, r *row) []*message {
	if !perColumn {
		return []*message{newMessage(id, entity.Reading{TS: r.ts, Values: r.samples})}
	}
	list := make([]*message, len(r.samples))
	for i := range r.samples {
		list[i] = newMessage(id+"-"+r.samples[i].Key, entity.Reading{TS: r.ts, Values: r.samples[i : i+1]})
	}
	return list
}

// newMessage returns a message with readings of an entity.
func newMessage(id string, readings ...entity.Reading) *message {
	type reading struct {
		TS     int64                  `json:"ts"`
		Values map[string]value.Value `json:"values"`
	}
	m := &message{topic: "e/" + id + "/telemetry", readings: len(readings)}
	list := make([]reading, len(readings))
	for i, r := range readings {
		list[i] = reading{r.TS, make(map[string]value.Value, len(r.Values))}
		for _, s := range r.Values {
			list[i].Values[s.Key] = s.Value
		}
		m.values += len(r.Values)
	}
	m.payload, _ = json.Marshal(list) // values can be marshaled
	if len(list) == 1 {
		m.payload = m.payload[1 : len(m.payload)-1] // without the array
	}
	return m
}

var laneSeed = maphash.MakeSeed()

// lane distributes messages over lanes. Messages with the same topic and time use the same lane, so
// that of two such readings the later one in the file also arrives later.
func lane(m *message, lanes int) int {
	cut := len(m.payload)
	if i := strings.IndexByte(string(m.payload), ','); i > 0 {
		cut = i // {"ts":…
	}
	return int((maphash.String(laneSeed, m.topic) ^ maphash.Bytes(laneSeed, m.payload[:cut])) % uint64(lanes))
}
