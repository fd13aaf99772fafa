package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/greenroom-go/greenroom/server"
)

// Bounds of a bench run.
const (
	benchMaxConnections = 10_000
	benchMaxDuration    = 10 * time.Minute
	benchMaxMessages    = 100_000_000
	benchMaxEntities    = 10_000_000
	benchMaxInFlight    = 10_000
)

type benchOptions struct {
	mqtt                            string
	connections, entities, inFlight int
	messages                        int64
	rate                            float64
	duration                        time.Duration

	shape, data string
	store       string
	recording   string
	entitiesSet bool // --entities was given
}

func newBench() *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure how many durable messages per second a local server accepts.",
		Long: `Publish readings of three keys with QoS 1 over MQTT 3.1.1 to a server on this
machine, and measure how long they take to be acknowledged, which means durable.

The entities are named bench-0, bench-1 and so on; use a data directory that you
can delete afterwards. The run ends after --duration or --messages, whichever
comes first.

With --shape, bench starts its own servers, each in a new directory below --data
that is removed at the end, and applies loads for which others have published
figures:
` + shapeNames() + `.
Each line shows the throughput per second, the latency until the acknowledgement
or response, the server's CPU time per million messages, its memory, and the bytes
on disk per value.`,
		Example: `  greenroom serve --data /tmp/bench &
  greenroom bench --connections 50 --duration 10s
  greenroom bench --shape meters,modify
  greenroom bench --shape million --entities 200000
  greenroom bench --shape stores --store 'postgres://greenroom@db.example.org/plant'`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.entitiesSet = cmd.Flags().Changed("entities")
			if err := o.check(); err != nil {
				return err
			}
			if o.shape != "" {
				return runShapes(cmd.Context(), o, cmd.OutOrStdout())
			}
			return bench(cmd.Context(), o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.mqtt, "mqtt", server.DefaultMQTT, "address of the MQTT broker, on this machine")
	f.IntVar(&o.connections, "connections", 50, "MQTT connections")
	f.IntVar(&o.entities, "entities", 0, "entities to publish for, in turn (default one per connection)")
	f.IntVar(&o.inFlight, "in-flight", 100, "unacknowledged messages allowed per connection")
	f.Int64Var(&o.messages, "messages", benchMaxMessages, "stop after this many messages")
	f.StringVar(&o.shape, "shape", "", "start a server and apply this load: all, or a comma-separated list of the names above")
	f.StringVar(&o.data, "data", ".", "directory on the disk to measure, for --shape")
	f.StringVar(&o.store, "store", "", "database, postgres://user@host/database, in which --shape stores keeps the readings instead of a directory")
	f.StringVar(&o.recording, "recording", defaultRecording, "CSV file with readings on which other stores are compared, for --shape stores and history")
	f.Float64Var(&o.rate, "rate", 0, "messages per second in total; 0 means as many as possible")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "stop after this time")
	return cmd
}

func (o *benchOptions) check() error {
	if err := checkLoopback("mqtt", o.mqtt, server.DefaultMQTT); err != nil {
		return err
	}
	within := func(name string, value, least, most int64) error {
		if value < least || value > most {
			return usagef("--%s must be an integer from %d to %d, not %d", name, least, most, value)
		}
		return nil
	}
	if o.entities == 0 {
		o.entities = o.connections
	}
	err := errors.Join(
		within("connections", int64(o.connections), 1, benchMaxConnections),
		within("entities", int64(o.entities), int64(o.connections), benchMaxEntities),
		within("in-flight", int64(o.inFlight), 1, benchMaxInFlight),
		within("messages", o.messages, 1, benchMaxMessages),
	)
	if err == nil && (o.duration <= 0 || o.duration > benchMaxDuration) {
		err = usagef("--duration must be longer than 0 and at most %v, not %v", benchMaxDuration, o.duration)
	}
	if err == nil && o.store != "" && o.shape != "stores" {
		err = usagef("--store needs --shape stores, which compares a database with other stores, not --shape %q", o.shape)
	}
	if err == nil && o.rate < 0 {
		err = usagef("--rate must be 0 or more, not %v", o.rate)
	}
	return err
}

// benchRun is what the connections of a run share.
type benchRun struct {
	benchOptions
	link    link
	name    string                                // tells the connections of two runs at the same time apart
	message func(*loader) (topic, payload []byte) // makes the next message of a connection
	observe func(l *loader, n int64, took time.Duration)
	rounds  int64        // how often each connection goes through its entities at most; 0 for any number
	left    atomic.Int64 // messages to send
	acked   atomic.Int64
	latency latencies
	began   time.Time
	took    time.Duration
	loaders []*loader
}

func bench(ctx context.Context, o benchOptions, stdout io.Writer) error {
	r := &benchRun{benchOptions: o, link: linkTo(o.mqtt), message: meterMessage}
	err := r.run(ctx)
	if r.took == 0 {
		return err
	}
	n := r.acked.Load()
	fmt.Fprintf(stdout, "%d connections, %d entities, %d in flight: %d messages of 3 values acknowledged in %v: %.0f messages/s, %.0f values/s, acknowledged after p50 %v, p99 %v, at most %v\n",
		o.connections, o.entities, o.inFlight, n, r.took.Round(time.Millisecond), float64(n)/r.took.Seconds(), 3*float64(n)/r.took.Seconds(),
		short(r.latency.quantile(0.5)), short(r.latency.quantile(0.99)), short(r.latency.max()))
	if err != nil {
		return err
	}
	return context.Cause(ctx)
}

// run connects, publishes until the time or the messages are used up, and waits
// for the acknowledgements.
func (r *benchRun) run(ctx context.Context) error {
	r.left.Store(r.messages)
	r.loaders = make([]*loader, r.connections)
	for i := range r.loaders {
		var err error
		if r.loaders[i], err = newLoader(ctx, r, i); err != nil {
			return err
		}
		defer r.loaders[i].close()
	}
	limited, cancel := context.WithTimeout(ctx, r.duration)
	defer cancel()
	r.began = time.Now()
	errs := make([]error, len(r.loaders))
	var wg sync.WaitGroup
	for i, l := range r.loaders {
		wg.Go(func() { errs[i] = l.run(limited) })
	}
	wg.Wait()
	r.took = time.Since(r.began)
	return errors.Join(errs...)
}
